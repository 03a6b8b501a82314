//! Runs every command of every program with only its required arguments.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{Ended, Folder, QUICK, articles, ended, entailment};

/// How a command is run.
enum RunMode {
    /// Until it ends.
    ToEnd(&'static str),
    /// Until it ends, with a text on its standard input.
    WithInput(&'static str, &'static str),
    /// Until a file exists; then the long-running command is stopped.
    UntilFile(&'static str, &'static str),
}

use RunMode::{ToEnd, UntilFile, WithInput};

impl RunMode {
    /// Returns the name of the program; for `bert`, the name of the command follows.
    fn name(&self) -> String {
        let (ToEnd(line) | WithInput(line, _) | UntilFile(line, _)) = self;
        let words: Vec<&str> = line.split_whitespace().take(2).collect();
        if words[0] == "bert" { words.join(" ") } else { words[0].to_string() }
    }
}

/// The programs and the commands of `bert`, ordered so that each has its inputs.
const CASES: [RunMode; 35] = [
    ToEnd("bert export tiny-en exported"),
    ToEnd("bert make-vocab --input train.txt --output vocab.txt"),
    ToEnd("make-pretrain-data --input train.txt --vocab exported/vocab.txt --output data"),
    ToEnd("bert inspect data"),
    ToEnd("bert verify data"),
    ToEnd("bert devices --device flex"),
    ToEnd("bert evaluate --data data"),
    ToEnd("bert init --model tiny --vocab vocab.txt --output fresh"),
    ToEnd("bert import exported imported"),
    ToEnd("bert extend-vocab --checkpoint exported --input train.txt --add 20 --output extended"),
    ToEnd("bert merge parts"),
    UntilFile("pretrain --data data --model tiny --output run --steps 1", "run/run.json"),
    ToEnd("bert recipes"),
    ToEnd("bert fill-mask 'The river is [MASK].'"),
    ToEnd("bert attention 'The river is long.'"),
    WithInput("bert features --input -", "The river is long.\n"),
    ToEnd("bert projector"),
    ToEnd("bert nearest river"),
    ToEnd("bert minimal-pairs --input pairs.tsv"),
    ToEnd("bert probe 'The river is [MASK].' --replace river=sea"),
    ToEnd("finetune --task rte --data glue --output tuned"),
    WithInput("bert predict --checkpoint tuned --input -", ""),
    ToEnd("bert report tuned"),
    // Without --once it does not end.
    ToEnd("bert watch tuned --once"),
    ToEnd("bert scores tuned"),
    ToEnd("bert glue --data glue --output all"),
    ToEnd("bert multitask --data glue --tasks rte,sst-2 --output both"),
    ToEnd("bert experiment"),
    UntilFile("bert quickstart", "out/quickstart"),
    ToEnd("bert data --input train.txt --vocab exported/vocab.txt --output data-of-bert"),
    UntilFile(
        "bert pretrain --data data --model tiny --output run-of-bert --steps 1",
        "run-of-bert/run.json",
    ),
    UntilFile(
        "bert launch --processes 1 -- pretrain --data data --model tiny --output launched --steps 1",
        "launched/run.json",
    ),
    ToEnd("bert finetune --task rte --data glue --output tuned-of-bert"),
    ToEnd("bert completions bash"),
    ToEnd("bert man pages"),
];

#[test]
fn every_command_starts_with_its_defaults() {
    let folder = Folder::new();
    folder.write("train.txt", articles(0, 4));
    folder.write("pairs.tsv", "sentence_good\tsentence_bad\nThe river is long.\tThe river are long.\n");
    nine_tasks(&folder);
    let help = folder.ok("bert --help").stdout;
    let (_, commands) = help.split_once("Data:\n").expect("a list of commands");
    // A name is indented by two columns, a heading by none.
    let listed = commands.lines().take_while(|line| !line.is_empty()).filter(|line| line.starts_with("  "));
    let names = listed.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let mut names: Vec<String> = names.map(|name| format!("bert {name}")).collect();
    names.extend(["make-pretrain-data", "pretrain", "finetune"].map(String::from));
    let mut tested: Vec<String> = CASES.iter().map(RunMode::name).collect();
    names.sort_unstable();
    tested.sort_unstable();
    assert_eq!(names, tested, "a command without a case, or a case without a command");
    for case in &CASES {
        let name = case.name();
        if name == "bert merge" {
            let data = "make-pretrain-data --input train.txt --vocab exported/vocab.txt --output parts";
            for part in [1, 2] {
                folder.ok(&format!("{data} --part {part} --parts 2"));
            }
        }
        let (ended, may_be_stopped) = match case {
            ToEnd(line) => (folder.run(line), false),
            WithInput(line, text) => (piped(&folder, line, text), false),
            UntilFile(line, file) => (until(&folder, line, file), true),
        };
        let good = ended.code == Some(0) || (may_be_stopped && ended.code == Some(143));
        assert!(good, "{name}: {:?}\n{}", ended.code, ended.stderr);
    }
}

#[test]
fn missing_arguments_are_all_named() {
    let folder = Folder::new();
    for (line, missing) in [
        ("make-pretrain-data", "--input --vocab --output"),
        ("bert data", "--input --vocab --output"),
        ("pretrain", "--data --output --model --init-checkpoint --steps --budget"),
        ("finetune", "--task --output --data --train-file"),
        ("bert make-vocab", "--input --output"),
        ("bert launch", "--processes <COMMAND>"),
        ("bert init", "--model --output --data --vocab"),
        ("bert import", "<SOURCE> <DIR>"),
        ("bert extend-vocab", "--checkpoint --input --add --output"),
        ("bert merge", "<DATA>"),
        ("bert inspect", "<DATA>"),
        ("bert verify", "<FOLDER>"),
        ("bert evaluate", "--data"),
        ("bert fill-mask", "<TEXT>"),
        ("bert attention", "<TEXT>"),
        ("bert nearest", "<QUERY>"),
        ("bert minimal-pairs", "--input"),
        ("bert predict", "--checkpoint <TEXT>"),
        ("bert features", "--input"),
        ("bert probe", "TEXT --input --data --replace --saliency"),
        ("bert report", "<RUN>"),
        ("bert watch", "<RUN>"),
        ("bert scores", "<DIR>"),
        ("bert glue", "--data --output"),
        ("bert multitask", "--data --output --tasks"),
        ("bert export", "<RUN> <DIR>"),
        ("bert completions", "<SHELL>"),
        ("bert man", "<DIR>"),
    ] {
        let ended = folder.run(line);
        assert_eq!(ended.code, Some(2), "{line}: {}", ended.stderr);
        let error = ended.stderr.split("Usage:").next().unwrap_or_default();
        for name in missing.split(' ') {
            assert!(error.contains(name), "{line} does not name {name}\n{error}");
        }
    }
}

#[test]
fn main_programs_run_as_commands_of_bert() {
    let folder = Folder::with_data();
    // `--config` gives the required flags.
    folder.ok("make-pretrain-data --config data --random-seed 2 --output a");
    for command in ["bert data", "bert make-pretrain-data"] {
        let output = command.replace(' ', "-");
        folder.ok(&format!("{command} --config data --random-seed 2 --output {output}"));
        let shards =
            |name: &str| folder.snapshot(name).into_iter().filter(|(file, _)| file.ends_with(".parquet"));
        assert!(shards("a").eq(shards(&output)), "{command}");
    }
    folder.ok(&format!("bert pretrain {QUICK} --steps 2 --save-every 1 --output run"));
    folder.ok("bert pretrain --config run --steps 3 --output longer");
    folder.refused("bert pretrain --steps 2", 2, "Usage: bert pretrain");
    folder.refused("bert data --no-such-flag", 2, "Usage: bert data");
}

#[test]
fn completions_cover_all_programs() {
    let folder = Folder::new();
    let programs = ["bert", "make-pretrain-data", "pretrain", "finetune"];
    for (shell, registration) in [
        ("bash", "default NAME"),
        ("zsh", "#compdef NAME"),
        ("fish", "complete -c NAME "),
        ("powershell", "-CommandName 'NAME'"),
    ] {
        let script = folder.ok(&format!("bert completions {shell}")).stdout;
        for program in programs {
            let registration = registration.replace("NAME", program);
            assert!(script.contains(&registration), "{shell}: {registration}");
        }
        for word in ["quickstart", "fill-mask", "max-predictions-per-seq", "warmup-steps", "num-train-epochs"]
        {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let script = folder.ok("bert completions powershell").stdout;
    let rest = script.lines().skip_while(|line| line.starts_with("using namespace"));
    assert_eq!(rest.filter(|line| line.starts_with("using")).count(), 0, "`using` after other statements");
}

#[cfg(unix)]
#[test]
fn bash_completes_names_and_paths() {
    let folder = Folder::new();
    folder.write("own-file", "");
    folder.write("completions", folder.ok("bert completions bash").stdout);
    let offered = |words: &str| {
        let script = format!(
            "source ./completions; COMP_WORDS=({words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _bert bert '' \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let bash =
            std::process::Command::new("bash").args(["-c", &script]).current_dir(folder.at(".")).output();
        String::from_utf8(bash.expect("bash runs").stdout).expect("UTF-8")
    };
    for (words, name, offers_paths) in [
        ("bert probe --checkpoint", "mini-en", true),
        ("bert pretrain --init-checkpoint", "tiny-en", true),
        ("bert pretrain --model", "medium", true),
        ("bert pretrain --recipe", "laptop", true),
        ("bert recipes", "babylm", false),
        ("bert data --language", "de", false),
        ("bert finetune --task", "table", false),
        ("bert multitask --tasks", "sst-2", false),
        ("bert experiment", "from-scratch", false),
    ] {
        let offered = offered(words);
        assert!(offered.lines().any(|line| line == name), "{words}: {offered}");
        assert_eq!(offered.lines().any(|line| line == "own-file"), offers_paths, "{words}: {offered}");
    }
}

#[test]
fn man_pages_cover_all_programs_and_commands() {
    let folder = Folder::new();
    folder.ok("bert man pages/man1");
    let pages = folder.snapshot("pages/man1");
    for name in
        ["bert", "make-pretrain-data", "pretrain", "finetune", "bert-data", "bert-pretrain", "bert-fill-mask"]
    {
        let page = folder.text(&format!("pages/man1/{name}.1"));
        assert!(page.starts_with(".ie") || page.contains(".TH "), "{name}: {page}");
        assert!(!page.contains("processor:"), "{name}: it depends on the machine");
    }
    // Every command has a page.
    let commands = CASES.iter().map(RunMode::name).filter(|name| name.starts_with("bert "));
    assert_eq!(pages.len(), commands.count() + 4, "{:?}", pages.keys());
    folder.ok("bert man pages/man1 --overwrite");
    assert!(pages == folder.snapshot("pages/man1"));
}

fn piped(folder: &Folder, line: &str, text: &str) -> Ended {
    let mut child = folder.command(line).stdin(Stdio::piped()).spawn().expect("the program starts");
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("written");
    ended(line, child.wait_with_output().expect("its end"))
}

/// Starts a command and stops it when a file exists.
fn until(folder: &Folder, line: &str, file: &str) -> Ended {
    let mut child = folder.start(line);
    let started = Instant::now();
    while !folder.at(file).exists() && child.try_wait().expect("a process").is_none() {
        assert!(started.elapsed() < Duration::from_secs(300), "{line}: no {file}");
        std::thread::sleep(Duration::from_millis(20));
    }
    crate::pretraining::resume::send(&child, "TERM");
    ended(line, child.wait_with_output().expect("its end"))
}

/// Writes the training and dev files of the nine GLUE tasks, a few rows each.
fn nine_tasks(folder: &Folder) {
    let table = |header: &str, row: &dyn Fn(usize) -> String| {
        let rows: String = (0..8).map(|at| row(at) + "\n").collect();
        if header.is_empty() { rows } else { format!("{header}\n{rows}") }
    };
    let pair = |at: usize| format!("{at}\tThe river is long.\tIt is {at} miles.");
    let two = |at: usize, labels: [&str; 2]| format!("{}\t{}", pair(at), labels[at % 2]);
    let sentences = "index\tsentence1\tsentence2";
    let not = ["entailment", "not_entailment"];
    let three = ["neutral", "entailment", "contradiction"];
    let files = [
        ("CoLA", table("", &|at| format!("x\t{}\t\tRow {at} runs.", at % 2))),
        ("SST-2", table("sentence\tlabel", &|at| format!("row {at}\t{}", at % 2))),
        (
            "MRPC",
            table("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", &|at| {
                format!("{}\t1\t2\ta {at}\tb {at}", at % 2)
            }),
        ),
        ("STS-B", table(&format!("{sentences}\tscore"), &|at| format!("{}\t{}.5", pair(at), at % 5))),
        ("QQP", table("id\tquestion1\tquestion2\tis_duplicate", &|at| two(at, ["0", "1"]))),
        (
            "MNLI",
            table(&format!("{sentences}\tgold_label"), &|at| format!("{}\t{}", pair(at), three[at % 3])),
        ),
        ("QNLI", table("index\tquestion\tsentence\tlabel", &|at| two(at, not))),
        ("RTE", entailment(0, 8)),
        ("WNLI", table(&format!("{sentences}\tlabel"), &|at| two(at, ["0", "1"]))),
    ];
    for (name, text) in &files {
        let dev: &[&str] = if *name == "MNLI" { &["dev_matched", "dev_mismatched"] } else { &["dev"] };
        folder.write(&format!("glue/{name}/train.tsv"), text);
        let all_but_one: Vec<&str> = text.lines().take(text.lines().count() - 1).collect();
        for split in dev {
            folder.write(&format!("glue/{name}/{split}.tsv"), all_but_one.join("\n") + "\n");
        }
    }
}

#[test]
fn flags_of_another_input_are_rejected() {
    let folder = Folder::new();
    for line in [
        "bert predict --checkpoint tuned a --columns text",
        "bert predict --checkpoint tuned a --format tsv",
        "bert predict --checkpoint tuned a --id number",
        "bert probe a --replace a=b --format tsv",
        "bert probe a --replace a=b --instances 5",
        "bert probe --input texts.txt --replace a=b --instances 5",
        "bert watch run --tui --json",
        "bert watch run --tui --once",
        "bert watch run --once --listen 127.0.0.1:0",
        "bert watch run --once --interval 2",
    ] {
        folder.refused(line, 2, "cannot be used with");
    }
}
