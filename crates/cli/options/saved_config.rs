//! `--config FILE`: uses saved options as defaults for options that the command line does not give.
//!
//! A field, its flag and its JSON key have the same name in every configuration, so one function serves all programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bert_storage::did_you_mean;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::options::command_line;
use crate::options::help::arranged;
use crate::options::options_file::{OptionsFile, SECTIONS};
use crate::options::recipe::{self, parse_name};

/// The clap id of `--config`, whose value is a path.
const CONFIG_FILE: &str = "config_file";

/// The clap id of `--recipe`.
const RECIPE: &str = "recipe";

/// `--config`, for programs that save their options.
#[derive(clap::Args, Clone, Debug)]
pub struct ConfigArgs {
    /// Read options from a TOML or JSON file. Or from an output folder. Flags of the command line override them. An output
    /// folder may be named by itself or by the file with its options: run.json, report.json or manifest.json.
    #[arg(long = "config", id = CONFIG_FILE, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
}

/// `--config` and `--recipe`.
#[derive(clap::Args, Clone, Debug)]
pub struct RecipeArgs {
    /// The saved options.
    #[command(flatten)]
    pub config: ConfigArgs,

    /// Read options from a recipe; see `bert recipes`. Takes a name of that list, or a file in the same format.
    #[arg(long, id = RECIPE, value_name = "NAME|FILE", value_parser = parse_name, conflicts_with = CONFIG_FILE)]
    pub recipe: Option<String>,
}

/// A program whose options are saved in its output, and read back with `--config`.
pub trait Program: CommandFactory + FromArgMatches {
    /// The saved options.
    type Config: Serialize + DeserializeOwned;

    /// Name of the file in the output folder that contains the options.
    const SAVED_AS: &str;

    /// Name of the section of this program in a file with sections.
    const SECTION: &str;

    /// Returns the options to fill in.
    fn config(&mut self) -> &mut Self::Config;

    /// Returns the options in a file or an output folder.
    ///
    /// # Errors
    /// As [`OptionsFile::read`].
    fn read_saved(path: &Path) -> anyhow::Result<OptionsFile> {
        OptionsFile::read(path, Self::SAVED_AS, Self::SECTION)
    }

    /// Changes the options of a recipe to fit the flags on the command line.
    fn fit_recipe(_options: &mut Map<String, Value>, _given: &ArgMatches) {}
}

/// Parses the arguments of this process. Exits the process on a usage error.
///
/// # Errors
/// As `parse_line`.
pub fn parse<A: Program>() -> anyhow::Result<A> {
    parse_line(A::command(), command_line::arguments())
}

/// Parses a command line, the name of the program first. Options that it does not give come from `--config` or
/// `--recipe`. Exits the process on a usage error.
///
/// # Errors
/// Fails if the file cannot be read;
/// [`OptionError::File`](bert_data::OptionError::File) for an unknown key or an invalid value.
pub(crate) fn parse_line<A: Program>(command: Command, mut line: Vec<OsString>) -> anyhow::Result<A> {
    let command = arranged(command);
    // Usage errors are reported below, when the whole command line is parsed.
    let given = command.clone().ignore_errors(true).try_get_matches_from(&line).unwrap_or_default();
    let file = given.try_get_one::<PathBuf>(CONFIG_FILE).ok().flatten();
    let recipe = given.try_get_one::<String>(RECIPE).ok().flatten();
    let mut file = match (file, recipe) {
        (Some(path), _) => A::read_saved(path)?,
        (None, Some(name)) => {
            let mut file = recipe::options(name, A::SECTION)?;
            A::fit_recipe(&mut file.options, &given);
            file
        }
        (None, None) => return Ok(arguments(command, line).unwrap_or_else(|error| error.exit())),
    };
    file.options.retain(|key, _| !is_set_or_excluded(&command, &given, key));
    line.extend(file.options.iter().flat_map(|(key, value)| flags(&command, key, value)));
    let mut arguments: A = arguments(command.clone(), line).or_else(|error| {
        let invalid = file.options.keys().find(|key| is_about(&error, &command, key));
        match (invalid, misspelled(&error, &command, &file)) {
            (Some(key), _) => Err(file.at(key, &reason(&error))),
            (None, Some(error)) => Err(error),
            (None, None) => error.exit(),
        }
    })?;
    merge(arguments.config(), &file)?;
    Ok(arguments)
}

/// Sets the options of a file in a configuration. Merges them as JSON, not only as flags: this covers lists and
/// switches, and keeps text unchanged (a path may contain a comma).
///
/// # Errors
/// [`OptionError::File`](bert_data::OptionError::File) naming the first unknown key or invalid value.
fn merge<C: Serialize + DeserializeOwned>(config: &mut C, file: &OptionsFile) -> anyhow::Result<()> {
    let mut merged = serde_json::to_value(&*config)?;
    for (key, value) in &file.options {
        if merged.get(key).is_none() {
            let known = merged.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
            return Err(file.at(key, &unknown_field(key, value, known)).into());
        }
        merged[key] = value.clone();
        if let Err(error) = C::deserialize(&merged) {
            return Err(file.at(key, &format!("{key}: {error}")).into());
        }
    }
    *config = serde_json::from_value(merged)?;
    Ok(())
}

fn arguments<A: FromArgMatches>(command: Command, line: Vec<OsString>) -> Result<A, clap::Error> {
    A::from_arg_matches(&command.try_get_matches_from(line)?)
}

/// Returns whether an error is about the value of an option.
fn is_about(error: &clap::Error, command: &Command, key: &str) -> bool {
    let of_value = matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation);
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return false };
    let option = command.get_arguments().find(|arg| arg.get_id() == key);
    let long = option.and_then(|option| option.get_long());
    of_value && long.is_some_and(|long| flag.split_whitespace().next() == Some(&format!("--{long}")))
}

/// Returns the error of the first unknown key of a hand-written file, if a required option is missing: the key may be the
/// misspelled name of that option.
fn misspelled(error: &clap::Error, command: &Command, file: &OptionsFile) -> Option<bert_data::Error> {
    if error.kind() != ErrorKind::MissingRequiredArgument || file.is_saved_output() {
        return None;
    }
    let known = || command.get_arguments().map(|argument| argument.get_id().as_str());
    let (key, value) = file.options.iter().find(|(key, _)| !known().any(|known| known == key.as_str()))?;
    Some(file.at(key, &unknown_field(key, value, known())))
}

/// Returns the message about an unknown key, with a similar known one. A key with options of its own may be the misspelled
/// name of a section.
fn unknown_field<'a>(key: &str, value: &Value, known: impl Iterator<Item = &'a str>) -> String {
    let sections = SECTIONS.iter().copied().filter(|_| value.is_object());
    format!("unknown field `{key}`{}", did_you_mean(key, known.chain(sections)))
}

/// Returns the first line of an error about a value, and the value that it suggests.
fn reason(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.lines().next().unwrap_or_default();
    let suggested = match error.get(ContextKind::SuggestedValue) {
        Some(ContextValue::String(value)) => format!("; did you mean `{value}`?"),
        _ => String::new(),
    };
    format!("{}{suggested}", first.trim_start_matches("error: "))
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

/// Returns a saved text or number as a flag, so that clap finds the required options; and a required list as one flag
/// for each element.
fn flags(command: &Command, key: &str, value: &Value) -> Vec<OsString> {
    let takes_value = |arg: &&clap::Arg| arg.get_action().takes_values();
    let option = command.get_arguments().find(|arg| arg.get_id() == key).filter(takes_value);
    let Some((option, long)) = option.and_then(|option| Some((option, option.get_long()?))) else {
        return Vec::new();
    };
    let texts = match value {
        Value::String(text) => vec![text.clone()],
        Value::Number(number) => vec![number.to_string()],
        Value::Array(values) if option.is_required_set() => {
            values.iter().filter_map(|value| value.as_str().map(String::from)).collect()
        }
        _ => Vec::new(),
    };
    texts.iter().map(|text| format!("--{long}={text}").into()).collect()
}

#[cfg(test)]
mod tests {
    use bert_data::BuildConfig;
    use bert_finetuning::FinetuneConfig;
    use bert_training::PretrainConfig;

    use super::*;

    /// Keys that mark a data set and cannot be set by a flag.
    const INTERNAL: [&str; 1] = ["held_out"];

    /// Checks that every key of a configuration is a flag and every flag a key.
    fn check<C: clap::Args + FromArgMatches + Serialize>(line: &[&str]) {
        let command = C::augment_args(Command::new("program").no_binary_name(true));
        let matches = command.clone().try_get_matches_from(line).unwrap();
        let config = serde_json::to_value(C::from_arg_matches(&matches).unwrap()).unwrap();
        let keys = config.as_object().unwrap().keys().filter(|key| !INTERNAL.contains(&key.as_str()));
        for key in keys.clone() {
            let flag = command.get_arguments().find(|arg| arg.get_id() == key.as_str()).unwrap();
            assert_eq!(flag.get_long().unwrap(), key.replace('_', "-"));
        }
        assert_eq!(command.get_arguments().count(), keys.count());
    }

    #[test]
    fn every_field_is_a_flag_of_its_name() {
        check::<BuildConfig>(&[]);
        check::<PretrainConfig>(&["--data", "d", "--model", "tiny", "--steps", "1", "--output", "o"]);
        let line = "--task rte --data d --checkpoint c --output o --forgetting-data f";
        check::<FinetuneConfig>(&line.split(' ').collect::<Vec<_>>());
    }
}
