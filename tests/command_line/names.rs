//! One name for one thing, and suggestions for mistyped ones.

use crate::common::Folder;

#[test]
fn checkpoint_names_the_model_folder_everywhere() {
    let folder = Folder::with_run();
    for (command, rest) in
        [("features", "--input held.txt --layers -1"), ("probe", "'the [MASK] river' --replace river=stream")]
    {
        let [new, old] = ["--checkpoint", "--model"]
            .map(|flag| folder.ok(&format!("bert {command} {flag} run {rest}")).stdout);
        assert_eq!(new, old, "{command}");
    }
    for command in ["predict", "features", "probe"] {
        let help = folder.ok(&format!("bert {command} --help")).stdout;
        assert!(help.contains("--checkpoint <DIR>") && !help.contains("--model"), "{help}");
    }
    let help = folder.ok("pretrain -h").stdout;
    assert!(help.contains("--model <SIZE|FILE>"), "{help}");
}

#[test]
fn mistyped_files_suggest_a_sibling() {
    let folder = Folder::with_run();
    for (line, suggested) in [
        ("bert inspect dta", "data"),
        ("bert report runn", "run"),
        ("bert evaluate --data hled --checkpoint run", "held"),
        ("bert evaluate --data held --checkpoint=ruun", "run"),
        ("bert verify run/chekpoints", "run/checkpoints"),
        ("make-pretrain-data --input trian.txt --vocab vocab.txt --output o", "train.txt"),
        ("make-pretrain-data --input train.txt --vocab vocb.txt --output o", "vocab.txt"),
        ("pretrain --data daat --model tiny --steps 1 --output o", "data"),
        ("pretrain --config confg.json --output o", "config.json"),
    ] {
        let ended = folder.run(line);
        assert_ne!(ended.code, Some(0), "{line}");
        let note = format!("note: did you mean {suggested}?\n");
        assert!(ended.stderr.ends_with(&note), "{line}: {}", ended.stderr);
    }
    let other = folder.run("bert inspect zebra");
    assert!(!other.stderr.contains("did you mean"), "{}", other.stderr);
    assert!(!folder.at("o").exists());
}

#[test]
fn mistyped_values_suggest_a_known_one() {
    let folder = Folder::with_data();
    let run = "pretrain --data data --steps 1 --output o";
    for (line, suggested) in [
        (format!("{run} --model tinny"), "did you mean `tiny`?"),
        (format!("{run} --model tiny --device flx"), "did you mean `flex`?"),
        (format!("{run} --model tiny --precision bf61"), "a similar value exists: 'bf16'"),
        (format!("{run} --recipe labtop"), "did you mean `laptop`?"),
        ("finetune --task sst2x --data d --output o".to_string(), "did you mean `sst-2`?"),
        ("bert scores data --format latx".to_string(), "a similar value exists: 'latex'"),
        ("bert completions bsh".to_string(), "a similar value exists: 'bash'"),
        ("bert recipe".to_string(), "a similar subcommand exists: 'recipes'"),
    ] {
        folder.refused(&line, 2, suggested);
    }
}

#[test]
fn colours_are_for_terminals() {
    let folder = Folder::new();
    for (line, coloured) in [
        ("bert fill-mask nothing", false),
        ("bert fill-mask nothing --color always", true),
        ("bert --color=always fill-mask nothing", true),
        ("bert fill-mask nothing --color auto", false),
        ("bert fill-mask --no-such-flag --color=always", true),
    ] {
        let output = folder.command(line).output().expect("the program starts");
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(text.contains("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m"), coloured, "{line}: {text:?}");
        assert_eq!(text.contains('\u{1b}'), coloured, "{line}: {text:?}");
    }
    folder.refused("pretrain --color sometimes", 2, "possible values: auto, always, never");
    let forced =
        folder.command("bert fill-mask nothing").env("CLICOLOR_FORCE", "1").output().expect("it starts");
    assert!(forced.stderr.starts_with(b"\x1b[1m\x1b[31merror:"), "{forced:?}");
    let forced =
        folder.command("bert fill-mask nothing").env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output();
    assert!(forced.expect("it starts").stderr.starts_with(b"error: "), "NO_COLOR has precedence");
}
