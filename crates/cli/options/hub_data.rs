//! Data sets of the Hugging Face Hub on the command line: `hf://datasets/OWNER/NAME[@REVISION]/PATH`.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use bert_hub::{DataName, Hub, name_of_cached};
use bert_text::split_lists;
use clap::error::ErrorKind;
use clap::{ArgMatches, Command};

use crate::options::command_line::with_value;
use crate::output::download::with_download;

/// The options that name files to read. No other option may name a data set: its files in the cache would be changed.
/// The option `flags` contains the flags of another command.
const READ: [&str; 11] = [
    "input",
    "data",
    "folder",
    "train_file",
    "dev_file",
    "test_file",
    "predict",
    "eval_data",
    "forgetting_data",
    "initialization_data",
    "flags",
];

/// Downloads the data sets that the options of a command line name, and returns the line with their paths in the cache. A
/// line with a usage error is returned as it is.
///
/// # Errors
/// Fails when an option does not take the data set that it names, or when [`Hub::data`] fails.
pub fn with_local_data(command: &Command, line: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    if !line.iter().any(|argument| argument.to_string_lossy().to_lowercase().contains("hf://")) {
        return Ok(line);
    }
    let Ok(matches) = command.clone().try_get_matches_from(&line) else { return Ok(line) };
    let mut matches = &matches;
    let mut called = command;
    while let Some((name, inner)) = matches.subcommand() {
        matches = inner;
        called = called.find_subcommand(name).unwrap_or(called);
    }
    let is_path = |option: &str| {
        let known = called.get_arguments().find(|known| known.get_id() == option);
        known.is_some_and(|known| known.get_value_parser().type_id() == TypeId::of::<PathBuf>())
    };
    // If there are several data folders, each one has a weight.
    let has_weights = values(matches).filter(|(option, _)| *option == "data").count() > 1;
    let quiet = matches.try_get_one::<bool>("quiet").is_ok_and(|quiet| quiet == Some(&true));
    let mut local = BTreeMap::new();
    for (option, value) in values(matches) {
        let flag = value
            .to_str()
            .filter(|text| option == "flags" && text.starts_with("--"))
            .and_then(|text| text.split_once('='));
        let value = flag.map_or(value, |(_, value)| OsStr::new(value));
        let names = if option == "input" { split_lists(&[value.into()]) } else { vec![value.into()] };
        // `bert launch` passes its command to `pretrain`, which downloads the data sets.
        if option == "command" || !names.iter().any(|name| is_data_name(name.as_os_str())) {
            continue;
        }
        if !READ.contains(&option) && !is_path(option) {
            continue;
        }
        if let Some(problem) = problem(option, &names) {
            let reason = format!("--{}: {}: {problem}", option.replace('_', "-"), value.to_string_lossy());
            return Err(command.clone().error(ErrorKind::ValueValidation, reason).into());
        }
        let weighted = value.to_str().and_then(|text| text.rsplit_once('='));
        let is_weight = |weight: &str| has_weights && option == "data" && weight.parse::<f64>().is_ok();
        let weighted = weighted.filter(|(_, weight)| is_weight(weight));
        let path = if let Some((name, weight)) = weighted {
            let path = local_path(name.into(), quiet)?;
            [path, format!("={weight}").into()].into_iter().collect()
        } else {
            let paths =
                names.into_iter().map(|name| local_path(name, quiet)).collect::<Result<Vec<_>, _>>()?;
            paths.join(OsStr::new(","))
        };
        local.insert(value, path);
    }
    let in_cache = |value: &OsStr| local.get(value).map_or_else(|| value.to_owned(), OsString::clone);
    Ok(line.iter().map(|argument| with_value(argument, in_cache)).collect())
}

/// Returns the reason why an option does not take these names.
fn problem(option: &str, names: &[PathBuf]) -> Option<&'static str> {
    if !READ.contains(&option) {
        return Some("this option takes no data set of the Hub; a model is named OWNER/MODEL");
    }
    let has = |test: &dyn Fn(&str) -> bool| names.iter().any(|name| name.to_str().is_some_and(test));
    if option != "input" {
        let is_pattern = has(&|name| name.contains(['*', '?', '[']));
        return is_pattern.then_some("this option takes a file or a folder, no pattern");
    }
    let is_whole = has(&|name| DataName::parse(name).is_ok_and(|name| name.is_whole()));
    is_whole.then_some(
        "it names no file, and the card of a data set is not training text: add the path of a file or folder",
    )
}

/// Returns the given options with their values, as they are on the command line.
fn values(matches: &ArgMatches) -> impl Iterator<Item = (&str, &OsStr)> {
    matches.ids().flat_map(|id| {
        let given = matches.try_get_raw(id.as_str()).ok().flatten().into_iter().flatten();
        given.map(|value| (id.as_str(), value))
    })
}

fn is_data_name(text: &OsStr) -> bool {
    text.to_str().is_some_and(DataName::begins)
}

/// Returns the path of files of the Hub in the cache; other paths are returned as they are.
fn local_path(path: PathBuf, quiet: bool) -> Result<OsString, bert_hub::Error> {
    let Some(text) = path.to_str().filter(|text| DataName::begins(text)) else { return Ok(path.into()) };
    let name = DataName::parse(text)?;
    let hub = Hub::from_environment()?;
    let pinned = |path: &PathBuf| name_of_cached(path).unwrap_or_default();
    Ok(with_download(quiet, pinned, |on_event| hub.data(&name, on_event))?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bert::programs;

    fn options(command: &Command) -> Vec<String> {
        let own = command.get_arguments().map(|option| option.get_id().to_string());
        own.chain(command.get_subcommands().flat_map(options)).collect()
    }

    #[test]
    fn every_option_that_reads_exists() {
        let known: Vec<String> = programs().iter().flat_map(options).collect();
        for option in READ {
            assert!(known.iter().any(|name| name == option), "{option}");
        }
    }

    #[test]
    fn other_command_lines_stay_as_they_are() {
        let command = programs().remove(0);
        let lines = [
            "bert predict --input hf.txt",
            "bert predict --no-such-flag --input hf://datasets/o/n/x",
            "bert launch --processes 2 -- pretrain --data hf://datasets/o/n/x",
            "bert fill-mask --checkpoint m hf://x",
        ];
        for line in lines {
            let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(with_local_data(&command, line.clone()).unwrap(), line);
        }
    }

    #[test]
    fn only_inputs_may_be_patterns() {
        let command = programs().remove(0);
        let line = "bert verify hf://datasets/o/n/*.parquet".split(' ').map(OsString::from).collect();
        let error = with_local_data(&command, line).unwrap_err().to_string();
        assert!(error.contains("takes a file or a folder, no pattern"), "{error}");
    }
}
