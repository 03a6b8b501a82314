//! Memory limits: a step that cannot fit is refused before it begins, and a failed allocation ends the program with a
//! one-line error.

#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};

use crate::common::{Ended, Folder, ended};
use crate::reliability::hostile::limited;

const WORDS: usize = 30_522;

/// Returns a folder with the data set `wide/` with a large vocabulary and sequences of 128.
fn with_wide_data() -> Folder {
    let folder = Folder::with_data();
    let known = folder.text("vocab.txt");
    let more = (known.lines().count()..WORDS).map(|word| format!("unused{word}\n"));
    folder.write("wide.txt", known.clone() + &more.collect::<String>());
    let flags = "--vocab wide.txt --max-seq-length 128 --dupe-factor 40";
    folder.ok(&format!("make-pretrain-data --input train.txt {flags} --output wide"));
    folder
}

/// Runs a command line under `ulimit -v KIB`.
fn under(folder: &Folder, kib: u64, line: &str) -> Ended {
    let command = folder.command(line);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -v {kib}; exec \"$0\" \"$@\"")).arg(command.get_program());
    shell.args(command.get_args()).current_dir(folder.at("."));
    shell.env("RAYON_NUM_THREADS", "2").stdin(Stdio::null());
    ended(line, shell.output().expect("a shell"))
}

/// Returns the memory of a run in MiB: the estimate printed at its start, and the measured peak.
fn estimated_and_measured(folder: &Folder, line: &str) -> (f64, f64) {
    let ended = limited(folder, line);
    assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
    let (_, rest) = ended.stderr.split_once("sequences, about ").expect("an estimate");
    let mut words = rest.split_whitespace();
    let number: f64 = words.next().and_then(|word| word.parse().ok()).expect("a number");
    let unit = if words.next() == Some("GiB") { 1024.0 } else { 1.0 };
    (unit * number, ended.memory as f64)
}

#[test]
fn memory_estimate_is_near_the_peak() {
    let folder = with_wide_data();
    let cases = [
        "--model tiny --batch-size 64",
        "--model tiny --batch-size 256 --gradient-accumulation-steps 4",
        "--model mini --batch-size 64",
        "--model mini --batch-size 64 --recompute",
    ];
    for flags in cases {
        let output = flags.replace(' ', "");
        let line =
            format!("pretrain --data wide --initialization reference {flags} --steps 4 --output run{output}");
        let (estimated, measured) = estimated_and_measured(&folder, &line);
        println!("{flags}: {estimated:.0} MiB estimated, {measured:.0} MiB measured");
        let factor = estimated / measured;
        let within = 1.0 / bert_inference::memory::ACCURACY..bert_inference::memory::ACCURACY;
        assert!(
            within.contains(&factor),
            "{flags}: {estimated:.0} MiB estimated, {measured:.0} MiB measured"
        );
    }
}

#[test]
fn insufficient_memory_is_reported_with_a_remedy() {
    let folder = with_wide_data();
    let line = "pretrain --data wide --model base --batch-size 64 --steps 2 --output run";
    let ended = under(&folder, 3_000_000, line);
    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
    let message: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("error")).collect();
    assert_eq!(message.len(), 1, "{}", ended.stderr);
    for part in ["`ulimit -v` allows 2.9 GiB", "--gradient-accumulation-steps"] {
        assert!(message[0].contains(part), "{part}: {}", message[0]);
    }
    assert!(!folder.at("run").exists());
}

#[test]
fn failed_allocation_exits_with_code_7() {
    let folder = with_wide_data();
    let init = "bert init --initialization reference --vocab wide.txt --model large --output fresh";
    let ended = under(&folder, 1_200_000, init);
    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("error: not enough memory: "), "{}", ended.stderr);
}
