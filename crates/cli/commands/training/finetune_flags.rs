//! The flags of `finetune` that a command passes to the fine-tuning of each of its tasks.

use std::ffi::OsString;
use std::path::Path;

use bert_finetuning::FinetuneConfig;
use bert_tasks::Task;
use clap::error::ErrorKind;
use clap::{Args as _, FromArgMatches as _};

use crate::options::numbers;

/// Parses the flags of `finetune` after `--`. `own` are flags that the command sets itself, each with its value.
/// `flags` take precedence over `defaults`.
pub(in crate::commands) fn parse_flags(
    own: &[(&str, &str)],
    defaults: &[String],
    flags: &[String],
) -> anyhow::Result<FinetuneConfig> {
    let is_flag = |given: &str, flag: &str| given.split('=').next() == Some(flag);
    let set_by_task =
        ["--task", "--data", "--checkpoint", "--output"].map(|flag| (flag, "the one of each task"));
    for (flag, value) in set_by_task.iter().chain(own) {
        if flags.iter().any(|given| is_flag(given, flag)) {
            let text = format!("{flag} cannot be given after `--`: this command sets it, here to {value}\n");
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, text).into());
        }
    }
    // Placeholders for required flags; `for_task` sets their values.
    let required = ["--task=rte", "--data=.", "--output=."].map(String::from);
    let own = own.iter().map(|(flag, value)| format!("{flag}={value}"));
    let command = FinetuneConfig::augment_args(clap::Command::new("finetune").no_binary_name(true));
    let command = command.args_override_self(!defaults.is_empty());
    let line = required.into_iter().chain(own).chain(defaults.iter().chain(flags).cloned());
    let matches = numbers::parse(command, line.map(OsString::from))?;
    Ok(FinetuneConfig::from_arg_matches(&matches)?)
}

/// Returns the configuration of a task with the flags, and with output folder `output/TASK`.
pub(in crate::commands) fn for_task(
    flags: &FinetuneConfig,
    task: Task,
    data: &Path,
    checkpoint: &Path,
    output: &Path,
) -> FinetuneConfig {
    FinetuneConfig {
        data: Some(data.to_owned()),
        checkpoint: checkpoint.to_owned(),
        output: output.join(task.spec().name),
        task,
        ..flags.clone()
    }
}
