//! A small corpus with its data folder and model, and runs on it, for the tests of several crates.

// Each program uses only a part of this module.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use bert_data::{BuildConfig, build, build_held_out};
use bert_inference::StopFlag;
use bert_storage::Class;
use bert_testing::disks::Faulty;
use bert_training::{Error, PretrainConfig, PretrainEvent, StepMetrics, pretrain_on};
use clap::{Args, Command, FromArgMatches};
use tempfile::TempDir;

/// A small corpus, its vocabulary, its shards and a model configuration, in one temporary folder.
pub(crate) struct World {
    folder: TempDir,
}

const SUBJECTS: [&str; 8] = ["river", "stone", "bread", "engine", "violin", "harbour", "planet", "library"];
const VERBS: [&str; 6] = ["moves", "changes", "holds", "follows", "reaches", "needs"];

impl World {
    pub(crate) fn new(dropout: f64) -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        let mut text = String::new();
        let mut held_out = String::new();
        for (document, subject) in SUBJECTS.iter().enumerate() {
            for line in 0..12 {
                let verb = VERBS[(document + line) % 6];
                let object = SUBJECTS[(document * line + 3) % 8];
                text += &format!("the old {subject} {verb} the {object} number {line} .\n");
                held_out += &format!("number {line} {verb} the old {object} .\n");
            }
            text.push('\n');
            held_out.push('\n');
        }
        fs::write(world.at("text.txt"), text).unwrap();
        fs::write(world.at("held-out.txt"), held_out).unwrap();
        let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
        let words = ["the", "old", "number", "."];
        let digits: Vec<String> = (0..12).map(|i| i.to_string()).collect();
        let all: Vec<&str> = special
            .into_iter()
            .chain(words)
            .chain(SUBJECTS)
            .chain(VERBS)
            .chain(digits.iter().map(String::as_str))
            .collect();
        fs::write(world.at("vocab.txt"), all.join("\n") + "\n").unwrap();
        let config = serde_json::json!({
            "model_type": "bert", "vocab_size": all.len(), "hidden_size": 16, "num_hidden_layers": 2,
            "num_attention_heads": 2, "intermediate_size": 32, "hidden_act": "gelu",
            "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout,
            "max_position_embeddings": 32, "type_vocab_size": 2, "initializer_range": 0.02,
            "layer_norm_eps": 1e-12, "pad_token_id": 0
        });
        fs::write(world.at("config.json"), config.to_string()).unwrap();
        world.build("data", |_| {});
        world.build("held-out", |data| data.input = vec![world.at("held-out.txt")]);
        world
    }

    /// Builds a data folder from the corpus, with changed options, and its held-out documents, if any.
    pub(crate) fn build(&self, name: &str, change: impl FnOnce(&mut BuildConfig)) {
        let mut data = BuildConfig {
            input: vec![self.at("text.txt")],
            output: Some(self.at(name)),
            vocab: Some(self.at("vocab.txt")),
            max_seq_length: 32,
            max_predictions_per_seq: Some(5),
            dupe_factor: 2,
            num_shards: Some(3),
            threads: 1,
            ..BuildConfig::default()
        };
        change(&mut data);
        let outcome = build(&data, &mut |_| {}).unwrap();
        build_held_out(&data, &outcome.manifest, &mut |_| {}).unwrap();
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the configuration of a run of 10 steps; `more` are additional flags.
    pub(crate) fn config(&self, run: &str, more: &[&str]) -> PretrainConfig {
        let path = |name: &str| self.at(name).to_str().unwrap().to_string();
        let base = [
            "--data".into(),
            path("data"),
            "--eval-data".into(),
            path("held-out"),
            "--model".into(),
            path("config.json"),
            "--output".into(),
            path(run),
        ];
        let rest = ["--steps", "10", "--batch-size", "8", "--learning-rate", "1e-3", "--save-every", "3"];
        let flags = base.into_iter().chain(rest.iter().chain(more).map(|flag| flag.to_string()));
        let command =
            PretrainConfig::augment_args(Command::new("test").no_binary_name(true).args_override_self(true));
        PretrainConfig::from_arg_matches(&command.try_get_matches_from(flags).unwrap()).unwrap()
    }
}

/// Runs to the end, on a file system that never waits for the disk.
pub(crate) fn run_to_end(config: &PretrainConfig, resume: bool) -> Vec<StepMetrics> {
    let mut metrics = Vec::new();
    pretrain_on(&Faulty::never(), config, resume.into(), &StopFlag::new(), &mut |event| {
        if let PretrainEvent::Step { metrics: step, .. } = event {
            metrics.push(step);
        }
    })
    .unwrap();
    metrics
}

/// Starts or resumes a run and stops it after step `stop_after`.
pub(crate) fn run_until(config: &PretrainConfig, resume: bool, stop_after: u64) {
    let stop = StopFlag::new();
    let flag = stop.clone();
    let result = pretrain_on(&Faulty::never(), config, resume.into(), &stop, &mut |event| {
        if let PretrainEvent::Step { metrics, .. } = event
            && metrics.step == stop_after
        {
            flag.request(15);
        }
    });
    assert_eq!(stopped_step(&result.unwrap_err()), stop_after);
}

/// Returns the step after which a run was stopped by signal 15; 0 before the first step.
pub(crate) fn stopped_step(error: &Error) -> u64 {
    assert_eq!(error.class(), Class::Stopped(15), "{error}");
    let step = error.text().strip_prefix("stopped after step ").and_then(|rest| rest.split(';').next());
    step.map_or(0, |step| step.parse().unwrap())
}

pub(crate) fn files(run: &Path) -> Vec<(String, Vec<u8>)> {
    let last = run.join("checkpoints/step-00000010");
    ["model.safetensors", "optimizer.safetensors"]
        .map(|name| last.join(name))
        .into_iter()
        .chain(["metrics.jsonl", "evaluations.jsonl"].map(|name| run.join(name)))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect()
}

pub(crate) fn assert_same(a: &Path, b: &Path, what: &str) {
    for ((name, a), (_, b)) in files(a).into_iter().zip(files(b)) {
        assert!(a == b, "{what}: {name} differs");
    }
}
