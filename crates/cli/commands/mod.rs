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
use bert_trainer::checkpoint::{resolve_model_folder, resolve_tuned_folder};
use bert_trainer::finetune::FinetuneConfig;
use bert_trainer::tasks::Task;
use clap::builder::RangedU64ValueParser;
use clap::error::ErrorKind;

use crate::progress::say;

/// Takes numbers from `least` on.
fn at_least(least: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..)
}

/// The folder of the model that a path means; damaged checkpoints that were passed over are named on stderr.
fn model_folder(path: &Path) -> anyhow::Result<PathBuf> {
    Ok(resolve_model_folder(path, &mut |error| say(&format!("warning: {error}")))?)
}

/// [`model_folder`] for commands that take an adapter's folder too.
fn tuned_folder(path: &Path) -> anyhow::Result<PathBuf> {
    Ok(resolve_tuned_folder(path, &mut |error| say(&format!("warning: {error}")))?)
}

/// A configuration as the command line gives it, from flags that another command hands on.
fn of_flags<C: clap::Args + clap::FromArgMatches>(
    flags: impl IntoIterator<Item: Into<std::ffi::OsString> + Clone>,
) -> anyhow::Result<C> {
    let command = C::augment_args(clap::Command::new("flags").no_binary_name(true));
    Ok(C::from_arg_matches(&command.try_get_matches_from(flags)?)?)
}

/// A path as a flag's value.
fn unicode(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{}: not a Unicode path", path.display()))
}

/// `finetune`'s configuration of a task whose folder is `output/TASK`; `own` are the flags that the command sets, each with
/// its value, and `flags` those of the user.
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
    of_flags(set.into_iter().chain(flags.iter().map(String::as_str)))
}

/// Makes the folders above a file that the user named.
pub(crate) fn make_parents(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Checks that a file can be written, before the work for it begins; makes the folders above it.
fn check_writable(path: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(!path.is_dir(), "cannot write {}: it is a folder, name a file in it", path.display());
    make_parents(path)?;
    // Dropped at once, it leaves nothing.
    AtomicFile::create(&Disk, path)?;
    Ok(())
}

/// Writes a page or a text, and the folders above it.
fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    make_parents(path)?;
    write_atomic(path, |out| out.write_all(text.as_bytes()))?;
    Ok(())
}

/// The documented exit codes, for `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 done, 1 error, 2 usage, 3 bad or corrupt data, 4 checkpoint invalid or of \
    another shape, 5 numerical failure, 6 output in use by another process, 7 not enough memory, 75 too early (parts), 130/143 stopped by SIGINT/SIGTERM";
