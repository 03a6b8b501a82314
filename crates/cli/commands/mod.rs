//! The commands, one module each, with an `Args` struct and a `run` function.

pub mod bert;
pub mod completions;
pub mod data;
pub mod devices;
pub mod evaluation;
pub mod experiment;
mod hub;
pub mod man;
pub mod models;
pub mod quickstart;
pub mod recipes;
pub mod training;
#[cfg(feature = "translation")]
pub mod translation;

use std::path::{Path, PathBuf};

use bert_inference::{DeviceName, InputText, resolve_model_folder, resolve_tuned_folder};
use bert_tokenization::python_strip;
use bert_training::device_selection::select_device;
use clap::builder::RangedU64ValueParser;

use crate::commands::hub::pinned;
use crate::output::progress::{print_note, print_warning};

/// Returns a text of the command line, or a line of a file, divided at its last ` ||| ` into the texts of a pair.
/// White space at both ends is removed first, as extract_features.py does.
fn text_or_pair(text: &str) -> InputText<'_> {
    let text = python_strip(text);
    text.rsplit_once(" ||| ").map_or(text.into(), InputText::from)
}

/// Returns a clap parser for numbers that are at least `least`.
fn at_least(least: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..)
}

/// Returns the model folder that a path refers to. Prints a warning to stderr for each corrupt checkpoint that it
/// skips. A model of the Hub is downloaded if it is not in the cache.
fn model_folder(path: &Path) -> anyhow::Result<PathBuf> {
    Ok(resolve_model_folder(&pinned(path, false)?, &mut |error| print_warning(error))?)
}

/// Returns the folder like [`model_folder`], for commands that also accept an adapter folder.
fn tuned_folder(path: &Path) -> anyhow::Result<PathBuf> {
    Ok(resolve_tuned_folder(&pinned(path, false)?, &mut |error| print_warning(error))?)
}

/// Returns the device itself, or for `auto` the fastest one, whose name and reason are printed to stderr.
fn selected_device(device: DeviceName) -> anyhow::Result<DeviceName> {
    Ok(select_device(device)?.map_or(device, |selected| {
        print_note(format!("--device {} ({})", selected.device, selected.reason));
        selected.device
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_divided_as_in_the_reference() {
        // re.match(r"^(.*) \|\|\| (.*)$", line.strip())
        let single = ["a b", "a|||b", "||| b", ""];
        assert!(single.into_iter().all(|text| text_or_pair(text) == text.into()));
        assert_eq!(text_or_pair(" a b \r"), "a b".into());
        assert_eq!(text_or_pair("a ||| b"), ("a", "b").into());
        assert_eq!(text_or_pair("a ||| b ||| c"), ("a ||| b", "c").into());
    }
}
