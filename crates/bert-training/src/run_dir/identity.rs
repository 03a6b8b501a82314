//! The settings that determine the results of a run, as saved, and their comparison on resume.

use std::collections::BTreeSet;
use std::path::Path;

use bert_inference::environment::environment_of_run;
use bert_storage::Locate;
use bert_storage::checksummed_json::{ChecksumError, read_checksummed};
use serde_json::{Map, Value};

use crate::error::{Error, RunProblem};

/// File with the settings of a run.
pub const RUN: &str = "run.json";

/// Reads a checksummed file of a run's folder.
pub fn saved(folder: &Path, name: &str) -> Result<Value, Error> {
    let file = folder.join(name);
    let corrupt = |reason: String| Error::from(RunProblem::RunCorrupt(reason).located(&file));
    let text = read_checksummed(&file).map_err(|error| match error {
        ChecksumError::Io(source) => Error::io(&file, source),
        other => corrupt(other.to_string()),
    })?;
    serde_json::from_slice(&text).map_err(|e| corrupt(e.to_string()))
}

/// Rejects an identity that differs from the folder's `run.json`; returns the differences in the environment.
pub fn compare(path: &Path, identity: &Value) -> Result<Vec<String>, Error> {
    let file = path.join(RUN);
    let corrupt = |reason: String| Error::from(RunProblem::RunCorrupt(reason).located(&file));
    let saved = saved(path, RUN)?;
    let part = |name: &str| saved.get(name).ok_or_else(|| corrupt(format!("{name:?} is missing")));
    let changed = differences(part("identity")?, identity);
    if !changed.is_empty() {
        return Err(Error::RunDiffers { path: path.to_path_buf(), differences: changed });
    }
    Ok(differences(part("environment")?, &environment_of_run()))
}

/// Describes every leaf in which a configuration differs from the one that was read from a file.
pub fn differences(saved: &Value, now: &Value) -> Vec<String> {
    // A round trip through JSON may change the last digit of a number.
    let now = serde_json::from_str(&now.to_string()).expect("JSON that was just written");
    changed_leaves(saved, &now)
}

fn changed_leaves(saved: &Value, now: &Value) -> Vec<String> {
    let objects = [saved, now].into_iter().filter_map(Value::as_object);
    let keys: BTreeSet<&String> = objects.flat_map(Map::keys).collect();
    // Null if the key is missing or the value is not an object.
    keys.into_iter().flat_map(|key| changes_of(key, &saved[key], &now[key])).collect()
}

/// Describes the differences between two values of `name`.
fn changes_of(name: &str, saved: &Value, now: &Value) -> Vec<String> {
    match (saved, now) {
        (Value::Array(saved), Value::Array(now)) if saved.iter().chain(now).any(Value::is_object) => {
            if saved.len() != now.len() {
                return vec![format!("{name} had {} entries, now {}", saved.len(), now.len())];
            }
            let pairs = saved.iter().zip(now).enumerate();
            pairs.flat_map(|(at, (saved, now))| changes_of(&format!("{name}[{at}]"), saved, now)).collect()
        }
        (Value::Object(_), _) | (_, Value::Object(_)) => {
            changed_leaves(saved, now).into_iter().map(|text| format!("{name}.{text}")).collect()
        }
        _ if saved == now => Vec::new(),
        _ => vec![format!("{name} was {saved}, now {now}")],
    }
}
