//! Reads the files of a pre-training run for its page, and the data folders that it names, if they still exist.
//!
//! The result is a [`RunRecord`]. A run that continues is read by `run_folder.rs` of the crate `bert-training` and the
//! module `checkpoint` of `bert-inference` instead.

use std::path::{Path, PathBuf};

use bert_data::{DataSet, Manifest};
use bert_inference::environment::Invocation;
use bert_inference::json_file::{read_json, read_record};
use bert_pages::StepScale;
use bert_training::identity::RUN;
use bert_training::metrics_log::records;
use bert_training::{
    Baselines, DataLoader, Error, Evaluation, EvaluationRecord, RunFile, RunIdentity, RunPaths, SharedText,
    StepMetrics, StepTiming, Work, baselines,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The logs and settings of a run.
pub(crate) struct RunRecord {
    pub(crate) folder: PathBuf,
    pub(crate) metrics: Vec<StepMetrics>,
    pub(crate) timing: Vec<StepTiming>,
    pub(crate) evaluations: Vec<EvaluationRecord>,
    pub(crate) config: RunPaths,
    pub(crate) identity: RunIdentity,
    /// The text that is shared by data sets that should be disjoint.
    pub(crate) shared_text: Vec<SharedText>,
    /// All of `run.json`, to show it.
    pub(crate) settings: Value,
    /// The command and the computers.
    pub(crate) start: Invocation,
    /// The operations of a sequence, and the rate of the device.
    pub(crate) work: Work,
    /// Number of instances of the training data, if it still exists.
    pub(crate) instances: Option<u64>,
    /// The text of the training data and its language, if the data still exists.
    pub(crate) text: Option<String>,
    /// The unigram and bigram baselines on the held-out data, if computed and if both data folders still exist.
    pub(crate) baselines: Option<Baselines>,
}

impl RunRecord {
    /// Reads the logs and settings of a run.
    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(RUN);
        let settings = read_json(&path)?;
        let RunFile { config, identity, shared_text, start, work } = read_record(&path)?;
        let manifest = same_data(config.data.first(), &identity);
        Ok(Self {
            metrics: read_log(&folder.join("metrics.jsonl"))?,
            timing: read_log(&folder.join("timing.jsonl"))?,
            evaluations: read_log(&folder.join("evaluations.jsonl"))?,
            folder: folder.to_path_buf(),
            config,
            identity,
            shared_text,
            settings,
            work,
            start,
            text: manifest.as_ref().map(text_of),
            instances: manifest.map(|manifest| manifest.instances),
            baselines: None,
        })
    }

    /// Returns the record with the baselines, or without them if the training data has changed or cannot be read. This
    /// reads the training text.
    pub(crate) fn with_baselines(self) -> Self {
        let baselines = self.instances.and_then(|_| {
            let config = &self.config;
            let folders = config.data.folders().iter().zip(self.identity.data_digests());
            let train = folders.map(|(folder, digest)| {
                let data = DataSet::open(&folder.folder).ok()?;
                (data.manifest().shards_digest() == digest).then_some((data, folder.weight))
            });
            let train = train.collect::<Option<Vec<_>>>()?;
            let part_baselines = |folder: &Path, share: f64| {
                let mut held_out = DataLoader::open(folder, 0).ok()?;
                Some((share, baselines(&train, &mut held_out, config.eval_instances).ok()?))
            };
            let parts = match &config.eval_parts[..] {
                [] => vec![part_baselines(config.eval_data.as_deref()?, 1.0)?],
                parts => parts
                    .iter()
                    .map(|part| part_baselines(&part.folder, part.share))
                    .collect::<Option<_>>()?,
            };
            Baselines::mean_of(&parts)
        });
        Self { baselines, ..self }
    }

    /// Returns one value of every step, where it is finite.
    pub(crate) fn curve(&self, value: impl Fn(&StepMetrics) -> f64) -> Vec<(f64, f64)> {
        let points = self.metrics.iter().map(|m| (m.step as f64, value(m)));
        points.filter(|(_, y)| y.is_finite()).collect()
    }

    /// Returns one value of every evaluation.
    pub(crate) fn held_out(&self, value: impl Fn(&Evaluation) -> f64) -> Vec<(f64, f64)> {
        self.evaluations.iter().map(|e| (e.step as f64, value(&e.evaluation))).collect()
    }

    /// Returns the last evaluation.
    pub(crate) fn last_evaluation(&self) -> Option<&EvaluationRecord> {
        self.evaluations.last()
    }

    /// Returns the evaluation with the lowest masked-LM loss.
    pub(crate) fn best_evaluation(&self) -> Option<&EvaluationRecord> {
        let loss = |e: &&EvaluationRecord| e.evaluation.masked_lm_loss;
        self.evaluations.iter().min_by(|a, b| loss(a).total_cmp(&loss(b)))
    }

    /// Returns whether the run trains on next-sentence prediction: false if the loss of every step is 0, as with
    /// `--nsp off`.
    pub(crate) fn has_next_sentence(&self) -> bool {
        self.metrics.is_empty() || self.metrics.iter().any(|m| m.next_sentence_loss != 0.0)
    }

    /// Returns the number of passes over the training instances, if their number is known.
    pub(crate) fn passes(&self) -> Option<f64> {
        let seen = self.identity.batch_size as f64 * self.metrics.len() as f64 * self.identity.first_share();
        Some(seen / self.instances? as f64)
    }

    /// Returns the loss of a uniform distribution over the vocabulary.
    pub(crate) fn uniform_loss(&self) -> f64 {
        (self.identity.model.vocab_size as f64).ln()
    }

    /// Returns the sequences, tokens and hours of the steps.
    pub(crate) fn step_scale(&self) -> StepScale {
        const POINTS_OF_TIME: usize = 100;
        let sequences = self.identity.batch_size as f64;
        let tokens = sequences * self.identity.data_rules.max_seq_length as f64;
        let mut seconds = 0.0;
        let mut steps = vec![0.0];
        let mut hours = vec![0.0];
        let every = self.timing.len().div_ceil(POINTS_OF_TIME).max(1);
        for (at, step) in self.timing.iter().enumerate() {
            seconds += step.seconds;
            if (at + 1) % every == 0 || at + 1 == self.timing.len() {
                steps.push(step.step as f64);
                hours.push(seconds / 3600.0);
            }
        }
        StepScale { sequences, tokens, hours: [steps, hours] }
    }

    /// Returns the seconds of all steps from step `first` on, and the part of these seconds that was spent waiting for
    /// data.
    pub(crate) fn seconds(&self, first: u64) -> (f64, f64) {
        let steps = self.timing.iter().filter(|step| step.step >= first);
        steps.fold((0.0, 0.0), |(all, waiting), t| (all + t.seconds, waiting + t.waiting))
    }
}

/// Returns the manifest of the run's training data, if the folder still has the same data.
pub(crate) fn same_data(folder: &Path, identity: &RunIdentity) -> Option<Manifest> {
    let manifest = Manifest::read(folder).ok()?;
    (identity.data == manifest.shards_digest()).then_some(manifest)
}

/// Returns the names of the first `most` files of the text of a data set, and the number of the others.
pub(crate) fn input_names(manifest: &Manifest, most: usize, more: &str) -> String {
    let inputs = &manifest.inputs;
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_string();
    let mut names: Vec<String> = inputs.iter().take(most).map(|input| name(&input.path)).collect();
    if inputs.len() > most {
        names.push(format!("{} {more}", inputs.len() - most));
    }
    names.join(", ")
}

/// Returns the names, the size and the language of the text of a data set.
fn text_of(manifest: &Manifest) -> String {
    let inputs = &manifest.inputs;
    let megabytes = inputs.iter().map(|input| input.bytes).sum::<u64>() as f64 / 1e6;
    let dump = inputs.iter().find_map(|input| Some(input.dump.as_ref()?.language.clone()));
    let language = manifest.config.language.clone().or(dump);
    let language = language.map_or_else(String::new, |code| format!(", language {code}"));
    format!("{} ({megabytes:.1} MB{language})", input_names(manifest, 2, "more files"))
}

/// Reads the records of a log of the run.
fn read_log<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Error> {
    Ok(records(path)?.into_iter().map(|(record, _)| record).collect())
}

#[cfg(test)]
pub(crate) mod example {
    use serde_json::{Value, json};

    /// Returns a `run.json` of BERT-tiny with this size of the vocabulary and this learning rate.
    pub(crate) fn run_json(vocab_size: u64, learning_rate: f64) -> Value {
        let model = json!({ "vocab_size": vocab_size, "hidden_size": 128, "num_hidden_layers": 2,
            "num_attention_heads": 2, "intermediate_size": 512 });
        let rules = json!({ "max_seq_length": 128, "masked_lm_prob": 0.15, "nsp": "on", "layout": "documents",
            "masking": "dynamic" });
        let identity = json!({ "steps": 40, "batch_size": 32, "learning_rate": learning_rate, "warmup_steps": 5,
            "schedule": "bert", "optimizer": { "beta2": 0.98 }, "seed": 1, "precision": "f32", "data": "digest",
            "vocabulary": format!("digest of {vocab_size} words"), "data_rules": rules, "model": model });
        let start = json!({ "commit": "unknown", "command": [], "hosts": [], "ranks": 1, "started": "" });
        json!({ "identity": identity, "start": start, "config": { "data": "missing" }, "shared_text": [],
            "work": { "flops_per_sequence": 1e9, "product_flops": null } })
    }
}
