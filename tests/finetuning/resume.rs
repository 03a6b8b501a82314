//! A stopped fine-tuning ends like an uninterrupted one, byte for byte, and resumes only with the same settings.

#![cfg(unix)]

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Folder, ended, entailment};
use crate::pretraining::resume::{send, until_in_time};

/// Stops a fine-tuning repeatedly until it is done. If it took no step, it is stopped later the next time.
fn stop_until_finished(folder: &Folder, line: &str) {
    let mut patience = Duration::from_millis(100);
    let mut stops = 0;
    let mut went_on = 0;
    let mut finished_before = 0;
    for _ in 0..400 {
        let resume = if folder.at("cut/.runs/run.json").exists() { "--resume" } else { "" };
        let line = format!("{line} cut {resume}");
        let mut child = folder.start(&line);
        sleep(patience);
        send(&child, "TERM");
        let success = child.wait().expect("its end").success();
        let ended = ended(&line, child.wait_with_output().expect("its end"));
        went_on += ended.stderr.matches(" continues after step ").count();
        finished_before += ended.stderr.matches(" is already complete").count();
        if success && stops > 0 && went_on > 0 && finished_before > 0 {
            break;
        }
        if success {
            std::fs::remove_dir_all(folder.at("cut")).expect("removed");
            patience /= 2;
            (stops, went_on, finished_before) = (0, 0, 0);
        } else if ended.stderr.contains("a checkpoint was saved, continue with --resume") {
            assert_eq!(ended.code, Some(143), "{}", ended.stderr);
            assert!(folder.names("cut").is_empty(), "{:?}", folder.names("cut"));
            stops += 1;
        } else {
            patience = patience * 5 / 4;
        }
    }
    assert!(stops > 0 && went_on > 0 && finished_before > 0, "{stops} {went_on} {finished_before}");
}

/// Checks that a fine-tuning stopped at any step resumes to the same bits.
#[test]
fn stopped_finetuning_resumes_bit_exactly() {
    let folder = Folder::with_run();
    folder.write("glue/train.tsv", entailment(0, 40));
    folder.write("glue/dev.tsv", entailment(40, 20));
    let flags = "--max-seq-length 48 --num-train-epochs 12 --train-batch-size 8 --learning-rate 1e-3,3e-3 --seeds 1,2 --keep-seeds";
    let line = format!("finetune --task rte --data glue --checkpoint run {flags} --output");
    folder.ok(&format!("{line} whole"));
    let mut whole = folder.snapshot("whole");
    let report = folder.json("whole/report.json").remove(0);
    whole.remove("report.json");
    stop_until_finished(&folder, &line);
    let mut cut = folder.snapshot("cut");
    cut.remove("report.json");
    let names =
        |of: &std::collections::BTreeMap<String, Option<Vec<u8>>>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&cut), names(&whole));
    assert!(cut == whole, "a file differs");
    let cut = folder.json("cut/report.json").remove(0);
    for part in ["runs", "dev", "grid", "resolved", "training"] {
        assert_eq!(cut[part], report[part], "{part}");
    }
}

/// Starts a long fine-tuning and stops it after its first steps.
fn stop_in_the_first_epochs(folder: &Folder, line: &str) {
    until_in_time(|_| {
        let long = format!("{line} --num-train-epochs 400");
        let mut child = folder.start(&long);
        let started = Instant::now();
        while !folder.at("out/.runs/run.json").exists() {
            assert!(started.elapsed() < Duration::from_secs(120), "it never started");
            sleep(Duration::from_millis(1));
        }
        send(&child, "TERM");
        if child.wait().expect("its end").success() {
            std::fs::remove_dir_all(folder.at("out")).expect("removed");
            return None;
        }
        let stopped = ended(&long, child.wait_with_output().expect("its end"));
        assert!(
            stopped.code == Some(143) && stopped.stderr.contains("continue with --resume"),
            "{}",
            stopped.stderr
        );
        Some(())
    });
}

#[test]
fn resume_rejects_another_finetuning() {
    let folder = Folder::with_run();
    folder.write("glue/train.tsv", entailment(0, 40));
    folder.write("glue/dev.tsv", entailment(40, 20));
    let line = "finetune --task rte --data glue --checkpoint run --max-seq-length 48 --train-batch-size 8 --output out";
    folder.refused(&format!("{line} --resume"), 1, "no run to resume here");
    stop_in_the_first_epochs(&folder, line);
    let run = |flags: &str| folder.run(&format!("{line} --num-train-epochs 400 {flags}"));
    let again = run("");
    assert_eq!(again.code, Some(1), "{}", again.stderr);
    again.stderr_has("an unfinished fine-tuning");
    again.stderr_has("continue it with --resume");
    let other = run("--resume --learning-rate 1e-3");
    assert_eq!(other.code, Some(4), "{}", other.stderr);
    other.stderr_has("config.learning_rate was null, now 0.001");
    let other = run("--resume --keep-seeds");
    assert_eq!(other.code, Some(4), "{}", other.stderr);
    other.stderr_has("keep_seeds");
    folder.write("glue/dev.tsv", entailment(41, 20));
    let other = run("--resume");
    assert!(other.code == Some(4) && other.stderr.contains("other data: dev was"), "{}", other.stderr);
    folder.write("glue/dev.tsv", entailment(40, 20));
    // A corrupt checkpoint is named, and no part of it is used.
    let place = folder.names("out/.runs/cell-1-seed-1/checkpoints").remove(0);
    folder.flip(&format!("out/.runs/cell-1-seed-1/checkpoints/{place}/model.safetensors"));
    let corrupt = run("--resume");
    assert!(
        corrupt.code == Some(4) && corrupt.stderr.contains("model.safetensors has BLAKE3 digest"),
        "{}",
        corrupt.stderr
    );
    // Without --resume a different command is refused too. Without the saved runs it starts over.
    let other = run("--learning-rate 1e-3");
    assert!(other.code == Some(4) && other.stderr.contains("unfinished fine-tuning"), "{}", other.stderr);
    std::fs::remove_dir_all(folder.at("out/.runs")).expect("removed");
    folder.ok(&format!("{line} --num-train-epochs 400"));
    assert_eq!(folder.names("out"), ["dev_labels.tsv", "model", "report.json", "seed-1"]);
    assert!(!folder.at("out/.runs").exists());
    let done = run("--resume");
    assert!(done.code == Some(1) && done.stderr.contains("a finished fine-tuning"), "{}", done.stderr);
}
