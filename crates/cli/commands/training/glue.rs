//! `bert glue` fine-tunes a checkpoint on all GLUE tasks.

use std::path::{Path, PathBuf};

use bert_finetuning::{FinetuneConfig, check_finished};
use bert_inference::hub_model::recorded_path;
use bert_inference::{DeviceName, builtin_model};
use bert_reports::{GlueTable, Submission, TASKS, write_submission};
use bert_storage::{Error, write_json_atomic};
use bert_task_files::find_split;
use bert_tasks::{Split, Task};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::hub::pinned_start;
use crate::commands::training::finetune::tune;
use crate::commands::training::finetune_flags::{for_task, parse_flags};
use crate::commands::{model_folder, selected_device};
use crate::options::run_args::RunArgs;
use crate::output::files::check_new_folder;
use crate::output::progress::{print_note_unless, print_stderr};
use crate::output::table::{FormatArgs, Table, as_table, glue_table, print_table};
use crate::process::signals::stop_on_signals;
use crate::process::threads::ThreadArgs;

/// Tasks that `--from-mnli` starts from the model fine-tuned on MNLI.
const FROM_MNLI: [Task; 3] = [Task::Rte, Task::Mrpc, Task::Stsb];

/// Fine-tune a checkpoint on all GLUE tasks.
///
/// The result is a table next to the published BERT of the same size, and the archive for the GLUE server.
///
/// The settings are the defaults of `finetune` for each task and for the size of the model. Flags of finetune after --
/// override them: bert glue ... -- --learning-rate 1e-4,3e-4 --holdout 0.1. The published small models were trained with
/// --learning-rate 3e-4 --num-train-epochs 4.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint or Hugging Face folder.
    #[arg(long, value_name = "DIR", default_value = builtin_model::NAME)]
    checkpoint: PathBuf,

    /// GLUE data folder with one subfolder per task, as downloaded.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Output folder: one subfolder per task, glue.json and submission.zip.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,

    /// Run only these tasks [default: all nine].
    #[arg(long, value_name = "TASK,...", value_delimiter = ',')]
    tasks: Vec<Task>,

    /// Start RTE, MRPC and STS-B from the model fine-tuned on MNLI, as is usual for these small data sets.
    #[arg(long)]
    from_mnli: bool,

    /// Seeds, one run per task and seed: numbers and ranges, such as 1-5.
    #[arg(long, value_name = "N,N-N,...", default_value = "1")]
    seeds: String,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    format: FormatArgs,

    #[command(flatten)]
    run: RunArgs,

    /// Flags of finetune, applied to every task.
    #[arg(last = true, value_name = "FINETUNE FLAGS")]
    flags: Vec<String>,
}

/// Contents of `glue.json`.
#[derive(Serialize)]
struct Results {
    /// Model folder that was fine-tuned.
    checkpoint: PathBuf,
    #[serde(flatten)]
    table: GlueTable,
    submission: Submission,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let start = pinned_start(&args.checkpoint, &args.output, args.run.quiet)?;
    let stop = stop_on_signals()?;
    let tasks: Vec<Task> = if args.tasks.is_empty() { TASKS.to_vec() } else { args.tasks.clone() };
    if let Some(other) = tasks.iter().find(|task| !TASKS.contains(task)) {
        let names: Vec<&str> = TASKS.iter().map(|task| task.spec().name).collect();
        let reason = format!("{other} is not a GLUE task; the tasks are {}", names.join(", "));
        return Err(Error::option("tasks", reason).into());
    }
    if let Some(twice) = (1..tasks.len()).find(|&at| tasks[..at].contains(&tasks[at])) {
        return Err(Error::option("tasks", format!("{} is named twice", tasks[twice])).into());
    }
    if args.from_mnli && !tasks.contains(&Task::Mnli) {
        let reason = "needs mnli in --tasks".to_string();
        return Err(Error::option("from_mnli", reason).into());
    }
    let mut flags = parse_flags(&[("--seeds", &args.seeds)], &[], &args.flags)?;
    flags.compute.device = selected_device(flags.compute.device)?;
    let folder = model_folder(&start)?;
    let model = bert_inference::ModelFiles::open(&folder)?.config;
    // Validate every configuration before the first run, because the runs take hours.
    let configs = tasks.iter().map(|task| {
        find_split(task, &args.data, Split::Train)?;
        find_split(task, &args.data, Split::Dev)?;
        config(args, &flags, task, &start)
    });
    let configs = configs.collect::<anyhow::Result<Vec<FinetuneConfig>>>()?;
    if !args.run.resume {
        check_new_folder(&args.output, "choose another --output, or continue with --resume")?;
    }
    let mut in_order: Vec<(&Task, &FinetuneConfig)> = tasks.iter().zip(&configs).collect();
    // MNLI runs first, because other tasks may start from its model.
    in_order.sort_by_key(|(task, _)| **task != Task::Mnli);
    for (task, config) in in_order {
        if config.output.join("report.json").exists() {
            check_finished(config)?;
            print_note_unless(args.run.quiet, format!("{task} is already complete"));
            continue;
        }
        if !args.run.quiet {
            print_stderr(&format!("{task}: {}", config.output.display()));
        }
        tune(config, args.run.resume && config.output.exists(), args.run.quiet, &stop)?;
    }
    let table = GlueTable::read(&args.output, &tasks, &model)?;
    let device = configs.first().map_or(DeviceName::Flex, |config| config.compute.device);
    let submission = write_submission(&args.output, &args.data, &tasks, device)?;
    let results = Results { checkpoint: recorded_path(&start, &folder), table, submission };
    write_json_atomic(&args.output.join("glue.json"), &results)?;
    let archive = args.output.join("submission.zip");
    print_table(args.format, &results, results.table(), |_| {
        let table = as_table(&glue_table(&results.table));
        format!("{table}\n{}: {}", archive.display(), results.submission_files())
    })
}

impl Results {
    /// Returns a description of the files of the submission.
    fn submission_files(&self) -> String {
        let missing = if self.submission.missing.is_empty() {
            String::new()
        } else {
            format!("; without {}: their test sets are missing", self.submission.missing.join(", "))
        };
        format!("{} files{missing}", self.submission.files.len())
    }

    fn table(&self) -> Table {
        let mut table = glue_table(&self.table);
        table.notes.push(format!("submission: {}", self.submission_files()));
        table
    }
}

/// Returns the fine-tuning configuration of a task.
fn config(args: &Args, flags: &FinetuneConfig, task: &Task, start: &Path) -> anyhow::Result<FinetuneConfig> {
    let mnli = args.output.join(Task::Mnli.spec().name);
    let from_mnli = args.from_mnli && FROM_MNLI.contains(task);
    let checkpoint = if from_mnli { &mnli } else { start };
    let config = for_task(flags, task.clone(), &args.data, checkpoint, &args.output);
    bert_finetuning::check(&config)?;
    Ok(config)
}
