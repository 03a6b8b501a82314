//! The commands: one module each, with an `Args` struct and a `run` function.

pub mod attention;
pub mod bert;
pub mod completions;
pub mod engine;
pub mod evaluate;
pub mod export;
pub mod features;
pub mod fill_mask;
pub mod finetune;
pub mod glue;
pub mod init;
pub mod inspect;
pub mod launch;
pub mod make_pretrain_data;
pub mod make_vocab;
pub mod man;
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
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, FromArgMatches as _};

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

/// The flags of `finetune` after `--`.
struct FinetuneFlags {
    config: FinetuneConfig,
    matches: ArgMatches,
}

impl FinetuneFlags {
    /// Parses the flags. `own` are flags that the command sets itself, each with its value.
    fn parse(own: &[(&str, &str)], flags: &[String]) -> anyhow::Result<Self> {
        let is_flag = |given: &str, flag: &str| given.split('=').next() == Some(flag);
        let of_each_task =
            ["--task", "--data", "--checkpoint", "--output"].map(|flag| (flag, "the one of each task"));
        for (flag, value) in of_each_task.iter().chain(own) {
            if flags.iter().any(|given| is_flag(given, flag)) {
                let text =
                    format!("{flag} cannot be given after `--`: this command sets it, here to {value}\n");
                return Err(clap::Error::raw(ErrorKind::ArgumentConflict, text).into());
            }
        }
        // Required flags, which `of_task` sets.
        let required = ["--task=rte", "--data=.", "--output=."].map(String::from);
        let own = own.iter().map(|(flag, value)| format!("{flag}={value}"));
        let command = FinetuneConfig::augment_args(clap::Command::new("finetune").no_binary_name(true));
        let line = required.into_iter().chain(own).chain(flags.iter().cloned());
        let matches = command.try_get_matches_from(line)?;
        Ok(Self { config: FinetuneConfig::from_arg_matches(&matches)?, matches })
    }

    /// Returns whether a flag is given, by its name in [`FinetuneConfig`].
    fn is_given(&self, name: &str) -> bool {
        self.matches.value_source(name) == Some(ValueSource::CommandLine)
    }

    /// Returns the configuration of a task, with output folder `output/TASK`.
    fn of_task(&self, task: Task, data: &Path, checkpoint: &Path, output: &Path) -> FinetuneConfig {
        FinetuneConfig {
            data: Some(data.to_owned()),
            checkpoint: checkpoint.to_owned(),
            output: output.join(task.spec().name),
            task,
            ..self.config.clone()
        }
    }
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
const EXIT_CODES: &str = "Exit codes: 0 done, 1 error, 2 usage, 3 bad or corrupt data, 4 checkpoint invalid or of \
    another shape, 5 numerical failure, 6 output in use by another process, 7 not enough memory, 75 retry later (other \
    parts are not tokenized yet, a store is unavailable, or another rank is lost), 130/143 stopped by SIGINT/SIGTERM";

/// Returns the end of `--help`: the examples and the exit codes.
pub fn examples_and_exit_codes(examples: &str) -> String {
    format!("{examples}\n\n{EXIT_CODES}")
}
