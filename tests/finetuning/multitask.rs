//! `bert multitask`: one encoder, several tasks.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Ended, Folder, ended, number};
use crate::finetuning::tasks::with_entailment;

fn with_two_tasks() -> Folder {
    let folder = with_entailment();
    let row = |at: usize| {
        let word = if at.is_multiple_of(2) { "warm" } else { "cold" };
        format!("the river is {word} today\t{}\n", 1 - at % 2)
    };
    let rows = |count: usize| "sentence\tlabel\n".to_string() + &(0..count).map(row).collect::<String>();
    folder.write("glue/SST-2/train.tsv", rows(20));
    folder.write("glue/SST-2/dev.tsv", rows(10));
    folder
}

/// Checks that a repetition gives the same bits, and another sampling other draws.
fn check_repetition_and_sampling(folder: &Folder, line: &str, flags: &str, report: &Value) {
    folder.ok(&format!("{line} --output again {flags}"));
    assert_eq!(
        folder.read("again/rte/model/model.safetensors"),
        folder.read("both/rte/model/model.safetensors")
    );
    let shown =
        folder.ok(&format!("{line} --sampling temperature --temperature 1e9 --output equal {flags}")).stdout;
    assert!(shown.contains("epoch  task") && shown.contains("train loss"), "{shown}");
    let equal = &folder.json("equal/multitask.json")[0];
    assert_eq!((&equal["sampling"], &equal["temperature"]), (&json!("temperature"), &json!(1e9)));
    assert_ne!(equal["epochs"], report["epochs"]);
}

#[test]
fn one_encoder_learns_two_tasks() {
    let folder = with_two_tasks();
    let line = "bert multitask --checkpoint run --data glue --tasks rte,sst-2 --seed 3";
    let flags = "-- --max-seq-length 48 --num-train-epochs 4 --train-batch-size 4 --learning-rate 3e-3";
    let report = folder.ok(&format!("{line} --output both --json {flags}")).json();
    assert_eq!(report, folder.json("both/multitask.json")[0]);
    assert_eq!(report["sampling"], json!("annealed"));
    let epochs = report["epochs"].as_array().expect("epochs");
    assert_eq!(epochs.len(), 4);
    // (40 + 20) / 4 * 4 steps.
    let steps = |task: usize| (0..4).map(|epoch| number(&epochs[epoch][task], "/steps")).sum::<f64>();
    assert!(steps(0) + steps(1) == 60.0 && steps(0).min(steps(1)) > 10.0, "{} {}", steps(0), steps(1));
    let losses: Vec<f64> = [0, 3].map(|epoch| number(&epochs[epoch][1], "/train_loss")).into();
    assert!(losses[1] < losses[0], "{losses:?}");

    // Each folder is like an output of finetune; all have the same, trained encoder.
    let weights = |name: &str| folder.tensors(&format!("{name}/model.safetensors"));
    let rte = weights("both/rte/model");
    let sst = weights("both/sst-2/model");
    let start = weights("run/checkpoints/step-00000006");
    for (name, tensor) in rte.iter().filter(|(name, _)| name.starts_with("bert.")) {
        assert_eq!(*tensor, sst[name], "{name}");
        // The bias of the keys has no gradient.
        assert!(name.ends_with("key.bias") || *tensor != start[name], "{name}");
    }
    assert_ne!(rte["classifier.weight"], sst["classifier.weight"]);
    for (at, task) in ["rte", "sst-2"].into_iter().enumerate() {
        let own = &folder.json(&format!("both/{task}/report.json"))[0];
        let last = &epochs[3][at]["dev"];
        assert!((number(own, "/dev/metrics/0/mean") - number(last, "/accuracy")).abs() < 1e-12);
        folder.ok(&format!("bert report both/{task}"));
        assert_eq!(own["identity"]["together"], json!("rte, sst-2 (sampling: annealed)"));
        assert!(
            folder
                .text(&format!("both/{task}/model/README.md"))
                .contains("| trained together with | rte, sst-2 ")
        );
    }
    let predicted =
        folder.ok("bert predict --checkpoint both/sst-2 --input glue/SST-2/dev.tsv --format text").stdout;
    assert_eq!(predicted.lines().count(), 11);

    check_repetition_and_sampling(&folder, line, flags, &report);
}

#[test]
fn multitask_rejects_unsupported_flags() {
    let folder = with_two_tasks();
    for (flags, message) in [
        ("--tasks rte --output out", "--tasks: must be two or more"),
        ("--tasks rte,rte --output out", "--tasks: must differ from each other"),
        (
            "--tasks rte,squad --output out",
            "--tasks: squad cannot be trained with other tasks; use rte, sst-2,",
        ),
        ("--tasks rte,sst-2 --temperature 4 --output out", "--temperature: needs --sampling temperature"),
        (
            "--tasks rte,sst-2 --sampling temperature --temperature 0.5 --output out",
            "--temperature is 0.5, but must be at least 1",
        ),
        ("--tasks rte,sst-2 --output out -- --adapter pfeiffer", "--adapter: works with one task only"),
        ("--tasks rte,sst-2 --output out -- --holdout 0.1", "--holdout: works with one task only"),
        (
            "--tasks rte,sst-2 --output out -- --learning-rate 1e-3,1e-4",
            "--learning-rate: works with one task only",
        ),
        (
            "--tasks rte,sst-2 --output out -- --select last",
            "--select cannot be given after `--`: this command sets it, here to last",
        ),
        ("--tasks rte,sst-2 --output out -- --seeds=1-3", "--seeds cannot be given after `--`"),
    ] {
        folder.refused(&format!("bert multitask --checkpoint run --data glue {flags}"), 2, message);
        assert!(!folder.at("out").exists(), "{flags}");
    }
    folder.refused(
        "bert multitask --checkpoint run --data glue --tasks rte,cola --output out -- --max-seq-length 48",
        1,
        "no train file of task cola",
    );
    assert!(!folder.at("out").exists());
}

#[test]
fn layer_wise_learning_rates_apply() {
    let folder = with_two_tasks();
    let line = "bert multitask --checkpoint run --data glue --tasks rte,sst-2 --output";
    let flags = "-- --max-seq-length 48 --train-batch-size 4 --learning-rate 3e-3 --num-train-epochs 1";
    folder.ok(&format!("{line} plain {flags}"));
    folder.ok(&format!("{line} decayed {flags} --layer-decay 0.5"));
    let weights = |name: &str| folder.read(&format!("{name}/rte/model/model.safetensors"));
    assert_ne!(weights("plain"), weights("decayed"));
}

#[test]
fn stopped_multitask_run_is_bit_identical() {
    let folder = with_two_tasks();
    let line = "bert multitask --checkpoint run --data glue --tasks rte,sst-2 --output";
    let flags = "-- --max-seq-length 48 --train-batch-size 4 --learning-rate 3e-3 --num-train-epochs 60";
    let written = |name: &str| {
        let of_task = |task: &str| folder.read(&format!("{name}/{task}/model/model.safetensors"));
        (of_task("rte"), of_task("sst-2"), folder.read(&format!("{name}/multitask.json")))
    };
    folder.ok(&format!("{line} whole {flags}"));
    for (signal, code) in [("-TERM", Some(143)), ("-KILL", None)] {
        let name = format!("stopped{signal}");
        let ended = stopped_midway(&folder, &name, &format!("{line} {name} {flags}"), signal);
        assert_eq!(ended.code, code, "{}", ended.stderr);
        if code.is_some() {
            ended.stderr_has("a checkpoint was saved");
            folder.refused(
                &format!("{line} {name} --resume {flags}").replace("3e-3", "1e-3"),
                4,
                "learning_rate",
            );
        }
        let resumed = folder.ok(&format!("{line} {name} --resume {flags}"));
        assert_eq!(resumed.stderr.contains("continues after step"), code.is_some(), "{}", resumed.stderr);
        assert_eq!(written(&name), written("whole"));
        assert!(!folder.at(&format!("{name}/.runs")).exists());
    }
    let nothing = folder.run(&format!("{line} nowhere --resume {flags}"));
    assert_eq!(nothing.code, Some(1), "{}", nothing.stderr);
}

#[test]
fn resume_rejects_outputs_of_other_commands() {
    let folder = with_two_tasks();
    let tune = "--checkpoint run --data glue --max-seq-length 48 --num-train-epochs 1 --train-batch-size 8";
    for task in ["rte", "sst-2"] {
        folder.ok(&format!("finetune --task {task} {tune} --output other/{task}"));
    }
    let visible = || {
        let mut all = folder.snapshot("other");
        all.retain(|name, _| !name.starts_with('.'));
        all
    };
    let before = visible();
    let line = "bert multitask --checkpoint run --data glue --tasks rte,sst-2 --output other";
    for resume in ["--resume", ""] {
        folder.refused(&format!("{line} {resume} -- --max-seq-length 48"), 1, "holds a finished fine-tuning");
        assert!(visible() == before, "a file has changed");
    }
}

/// Starts runs in the folder `name` until a signal reaches one between its first step and its last.
fn stopped_midway(folder: &Folder, name: &str, line: &str, signal: &str) -> Ended {
    let mut patience = Duration::from_millis(100);
    for _ in 0..20 {
        let mut child = folder.start(line);
        while !folder.at(&format!("{name}/.runs")).exists() {
            assert!(child.try_wait().expect("a process").is_none(), "it ended before it began");
            sleep(Duration::from_millis(5));
        }
        sleep(patience);
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill runs").success());
        let ended = ended(line, child.wait_with_output().expect("it ends"));
        match ended.code {
            None if signal == "-KILL" => return ended,
            Some(0) => patience /= 2,
            _ if ended.stderr.contains("a checkpoint was saved") => return ended,
            _ => patience *= 2,
        }
        std::fs::remove_dir_all(folder.at(name)).expect("removed");
    }
    panic!("it was never stopped between two steps");
}
