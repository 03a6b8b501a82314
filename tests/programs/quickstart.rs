//! `bert quickstart`: the width of its output, its next commands, and `--overwrite`.

#![cfg(unix)]

use std::process::Command;

use crate::common::{Folder, ended};

#[test]
fn quickstart_repeats_and_names_commands_that_work() {
    let folder = Folder::named("a folder");
    let line = "bert quickstart --steps 1 --seeds 1 --output 'out 1'";
    // An earlier quickstart that was stopped.
    folder.write("out 1/corpus/train/nature.txt", "old");
    folder.write("out 1/data/old.txt", "old");
    folder.refused(
        line,
        1,
        "out 1: the folder already holds an earlier quickstart; repeat it with --overwrite",
    );
    folder.write("out 1/notes.txt", "mine");
    folder.refused(&format!("{line} --overwrite"), 1, "out 1: the folder already holds other files");
    std::fs::remove_file(folder.at("out 1/notes.txt")).unwrap();

    let shown = folder.ok(&format!("{line} --overwrite"));
    assert!(!folder.at("out 1/data/old.txt").exists());
    for line in shown.stdout.lines().chain(shown.stderr.lines()) {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
    assert!(
        shown.stderr.contains("1/5 vocabulary") && shown.stderr.contains("5/5 pages"),
        "{}",
        shown.stderr
    );
    let (_, next) = shown.stdout.split_once("\nnext:\n").expect("commands");
    assert_eq!(next.matches("bert ").count(), 3, "{next}");
    let bert = std::path::Path::new(env!("CARGO_BIN_EXE_bert")).parent().unwrap();
    let path = format!("{}:{}", bert.display(), std::env::var("PATH").unwrap());
    let shell =
        Command::new("sh").args(["-e", "-c", next]).env("PATH", path).current_dir(folder.at(".")).output();
    let result = ended(next, shell.unwrap());
    assert_eq!(result.code, Some(0), "{}", result.stderr);
    for part in ["[MASK] at position 6", "\"label\":", "masked LM loss"] {
        assert!(result.stdout.contains(part), "{part}: {}", result.stdout);
    }
}
