//! Tests that a pre-training run is reproducible: bit for bit however often it is stopped and resumed, and to float
//! tolerance however its batches are split.

use std::fs;

use bert_inference::StopFlag;
use bert_storage::Class;
use bert_testing::disks::Faulty;
use bert_training::{
    CountingEvent, DataLoader, PretrainConfig, PretrainEvent, Resume, pretrain, pretrain_on,
};

use crate::world::{World, assert_same, run_to_end, run_until, stopped_step};

#[test]
fn resume_after_any_step_is_bit_identical() {
    let world = World::new(0.1);
    let flags = ["--gradient-accumulation-steps", "2"];
    run_to_end(&world.config("whole", &flags), false);
    for stop in 1..10 {
        let name = format!("stopped-{stop}");
        let config = world.config(&name, &flags);
        run_until(&config, false, stop);
        run_to_end(&config, true);
        assert_same(&world.at("whole"), &world.at(&name), &format!("stopped after step {stop}"));
    }
}

/// Stops a run at the first event that matches; returns its last finished step.
fn stopped_at(config: &PretrainConfig, resume: bool, is_it: fn(&PretrainEvent) -> bool) -> u64 {
    let stop = StopFlag::new();
    let flag = stop.clone();
    let result = pretrain_on(&Faulty::never(), config, resume.into(), &stop, &mut |event| {
        if is_it(&event) {
            flag.request(15);
        }
    });
    stopped_step(&result.unwrap_err())
}

/// A stop waits neither for an evaluation nor for the initial weights; the resumed run computes them.
#[test]
fn stopped_run_evaluates_after_the_resume() {
    let world = World::new(0.1);
    run_to_end(&world.config("whole", &[]), false);
    let config = world.config("stopped", &[]);
    assert_eq!(stopped_at(&config, false, |event| matches!(event, PretrainEvent::Started { .. })), 0);
    for step in [6, 10] {
        run_until(&config, true, step);
        let last = fs::read_to_string(world.at("stopped/evaluations.jsonl")).unwrap();
        assert!(!last.contains(&format!("\"step\":{step},")), "evaluated step {step}: {last}");
    }
    run_to_end(&config, true);
    assert_same(&world.at("whole"), &world.at("stopped"), "stopped before evaluations");
    let counts = world.config("counts", &["--initialization", "bigram"]);
    assert_eq!(stopped_at(&counts, false, |event| matches!(event, PretrainEvent::Counting(_))), 0);
    assert!(!world.at("counts").exists(), "a run began");
}

/// Nothing is counted or measured if the run's output folder is occupied.
#[test]
fn existing_output_is_rejected_first() {
    let world = World::new(0.1);
    run_to_end(&world.config("run", &[]), false);
    let mut budget = world.config("run", &[]);
    (budget.steps, budget.budget) = (None, Some("1h".parse().unwrap()));
    let mut named = world.config("run", &[]);
    named.data = world.at("no-such-data").into();
    for config in [world.config("run", &[]), budget, named] {
        let result = pretrain(&config, Resume::No, &StopFlag::new(), &mut |event| panic!("{event:?}"));
        assert!(result.unwrap_err().to_string().contains("already holds a run"));
    }
}

#[test]
fn budget_counts_the_text_once() {
    let world = World::new(0.1);
    let mut config = world.config("run", &["--model", "tiny", "--initialization", "bigram"]);
    (config.steps, config.budget) = (None, Some("40s".parse().unwrap()));
    let stop = StopFlag::new();
    let mut counted = 0;
    let result = pretrain_on(&Faulty::never(), &config, Resume::No, &stop, &mut |event| match event {
        PretrainEvent::Counting(CountingEvent::Progress(1.0) | CountingEvent::Reused) => counted += 1,
        PretrainEvent::Step { .. } => stop.request(15),
        _ => {}
    });
    assert!(
        result.as_ref().is_err_and(|error| matches!(error.class(), Class::Stopped(_))),
        "{:?}",
        result.map(|done| done.steps)
    );
    assert_eq!(counted, 1);
}

#[test]
fn resume_reports_other_held_out_data() {
    let world = World::new(0.1);
    world.build("other", |data| {
        data.input = vec![world.at("held-out.txt")];
        data.random_seed = 7;
    });
    let with_other = |flags: &[&str]| {
        let mut config = world.config("run", flags);
        config.eval_data = Some(world.at("other"));
        config
    };
    run_until(&world.config("run", &["--keep-best"]), false, 5);
    let best = |config: &PretrainConfig| pretrain(config, Resume::Yes, &StopFlag::new(), &mut |_| {});
    let error = best(&with_other(&["--keep-best"])).unwrap_err();
    assert!(error.text().contains("another configuration: held-out data: data was"), "{error}");
    assert!(best(&world.config("run", &["--keep-best", "--eval-instances", "3"])).is_err());
    let mut warnings = Vec::new();
    pretrain(&with_other(&[]), Resume::Yes, &StopFlag::new(), &mut |event| {
        if let PretrainEvent::Warning(text) = event {
            warnings.push(text);
        }
    })
    .unwrap();
    let text = "the held-out data differs from the data of the earlier evaluations: data was";
    assert!(warnings.len() == 1 && warnings[0].starts_with(text), "{warnings:?}");
}

#[test]
fn unreadable_checkpoint_folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = bert_inference::checkpoint::CheckpointFolder::in_run(folder.path());
    assert!(checkpoints.steps().unwrap().is_empty());
    fs::write(folder.path().join("checkpoints"), "no folder").unwrap();
    assert!(checkpoints.steps().is_err() && checkpoints.newest_good(&mut |_| {}).is_err());
}

#[test]
fn run_stopped_after_every_step_is_identical() {
    let world = World::new(0.1);
    run_to_end(&world.config("whole", &[]), false);
    let config = world.config("stopped", &[]);
    for step in 1..10 {
        run_until(&config, step > 1, step);
    }
    run_to_end(&config, true);
    assert_same(&world.at("whole"), &world.at("stopped"), "stopped after every step");
}

#[test]
fn kill_between_checkpoints_is_bit_identical() {
    let world = World::new(0.1);
    let config = world.config("whole", &[]);
    run_to_end(&config, false);
    // The state after a kill in step 8: records up to step 8, half a line, checkpoints up to step 6.
    let killed = world.config("killed", &[]);
    run_until(&killed, false, 8);
    fs::remove_dir_all(world.at("killed/checkpoints/step-00000008")).unwrap();
    let mut log = fs::OpenOptions::new().append(true).open(world.at("killed/metrics.jsonl")).unwrap();
    std::io::Write::write_all(&mut log, b"{\"step\":9,\"lo").unwrap();
    fs::create_dir_all(world.at("killed/checkpoints/.partial-step-00000009")).unwrap();
    let resumed = run_to_end(&killed, true);
    assert_eq!(resumed[0].step, 7);
    assert_same(&world.at("whole"), &world.at("killed"), "killed after step 8");
}

#[test]
fn newest_valid_checkpoint_is_used() {
    let world = World::new(0.1);
    run_to_end(&world.config("whole", &[]), false);
    let config = world.config("run", &[]);
    run_until(&config, false, 8);
    let path = world.at("run/checkpoints/step-00000008/optimizer.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let mut warnings = Vec::new();
    pretrain(&config, Resume::Yes, &StopFlag::new(), &mut |event| {
        if let PretrainEvent::Warning(text) = event {
            warnings.push(text);
        }
    })
    .unwrap();
    assert!(
        warnings.iter().any(|text| text.contains("step-00000008") && text.contains("optimizer.safetensors"))
    );
    assert_same(&world.at("whole"), &world.at("run"), "after a corrupt checkpoint");
}

#[test]
fn micro_batches_give_the_batch_gradient() {
    // Dropout is the same, too.
    let world = World::new(0.1);
    let whole = run_to_end(&world.config("k1", &[]), false);
    for k in ["2", "3", "8"] {
        let parts = run_to_end(&world.config(&format!("k{k}"), &["--gradient-accumulation-steps", k]), false);
        for (a, b) in whole.iter().zip(&parts) {
            // Only rounding differs, but Adam accumulates it from step to step.
            assert!((a.loss - b.loss).abs() < 2e-5 * a.loss, "{k} micro-batches: {a:?} {b:?}");
            assert!((a.gradient_norm - b.gradient_norm).abs() < 1e-4 * a.gradient_norm);
        }
    }
}

#[test]
fn recomputed_layers_give_the_same_bits() {
    let world = World::new(0.1);
    for (kernels, micro_batches) in [("fused", "1"), ("fused", "2"), ("plain", "1")] {
        let flags = ["--kernels", kernels, "--gradient-accumulation-steps", micro_batches, "--recompute"];
        let run = |what: &str, flags: &[&str]| {
            let config = world.config(&format!("{what}-{kernels}-{micro_batches}"), flags);
            run_to_end(&config, false)
        };
        let kept = run("kept", &flags[..4]);
        let again = run("again", &flags);
        if kernels == "fused" {
            assert_eq!(again, kept, "{micro_batches} micro-batches");
        }
        // burn's own operations add the gradients of queries, keys, values and residual in a different order.
        assert!(again.iter().zip(&kept).all(|(a, b)| (a.loss - b.loss).abs() < 2e-5 * b.loss));
    }
}

#[test]
fn run_resumes_with_recomputation() {
    let world = World::new(0.1);
    let whole = run_to_end(&world.config("whole", &[]), false);
    run_until(&world.config("cut", &[]), false, 5);
    let rest = run_to_end(&world.config("cut", &["--recompute"]), true);
    assert_eq!(rest, whole[whole.len() - rest.len()..]);
}

#[test]
fn resume_rejects_another_configuration() {
    let world = World::new(0.1);
    run_until(&world.config("run", &[]), false, 2);
    let changed = world.config("run", &["--seed", "9", "--learning-rate", "2e-3"]);
    let error = pretrain(&changed, Resume::Yes, &StopFlag::new(), &mut |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("`.seed` was 12345, now 9") && text.contains("`.learning_rate` was 0.001"),
        "{text}"
    );
    assert_eq!(error.exit_code(), 4);
    // The save interval may change.
    run_to_end(&world.config("run", &["--save-every", "5"]), true);
}

#[test]
fn every_epoch_of_the_loader_has_every_instance_once() {
    let world = World::new(0.1);
    let mut loader = DataLoader::open(&world.at("data"), 5).unwrap();
    let rows = loader.rows();
    let stored = loader.stored(0, rows).unwrap();
    let mut expected: Vec<&[i32]> = stored.padded.input_ids.chunks(stored.padded.seq_length).collect();
    expected.sort_unstable();
    let mut orders = Vec::new();
    for epoch in 0..3 {
        let batch = loader.batch(epoch * rows, rows as usize).unwrap();
        let mut got: Vec<&[i32]> = batch.padded.input_ids.chunks(batch.padded.seq_length).collect();
        got.sort_unstable();
        assert_eq!(got, expected);
        orders.push(batch);
    }
    assert_ne!(orders[0], orders[1]);
    assert_ne!(orders[1], orders[2]);
    // Any position can be reached directly, with the same samples as when counting from the start.
    let mut fresh = DataLoader::open(&world.at("data"), 5).unwrap();
    assert_eq!(fresh.batch(2 * rows, rows as usize).unwrap(), orders[2]);
}

#[test]
fn corrupt_checkpoint_does_not_evict_valid_ones() {
    let world = World::new(0.1);
    run_to_end(&world.config("whole", &[]), false);
    let flags = ["--keep-checkpoints", "1"];
    let config = world.config("run", &[&flags[..], &["--keep-checkpoints", "2"]].concat());
    run_until(&config, false, 9);
    let path = world.at("run/checkpoints/step-00000009/model.safetensors");
    fs::write(&path, "corrupt").unwrap();
    // One step after the valid one, and still before the corrupt one.
    let config = world.config("run", &flags);
    run_until(&config, true, 7);
    let checkpoints = bert_inference::checkpoint::CheckpointFolder::in_run(&config.output);
    assert_eq!(checkpoints.steps().unwrap(), [7]);
    checkpoints.newest_good(&mut |error| panic!("{error}")).unwrap().unwrap();
    run_to_end(&config, true);
    assert_same(&world.at("whole"), &world.at("run"), "after a corrupt checkpoint");
}

#[test]
fn length_buckets_resume_bit_exactly() {
    let world = World::new(0.1);
    let flags = ["--length-buckets", "4"];
    run_to_end(&world.config("whole", &flags), false);
    let config = world.config("stopped", &flags);
    run_until(&config, false, 5);
    run_to_end(&config, true);
    assert_same(&world.at("whole"), &world.at("stopped"), "with length buckets");
}

#[test]
fn nsp_off_has_no_next_sentence_loss() {
    let world = World::new(0.1);
    world.build("single", |data| data.nsp = bert_data::Nsp::Off);
    let data = world.at("single");
    let eval_data = Some(data.clone());
    let config = PretrainConfig { data: data.into(), eval_data, ..world.config("run", &["--allow-overlap"]) };
    let metrics = run_to_end(&config, false);
    assert!(metrics.iter().all(|step| step.next_sentence_loss == 0.0 && step.loss == step.masked_lm_loss));
    assert!(metrics.iter().all(|step| step.masked_lm_loss > 0.0 && step.gradient_norm > 0.0));
}
