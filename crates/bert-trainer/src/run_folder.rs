//! Opens the folder of a pre-training run: its lock, its configuration and its checkpoints.
//!
//! `run.json` records what the run computes (`identity`): every setting that decides the numbers, digests of the
//! data, and the rules by which the loader makes instances of it. A run continues only with an equal identity; how
//! often it saves and evaluates, and where its folders lie, may change. The file also records what computed the
//! first step (`computed_by`, see [`crate::computer`]): a run may continue on another computer, and says that it
//! does. `held_out.json` describes the held-out data: figures of other data cannot be compared with those before.

use std::collections::BTreeSet;
use std::path::Path;

use bert_data::{Manifest, ResolvedConfig};
use bert_model::BertConfig;
use bert_storage::sealed::{SealError, read_sealed};
use bert_storage::{FileSystem, LOCK, Locate, OutputLock, StagedFolder};
use serde_json::{Map, Value, json};

use crate::checkpoint::CheckpointFolder;
use crate::computer::computed_by;
use crate::config::PretrainConfig;
use crate::device::KernelChoice;
use crate::device_name::DeviceName;
use crate::error::{Error, FolderProblem};
use crate::initialization::InitializationChoice;
use crate::unfinished::is_visible;

pub(crate) const RUN: &str = "run.json";
/// The held-out data of the evaluations so far.
const HELD_OUT: &str = "held_out.json";

/// An open run; no other process can open it until this one ends.
pub struct RunFolder<'a> {
    /// The folder itself.
    pub folder: StagedFolder<'a>,
    /// What decides the run's numbers.
    pub identity: Value,
    /// In what this computer and program differ from those that the run began with, as far as bits depend on it.
    pub elsewhere: Vec<String>,
    /// Differences between the held-out data and the data of the evaluations so far.
    pub other_held_out: Vec<String>,
    _lock: OutputLock,
}

impl<'a> RunFolder<'a> {
    /// Checks that a run can start in a folder or, with `resume`, continue there. It writes nothing and takes no time, so
    /// it comes before all other work.
    ///
    /// # Errors
    /// When another process has the folder, when it holds a run and `resume` is off, when it holds other files, or when
    /// there is nothing to resume.
    pub fn check_free(folder: &StagedFolder<'_>, resume: bool) -> Result<(), Error> {
        let path = folder.path();
        folder.refuse_if_in_use()?;
        let exists = folder.has(RUN)?;
        if resume && !is_there(path)? {
            return Err(FolderProblem::NothingToResume.at(path).into());
        }
        if !exists && folder.names()?.iter().any(|name| is_visible(name)) {
            let hint = "choose another --output";
            return Err(Error::output_exists(path, "other files", hint));
        }
        match exists && !resume {
            true => Err(holds_a_run(path)),
            false => Ok(()),
        }
    }

    /// Starts a run in an empty or new folder, or opens the one that is there with `resume`. A folder that is
    /// there but empty is resumed from the start: a run killed in its first moments leaves one. `held_out` describes
    /// the held-out data ([`held_out`]), if there is any.
    ///
    /// # Errors
    /// As [`RunFolder::check_free`]; when the run there was started differently, or keeps its best weights by other
    /// held-out data.
    pub fn open(
        files: &'a dyn FileSystem,
        config: &PretrainConfig,
        resume: bool,
        identity: Value,
        held_out: Option<&Value>,
    ) -> Result<Self, Error> {
        let folder = StagedFolder::new(files, &config.output);
        Self::check_free(&folder, resume)?;
        folder.create()?;
        let lock = folder.lock(LOCK)?;
        folder.remove_temporaries()?;
        let mut elsewhere = Vec::new();
        // Looked at again under the lock: another process may have begun a run and ended since.
        if !folder.has(RUN)? {
            let whole = json!({ "identity": identity, "computed_by": computed_by(), "config": config });
            folder.write_sealed(RUN, &whole)?;
        } else if resume {
            elsewhere = compare(&config.output, &identity)?;
        } else {
            return Err(holds_a_run(&config.output));
        }
        let other_held_out =
            held_out.map_or(Ok(Vec::new()), |now| take_held_out(&folder, now, config.keep_best))?;
        Ok(Self { folder, identity, elsewhere, other_held_out, _lock: lock })
    }

    /// The run's checkpoints.
    pub fn checkpoints(&self) -> CheckpointFolder<'a> {
        CheckpointFolder::on(&self.folder)
    }
}

/// The number of steps of the run in a folder, if there is a run.
///
/// # Errors
/// When its `run.json` is damaged.
pub(crate) fn recorded_steps(path: &Path) -> Result<Option<u64>, Error> {
    if !is_there(&path.join(RUN))? {
        return Ok(None);
    }
    let corrupt = |reason: String| Error::from(FolderProblem::RunCorrupt(reason).at(path.join(RUN)));
    let steps = saved(path, RUN)?["identity"]["steps"].as_u64();
    steps.map(Some).ok_or_else(|| corrupt("it has no number of steps".into()))
}

fn holds_a_run(path: &Path) -> Error {
    let hint = "continue it with --resume or choose another --output";
    Error::output_exists(path, "a run", hint)
}

/// Whether a path is there; an error that does not say so is one.
fn is_there(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(|error| Error::io(path, error))
}

/// Compares held-out data with the data that a run was evaluated on, and records it in `held_out.json` where it is
/// other data; returns the differences.
///
/// # Errors
/// [`Error::RunDiffers`] where `keep_best` compares losses of both; when the file is damaged or cannot be written.
fn take_held_out(folder: &StagedFolder<'_>, held_out: &Value, keep_best: bool) -> Result<Vec<String>, Error> {
    if !folder.has(HELD_OUT)? {
        folder.write_sealed(HELD_OUT, held_out)?;
        return Ok(Vec::new());
    }
    let known = saved(folder.path(), HELD_OUT)?;
    let changed = differences(&known, &as_read(held_out));
    if changed.is_empty() {
        return Ok(changed);
    }
    if keep_best {
        let differences = changed.into_iter().map(|text| format!("held-out data: {text}")).collect();
        return Err(Error::RunDiffers { path: folder.path().to_path_buf(), differences });
    }
    folder.write_sealed(HELD_OUT, held_out)?;
    Ok(changed)
}

/// A value as a reader of its file has it: numbers may differ in the last digit.
fn as_read(value: &Value) -> Value {
    serde_json::from_str(&value.to_string()).expect("JSON that was just written")
}

/// Reads a sealed file of a run's folder.
fn saved(folder: &Path, name: &str) -> Result<Value, Error> {
    let file = folder.join(name);
    let corrupt = |reason: String| Error::from(FolderProblem::RunCorrupt(reason).at(&file));
    let text = read_sealed(&file).map_err(|error| match error {
        SealError::Io(source) => Error::io(&file, source),
        other => corrupt(other.to_string()),
    })?;
    serde_json::from_slice(&text).map_err(|e| corrupt(e.to_string()))
}

/// Refuses another identity than that of a folder's `run.json`; gives the differences in what computes.
pub(crate) fn compare(path: &Path, identity: &Value) -> Result<Vec<String>, Error> {
    let file = path.join(RUN);
    let corrupt = |reason: String| Error::from(FolderProblem::RunCorrupt(reason).at(&file));
    let saved = saved(path, RUN)?;
    let part = |name: &str| saved.get(name).ok_or_else(|| corrupt(format!("it has no {name:?}")));
    let changed = differences(part("identity")?, &as_read(identity));
    if !changed.is_empty() {
        return Err(Error::RunDiffers { path: path.to_path_buf(), differences: changed });
    }
    Ok(differences(part("computed_by")?, &computed_by()))
}

/// Every leaf in which two configurations differ, in words.
pub fn differences(saved: &Value, now: &Value) -> Vec<String> {
    let objects = [saved, now].into_iter().filter_map(Value::as_object);
    let keys: BTreeSet<&String> = objects.flat_map(Map::keys).collect();
    let mut found = Vec::new();
    for key in keys {
        // Null where there is no such key, or no object.
        let (x, y) = (&saved[key], &now[key]);
        if x.is_object() || y.is_object() {
            found.extend(differences(x, y).into_iter().map(|text| format!("{key}.{text}")));
        } else if x != y {
            found.push(format!("{key} was {x}, now {y}"));
        }
    }
    found
}

/// What decides the numbers of a run.
pub fn identity(
    config: &PretrainConfig,
    model: &BertConfig,
    data: &Manifest,
    start: Option<String>,
) -> Value {
    let shards: Vec<&str> = data.shards.iter().map(|shard| shard.blake3.as_str()).collect();
    let mut identity = json!({
        "steps": config.steps,
        "batch_size": config.batch_size,
        "length_buckets": config.length_buckets,
        "gradient_accumulation_steps": config.gradient_accumulation_steps,
        "learning_rate": config.learning_rate,
        "warmup_steps": config.warmup(),
        "schedule": config.schedule,
        "optimizer": config.optimizer(),
        "seed": config.seed,
        "backend": config.device.backend(),
        "kernels": config.kernels,
        "precision": config.precision(),
        "model": serde_json::from_str::<Value>(&model.to_json_string("BertForPreTraining")).expect("we wrote it"),
        "init_checkpoint": start,
        "data": bert_storage::digest_bytes(shards.concat().as_bytes()),
        "vocabulary": data.vocabulary.blake3,
        "data_rules": data_rules(&data.config),
    });
    // The fused kernels of the CPU add in one order either way.
    let exact = config.device == DeviceName::Flex && config.kernels == KernelChoice::Fused;
    if config.recompute && !exact {
        identity["recompute"] = json!(true);
    }
    // Runs that began before there was a choice have none: they began with the reference's weights.
    if let Some(choice) = config.initialization().filter(|&choice| choice != InitializationChoice::Reference)
    {
        identity["initialization"] = json!(choice);
    }
    identity
}

/// Describes held-out data by what decides its figures: its shards, how they become instances, and how many of them
/// are evaluated.
pub(crate) fn held_out(data: &Manifest, limit: Option<u64>) -> Value {
    let shards: Vec<&str> = data.shards.iter().map(|shard| shard.blake3.as_str()).collect();
    json!({
        "data": bert_storage::digest_bytes(shards.concat().as_bytes()),
        "data_rules": data_rules(&data.config),
        "random_seed": data.config.random_seed,
        "instances": limit.unwrap_or(u64::MAX).min(data.instances),
    })
}

/// The options of a data folder by which the loader makes its instances and masks. Which of them the shards hold
/// already depends on the layout; all are compared, so that a refusal names what was changed.
fn data_rules(config: &ResolvedConfig) -> Value {
    // Every field is named: whoever adds one has to decide here whether it is a rule for the loader.
    let ResolvedConfig {
        layout,
        masking,
        random,
        nsp,
        segmenter,
        max_seq_length,
        short_seq_prob,
        masked_lm_prob,
        max_predictions_per_seq,
        do_whole_word_mask,
        max_ngram,
        random_word_skip_special,
        // These decide what is in the shards, whose digests are compared.
        input: _,
        vocab: _,
        do_lower_case: _,
        strip_accents: _,
        tokenize_chinese_chars: _,
        dupe_factor: _,
        random_seed: _,
        num_shards: _,
        split_sentences: _,
        language: _,
        text_column: _,
        strict_utf8: _,
        lossy_utf8: _,
        strict_rows: _,
        // The rows are the same.
        columns: _,
    } = config;
    json!({
        "layout": layout,
        "masking": masking,
        "random": random,
        "nsp": nsp,
        "segmenter": segmenter,
        "max_seq_length": max_seq_length,
        "short_seq_prob": short_seq_prob,
        "masked_lm_prob": masked_lm_prob,
        "max_predictions_per_seq": max_predictions_per_seq,
        "do_whole_word_mask": do_whole_word_mask,
        "max_ngram": max_ngram,
        "random_word_skip_special": random_word_skip_special,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_each_leaf() {
        let saved = json!({ "seed": 1, "optimizer": { "beta1": 0.9, "beta2": 0.99 }, "data": "x" });
        let now = json!({ "seed": 2, "optimizer": { "beta1": 0.9, "beta2": 0.98 }, "extra": true });
        let expected = [
            "data was \"x\", now null",
            "extra was null, now true",
            "optimizer.beta2 was 0.99, now 0.98",
            "seed was 1, now 2",
        ];
        assert_eq!(differences(&saved, &now), expected);
        assert!(differences(&now, &now).is_empty());
    }
}
