//! Tests that a fine-tuning stopped during an evaluation resumes to the same results, and that micro-batches compute
//! the step of the whole batch.

use std::fs;
use std::path::Path;

use bert_finetuning::{
    FinetuneConfig, FinetuneEvent, FinetuneReport, MultitaskConfig, Sampling, finetune, multitask,
};
use bert_inference::StopFlag;
use bert_storage::Class;
use bert_training::Resume;
use clap::{Args, Command, FromArgMatches};
use serde_json::{Value, json};

use crate::world::{World, run_to_end};

const SIGTERM: i32 = 15;

/// Returns a world with a pre-trained run and the files of RTE and MRPC.
fn world() -> World {
    let world = World::new(0.1);
    run_to_end(&world.config("run", &[]), false);
    let words = ["river", "stone", "bread", "engine", "violin", "harbour", "planet", "library"];
    let text = |row: usize| {
        words.iter().cycle().skip(row % 7).take(1 + row % 5).copied().collect::<Vec<_>>().join(" ")
    };
    let rte = |rows: std::ops::Range<usize>| {
        let row = |row: usize| {
            let label = if row.is_multiple_of(3) { "entailment" } else { "not_entailment" };
            format!("{row}\t{}\t{}\t{label}\n", text(row), text(row * 3 + 1))
        };
        "index\tsentence1\tsentence2\tlabel\n".to_string() + &rows.map(row).collect::<String>()
    };
    let mrpc = |rows: std::ops::Range<usize>| {
        let row = |row: usize| format!("{}\t1\t2\t{}\t{}\n", row % 2, text(row), text(row * 3 + 1));
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n".to_string() + &rows.map(row).collect::<String>()
    };
    for (task, train, dev) in [("RTE", rte(0..22), rte(22..34)), ("MRPC", mrpc(0..22), mrpc(22..34))] {
        let folder = world.at("glue").join(task);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("train.tsv"), train).unwrap();
        fs::write(folder.join("dev.tsv"), dev).unwrap();
    }
    world
}

/// Returns the configuration of three epochs of three steps each; `more` are additional flags.
fn config(world: &World, output: &str, more: &[&str]) -> FinetuneConfig {
    let command =
        FinetuneConfig::augment_args(Command::new("test").no_binary_name(true).args_override_self(true));
    let path = |name: &str| world.at(name).to_str().unwrap().to_string();
    let flags = format!(
        "--task rte --data {} --checkpoint {} --output {} --max-seq-length 32 --num-train-epochs 3 \
         --train-batch-size 8 --learning-rate 1e-2",
        path("glue"),
        path("run"),
        path(output)
    );
    let flags = flags.split_whitespace().chain(more.iter().copied());
    FinetuneConfig::from_arg_matches(&command.try_get_matches_from(flags).unwrap()).unwrap()
}

fn results(report: &FinetuneReport) -> Value {
    json!([report.runs, report.dev, report.test])
}

fn model(world: &World, output: &str) -> Vec<u8> {
    fs::read(world.at(output).join("model/model.safetensors")).unwrap()
}

#[test]
fn stop_during_an_evaluation_leaves_it_to_the_resumed_run() {
    let world = world();
    for (name, more) in
        [("dev", &[][..]), ("held-out", &["--holdout", "0.2"]), ("patient", &["--patience", "1"])]
    {
        let whole = config(&world, &format!("{name}-whole"), more);
        let whole_report = finetune(&whole, Resume::No, &StopFlag::new(), &mut |_| {}).unwrap();
        let steps = whole_report.runs[0].history.last().unwrap().step;
        let cut = config(&world, &format!("{name}-cut"), more);
        for (at, epoch) in whole_report.runs[0].history.iter().enumerate() {
            let stop = StopFlag::new();
            let mut evaluated = 0;
            let result = finetune(&cut, (at > 0).into(), &stop, &mut |event| match event {
                FinetuneEvent::Step { step, .. } if step == epoch.step => stop.request(SIGTERM),
                FinetuneEvent::Evaluated { .. } => evaluated += 1,
                _ => {}
            });
            let text = result.map(|report| report.dev).unwrap_err().to_string();
            assert!(text.starts_with(&format!("stopped after step {};", epoch.step)), "{name}: {text}");
            // The evaluation owed by the run before, but not the one that was stopped.
            assert_eq!(evaluated, usize::from(at > 0), "{name}, epoch {at} of {steps} steps");
        }
        let report = finetune(&cut, Resume::Yes, &StopFlag::new(), &mut |_| {}).unwrap();
        assert_eq!(results(&report), results(&whole_report), "{name}");
        assert_eq!(model(&world, &format!("{name}-cut")), model(&world, &format!("{name}-whole")), "{name}");
    }
}

#[test]
fn stop_before_the_last_scores_is_resumed() {
    let world = world();
    let more = ["--holdout", "0.2"];
    let whole = finetune(&config(&world, "whole", &more), Resume::No, &StopFlag::new(), &mut |_| {}).unwrap();
    let steps = whole.runs[0].history.last().unwrap().epoch;
    let cut = config(&world, "cut", &more);
    for resume in [false, true] {
        let stop = StopFlag::new();
        let result = finetune(&cut, resume.into(), &stop, &mut |event| match event {
            FinetuneEvent::Evaluated { epoch, .. } if epoch == steps => stop.request(SIGTERM),
            FinetuneEvent::Resumed { .. } => stop.request(SIGTERM),
            _ => {}
        });
        assert!(
            result.as_ref().is_err_and(|error| matches!(error.class(), Class::Stopped(_))),
            "resume {resume}"
        );
    }
    let report = finetune(&cut, Resume::Yes, &StopFlag::new(), &mut |_| {}).unwrap();
    assert_eq!(results(&report), results(&whole));
    assert_eq!(model(&world, "cut"), model(&world, "whole"));
}

#[test]
fn stop_during_an_evaluation_of_several_tasks_is_resumed() {
    let world = world();
    let several = |output: &str| {
        let of_task = |task: &str| {
            let output = Path::new(output).join(task);
            config(&world, output.to_str().unwrap(), &["--task", task, "--select", "last"])
        };
        MultitaskConfig {
            tasks: vec![of_task("rte"), of_task("mrpc")],
            sampling: Sampling::Proportional,
            temperature: 1.0,
            output: world.at(output),
        }
    };
    let whole = multitask(&several("whole"), Resume::No, &StopFlag::new(), &mut |_| {}).unwrap();
    let stop = StopFlag::new();
    let mut evaluated = 0;
    // The last step is the end of an epoch.
    let result = multitask(&several("cut"), Resume::No, &stop, &mut |event| match event {
        FinetuneEvent::Step { step, steps, .. } if step == steps => stop.request(SIGTERM),
        FinetuneEvent::TasksEvaluated { .. } => evaluated += 1,
        _ => {}
    });
    assert!(result.as_ref().is_err_and(|error| matches!(error.class(), Class::Stopped(_))));
    assert_eq!(evaluated + 1, whole.epochs.len());
    let report = multitask(&several("cut"), Resume::Yes, &StopFlag::new(), &mut |_| {}).unwrap();
    assert_eq!(json!(report), json!(whole));
    for task in ["rte", "mrpc"] {
        let model = |output: &str| model(&world, Path::new(output).join(task).to_str().unwrap());
        assert_eq!(model("cut"), model("whole"), "{task}");
    }
}

#[test]
fn micro_batches_have_the_masks_of_the_batch() {
    let world = world();
    let losses = |parts: &str| {
        let config = config(&world, parts, &["--gradient-accumulation-steps", parts]);
        let mut losses = Vec::new();
        finetune(&config, Resume::No, &StopFlag::new(), &mut |event| {
            if let FinetuneEvent::Step { loss, .. } = event {
                losses.push(loss);
            }
        })
        .unwrap();
        losses
    };
    let whole = losses("1");
    for parts in ["3", "8"] {
        for (found, expected) in losses(parts).iter().zip(&whole) {
            assert!(
                (found - expected).abs() < 1e-4,
                "{parts} micro-batches: {found}, whole batch: {expected}"
            );
        }
    }
}

#[test]
fn dev_examples_of_the_training_set_are_found() {
    let world = world();
    let rte = world.at("glue").join("RTE");
    let rows = |file: &str| fs::read_to_string(rte.join(file)).unwrap();
    let train = rows("train.tsv");
    let report = |dev: &str, output: &str, more: &[&str]| {
        fs::write(rte.join("dev.tsv"), dev).unwrap();
        finetune(&config(&world, output, more), Resume::No, &StopFlag::new(), &mut |_| {})
    };
    // Half of dev, and then all of it, is in train.
    let half: Vec<&str> = train.lines().take(7).collect();
    let dev = rows("dev.tsv");
    let half = half.join("\n") + "\n" + &dev.lines().skip(1).take(6).collect::<Vec<_>>().join("\n") + "\n";
    let found = report(&half, "half", &[]).unwrap();
    let shared = &found.shared_texts[0];
    assert_eq!((shared.examples, shared.equal), (12, 6));
    let warning = "6 of 12 examples of dev (50.0 %) are in the training set too";
    assert!(found.warnings.iter().any(|text| text.contains(warning)), "{:?}", found.warnings);
    let card = fs::read_to_string(world.at("half/model/README.md")).unwrap();
    assert!(card.contains(warning) && card.contains("best of 3 epochs on dev"), "{card}");
    let error = report(&train, "all", &[]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("`.allow_overlap`: 22 of 22 examples of dev are in the training data too"),
        "{error}"
    );
    // A selection of the training set does not hide that dev is in it.
    for more in [["--holdout", "0.2"], ["--max-train-examples", "8"]] {
        let error = report(&train, "part", &more).unwrap_err().to_string();
        assert!(error.contains("22 of 22 examples of dev are in the training data too"), "{more:?}: {error}");
    }
    let eleven: String = train.lines().take(12).map(|line| format!("{line}\n")).collect();
    let small = report(&eleven, "small", &[]).unwrap();
    let warning = "11 of 11 examples of dev (100.0 %) are in the training set too";
    assert!(small.warnings.iter().any(|text| text.contains(warning)), "{:?}", small.warnings);
    let allowed = report(&train, "all", &["--allow-overlap"]).unwrap();
    assert_eq!(allowed.shared_texts[0].equal, 22);
    let selection = allowed.selection;
    assert_eq!(
        (selection.best_on.as_deref(), selection.epochs, selection.last_epoch.is_some()),
        (Some("dev"), 3, true)
    );
}
