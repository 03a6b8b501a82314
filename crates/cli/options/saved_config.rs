//! `--config FILE`: puts saved options as flags before the command line.
//!
//! A field, its flag and its JSON key have the same name in every configuration, so one function serves all programs.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bert_finetuning::{Choices, Seeds};
use bert_storage::did_you_mean;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches};
use serde_json::{Map, Value};

use crate::options::help::arranged;
use crate::options::hub_data::with_local_data;
use crate::options::options_file::{OptionsFile, SECTIONS};
use crate::options::recipe::{self, parse_name};
use crate::options::{command_line, numbers};

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
    /// The options that a file may set.
    type Config: Args;

    /// Name of the file in the output folder that contains the options.
    const SAVED_AS: &str;

    /// Name of the section of this program in a file with sections.
    const SECTION: &str;

    /// Returns the options in a file or an output folder.
    ///
    /// # Errors
    /// Fails as [`OptionsFile::read`] does.
    fn read_saved(path: &Path) -> anyhow::Result<OptionsFile> {
        OptionsFile::read(path, Self::SAVED_AS, Self::SECTION)
    }

    /// Changes the options of a recipe to fit the flags on the command line.
    fn fit_recipe(_options: &mut Map<String, Value>, _given: &ArgMatches) {}
}

/// Parses the arguments of this process. Exits the process on a usage error.
///
/// # Errors
/// Fails as `parse_line` does.
pub fn parse<A: Program>() -> anyhow::Result<A> {
    parse_line(A::command(), command_line::arguments())
}

/// Parses a command line, the name of the program first. The options of `--config` or `--recipe` are inserted as flags
/// before the other arguments, except options that the command line gives or excludes. Exits the process on a usage
/// error.
///
/// # Errors
/// Fails when the file cannot be read, or when it has an unknown key or an invalid value.
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
        (None, None) => {
            let line = with_local_data(&command, line)?;
            return Ok(arguments(command, line).unwrap_or_else(|error| error.exit()));
        }
    };
    file.options.retain(|key, _| !is_set_or_excluded(&command, &given, key));
    let config = A::Config::augment_args(Command::new(A::SECTION));
    let mut saved = Vec::new();
    for (key, value) in &file.options {
        saved.extend(flags(&config, key, value).map_err(|reason| file.at(key, &reason))?);
    }
    line.splice(1..1, saved);
    let line = with_local_data(&command, line)?;
    arguments(command.clone(), line).or_else(|error| {
        match file.options.keys().find(|key| is_about(&error, &command, key)) {
            Some(key) => Err(file.at(key, &reason(&error)).into()),
            None => error.exit(),
        }
    })
}

fn arguments<A: FromArgMatches>(command: Command, line: Vec<OsString>) -> Result<A, clap::Error> {
    A::from_arg_matches(&numbers::parse(command, line)?)
}

/// Returns whether an error is about the value of an option.
fn is_about(error: &clap::Error, command: &Command, key: &str) -> bool {
    let is_value_error = matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation);
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return false };
    let option = command.get_arguments().find(|arg| arg.get_id() == key);
    let long = option.and_then(|option| option.get_long());
    is_value_error && long.is_some_and(|long| flag.split_whitespace().next() == Some(&format!("--{long}")))
}

/// Returns the message about an unknown key, with a similar known one. A key whose value is an object may be a
/// misspelled section name.
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

/// Returns an option of a file as flags.
///
/// # Errors
/// Fails when the key is unknown, or when the value has the wrong type; the error is a sentence about it.
fn flags(config: &Command, key: &str, value: &Value) -> Result<Vec<OsString>, String> {
    let Some(option) = config.get_arguments().find(|option| option.get_id() == key) else {
        return Err(unknown_field(key, value, config.get_arguments().map(|option| option.get_id().as_str())));
    };
    let long = option.get_long().unwrap_or(key);
    let flag = |value: &str| OsString::from(format!("--{long}={value}"));
    let invalid = |found: &str, expected| format!("{key}: invalid type: {found}, expected {expected}");
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Bool(is_set) if !option.get_action().takes_values() => {
            Ok(is_set.then(|| format!("--{long}").into()).into_iter().collect())
        }
        other if !option.get_action().takes_values() => Err(invalid(&other.to_string(), "true or false")),
        Value::Array(values) => {
            let texts: Vec<String> = values.iter().map(text_of).collect::<Option<_>>().unwrap_or_default();
            match option.get_value_delimiter() {
                _ if texts.len() != values.len() => {
                    Err(invalid("a nested list or table", "texts or numbers"))
                }
                Some(sign) if texts.iter().any(|text| text.contains(sign)) => {
                    Err(format!("{key}: a value of this list cannot contain {sign:?}"))
                }
                _ if matches!(option.get_action(), ArgAction::Append) => {
                    Ok(texts.iter().map(|text| flag(text)).collect())
                }
                _ if is_list(option) => Ok(vec![flag(&texts.join(","))]),
                _ => Err(invalid("a list", "one value")),
            }
        }
        Value::Object(_) => Err(invalid("a table", "one value")),
        one => Ok(text_of(one).map(|text| flag(&text)).into_iter().collect()),
    }
}

/// Returns a string, number or Boolean as text; `None` for other values.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Returns whether an option takes one value that is a list.
fn is_list(option: &Arg) -> bool {
    let value = option.get_value_parser().type_id();
    let lists = [TypeId::of::<Seeds>(), TypeId::of::<Choices<usize>>(), TypeId::of::<Choices<f64>>()];
    lists.into_iter().any(|list| value == list)
}

#[cfg(test)]
mod tests {
    use bert_data::BuildConfig;
    use bert_finetuning::FinetuneConfig;
    use bert_training::PretrainConfig;
    use serde::Serialize;

    use super::*;

    /// Checks that every key of a configuration is a flag and every flag a key.
    fn check<C: Args + Serialize>(line: &[&str]) {
        let command = C::augment_args(Command::new("program").no_binary_name(true));
        let matches = command.clone().try_get_matches_from(line).unwrap();
        let config = serde_json::to_value(C::from_arg_matches(&matches).unwrap()).unwrap();
        let keys = config.as_object().unwrap().keys();
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
        let line = "--task rte --data d --checkpoint c --output o --forgetting-data f --skip-unlabelled \
                    --skip-misplaced-answers --keep-seeds";
        check::<FinetuneConfig>(&line.split(' ').collect::<Vec<_>>());
    }
}
