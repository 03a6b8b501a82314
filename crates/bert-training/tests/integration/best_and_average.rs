//! Tests the models saved next to a run's checkpoints: the best, and the average of the last.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bert_inference::StopFlag;
use bert_inference::checkpoint::CheckpointFolder;
use bert_model::read_safetensors;
use bert_testing::disks::Faulty;
use bert_training::{EvaluationRecord, PretrainEvent, Resume, pretrain_on};

use crate::world::{World, run_to_end, run_until};

const FLAGS: [&str; 9] = [
    "--keep-best",
    "--average-last",
    "3",
    "--eval-every",
    "1",
    "--save-every",
    "2",
    "--keep-checkpoints",
    "1",
];

/// Returns the bytes of every file of both models.
fn models(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for model in ["best", "average"] {
        for entry in fs::read_dir(run.join(model)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(run).unwrap().to_str().unwrap().to_string();
            found.insert(name, fs::read(path).unwrap());
        }
    }
    found
}

fn evaluation(folder: &Path) -> EvaluationRecord {
    serde_json::from_slice(&fs::read(folder.join("evaluation.json")).unwrap()).unwrap()
}

#[test]
fn average_model_is_the_mean_of_checkpoints() {
    let world = World::new(0.1);
    let config = world.config("run", &FLAGS);
    // A checkpoint requested by a signal is not part of the average, and does not displace another one.
    run_until(&config, false, 9);
    let outcome =
        pretrain_on(&Faulty::never(), &config, Resume::Yes, &StopFlag::new(), &mut |event| match event {
            PretrainEvent::Averaged { steps, .. } => assert_eq!(steps, [6, 8, 10]),
            PretrainEvent::Warning(text) => panic!("{text}"),
            _ => {}
        })
        .unwrap();
    let checkpoints = CheckpointFolder::in_run(&config.output);
    assert_eq!(checkpoints.steps().unwrap(), [6, 8, 10]);
    let parts =
        [6, 8, 10].map(|step| read_safetensors(&checkpoints.path(step).join("model.safetensors")).unwrap());
    let mean = read_safetensors(&world.at("run/average/model.safetensors")).unwrap();
    assert_eq!(mean.len(), parts[0].len());
    let mut moved = 0;
    for (name, (shape, values)) in &mean {
        assert_eq!(*shape, parts[0][name].0, "{name}");
        for (i, value) in values.iter().enumerate() {
            let saved = parts.each_ref().map(|part| f64::from(part[name].1[i]));
            let exact = saved.iter().sum::<f64>() / 3.0;
            let bound = 2e-7 * saved.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            assert!((f64::from(*value) - exact).abs() <= bound, "{name}[{i}]: {value} is not {exact}");
            moved += usize::from(saved[0] != saved[2]);
        }
    }
    assert!(moved > 1000, "the checkpoints are almost the same");
    let record = evaluation(&world.at("run/average"));
    assert_eq!((record.step, Some(record.evaluation)), (10, outcome.average));
}

#[test]
fn best_model_has_the_lowest_held_out_loss() {
    let world = World::new(0.1);
    // A learning rate at which the loss rises again.
    let config = world.config(
        "run",
        &[&FLAGS[..], &["--learning-rate", "0.3", "--warmup-steps", "0", "--schedule", "constant"]].concat(),
    );
    run_to_end(&config, false);
    let log = fs::read_to_string(world.at("run/evaluations.jsonl")).unwrap();
    let records = log.lines().map(|line| serde_json::from_str::<EvaluationRecord>(line).unwrap());
    let loss = |record: &EvaluationRecord| record.evaluation.masked_lm_loss;
    let lowest = records.filter(|record| record.step > 0).min_by(|a, b| loss(a).total_cmp(&loss(b))).unwrap();
    assert!((1..10).contains(&lowest.step), "the loss should rise again: {lowest:?}");
    assert_eq!(evaluation(&world.at("run/best")), lowest);
    // A shorter schedule would end with different weights, so the weights are compared with a run stopped at that step.
    let config = world.config(
        "stopped",
        &[&FLAGS[..], &["--learning-rate", "0.3", "--warmup-steps", "0", "--schedule", "constant"]].concat(),
    );
    run_until(&config, false, lowest.step);
    let weights = |path: &str| fs::read(world.at(path)).unwrap();
    let stopped = format!("stopped/checkpoints/step-{:08}/model.safetensors", lowest.step);
    assert!(weights("run/best/model.safetensors") == weights(&stopped));
}

#[test]
fn interrupted_run_saves_the_same_models() {
    let world = World::new(0.1);
    run_to_end(&world.config("whole", &FLAGS), false);
    let whole = models(&world.at("whole"));
    assert!(whole.keys().any(|name| name == "best/vocab.txt"), "{:?}", whole.keys());
    for stop in [1, 5, 6, 9] {
        let config = world.config(&format!("stopped-{stop}"), &FLAGS);
        run_until(&config, false, stop);
        // The state after a kill between weights and figures, or before the newest checkpoint.
        match stop {
            5 => fs::remove_file(config.output.join("best/evaluation.json")).unwrap(),
            6 => fs::remove_dir_all(config.output.join("checkpoints/step-00000006")).unwrap(),
            _ => {}
        }
        run_to_end(&config, true);
        let stopped = models(&config.output);
        assert!(stopped.keys().eq(whole.keys()));
        let other: Vec<_> = whole.iter().filter(|(name, bytes)| stopped[*name] != **bytes).collect();
        assert!(other.is_empty(), "stopped after step {stop}: {:?}", other.iter().map(|(name, _)| name));
    }
}
