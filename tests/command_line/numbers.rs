//! Every numeric flag of every program, from the definitions of the command line, with numbers at and beyond the limits;
//! and the numeric environment variables.

use bert::commands::bert::programs;
use bert::options::numbers::is_number;
use clap::Command;

use crate::common::{Ended, Folder, QUICK};
use crate::finetuning::tasks::with_entailment;

/// Numbers that some flags accept, and numbers that none accepts.
const NUMBERS: [&str; 9] =
    ["0", "1", "-1", "nan", "inf", "1e-300", "2147483648", "9223372036854775808", "18446744073709551615"];

/// The documented exit codes of a program that is not stopped.
const EXIT_CODES: [i32; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 75];

/// A line of each command with numeric flags. The command replaces the values of the flags that the line has.
const LINES: [&str; 24] = [
    "make-pretrain-data --input train.txt --vocab vocab.txt --max-seq-length 32 --output o",
    "pretrain --data data --eval-data held --model config.json --steps 1 --batch-size 2 --output o",
    "finetune --task rte --data glue --checkpoint run --max-train-examples 4 --num-train-epochs 1 --max-seq-length 32 --output o",
    "bert make-vocab --input train.txt --vocab-size 200 --output o",
    "bert extend-vocab --checkpoint exported --input train.txt --add 2 --output o",
    "bert merge data",
    "bert inspect data",
    "bert verify data",
    "bert devices --device flex --check",
    "bert init --model config.json --vocab vocab.txt --output o",
    "bert evaluate --checkpoint run --data held",
    "bert fill-mask --checkpoint run 'the [MASK] river'",
    "bert attention --checkpoint run 'the river' --output o",
    "bert predict --checkpoint tuned --input pairs.tsv",
    "bert features --checkpoint run --input pairs.tsv",
    "bert probe --checkpoint run --data held --instances 1 --replace the=a",
    "bert nearest --checkpoint run the",
    "bert minimal-pairs --checkpoint run --input pairs.tsv --columns sentence1,sentence2",
    "bert projector --checkpoint run --words 20 --output o",
    "bert watch run --once",
    "bert glue --data glue --tasks rte --checkpoint run --output o",
    "bert multitask --data glue --tasks rte,rte --checkpoint run --output o",
    "bert experiment masking --input train.txt",
    "bert launch --processes 1 -- pretrain",
];

/// Returns the name of a line's command, without `bert`.
fn name(line: &str) -> &str {
    line.strip_prefix("bert ").unwrap_or(line).split(' ').next().expect("a word")
}

/// Returns the line with a flag, in place of the same flag.
fn with_flag(line: &str, flag: &str, value: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    if let Some(at) = words.iter().position(|word| *word == flag) {
        words.drain(at..at + 2);
    }
    let added = format!("{flag}={value}");
    let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    words.insert(at, &added);
    words.join(" ")
}

fn world() -> Folder {
    let folder = with_entailment();
    folder.write("pairs.tsv", "a\tb\nc\td\n");
    folder.ok("finetune --task rte --data glue --checkpoint run --num-train-epochs 1 --max-seq-length 32 --output tuned");
    folder.ok("bert export run exported");
    folder
}

fn check(line: &str, ended: &Ended) {
    assert!(
        ended.code.is_some_and(|code| EXIT_CODES.contains(&code)),
        "{line}: {:?}\n{}",
        ended.code,
        ended.stderr
    );
    assert!(
        ended.code == Some(0) || ended.stderr.contains("error: "),
        "{line}: no message\n{}",
        ended.stderr
    );
}

/// Runs a line with every numeric flag of its command.
fn check_command(folder: &Folder, line: &str, command: &Command) {
    let flags = command.get_arguments().filter(|flag| is_number(flag));
    for flag in flags.filter_map(|flag| flag.get_long()) {
        let mut refused = 0;
        for number in NUMBERS {
            let _ = std::fs::remove_dir_all(folder.at("o"));
            let _ = std::fs::remove_file(folder.at("o"));
            let line = with_flag(line, &format!("--{flag}"), number);
            let ended = folder.run(&line);
            check(&line, &ended);
            refused += usize::from(ended.code == Some(2));
        }
        assert!(refused >= 6, "{line}: --{flag} accepts a number beyond the limits");
    }
}

fn check_all(folder: &Folder, selects: impl Fn(&str) -> bool) {
    let mut programs = programs();
    let bert = programs.remove(0);
    for line in LINES.iter().filter(|line| selects(name(line))) {
        let found = programs.iter().find(|program| program.get_name() == name(line));
        let command = found.or_else(|| bert.find_subcommand(name(line))).expect("a command");
        check_command(folder, line, command);
    }
}

#[test]
fn every_command_with_numbers_has_a_line() {
    let bert = programs().remove(0);
    for command in bert.get_subcommands().filter(|command| command.get_arguments().any(is_number)) {
        let known = |line: &&str| name(line) == command.get_name().replace("data", "make-pretrain-data");
        let other = ["quickstart", "translate"];
        assert!(other.contains(&command.get_name()) || LINES.iter().any(known), "{command}");
    }
}

#[test]
fn numbers_of_the_data_builder_are_bounded() {
    let folder = Folder::with_data();
    check_all(&folder, |name| name == "make-pretrain-data");
}

#[test]
fn numbers_of_pretraining_are_bounded() {
    let folder = Folder::with_data();
    check_all(&folder, |name| name == "pretrain");
    for flags in ["--steps 1000000000", "--steps 1 --batch-size 1000000000", "--budget 999999999999999s"] {
        let line = format!("pretrain --data data --model config.json --output o --dry-run {flags}");
        check(&line, &folder.run(&line));
    }
    let line = format!("pretrain {QUICK} --steps 1 --output o --group-timeout 18446744073709551615s");
    folder.refused(&line, 2, "longer than ten years");
}

#[test]
fn numbers_of_finetuning_are_bounded() {
    check_all(&world(), |name| name == "finetune");
}

#[test]
fn numbers_of_other_commands_are_bounded() {
    let main = ["make-pretrain-data", "pretrain", "finetune"];
    check_all(&world(), |name| !main.contains(&name));
}

#[test]
fn numbers_in_the_environment_are_bounded() {
    let folder = Folder::with_data();
    let line = format!("pretrain {QUICK} --steps 1 --group-timeout 1s --output o");
    for variable in
        ["BERT_RANK", "BERT_WORLD_SIZE", "BERT_LOCAL_WORLD_SIZE", "BERT_MASTER_PORT", "RAYON_NUM_THREADS"]
    {
        for number in NUMBERS.into_iter().filter(|number| *number != "1") {
            let _ = std::fs::remove_dir_all(folder.at("o"));
            let mut command = folder.command(&line);
            if variable != "RAYON_NUM_THREADS" {
                let group = [("BERT_RANK", "0"), ("BERT_WORLD_SIZE", "2"), ("BERT_MASTER_ADDR", "127.0.0.1")];
                command
                    .envs(group)
                    .env("BERT_MASTER_PORT", "29555")
                    .env("BERT_GROUP_TOKEN", "0123456789abcdef");
            }
            let output = command.env(variable, number).output().expect("the program starts");
            check(&format!("{variable}={number}"), &crate::common::ended(&line, output));
        }
    }
    for number in NUMBERS.into_iter().filter(|number| *number != "1") {
        let line = "bert inspect owner/model";
        let output = folder.command(line).env("HF_HUB_DOWNLOAD_TIMEOUT", number).output();
        let ended = crate::common::ended(line, output.expect("the program starts"));
        assert_eq!(ended.code, Some(2), "{number}: {}", ended.stderr);
    }
}
