//! The settings that determine the results of a run, as saved, and their comparison on resume.

use std::collections::BTreeSet;
use std::path::Path;

use bert_inference::environment::environment_of_run;
use bert_storage::checksummed_json::read_checksummed;
use bert_storage::{Class, Error};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::damaged_run;

/// File with the settings of a run.
pub const RUN: &str = "run.json";

/// Returns the named fields of a struct as a JSON object. The fields that are not compared follow after `;`. Every field
/// has to be in one of the two lists, so that adding one requires a decision whether it is compared.
#[doc(hidden)]
#[macro_export]
macro_rules! compared_fields {
    ($config:expr => $type:ident { $($name:ident),+; $($other:ident),+ $(,)? }) => {{
        let $type { $($name,)+ $($other: _,)+ } = $config;
        serde_json::json!({ $((stringify!($name)): $name),+ })
    }};
}

/// Returns one object with the fields of all objects of a list.
pub fn merged<const N: usize>(objects: [Value; N]) -> Map<String, Value> {
    objects.into_iter().filter_map(|object| object.as_object().cloned()).flatten().collect()
}

/// Reads a checksummed file of a run's folder.
pub fn saved(folder: &Path, name: &str) -> Result<Value, Error> {
    let file = folder.join(name);
    let text = read_checksummed(&file).map_err(|error| match error.class() {
        Class::Data => damaged_run(&file, error.text()),
        _ => error,
    })?;
    serde_json::from_slice(&text).map_err(|e| damaged_run(&file, e))
}

/// Rejects an identity that differs from the folder's `run.json`, with the error that `differs` returns for the
/// differences; returns the differences in the environment.
pub fn compare(
    path: &Path,
    identity: &Value,
    differs: impl FnOnce(&[String]) -> Error,
) -> Result<Vec<String>, Error> {
    let file = path.join(RUN);
    let saved = saved(path, RUN)?;
    let part =
        |name: &str| saved.get(name).ok_or_else(|| damaged_run(&file, format_args!("{name:?} is missing")));
    let changed = differences(part("identity")?, identity);
    if !changed.is_empty() {
        return Err(differs(&changed));
    }
    Ok(differences(part("environment")?, &environment_of_run()))
}

/// Returns differences with the names of settings in place of the names of members: `` `.batch_size` `` in place of
/// `run.batch_size`. The settings are the members of `config`.
pub(crate) fn with_settings(differences: &[String], config: &impl Serialize) -> Vec<String> {
    let config = json!(config);
    let named = |text: &String| {
        let (member, rest) = text.split_once(' ')?;
        let groups = ["run.", "optimizer."].into_iter();
        let name = groups.fold(member, |name, group| name.strip_prefix(group).unwrap_or(name));
        config.get(name).map(|_| format!("`.{name}` {rest}"))
    };
    differences.iter().map(|text| named(text).unwrap_or_else(|| text.clone())).collect()
}

/// Returns a description of every leaf in which `now` differs from `saved`.
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
