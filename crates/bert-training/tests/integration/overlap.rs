//! Tests that a run compares its evaluation data with everything that it trains on.

use std::fs;

use bert_inference::StopFlag;
use bert_inference::checkpoint::TrainerState;
use bert_training::{
    Error, EvaluationRecord, PretrainConfig, PretrainEvent, Resume, RunFile, StepMetrics, TrainingData,
    pretrain,
};

use crate::world::{World, run_to_end};

/// Starts a run; returns its warnings and its error.
fn start(config: &PretrainConfig) -> (Vec<String>, Result<(), Error>) {
    let mut warnings = Vec::new();
    let result = pretrain(config, Resume::No, &StopFlag::new(), &mut |event| {
        if let PretrainEvent::Warning(text) = event {
            warnings.push(text);
        }
    });
    (warnings, result.map(drop))
}

fn refusal(config: &PretrainConfig) -> String {
    start(config).1.unwrap_err().to_string()
}

/// Builds `half`, whose text has the first half of the documents of the corpus and as many others.
fn build_half(world: &World) {
    let text = fs::read_to_string(world.at("text.txt")).unwrap();
    let other = fs::read_to_string(world.at("held-out.txt")).unwrap();
    let documents = text.split("\n\n").take(4).chain(other.split("\n\n").take(4));
    fs::write(world.at("half.txt"), documents.collect::<Vec<_>>().join("\n\n")).unwrap();
    world.build("half", |data| data.input = vec![world.at("half.txt")]);
}

#[test]
fn evaluation_on_the_training_text_is_refused() {
    let world = World::new(0.1);
    // The same text in another order of other instances.
    world.build("again", |data| (data.random_seed, data.max_seq_length) = (777, 24));
    for same in ["data", "again"] {
        let config = world.config("run", &[]).with_eval_data(world.at(same));
        let error = refusal(&config);
        assert!(error.starts_with("`.allow_overlap`: 8 of 8 documents of "), "{error}");
        assert!(!world.at("run").exists());
        let (warnings, result) =
            start(&config.with_allow_overlap(true).with_output(world.at(&format!("run-{same}"))));
        result.unwrap();
        assert!(warnings.iter().any(|text| text.contains("(100.0 %)")), "{warnings:?}");
    }
}

#[test]
fn a_shared_part_is_a_recorded_warning() {
    let world = World::new(0.1);
    build_half(&world);
    let (warnings, result) = start(&world.config("run", &[]).with_eval_data(world.at("half")));
    result.unwrap();
    assert!(warnings.iter().any(|text| text.contains("4 of 8 documents of ")), "{warnings:?}");
    let run: RunFile = serde_json::from_slice(&fs::read(world.at("run/run.json")).unwrap()).unwrap();
    assert_eq!((run.shared_text.len(), run.shared_text[0].shared, run.shared_text[0].compared), (1, 4, 8));
    let (warnings, result) = start(&world.config("clean", &[]));
    result.unwrap();
    assert!(warnings.iter().all(|text| !text.contains("documents of")), "{warnings:?}");
}

#[test]
fn parts_of_a_mixture_are_compared() {
    let world = World::new(0.1);
    world.build("again", |data| data.random_seed = 777);
    build_half(&world);
    let mixed = |name: &str, run: &str| {
        let part = |name: &str| format!("{}=0.5", world.at(name).display()).into();
        let data = TrainingData::parse(vec![part("data"), part(name)]).unwrap();
        PretrainConfig { data, ..world.config(run, &[]) }
    };
    let error = refusal(&mixed("again", "run"));
    assert!(error.contains("again are in") || error.contains("again (100.0 %)"), "{error}");
    let (warnings, result) = start(&mixed("half", "run"));
    result.unwrap();
    assert!(
        warnings.iter().any(|text| text.contains("the model reads them with both weights")),
        "{warnings:?}"
    );
}

#[test]
fn text_of_the_initial_checkpoint_is_compared() {
    let world = World::new(0.1);
    build_half(&world);
    run_to_end(&world.config("first", &[]), false);
    let first = world.at("first");
    let config = PretrainConfig { model: None, ..world.config("second", &[]) }
        .with_init_checkpoint(first)
        .with_data(world.at("held-out"));
    let error = refusal(&config.clone().with_eval_data(world.at("data")));
    assert!(error.starts_with("`.allow_overlap`: 8 of 8 documents of "), "{error}");
    let (warnings, result) = start(&config.with_eval_data(world.at("half")));
    result.unwrap();
    assert_eq!(
        warnings.iter().filter(|text| text.contains("4 of 8 documents of ")).count(),
        2,
        "{warnings:?}"
    );
}

/// The first run has 10 steps and the seed 12345.
#[test]
fn a_continued_run_reads_new_samples() {
    let world = World::new(0.1);
    let first = run_to_end(&world.config("first", &[]), false);
    let continued = |name: &str, from: &str, flags: &[&str]| {
        let config = world.config(name, flags);
        PretrainConfig { model: None, ..config }.with_init_checkpoint(world.at(from))
    };
    let predictions = |steps: &[StepMetrics]| steps.iter().map(|step| step.predictions).collect::<Vec<_>>();
    let second = run_to_end(&continued("second", "first", &[]), false);
    assert_ne!(predictions(&first), predictions(&second));
    let third = run_to_end(&continued("third", "second", &[]), false);
    assert!(predictions(&third) != predictions(&first) && predictions(&third) != predictions(&second));
    let seed = |name: &str| {
        let run: RunFile =
            serde_json::from_slice(&fs::read(world.at(name).join("run.json")).unwrap()).unwrap();
        run.identity.seed
    };
    assert_eq!(["first", "second", "third"].map(seed), [12345, 12355, 12365]);
    // A given seed is kept, and a run on other data has no reason to change it.
    run_to_end(&continued("given", "first", &["--seed", "7"]), false);
    let other = continued("other", "first", &["--allow-overlap"]).with_data(world.at("held-out"));
    run_to_end(&other, false);
    assert_eq!(["given", "other"].map(seed), [7, 12345]);
}

#[test]
fn kept_moments_keep_their_updates_and_beta2() {
    let world = World::new(0.1);
    run_to_end(&world.config("first", &["--adam-beta2", "0.97"]), false);
    let config =
        PretrainConfig { model: None, keep_moments: true, ..world.config("second", &["--steps", "4"]) };
    run_to_end(&config.with_init_checkpoint(world.at("first")), false);
    let run: RunFile = serde_json::from_slice(&fs::read(world.at("second/run.json")).unwrap()).unwrap();
    assert_eq!(run.identity.optimizer.beta2, 0.97);
    let state = fs::read(world.at("second/checkpoints/step-00000004/trainer_state.json")).unwrap();
    let state: TrainerState = serde_json::from_slice(&state).unwrap();
    assert_eq!((state.step, state.updates), (4, 14));
}

#[test]
fn every_part_of_a_mixture_is_evaluated() {
    let world = World::new(0.0);
    let hold_out = |data: &mut bert_data::BuildConfig, text: &str| {
        data.input = vec![world.at(text)];
        data.hold_out = Some("3".parse().unwrap());
    };
    world.build("a", |data| hold_out(data, "text.txt"));
    world.build("b", |data| hold_out(data, "held-out.txt"));
    let last = |run: &str, parts: [(&str, f64); 2]| {
        let part = |(name, weight): (&str, f64)| format!("{}={weight}", world.at(name).display()).into();
        let data = TrainingData::parse(parts.map(part).to_vec()).unwrap();
        let mut config = PretrainConfig { data, eval_data: None, ..world.config(run, &[]) };
        config.initialization = Some(bert_training::InitializationChoice::Bigram);
        run_to_end(&config, false);
        let log = fs::read_to_string(world.at(run).join("evaluations.jsonl")).unwrap();
        let records = log.lines().map(|line| serde_json::from_str(line).unwrap());
        records.collect::<Vec<EvaluationRecord>>()
    };
    let first = &last("ab", [("a", 0.9), ("b", 0.1)])[0].evaluation;
    let second = &last("ba", [("b", 0.1), ("a", 0.9)])[0].evaluation;
    let [a, b] = &first.parts[..] else { panic!("two parts: {first:?}") };
    assert!(
        (a.share - 0.9).abs() < 1e-9 && a.data == world.at("a/held-out") && b.data == world.at("b/held-out")
    );
    let mean = 0.9 * a.evaluation.masked_lm_loss + 0.1 * b.evaluation.masked_lm_loss;
    assert!(
        (first.masked_lm_loss - mean).abs() < 1e-9
            && a.evaluation.masked_lm_loss != b.evaluation.masked_lm_loss
    );
    // The initial weights come from the mixture in any order of the flags.
    assert!((first.masked_lm_loss - second.masked_lm_loss).abs() < 0.02, "{first:?} {second:?}");
}
