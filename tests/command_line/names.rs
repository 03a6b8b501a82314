//! One name for one thing, and suggestions for mistyped ones.

use crate::common::Folder;

#[test]
fn checkpoint_names_the_model_folder_everywhere() {
    let folder = Folder::new();
    for command in ["predict", "features", "probe"] {
        let help = folder.ok(&format!("bert {command} --help")).stdout;
        assert!(help.contains("--checkpoint <DIR>") && !help.contains("--model"), "{help}");
    }
    let help = folder.ok("pretrain -h").stdout;
    assert!(help.contains("--model <SIZE|FILE>"), "{help}");
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
