//! The commands: one module each, with an `Args` struct and a `run` function.

pub mod attention;
pub mod engine;
pub mod evaluate;
pub mod export;
pub mod features;
pub mod fill_mask;
pub mod finetune;
pub mod glue;
pub mod init;
pub mod inspect;
pub mod make_pretrain_data;
pub mod make_vocab;
pub mod merge;
pub mod multitask;
pub mod predict;
pub mod pretrain;
pub mod probe;
pub mod quickstart;
pub mod recipes;
pub mod report;
pub mod scores;
pub mod verify;

use std::path::{Path, PathBuf};

use anyhow::Context;
use bert_storage::{AtomicFile, Disk, write_atomic};
use bert_tasks::Task;
use bert_trainer::finetune::FinetuneConfig;
use bert_trainer::run_dir::model_folder::{resolve_model_folder, resolve_tuned_folder};
use clap::builder::RangedU64ValueParser;
use clap::error::ErrorKind;

use crate::progress::print_warning;

/// Returns a clap parser for numbers that are at least `least`.
fn at_least(least: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..)
}

/// Returns the model folder that a path refers to, and prints the corrupt checkpoints that were skipped to stderr.
fn model_folder(path: &Path) -> anyhow::Result<PathBuf> {
    Ok(resolve_model_folder(path, &mut |error| print_warning(error))?)
}

/// Like [`model_folder`], for commands that also accept an adapter folder.
fn tuned_folder(path: &Path) -> anyhow::Result<PathBuf> {
    Ok(resolve_tuned_folder(path, &mut |error| print_warning(error))?)
}

/// Parses a configuration from flags that one command passes to another.
fn parse_flags<C: clap::Args + clap::FromArgMatches>(
    flags: impl IntoIterator<Item: Into<std::ffi::OsString> + Clone>,
) -> anyhow::Result<C> {
    let command = C::augment_args(clap::Command::new("flags").no_binary_name(true));
    Ok(C::from_arg_matches(&command.try_get_matches_from(flags)?)?)
}

/// Returns a path as UTF-8 text, for a flag's value.
fn unicode(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{}: the path is not valid Unicode", path.display()))
}

/// Returns the `finetune` configuration of a task with output folder `output/TASK`. `own` are the flags set by the
/// command, each with its value; `flags` are the user's.
fn tuning_of(
    task: Task,
    (data, checkpoint, output): (&Path, &Path, &Path),
    own: &[&str],
    flags: &[String],
) -> anyhow::Result<FinetuneConfig> {
    let name = task.spec().name;
    let output = output.join(name);
    let places = ["--task", name, "--data", unicode(data)?, "--checkpoint", unicode(checkpoint)?];
    let set = [&places[..], &["--output", unicode(&output)?], own].concat();
    for pair in set.chunks_exact(2) {
        let (flag, value) = (pair[0], pair[1]);
        if flags.iter().any(|given| given == flag || given.starts_with(&format!("{flag}="))) {
            let text = format!("{flag} cannot be given after `--`: this command sets it, here to {value}\n");
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, text).into());
        }
    }
    parse_flags(set.into_iter().chain(flags.iter().map(String::as_str)))
}

/// Creates the parent folders of a file named by the user.
pub(crate) fn make_parents(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Checks that a file can be written before the work for it begins. Creates its parent folders.
fn check_writable(path: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(!path.is_dir(), "cannot write {}: this is a folder; name a file in it", path.display());
    make_parents(path)?;
    // The file is dropped without a commit, so nothing is left on disk.
    AtomicFile::create(&Disk, path)?;
    Ok(())
}

/// Writes a page or a text file and creates its parent folders.
fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    make_parents(path)?;
    write_atomic(path, |out| out.write_all(text.as_bytes()))?;
    Ok(())
}

/// Documented exit codes, for `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 done, 1 error, 2 usage, 3 bad or corrupt data, 4 checkpoint invalid or of \
    another shape, 5 numerical failure, 6 output in use by another process, 7 not enough memory, 75 retry later (other \
    parts are not tokenized yet, or a store is unavailable), 130/143 stopped by SIGINT/SIGTERM";
