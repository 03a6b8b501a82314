//! Runs every command of every program with only its required arguments.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{Ended, Folder, articles, ended, entailment};

/// How a command is run.
enum RunMode {
    /// UntilFile it ends.
    ToEnd(&'static str),
    /// UntilFile it ends, with a text on its standard input.
    WithInput(&'static str, &'static str),
    /// UntilFile a file exists; then the long-running command is stopped.
    UntilFile(&'static str, &'static str),
}

use RunMode::{ToEnd, UntilFile, WithInput};

/// The programs and the commands of `bert`, ordered so that each has its inputs.
const CASES: [(&str, RunMode); 21] = [
    ("export", ToEnd("bert export tiny-en exported")),
    ("make-vocab", ToEnd("bert make-vocab --input train.txt --output vocab.txt")),
    (
        "make-pretrain-data",
        ToEnd("make-pretrain-data --input train.txt --vocab exported/vocab.txt --output data"),
    ),
    ("inspect", ToEnd("bert inspect data")),
    ("verify", ToEnd("bert verify data")),
    ("evaluate", ToEnd("bert evaluate --data data")),
    ("init", ToEnd("bert init --model tiny --vocab vocab.txt --output fresh")),
    ("merge", ToEnd("bert merge parts")),
    ("pretrain", UntilFile("pretrain --data data --model tiny --output run --steps 1", "run/run.json")),
    ("recipes", ToEnd("bert recipes")),
    ("fill-mask", ToEnd("bert fill-mask 'The river is [MASK].'")),
    ("attention", ToEnd("bert attention 'The river is long.'")),
    ("features", WithInput("bert features --input -", "The river is long.\n")),
    ("probe", ToEnd("bert probe 'The river is [MASK].' --replace river=sea")),
    ("finetune", ToEnd("finetune --task rte --data glue --output tuned")),
    ("predict", WithInput("bert predict --model tuned --input -", "")),
    ("report", ToEnd("bert report tuned")),
    ("scores", ToEnd("bert scores tuned")),
    ("glue", ToEnd("bert glue --data glue --output all")),
    ("multitask", ToEnd("bert multitask --data glue --tasks rte,sst-2 --output both")),
    ("quickstart", UntilFile("bert quickstart", "out/quickstart")),
];

#[test]
fn every_command_starts_with_its_defaults() {
    let folder = Folder::new();
    folder.write("train.txt", articles(0, 4));
    nine_tasks(&folder);
    let help = folder.ok("bert --help").stdout;
    let (_, commands) = help.split_once("Commands:\n").expect("a list of commands");
    // A name is indented by two columns, a further line of a description by more.
    let listed = commands.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let mut names: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    names.retain(|name| *name != "help");
    names.extend(["make-pretrain-data", "pretrain", "finetune"]);
    let mut tested: Vec<&str> = CASES.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    tested.sort_unstable();
    assert_eq!(names, tested, "a command without a case, or a case without a command");
    for (name, case) in &CASES {
        if *name == "merge" {
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
    crate::resume::send(&child, "TERM");
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
        for split in [&["train"], dev].concat() {
            folder.write(&format!("glue/{name}/{split}.tsv"), text);
        }
    }
}
