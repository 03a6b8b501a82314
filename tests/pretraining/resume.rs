//! A stopped, killed or damaged run ends like an uninterrupted one: weights, moments and logs, byte for byte, with
//! dropout and accumulation.
//!
//! Signals reach a run at arbitrary moments. The result must not depend on them, so every outcome is checked to the
//! byte. If a test needs a stop in the middle and the run was faster than the signal, the run is restarted.

#![cfg(unix)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::{Ended, Folder, articles, ended, entailment};

const STEPS: u64 = 40;
/// Evaluates after every step, so that steps are long enough for a stop between them.
pub(crate) const RUN: &str = "pretrain --data data --eval-data held --eval-every 1 --model config.json --steps 40 \
                   --batch-size 6 --gradient-accumulation-steps 2 --learning-rate 3e-3 --seed 7";
/// Files that must be equal at the end.
const COMPARED: [&str; 4] = [
    "metrics.jsonl",
    "evaluations.jsonl",
    "checkpoints/step-00000040/model.safetensors",
    "checkpoints/step-00000040/optimizer.safetensors",
];

/// Returns a folder with data and the uninterrupted run `whole/`.
pub(crate) fn with_whole_run() -> Folder {
    let folder = Folder::with_data();
    folder.ok(&format!("{RUN} --save-every 1000 --output whole"));
    folder
}

pub(crate) fn assert_ends_like_the_whole(folder: &Folder, run: &str) {
    for file in COMPARED {
        let whole = folder.read(&format!("whole/{file}"));
        let other = folder.read(&format!("{run}/{file}"));
        assert!(whole == other, "{run}/{file} differs from that of an uninterrupted run");
    }
}

/// Sends a signal by its name without `SIG`.
pub(crate) fn send(child: &Child, signal: &str) {
    let line = format!("kill -s {signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &line]).status().expect("a shell").success(), "{line}");
}

fn steps_done(folder: &Folder, run: &str) -> u64 {
    if folder.at(run).join("metrics.jsonl").exists() {
        folder.read(&format!("{run}/metrics.jsonl")).iter().filter(|byte| **byte == b'\n').count() as u64
    } else {
        0
    }
}

/// Waits until the run has done `steps` steps; returns false if the program ended before.
fn reaches(folder: &Folder, run: &str, steps: u64, child: &mut Child) -> bool {
    let started = Instant::now();
    while steps_done(folder, run) < steps {
        if child.try_wait().expect("its state").is_some() {
            return false;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "{run} never reached step {steps}");
        sleep(Duration::from_millis(1));
    }
    child.try_wait().expect("its state").is_none()
}

/// Starts a run and stops it with a signal after `steps` steps. At least one of them is its own, so that its signal
/// handler is installed. Returns `None` if the run ended before.
fn stopped(folder: &Folder, line: &str, run: &str, signal: &str, steps: u64) -> Option<Ended> {
    let steps = steps.max(steps_done(folder, run) + 1);
    let mut child = folder.start(line);
    if reaches(folder, run, steps, &mut child) {
        send(&child, signal);
    }
    let ended = ended(line, child.wait_with_output().expect("its end"));
    (ended.code != Some(0)).then_some(ended)
}

/// Calls `attempt` with names of new runs until one was stopped in time.
pub(crate) fn until_in_time(attempt: impl Fn(&str) -> Option<()>) {
    let in_time = (1..=10).any(|number| attempt(&format!("run-{number}")).is_some());
    assert!(in_time, "ten runs ended before their signal");
}

#[test]
fn run_stopped_three_times_is_bit_identical() {
    stop_three_times_and_resume(&with_whole_run());
}

/// Checks that the position in a checkpoint finds the samples of documents on disk again.
#[test]
fn documents_run_stopped_three_times_is_bit_identical() {
    let folder = Folder::with_data();
    let flags = "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5 --layout documents";
    folder.ok(&format!("make-pretrain-data --input train.txt {flags} --output data --overwrite"));
    folder.ok(&format!("{RUN} --save-every 1000 --output whole"));
    stop_three_times_and_resume(&folder);
    let state = folder.text("whole/checkpoints/step-00000040/trainer_state.json");
    assert!(state.contains("\"first_sample\""), "{state}");
}

fn stop_three_times_and_resume(folder: &Folder) {
    until_in_time(|run| {
        let line = format!("{RUN} --save-every 1000 --output {run}");
        let stops = [("TERM", 1, 143), ("INT", 9, 130), ("TERM", 17, 143)];
        for (at, (signal, steps, code)) in stops.into_iter().enumerate() {
            let resume = if at == 0 { "" } else { " --resume" };
            let ended = stopped(folder, &format!("{line}{resume}"), run, signal, steps)?;
            assert_eq!(ended.code, Some(code), "{}", ended.stderr);
            let done = steps_done(folder, run);
            assert!(done >= steps && done < STEPS);
            let message = format!("after step {done}; a checkpoint was saved, continue with --resume");
            assert!(ended.stderr.contains(&message) && ended.stdout.is_empty(), "{}", ended.stderr);
            assert!(folder.ok(&format!("bert verify {run}")).stdout.contains(&format!("step-{done:08}")));
            assert_eq!(folder.names(&format!("{run}/checkpoints")).len(), at + 1);
        }
        let ended = folder.ok(&format!("{line} --resume"));
        ended.stderr_has("continued after step ");
        assert_ends_like_the_whole(folder, run);
        Some(())
    });
}

/// Checks that the second Ctrl-C ends the process at once, in the middle of a step, and keeps committed files.
#[test]
fn second_sigint_stops_at_once() {
    let folder = Folder::with_data();
    until_in_time(|run| {
        // Slow steps.
        let line = format!(
            "pretrain --data data --model config.json --batch-size 800 --steps 50 --save-every 1 --output {run}"
        );
        let mut child = folder.start(&line);
        if !reaches(&folder, run, 2, &mut child) {
            child.wait().expect("its end");
            return None;
        }
        send(&child, "INT");
        let mut message = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("caught"));
        while !message.contains("press Ctrl-C again") {
            let line = stderr.read_line(&mut message).expect("its stderr");
            assert!(line > 0, "{message}");
        }
        send(&child, "INT");
        stderr.read_to_string(&mut message).expect("its stderr");
        assert_eq!(child.wait().expect("its end").code(), Some(130), "{message}");
        folder.ok(&format!("bert verify {run}"));
        folder.ok(&format!("{} --resume --quiet", line.replace("--save-every 1 ", "--save-every 50 ")));
        // Unless the step ended between the two signals.
        message.contains("stopped at once; a checkpoint that was saved before is intact").then_some(())
    });
}

#[test]
fn sigusr1_saves_a_checkpoint_and_continues() {
    let folder = with_whole_run();
    until_in_time(|run| {
        let line = format!("{RUN} --save-every 1000 --output {run}");
        let mut child = folder.start(&line);
        if !reaches(&folder, run, 3, &mut child) {
            child.wait().expect("its end");
            return None;
        }
        send(&child, "USR1");
        let ended = ended(&line, child.wait_with_output().expect("its end"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let checkpoints = folder.names(&format!("{run}/checkpoints"));
        assert_eq!(checkpoints.last().map(String::as_str), Some("step-00000040"));
        assert_ends_like_the_whole(&folder, run);
        // One more than at the end, unless the signal came with the last step.
        (checkpoints.len() == 2).then_some(())
    });
}

/// Checks that a kill before the first checkpoint leaves a run without one.
#[test]
fn resume_before_the_first_checkpoint() {
    let folder = with_whole_run();
    let line = format!("{RUN} --save-every 1000 --output run");
    let mut child = folder.start(&line);
    reaches(&folder, "run", 2, &mut child);
    child.kill().expect("a kill");
    child.wait().expect("its end");
    folder.ok(&format!("{line} --resume"));
    assert_ends_like_the_whole(&folder, "run");
}

#[test]
fn leftovers_of_a_kill_are_removed() {
    let folder = with_whole_run();
    // Simulates a kill at step 30: a half-written checkpoint, a half-removed one, log lines after the last valid one.
    let line = format!("{RUN} --save-every 10 --output run");
    folder.ok(&line);
    folder.copy("run/checkpoints/step-00000040", "run/checkpoints/.partial-step-00000040");
    folder.write("run/checkpoints/.partial-step-00000040/model.safetensors", "half");
    for file in ["COMMITTED.json", "config.json"] {
        std::fs::remove_file(folder.at(&format!("run/checkpoints/step-00000040/{file}"))).expect("removed");
    }
    folder.write("run/checkpoints/step-00000010/model.safetensors", "removed next");
    folder.write("run/metrics.jsonl", folder.text("run/metrics.jsonl") + "{\"step\":41,\"lo");
    folder.ok("bert verify run");
    let ended = folder.ok(&format!("{line} --resume"));
    ended.stderr_has("continued after step 30");
    assert_ends_like_the_whole(&folder, "run");
    let names = folder.snapshot("run/checkpoints");
    assert!(!names.keys().any(|name| name.starts_with(".partial")), "{:?}", names.keys());
    let checkpoints = ["step-00000020", "step-00000030", "step-00000040"];
    assert_eq!(folder.names("run/checkpoints"), checkpoints);
}

/// Checks that a data set is written completely or not at all, and that a second build removes the leftovers of the
/// first.
#[test]
fn killed_build_is_rebuilt() {
    let folder = Folder::with_data();
    folder.write("long.txt", articles(0, 40));
    let flags =
        "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5 --dupe-factor 40 --num-shards 4";
    let line = format!("make-pretrain-data --input long.txt {flags} --output");
    folder.ok(&format!("{line} whole"));
    until_in_time(|output| {
        let mut child = folder.start(&format!("{line} {output}"));
        let started = Instant::now();
        while !folder.at(output).join(".build").exists() {
            if child.try_wait().expect("its state").is_some() {
                return None;
            }
            assert!(started.elapsed() < Duration::from_secs(120), "it never started");
        }
        child.kill().expect("a kill");
        child.wait().expect("its end");
        if folder.at(output).join("manifest.json").exists() {
            return None;
        }
        let ended = folder.run(&format!("bert verify {output}"));
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        folder.ok(&format!("{line} {output}"));
        assert!(folder.snapshot("whole") == folder.snapshot(output), "{output} differs");
        Some(())
    });
}

#[test]
fn corrupt_checkpoint_is_skipped() {
    let folder = with_whole_run();
    let line = format!("{RUN} --save-every 10 --output run");
    folder.ok(&line);
    assert_ends_like_the_whole(&folder, "run");
    for (at, file) in ["model.safetensors", "optimizer.safetensors"].into_iter().enumerate() {
        folder.flip(&format!("run/checkpoints/step-00000040/{file}"));
        let verified = folder.run("bert verify run");
        assert_eq!((verified.code, verified.stdout.matches("bad   ").count()), (Some(4), 1));
        let ended = folder.ok(&format!("{line} --resume"));
        for message in
            ["warning: ", "step-00000040", file, "an older checkpoint is used instead", "after step 30"]
        {
            assert!(ended.stderr.contains(message), "{at}: {message:?} is not in {}", ended.stderr);
        }
        assert_ends_like_the_whole(&folder, "run");
    }
    // Programs that read the run report the corrupt checkpoint too, and continue.
    folder.flip("run/checkpoints/step-00000040/model.safetensors");
    let ended = folder.ok("bert export run exported");
    assert!(ended.stderr.contains("warning: ") && ended.stdout.contains("step-00000030"), "{}", ended.stderr);

    for step in [20, 30] {
        folder.flip(&format!("run/checkpoints/step-{step:08}/trainer_state.json"));
    }
    let before = folder.snapshot(".");
    for line in
        [&format!("{line} --resume"), "bert export run other", "bert evaluate --checkpoint run --data held"]
    {
        let ended = folder.run(line);
        assert_eq!(ended.code, Some(4), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains("error: ") && ended.stderr.contains("all 3 checkpoints are corrupt"));
        assert!(before == folder.snapshot("."), "{line} changed something");
    }
}

/// Checks that a run resumed in another environment prints that its result may differ in the last bits, and only then.
#[test]
fn resume_elsewhere_prints_a_warning() {
    let folder = Folder::with_data();
    let line = format!("{} --output run", RUN.replace("--steps 40", "--steps 4"));
    folder.ok(&line);
    let settings = folder.checksummed("run/run.json");
    let environment = &settings["environment"];
    assert!(environment["program"].as_str().expect("a name").starts_with("bert "));
    assert!(environment["kernels"].as_u64().expect("a version") >= 1);
    assert!(environment["instruction_set"].as_str().expect("a list").starts_with(std::env::consts::ARCH));
    let message = "its result may differ in the last bits";
    let ended = folder.ok(&format!("{line} --resume"));
    assert!(!ended.stderr.contains(message), "{}", ended.stderr);
    let cases = [
        ("/environment/program", json!("bert 0.0.1"), "program was \"bert 0.0.1\", now "),
        ("/environment/kernels", json!(0), "kernels was 0, now "),
        ("/environment/instruction_set", json!("riscv64 v"), "instruction_set was \"riscv64 v\", now "),
        ("/environment/l1_cache/bytes", json!(1), "l1_cache.bytes was 1, now "),
    ];
    for (pointer, value, differs) in cases {
        let mut settings = settings.clone();
        *settings.pointer_mut(pointer).expect("a value") = value;
        folder.write("run/run.json", bert_storage::checksummed_json::checksummed_json(&settings));
        let ended = folder.ok(&format!("{line} --resume"));
        let warning = ended.stderr.lines().find(|line| line.starts_with("warning: ")).expect("a warning");
        assert!(warning.contains(differs) && warning.contains(message), "{warning}");
    }
}

/// Checks that a folder has one writer at a time. The operating system holds the lock, so this test can take it like a
/// program.
#[test]
fn output_in_use_is_rejected() {
    let folder = Folder::with_run();
    folder.write("glue/train.tsv", entailment(0, 16));
    folder.write("glue/dev.tsv", entailment(16, 8));
    let pretrain = "pretrain --data data --model config.json --batch-size 8 --learning-rate 3e-3";
    let build = "--input train.txt --vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5";
    let tune = "--task rte --data glue --checkpoint run --max-seq-length 48";
    folder.write("new/.lock", "");
    folder.write("tuning/.lock", "");
    folder.write("tuning/seed-1/dev_predictions.tsv", "");
    let cases = [
        ("run", format!("{pretrain} --steps 6 --save-every 2 --output run --resume")),
        ("run", format!("{pretrain} --steps 6 --save-every 2 --output run")),
        ("new", format!("{pretrain} --steps 6 --output new")),
        ("new", format!("make-pretrain-data {build} --output new")),
        ("data", format!("make-pretrain-data {build} --output data --overwrite")),
        ("new", format!("finetune {tune} --output new")),
        ("tuning", format!("finetune {tune} --output tuning")),
    ];
    for (used, line) in &cases {
        let lock = File::options().write(true).open(folder.at(used).join(".lock")).expect("a lock file");
        lock.lock().expect("a lock");
        let before = folder.snapshot(".");
        folder.refused(line, 6, "in use by another process");
        assert!(before == folder.snapshot("."), "{line} changed something");
    }
}

/// The same with two programs: the second finds the first one running, paused so that nothing else changes.
#[test]
fn second_run_in_one_folder_is_rejected() {
    let folder = Folder::with_data();
    until_in_time(|run| {
        let line = format!("{RUN} --save-every 1 --output {run}");
        let mut child = folder.start(&line);
        if !reaches(&folder, run, 2, &mut child) {
            child.wait().expect("its end");
            return None;
        }
        send(&child, "STOP");
        // A process on another core does not stop at once.
        sleep(Duration::from_millis(50));
        let before = folder.snapshot(run);
        let second = [folder.run(&line), folder.run(&format!("{line} --resume"))];
        let unchanged = before == folder.snapshot(run);
        let alive = child.try_wait().expect("its state").is_none();
        child.kill().expect("a kill");
        child.wait().expect("its end");
        if !alive {
            return None;
        }
        for ended in second {
            assert_eq!(ended.code, Some(6), "{}", ended.stderr);
        }
        assert!(unchanged, "the second process changed something");
        folder.ok(&format!("{line} --resume"));
        Some(())
    });
}
