//! `--config FILE`: uses saved options as defaults for options that the command line does not give.
//!
//! A field, its flag and its JSON key have the same name in every configuration, so one function serves all programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bert_data::{Error, OptionError};
use bert_storage::read_limited;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::command_line;
use crate::recipe::{RECIPE, Recipe};

/// The clap id of `--config`, whose value is a path.
pub const CONFIG_FILE: &str = "config_file";

/// Maximum size of a configuration file in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Parses the arguments of a program. Options of its configuration `C` that the command line does not give come from
/// `--config`, which `read` reads, or from the section of `--recipe` that `part` selects and may adapt to the options of
/// the command line. Exits the process on a usage error.
///
/// # Errors
/// Returns the errors of `read`; [`OptionError::File`] for a key or value that `C` does not have.
pub fn parse<A, C>(
    read: impl Fn(&Path) -> anyhow::Result<Map<String, Value>>,
    part: impl Fn(Recipe, &ArgMatches) -> Map<String, Value>,
    config: impl Fn(&mut A) -> &mut C,
) -> anyhow::Result<A>
where
    A: CommandFactory + FromArgMatches,
    C: Serialize + DeserializeOwned,
{
    let (command, mut line): (_, Vec<OsString>) = (A::command(), command_line::arguments().collect());
    // Usage errors are reported below, when the whole command line is parsed.
    let given = command.clone().ignore_errors(true).try_get_matches_from(&line).unwrap_or_default();
    let file = given.try_get_one::<PathBuf>(CONFIG_FILE).ok().flatten();
    let recipe = given.try_get_one::<String>(RECIPE).ok().flatten();
    let (path, mut saved) = match (file, recipe) {
        (Some(path), _) => (path.clone(), read(path)?),
        (None, Some(name)) => (PathBuf::from(name), part(Recipe::read(name)?, &given)),
        (None, None) => return Ok(arguments(command, line)),
    };
    saved.retain(|key, _| !is_decided(&command, &given, key));
    line.extend(saved.iter().filter_map(|(key, value)| flag(&command, key, value)));
    let mut arguments: A = arguments(command, line);
    let config = config(&mut arguments);
    // Merge as JSON, not only as flags: this covers lists and switches, and keeps text unchanged (a path may contain a
    // comma).
    let mut merged = serde_json::to_value(&*config)?;
    for (key, value) in saved {
        merged[key] = value;
    }
    let invalid = |source| Error::from(OptionError::File { path, source });
    *config = serde_json::from_value(merged).map_err(invalid)?;
    Ok(arguments)
}

fn arguments<A: FromArgMatches>(command: Command, line: Vec<OsString>) -> A {
    A::from_arg_matches(&command.get_matches_from(line)).unwrap_or_else(|error| error.exit())
}

/// Returns whether the command line gives an option, or another option that conflicts with it.
fn is_decided(command: &Command, given: &ArgMatches, key: &str) -> bool {
    let on_line = |id: &str| {
        given.ids().any(|found| found.as_str() == id)
            && given.value_source(id) == Some(ValueSource::CommandLine)
    };
    let conflicts = |a: &clap::Arg, b: &clap::Arg| {
        command.get_arg_conflicts_with(a).iter().any(|other| other.get_id() == b.get_id())
    };
    let Some(option) = command.get_arguments().find(|arg| arg.get_id() == key) else { return false };
    let mut others = command.get_arguments().filter(|arg| on_line(arg.get_id().as_str()));
    others.any(|other| other.get_id() == key || conflicts(option, other) || conflicts(other, option))
}

/// Returns a saved text or number as a flag, so that clap finds the required options.
fn flag(command: &Command, key: &str, value: &Value) -> Option<OsString> {
    let option = command.get_arguments().find(|arg| arg.get_id() == key)?;
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    Some(format!("--{}={text}", option.get_long()?).into())
}

/// Returns the options in a JSON file, or in the `"config"` of the file `saved_as` in an output folder.
///
/// # Errors
/// Fails if the file cannot be read; [`OptionError::File`] if it is invalid.
pub fn read(path: &Path, saved_as: &str) -> anyhow::Result<Map<String, Value>> {
    let path = if path.is_dir() { path.join(saved_as) } else { path.to_owned() };
    let text = read_limited(&path, MAX_BYTES).map_err(bert_storage::Error::io("read", &path))?;
    let invalid = |source| Error::from(OptionError::File { path: path.clone(), source });
    let mut options: Map<String, Value> = serde_json::from_slice(&text).map_err(invalid)?;
    match options.remove("config") {
        None => Ok(options),
        Some(config) => Ok(serde_json::from_value(config).map_err(invalid)?),
    }
}

#[cfg(test)]
mod tests {
    use bert_data::BuildConfig;
    use bert_trainer::PretrainConfig;
    use bert_trainer::finetune::FinetuneConfig;

    use super::*;

    /// Checks that every key of a configuration is a flag and every flag a key.
    fn check<C: clap::Args + FromArgMatches + Serialize>(line: &[&str]) {
        let command = C::augment_args(Command::new("program").no_binary_name(true));
        let matches = command.clone().try_get_matches_from(line).unwrap();
        let config = serde_json::to_value(C::from_arg_matches(&matches).unwrap()).unwrap();
        let keys = config.as_object().unwrap();
        for key in keys.keys() {
            let flag = command.get_arguments().find(|arg| arg.get_id() == key.as_str()).unwrap();
            assert_eq!(flag.get_long().unwrap(), key.replace('_', "-"));
        }
        assert_eq!(command.get_arguments().count(), keys.len());
    }

    #[test]
    fn every_field_is_a_flag_of_its_name() {
        check::<BuildConfig>(&[]);
        check::<PretrainConfig>(&["--data", "d", "--model", "tiny", "--steps", "1", "--output", "o"]);
        check::<FinetuneConfig>(&["--task", "rte", "--data", "d", "--checkpoint", "c", "--output", "o"]);
    }
}
