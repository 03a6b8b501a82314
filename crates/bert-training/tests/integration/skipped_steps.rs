//! Steps whose loss or gradient is not finite.

use std::fs;

use bert_inference::StopFlag;
use bert_inference::checkpoint::CheckpointFolder;
use bert_training::{PretrainConfig, PretrainEvent, Resume, pretrain};

use crate::world::{World, assert_same, run_to_end, run_until};

/// Flags that make the weights overflow with the first update.
const DIVERGES: [&str; 8] =
    ["--learning-rate", "1e30", "--max-gradient-norm", "0", "--warmup-steps", "0", "--save-every", "1"];

#[test]
fn too_many_skipped_steps_stop_the_run() {
    let world = World::new(0.1);
    let config = world.config("run", &[&DIVERGES[..], &["--max-skipped-steps", "3"]].concat());
    let mut warnings = Vec::new();
    let result = pretrain(&config, Resume::No, &StopFlag::new(), &mut |event| {
        if let PretrainEvent::Warning(text) = event {
            warnings.push(text);
        }
    });
    let error = result.unwrap_err();
    assert_eq!(error.exit_code(), 5);
    let text = error.to_string();
    assert!(text.starts_with("step 5: loss ") && text.contains("(`.max_skipped_steps` 3)"), "{text}");
    let counts = ["(1 in a row, maximum 3; 1 in total)", "(2 in a row", "(3 in a row"];
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings.iter().zip(counts).all(|(text, count)| text.contains(count)), "{warnings:?}");
    // No checkpoint of a skipped step has replaced it.
    let checkpoints = CheckpointFolder::in_run(&world.at("run"));
    assert_eq!(checkpoints.steps().unwrap(), [1]);
    let state = checkpoints.newest_good(&mut |error| panic!("{error}")).unwrap().unwrap().state;
    assert_eq!((state.step, state.updates, state.skipped.all), (1, 1, 0));
    // With a maximum of zero, the first non-finite step ends the run.
    let config = world.config("strict", &[&DIVERGES[..], &["--max-skipped-steps", "0"]].concat());
    let error = pretrain(&config, Resume::No, &StopFlag::new(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().starts_with("step 2: loss ") && error.exit_code() == 5, "{error}");
}

/// Writes a model with position embeddings that overflow in the forward pass and returns its folder: batches with a row
/// that long have no finite loss.
fn with_a_poisoned_position(world: &World) -> String {
    run_to_end(&world.config("healthy", &["--steps", "1"]), false);
    let folder = world.at("healthy/checkpoints/step-00000001");
    let path = folder.join("model.safetensors");
    let mut tensors = bert_model::read_safetensors(&path).unwrap();
    let (shape, values) = tensors.get_mut("bert.embeddings.position_embeddings.weight").unwrap();
    let width = shape[1];
    for (at, value) in values.iter_mut().skip(31 * width).enumerate() {
        *value = if at % 2 == 0 { 1e38 } else { -1e38 };
    }
    let poisoned = world.at("poisoned");
    fs::create_dir(&poisoned).unwrap();
    for name in ["config.json", "vocab.txt", "tokenizer_config.json"] {
        fs::copy(folder.join(name), poisoned.join(name)).unwrap();
    }
    fs::write(poisoned.join("model.safetensors"), bert_model::named_tensors_to_bytes(&tensors)).unwrap();
    poisoned.to_str().unwrap().to_string()
}

#[test]
fn skipped_step_changes_no_weights() {
    let world = World::new(0.1);
    let poisoned = with_a_poisoned_position(&world);
    let config = |run: &str| {
        let config =
            world.config(run, &["--batch-size", "2", "--length-buckets", "4", "--max-skipped-steps", "9"]);
        PretrainConfig { model: None, init_checkpoint: Some(poisoned.clone().into()), ..config }
    };
    let metrics = run_to_end(&config("whole"), false);
    let skipped: Vec<u64> = metrics.iter().filter(|m| m.skipped).map(|m| m.step).collect();
    assert!(!skipped.is_empty() && skipped.len() < metrics.len(), "{skipped:?}");
    assert!(metrics.iter().all(|m| m.skipped != (m.loss.is_finite() && m.gradient_norm.is_finite())));
    let text = fs::read_to_string(world.at("whole/metrics.jsonl")).unwrap();
    assert_eq!(text.matches("\"skipped\":true").count(), skipped.len());
    let state = CheckpointFolder::in_run(&world.at("whole"))
        .newest_good(&mut |error| panic!("{error}"))
        .unwrap()
        .unwrap()
        .state;
    assert_eq!((state.skipped.all, state.updates), (skipped.len() as u64, 10 - skipped.len() as u64));
    for stop in 1..10 {
        let config = config(&format!("stopped-{stop}"));
        run_until(&config, false, stop);
        run_to_end(&config, true);
        assert_same(&world.at("whole"), &config.output, &format!("stopped after step {stop}"));
    }
}
