//! Opens the folder of a pre-training run: its lock, its configuration and its checkpoints.
//!
//! `run.json` records what the run computes (`identity`): every setting that determines the results, digests
//! of the data, and the options by which the loader generates instances. A run continues only with an equal
//! identity; the intervals of saving and evaluation and the locations of its folders may change. The file
//! also records the environment of the first step (`environment`, see [`bert_inference::environment`]): a run
//! may continue on another computer and prints a warning. `held_out.json` describes the held-out data,
//! because scores on different data cannot be compared.

use std::path::Path;

use bert_data::{DataSet, Manifest, ResolvedConfig};
use bert_inference::checkpoint::CheckpointFolder;
use bert_inference::{ComputeArgs, DeviceName, KernelChoice};
use bert_storage::{FileSystem, StagedFolder, exists};
use serde_json::{Value, json};

use crate::compared_fields;
use crate::error::{Error, damaged_run, run_differs};
use crate::optimizer::optimizer_args::OptimizerArgs;
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::run_file::{RunFile, RunIdentity};
use crate::pretrain::setup::inputs::EvaluatedSet;
use crate::pretrain::setup::starting_point::StartingPoint;
use crate::run_dir::identity::{RUN, differences, merged, saved};
use crate::run_dir::training_run::LockedRun;

/// File that describes the held-out data of the evaluations so far.
const HELD_OUT: &str = "held_out.json";

/// An open run; no other process can open it until this value is dropped.
pub(crate) struct RunFolder<'a> {
    /// The folder itself.
    pub(crate) run: LockedRun<'a>,
    /// The settings and data that determine the run's results.
    pub(crate) identity: Value,
    /// Differences between the held-out data and the data of the evaluations so far.
    pub(crate) held_out_changes: Vec<String>,
}

impl<'a> RunFolder<'a> {
    /// Starts or opens a run as [`LockedRun::open`] does, and records its held-out data, if it has any.
    ///
    /// # Errors
    /// Fails as [`LockedRun::open`] does, or when `held_out.json` is damaged or cannot be written. With `keep_best`,
    /// also fails when the held-out data has changed, because losses on different data cannot be compared.
    pub(crate) fn open(
        files: &'a dyn FileSystem,
        config: &PretrainConfig,
        run: Value,
        held_out: Option<Value>,
        resume: bool,
    ) -> Result<Self, Error> {
        let identity = run["identity"].clone();
        let run = LockedRun::open(files, &config.output, resume, run)?;
        let held_out_changes =
            held_out.map_or(Ok(Vec::new()), |now| record_held_out(&run.folder, &now, config.keep_best))?;
        Ok(Self { run, identity, held_out_changes })
    }

    /// Returns the run's checkpoints.
    pub(crate) fn checkpoints(&self) -> CheckpointFolder<'a> {
        CheckpointFolder::on(&self.run.folder)
    }
}

/// Returns the settings of the run in a folder; `None` if the folder has no run.
///
/// # Errors
/// Fails when its `run.json` is damaged.
pub(crate) fn recorded_settings(path: &Path) -> Result<Option<RunIdentity>, Error> {
    if !exists(&path.join(RUN))? {
        return Ok(None);
    }
    let run: RunFile =
        serde_json::from_value(saved(path, RUN)?).map_err(|error| damaged_run(&path.join(RUN), error))?;
    Ok(Some(run.identity))
}

/// Compares the held-out data with the data of earlier evaluations, and records it in `held_out.json` if it differs;
/// returns the differences.
///
/// # Errors
/// Fails when the data differs and `keep_best` is true, because losses on different data cannot be compared, or when
/// the file is damaged or cannot be written.
fn record_held_out(
    folder: &StagedFolder<'_>,
    held_out: &Value,
    keep_best: bool,
) -> Result<Vec<String>, Error> {
    if !folder.has(HELD_OUT)? {
        folder.write_checksummed(HELD_OUT, held_out)?;
        return Ok(Vec::new());
    }
    let known = saved(folder.path(), HELD_OUT)?;
    let changed = differences(&known, held_out);
    if changed.is_empty() {
        return Ok(changed);
    }
    if keep_best {
        let differences: Vec<String> = changed.iter().map(|text| format!("held-out data: {text}")).collect();
        return Err(run_differs(folder.path(), &differences));
    }
    folder.write_checksummed(HELD_OUT, held_out)?;
    Ok(changed)
}

/// Returns the settings and data that determine a run's results.
pub(crate) fn identity(config: &PretrainConfig, start: &StartingPoint, sets: &[(DataSet, f64)]) -> Value {
    let own = compared_fields!(config => PretrainConfig {
        steps, batch_size, length_buckets, seed;
        // These are compared below: in full, in part, or if they are given.
        optimizer, compute, warmup_ratio, recompute,
        // The values of these for this run are compared. The methods below return them.
        gradient_accumulation_steps, micro_batch_size, learning_rate, warmup_steps, adam_beta1, adam_beta2,
        initialization,
        // Instead of these, the digests of the weights and of the data and the length that a budget allows are
        // compared.
        data, model, init_checkpoint, fresh_heads, keep_moments, budget,
        // These decide where and when something is read or written, or when the run ends, but not the weights.
        cache, cache_size, output, max_skipped_steps, eval_data, eval_parts, allow_overlap, eval_every,
        eval_instances, save_every, keep_checkpoints, keep_best, average_last,
    });
    let schedule = compared_fields!(&config.optimizer => OptimizerArgs {
        schedule;
        // `optimizer()` returns the other hyper-parameters.
        optimizer, weight_decay, adam_epsilon, adam_bias_correction, max_gradient_norm,
    });
    let kernels = compared_fields!(&config.compute => ComputeArgs { kernels; device, precision });
    let data = sets[0].0.manifest();
    let values = json!({
        "gradient_accumulation_steps": config.micro_batches(),
        "learning_rate": config.peak_learning_rate(),
        "warmup_steps": config.warmup(),
        "optimizer": config.optimizer(),
        "backend": config.compute.device.backend(),
        "precision": config.precision(),
        "model": serde_json::from_str::<Value>(&start.config.to_json_string("BertForPreTraining")).expect("we wrote it"),
        "init_checkpoint": start.weights_digest,
        "data": data.shards_digest(),
        "vocabulary": data.vocabulary.blake3,
        "data_rules": data_rules(&data.config),
    });
    let mut identity = Value::from(merged([own, schedule, kernels, values]));
    if let Some(digest) = &start.moments_digest {
        identity["init_moments"] = json!(digest);
    }
    if let Some(ratio) = config.warmup_ratio {
        identity["warmup_ratio"] = json!(ratio);
    }
    if sets.len() > 1 {
        let shares = config.data.shares();
        let mixture = sets.iter().zip(shares).map(|((set, _), share)| {
            let manifest = set.manifest();
            json!({
                "data": manifest.shards_digest(),
                "data_rules": data_rules(&manifest.config),
                "share": share,
            })
        });
        identity["mixture"] = mixture.collect();
    }
    // The fused kernels on a CPU add in the same order with and without recomputation.
    let exact = config.compute.device == DeviceName::Flex && config.compute.kernels != KernelChoice::Plain;
    if config.recompute && !exact {
        identity["recompute"] = json!(true);
    }
    if let Some(choice) = config.initialization() {
        identity["initialization"] = json!(choice);
    }
    identity
}

/// Describes the held-out data of a run; `None` without any.
pub(crate) fn held_out_sets(sets: &[EvaluatedSet], limit: Option<u64>) -> Option<Value> {
    let [first, others @ ..] = sets else { return None };
    let mut described = held_out(first.loader.manifest(), limit);
    if !others.is_empty() {
        let parts = sets.iter().map(|set| json!([set.share, held_out(set.loader.manifest(), limit)]));
        described["parts"] = parts.collect();
    }
    Some(described)
}

/// Describes held-out data by everything that affects the scores on it: its shards, the options for making
/// instances from them, and the number of instances to evaluate.
fn held_out(data: &Manifest, limit: Option<u64>) -> Value {
    json!({
        "data": data.shards_digest(),
        "data_rules": data_rules(&data.config),
        "random_seed": data.config.random_seed,
        "instances": limit.unwrap_or(u64::MAX).min(data.instances),
    })
}

/// Returns the options of a data folder that determine its instances and masks. Depending on the layout, the shards
/// already reflect some of them; all are compared, so that the error names the changed option.
fn data_rules(config: &ResolvedConfig) -> Value {
    compared_fields!(config => ResolvedConfig {
        layout, masking, random, nsp, segmenter, max_seq_length, short_seq_prob, masked_lm_prob,
        max_predictions_per_seq, do_whole_word_mask, max_ngram, random_word_skip_special;
        // These options determine the content of the shards, whose digests are compared.
        input, vocab, do_lower_case, strip_accents, tokenize_chinese_chars, dupe_factor, random_seed, num_shards,
        split_sentences, line_breaks, language, text_column, strict_utf8, lossy_utf8, strict_rows, hold_out,
        held_out,
        // The rows do not depend on this.
        columns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_each_leaf() {
        let saved =
            json!({ "seed": 1, "optimizer": { "beta1": 0.9, "beta2": 0.99 }, "data": "x", "of": [1, 2] });
        let now =
            json!({ "seed": 2, "optimizer": { "beta1": 0.9, "beta2": 0.98 }, "extra": true, "of": [1, 3] });
        let expected = [
            "data was \"x\", now null",
            "extra was null, now true",
            "of was [1,2], now [1,3]",
            "optimizer.beta2 was 0.99, now 0.98",
            "seed was 1, now 2",
        ];
        assert_eq!(differences(&saved, &now), expected);
        assert!(differences(&now, &now).is_empty());
        let mixture = |shares: &[f64]| {
            let sets: Vec<_> = shares.iter().map(|share| json!({ "data": "x", "share": share })).collect();
            json!({ "mixture": sets })
        };
        let changed = differences(&mixture(&[0.7, 0.3]), &mixture(&[0.6, 0.4]));
        assert_eq!(changed, ["mixture[0].share was 0.7, now 0.6", "mixture[1].share was 0.3, now 0.4"]);
        let grown = differences(&mixture(&[0.7, 0.3]), &mixture(&[0.5, 0.3, 0.2]));
        assert_eq!(grown, ["mixture had 2 entries, now 3"]);
    }
}
