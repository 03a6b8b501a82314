//! Kills programs at random moments (SIGKILL) and restarts them until done; the result equals an undisturbed process
//! byte for byte.
//!
//! The regular test does twenty kills of each program; `scripts/chaos` asks for more through `BERT_KILLS` and prints
//! the figures.

#![cfg(unix)]

use std::collections::BTreeSet;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bert_inference::checkpoint::CheckpointFolder;
use bert_random::{Domain, Random, Stream};

use crate::common::{Folder, articles, entailment};
use crate::finetuning::tasks::with_entailment;
use crate::pretraining::resume::{RUN, assert_ends_like_the_whole, with_whole_run};

/// Returns how many kills have to hit a living process.
pub(super) fn wanted() -> u64 {
    std::env::var("BERT_KILLS").map_or(20, |text| text.parse().expect("BERT_KILLS is a number"))
}

pub(super) fn moments(program: u64) -> Stream {
    let seed = std::env::var("BERT_SEED").map_or(42, |text| text.parse().expect("BERT_SEED is a number"));
    Stream::new(seed, Domain::Test, &[program])
}

/// Kills a process after a time. Returns whether it was still alive, whether it succeeded, and its stderr.
fn kill_after(mut child: Child, time: Duration) -> (bool, bool, String) {
    sleep(time);
    let _ = child.kill();
    let ended = child.wait_with_output().expect("its end");
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!stderr.contains("panicked"), "{stderr}");
    (ended.status.code().is_none(), ended.status.success(), stderr)
}

/// Counts of kills, for the reliability table.
#[derive(Default)]
struct Tally {
    kills: u64,
    finished: u64,
    /// Kills that came while a file was being written.
    in_writing: u64,
}

impl Tally {
    fn print(&self, program: &str, started: Instant) {
        println!(
            "{program}: {} kills ({} with a file or folder half written), {} outputs finished, all identical to an \
             undisturbed one; {:.0} s",
            self.kills,
            self.in_writing,
            self.finished,
            started.elapsed().as_secs_f64()
        );
    }
}

#[test]
fn killed_builds_equal_uninterrupted_builds() {
    let folder = Folder::with_data();
    folder.write("long.txt", articles(0, 40));
    let flags =
        "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5 --dupe-factor 20 --num-shards 4";
    let line = format!("make-pretrain-data --input long.txt {flags} --output");
    let started = Instant::now();
    folder.ok(&format!("{line} whole"));
    let long = started.elapsed();
    let whole = folder.snapshot("whole");

    let mut tally = Tally::default();
    let mut random = moments(1);
    let started = Instant::now();
    while tally.kills < wanted() {
        let child = folder.start(&format!("{line} out"));
        let (killed, success, stderr) = kill_after(child, long.mul_f64(1.1 * random.unit()));
        tally.kills += u64::from(killed);
        assert!(killed || success, "{stderr}");
        let committed = folder.at("out/manifest.json").exists();
        if committed {
            assert!(whole == snapshot_of_the_data(&folder), "a committed data set differs");
            tally.finished += 1;
            std::fs::remove_dir_all(folder.at("out")).expect("removed");
        } else {
            tally.in_writing += u64::from(folder.at("out/.build").exists());
        }
    }
    folder.run(&format!("{line} out"));
    assert!(whole == folder.snapshot("out"), "the last output differs");
    tally.finished += 1;
    tally.print("make-pretrain-data", started);
}

/// Kills and restarts both steps of two parts and the merge, with and without a scratch folder. Checks that no scratch
/// data is left.
#[test]
fn killed_parts_merge_to_the_same_data() {
    let folder = Folder::with_data();
    folder.write("a.txt", articles(0, 20));
    folder.write("b.txt", articles(20, 40));
    let flags =
        "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5 --dupe-factor 20 --num-shards 4";
    let line = format!("make-pretrain-data --input a.txt b.txt {flags} --output");
    folder.ok(&format!("{line} whole"));
    let whole = folder.snapshot("whole");
    let part = |index: usize, more: &str| format!("{line} out --part {index} --parts 2 {more}");
    let steps = |scratch: &str| {
        let text = format!("--tokenize-only {scratch}");
        let merge = format!("bert merge out {scratch}");
        [part(1, &text), part(2, &text), part(1, scratch), part(2, scratch), merge]
    };
    std::fs::create_dir(folder.at("fast")).expect("a folder");
    let mut tally = Tally::default();
    let mut random = moments(4);
    let started = Instant::now();
    while tally.kills < wanted() {
        for step in &steps(if tally.finished % 2 == 0 { "--scratch fast" } else { "" }) {
            loop {
                let (killed, success, stderr) =
                    kill_after(folder.start(step), Duration::from_secs_f64(0.1 * random.unit()));
                tally.kills += u64::from(killed);
                assert!(killed || success, "{stderr}");
                tally.in_writing += u64::from(killed && folder.at("out").exists());
                if !killed {
                    break;
                }
            }
        }
        assert!(whole == folder.snapshot("out"), "the parts differ from the whole");
        assert_eq!(folder.snapshot("fast").len(), 0, "text is left in the scratch folder");
        std::fs::remove_dir_all(folder.at("out")).expect("removed");
        tally.finished += 1;
    }
    tally.print("make-pretrain-data --part, bert merge", started);
}

/// Returns a snapshot of the data set itself: a kill right after the commit may leave the work folder behind.
fn snapshot_of_the_data(folder: &Folder) -> std::collections::BTreeMap<String, Option<Vec<u8>>> {
    let mut found = folder.snapshot("out");
    found.retain(|name, _| !name.starts_with(".build"));
    found
}

#[test]
fn killed_runs_equal_uninterrupted_runs() {
    let folder = with_whole_run();
    // With a checkpoint after each step, most kills come while one is written.
    let line = format!("{RUN} --save-every 1 --output run");
    let mut tally = Tally::default();
    let mut random = moments(2);
    let started = Instant::now();
    let finish = |tally: &mut Tally| {
        assert_ends_like_the_whole(&folder, "run");
        let checkpoints = ["step-00000038", "step-00000039", "step-00000040"];
        assert_eq!(folder.names("run/checkpoints"), checkpoints);
        std::fs::remove_dir_all(folder.at("run")).expect("removed");
        tally.finished += 1;
    };
    while tally.kills < wanted() {
        let before = newest(&folder);
        let resume = if folder.at("run").exists() { " --resume" } else { "" };
        let child = folder.start(&format!("{line}{resume}"));
        // Long enough for some steps, short enough for many kills in a run.
        let (killed, success, stderr) = kill_after(child, Duration::from_secs_f64(0.4 * random.unit()));
        tally.kills += u64::from(killed);
        assert!(killed || success, "{stderr}");
        if success {
            finish(&mut tally);
            continue;
        }
        let now = newest(&folder);
        assert!(now >= before, "checkpoint {before} was committed, {now} is the newest good one");
        let written = steps_in_the_log(&folder);
        // The checkpoint of a step is written during the next step, but no longer during the one after that.
        assert!(
            written <= now + 2,
            "more than two checkpoint intervals lost: {written} steps done, {now} kept"
        );
        tally.in_writing += u64::from(has_half_written(&folder));
    }
    let resume = if folder.at("run").exists() { " --resume" } else { "" };
    folder.ok(&format!("{line}{resume}"));
    finish(&mut tally);
    tally.print("pretrain", started);
}

/// Checks that the leftovers of a kill never block the same command with `--resume`.
#[test]
fn killed_finetunings_equal_uninterrupted_finetunings() {
    let folder = Folder::with_run();
    folder.write("glue/train.tsv", entailment(0, 24));
    folder.write("glue/dev.tsv", entailment(24, 12));
    let flags = "--checkpoint run --max-seq-length 48 --num-train-epochs 1 --train-batch-size 8 --seeds 1,2 --keep-seeds";
    let line = format!("finetune --task rte --data glue --predict glue/dev.tsv {flags} --output tuned");
    let started = Instant::now();
    folder.ok(&line);
    let long = started.elapsed();
    let whole = folder.snapshot("tuned");
    std::fs::remove_dir_all(folder.at("tuned")).expect("removed");

    let mut tally = Tally::default();
    let mut random = moments(3);
    let started = Instant::now();
    while tally.kills < wanted() {
        let resume = if folder.at("tuned").exists() { " --resume" } else { "" };
        let child = folder.start(&format!("{line}{resume}"));
        let (killed, success, stderr) = kill_after(child, long.mul_f64(1.1 * random.unit()));
        tally.kills += u64::from(killed);
        assert!(killed || success, "{stderr}");
        tally.in_writing += u64::from(folder.at("tuned/.unfinished").exists());
        if folder.at("tuned/report.json").exists() {
            let mut found = folder.snapshot("tuned");
            // A kill right after the report may leave the marker and the saved runs behind.
            found.retain(|name, _| name != ".unfinished" && !name.starts_with(".runs"));
            assert!(whole == found, "a finished fine-tuning differs");
            std::fs::remove_dir_all(folder.at("tuned")).expect("removed");
            tally.finished += 1;
        }
    }
    let resume = if folder.at("tuned").exists() { " --resume" } else { "" };
    folder.ok(&format!("{line}{resume}"));
    assert!(whole == folder.snapshot("tuned"), "the last fine-tuning differs");
    tally.finished += 1;
    tally.print("finetune", started);
}

/// A command that writes the folder `out`.
struct Writer<'a> {
    line: &'a str,
    /// The command line if the folder exists.
    again: &'a str,
    /// The file that is written last, if the folder is complete with it.
    last: Option<&'a str>,
}

/// Kills and restarts a command until it is done. Every finished folder has the files of an undisturbed one.
fn kill_writer(folder: &Folder, Writer { line, again, last }: Writer<'_>, program: u64) {
    let snapshot = || {
        let mut found = folder.snapshot("out");
        // The page and the JSON file of an experiment contain its time.
        found.retain(|name, _| {
            !matches!(name.as_str(), ".unfinished" | "experiment.html" | "experiment.json")
        });
        found
    };
    let remove = || std::fs::remove_dir_all(folder.at("out")).expect("removed");
    // The last kill of another writer may have left a part of its folder.
    let _ = std::fs::remove_dir_all(folder.at("out"));
    let started = Instant::now();
    folder.ok(line);
    let long = started.elapsed();
    let whole = snapshot();
    remove();
    let mut tally = Tally::default();
    let mut random = moments(program);
    let started = Instant::now();
    while tally.kills < wanted() {
        let there = folder.at("out").exists();
        let child = folder.start(if there { again } else { line });
        let (killed, success, stderr) = kill_after(child, long.mul_f64(1.1 * random.unit()));
        tally.kills += u64::from(killed);
        assert!(killed || success, "{stderr}");
        // A kill may come after the output is complete.
        if success || last.is_some_and(|last| folder.at("out").join(last).exists()) {
            let found = snapshot();
            let names = whole.keys().chain(found.keys());
            let differing: BTreeSet<&String> =
                names.filter(|&name| whole.get(name) != found.get(name)).collect();
            assert!(differing.is_empty(), "{line}: a finished output differs: {differing:?}");
            remove();
            tally.finished += 1;
        } else {
            tally.in_writing += u64::from(folder.at("out").exists());
        }
    }
    tally.print(&line.split(' ').take(2).collect::<Vec<_>>().join(" "), started);
}

#[test]
fn killed_exports_and_imports_can_be_repeated() {
    let folder = Folder::with_run();
    folder.ok("bert export run source");
    let before = folder.names(".");
    let lines = [
        ("bert export run out", "config.json"),
        ("bert export run out --format onnx", "model.onnx"),
        ("bert export run out --format sentence-transformers", "config.json"),
        ("bert import source out", "config.json"),
    ];
    for ((line, last), program) in lines.into_iter().zip(5..) {
        kill_writer(&folder, Writer { line, again: line, last: Some(last) }, program);
    }
    let _ = std::fs::remove_dir_all(folder.at("out"));
    assert_eq!(folder.names("."), before, "visible files are left");
}

#[test]
fn killed_experiments_equal_uninterrupted_experiments() {
    let folder = with_entailment();
    let line = "bert experiment from-scratch --checkpoint run --data . --tasks rte --seeds 1 --output out";
    let flags = "-- --max-seq-length 32 --num-train-epochs 1 --train-batch-size 8";
    let again = format!("{line} --resume {flags}");
    kill_writer(&folder, Writer { line: &format!("{line} {flags}"), again: &again, last: None }, 9);
}

/// Returns the step of the newest valid checkpoint; no checkpoint may be corrupt.
fn newest(folder: &Folder) -> u64 {
    let found = CheckpointFolder::in_run(&folder.at("run"))
        .newest_good(&mut |error| panic!("a kill left a checkpoint that looks whole: {error}"))
        .expect("readable");
    found.map_or(0, |found| found.state.step)
}

fn steps_in_the_log(folder: &Folder) -> u64 {
    let path = folder.at("run/metrics.jsonl");
    std::fs::read(path).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count() as u64)
}

fn has_half_written(folder: &Folder) -> bool {
    folder.at("run/checkpoints").exists()
        && std::fs::read_dir(folder.at("run/checkpoints"))
            .expect("a folder")
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with('.'))
}
