//! `--config FILE`: uses saved options as defaults for options that the command line does not give.
//!
//! A field, its flag and its JSON key have the same name in every configuration, so one function serves all programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bert_data::{Error, OptionError};
use bert_storage::{did_you_mean, read_limited};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Map, Value};

use crate::command_line;
use crate::recipe::{Recipe, parse_name};

/// The clap id of `--config`, whose value is a path.
const CONFIG_FILE: &str = "config_file";

/// The clap id of `--recipe`.
const RECIPE: &str = "recipe";

/// Maximum size of a configuration file in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// `--config`, for programs that save their options.
#[derive(clap::Args, Clone, Debug)]
pub struct ConfigArgs {
    /// Read options from a JSON file or from an earlier output (its folder, run.json, report.json or manifest.json);
    /// command-line flags override them.
    #[arg(long = "config", id = CONFIG_FILE, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
}

/// `--config` and `--recipe`.
#[derive(clap::Args, Clone, Debug)]
pub struct RecipeArgs {
    /// The saved options.
    #[command(flatten)]
    pub config: ConfigArgs,

    /// Read the remaining options from a recipe: a name listed by `bert recipes`, or a file in the same format.
    #[arg(long, id = RECIPE, value_name = "NAME|FILE", value_parser = parse_name, conflicts_with = CONFIG_FILE)]
    pub recipe: Option<String>,
}

/// A program whose options are saved in its output, and read back with `--config`.
pub trait Program: CommandFactory + FromArgMatches {
    /// The saved options.
    type Config: Serialize + DeserializeOwned;

    /// Name of the file in the output folder that contains the options.
    const SAVED_AS: &str;

    /// Returns the options to fill in.
    fn config(&mut self) -> &mut Self::Config;

    /// Returns the options in a file or an output folder.
    ///
    /// # Errors
    /// Fails if the file cannot be read; [`OptionError::File`] if it is invalid.
    fn read_saved(path: &Path) -> anyhow::Result<Map<String, Value>> {
        let mut file = read(path, Self::SAVED_AS)?;
        let Some(config) = file.remove("config") else { return Ok(file) };
        Ok(serde_json::from_value(config).map_err(|source| invalid(path, source))?)
    }

    /// Returns the options of this program in a recipe, given the flags on the command line.
    fn options_of(_recipe: Recipe, _given: &ArgMatches) -> Map<String, Value> {
        Map::new()
    }
}

/// Parses the arguments of this process. Exits the process on a usage error.
///
/// # Errors
/// As `parse_line`.
pub fn parse<A: Program>() -> anyhow::Result<A> {
    parse_line(A::command(), command_line::arguments().collect())
}

/// Parses a command line, the name of the program first. Options that it does not give come from `--config` or
/// `--recipe`. Exits the process on a usage error.
///
/// # Errors
/// Fails if the file cannot be read; [`OptionError::File`] for an unknown key or an invalid value.
pub(crate) fn parse_line<A: Program>(command: Command, mut line: Vec<OsString>) -> anyhow::Result<A> {
    // Usage errors are reported below, when the whole command line is parsed.
    let given = command.clone().ignore_errors(true).try_get_matches_from(&line).unwrap_or_default();
    let file = given.try_get_one::<PathBuf>(CONFIG_FILE).ok().flatten();
    let recipe = given.try_get_one::<String>(RECIPE).ok().flatten();
    let (path, mut saved) = match (file, recipe) {
        (Some(path), _) => (path.clone(), A::read_saved(path)?),
        (None, Some(name)) => (PathBuf::from(name), A::options_of(Recipe::read(name)?, &given)),
        (None, None) => return Ok(arguments(command, line)),
    };
    saved.retain(|key, _| !is_set_or_excluded(&command, &given, key));
    line.extend(saved.iter().filter_map(|(key, value)| flag(&command, key, value)));
    let mut arguments: A = arguments(command, line);
    // Merge as JSON, not only as flags: this covers lists and switches, and keeps text unchanged (a path may contain a
    // comma).
    let mut merged = serde_json::to_value(&*arguments.config())?;
    check_keys(&path, &saved, &merged)?;
    for (key, value) in saved {
        merged[key] = value;
    }
    *arguments.config() = serde_json::from_value(merged).map_err(|source| invalid(&path, source))?;
    Ok(arguments)
}

/// Rejects the first key that `known`, a configuration as JSON, does not have.
///
/// # Errors
/// [`OptionError::File`] naming the key, and the known key that is most like it.
pub fn check_keys(path: &Path, saved: &Map<String, Value>, known: &Value) -> Result<(), Error> {
    let Some(unknown) = saved.keys().find(|key| known.get(key).is_none()) else { return Ok(()) };
    let keys = known.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    let reason = format!("unknown field `{unknown}`{}", did_you_mean(unknown, keys));
    Err(invalid(path, serde_json::Error::custom(reason)))
}

fn invalid(path: &Path, source: serde_json::Error) -> Error {
    OptionError::File { path: path.to_owned(), source }.into()
}

fn arguments<A: FromArgMatches>(command: Command, line: Vec<OsString>) -> A {
    A::from_arg_matches(&command.get_matches_from(line)).unwrap_or_else(|error| error.exit())
}

/// Returns whether the command line gives an option, or another option that conflicts with it.
fn is_set_or_excluded(command: &Command, given: &ArgMatches, key: &str) -> bool {
    let is_on_line = |id: &str| {
        given.ids().any(|found| found.as_str() == id)
            && given.value_source(id) == Some(ValueSource::CommandLine)
    };
    let conflicts = |a: &clap::Arg, b: &clap::Arg| {
        command.get_arg_conflicts_with(a).iter().any(|other| other.get_id() == b.get_id())
    };
    let Some(option) = command.get_arguments().find(|arg| arg.get_id() == key) else { return false };
    let mut others = command.get_arguments().filter(|arg| is_on_line(arg.get_id().as_str()));
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

/// Returns the JSON object in a file, or in the file `saved_as` of a folder.
///
/// # Errors
/// Fails if the file cannot be read; [`OptionError::File`] if it is invalid.
pub fn read(path: &Path, saved_as: &str) -> anyhow::Result<Map<String, Value>> {
    let path = if path.is_dir() { path.join(saved_as) } else { path.to_owned() };
    let text = read_limited(&path, MAX_BYTES).map_err(bert_storage::Error::io("read", &path))?;
    Ok(serde_json::from_slice(&text).map_err(|source| invalid(&path, source))?)
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
