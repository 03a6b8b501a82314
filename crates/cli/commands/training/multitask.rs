//! `bert multitask` fine-tunes one encoder on several tasks.

use std::path::PathBuf;

use bert_finetuning::{MultitaskConfig, Sampling, multitask};
use bert_inference::builtin_model;
use bert_tasks::Task;
use bert_training::check;
use clap::Args as ClapArgs;

use crate::commands::hub::pinned_start;
use crate::commands::training::finetune::View;
use crate::commands::training::finetune_flags::{for_task, parse_flags};
use crate::options::run_args::RunArgs;
use crate::output::table::{FormatArgs, as_table, multitask_table, print_table};
use crate::process::signals::stop_on_signals;
use crate::process::threads::ThreadArgs;

/// Fine-tune one encoder on several tasks at once.
///
/// Every task has its own classifier, and its folder in --output has the format of finetune's output.
///
/// Each step trains on a batch of one task. Pass flags of finetune after --, as in: bert multitask ... --
/// --learning-rate 1e-4 --num-train-epochs 3.
#[derive(ClapArgs, Debug)]
// The usage line of clap would be longer than 80 columns.
#[command(override_usage = "bert multitask [OPTIONS] --data <DIR> --output <DIR>\n       \
                            --tasks <TASK,TASK,...> [-- <FINETUNE FLAGS>...]")]
pub struct Args {
    /// Pre-training run, checkpoint or Hugging Face folder.
    #[arg(long, value_name = "DIR", default_value = builtin_model::NAME)]
    checkpoint: PathBuf,

    /// Data folder with one subfolder per task.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Output folder: one subfolder per task and multitask.json.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,

    /// Tasks, two or more.
    #[arg(long, value_name = "TASK,TASK,...", value_delimiter = ',', required = true)]
    tasks: Vec<Task>,

    /// How training batches are distributed over the tasks.
    #[arg(long, value_enum, default_value_t = Sampling::Annealed)]
    sampling: Sampling,

    /// Temperature of --sampling temperature: 1 is proportional to the task sizes, large values approach uniform
    /// sampling [default: 2].
    #[arg(long, value_name = "X")]
    temperature: Option<f64>,

    /// Random seed of the classifiers, the order of tasks and examples, and dropout.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    format: FormatArgs,

    #[command(flatten)]
    run: RunArgs,

    /// Flags of finetune, applied to all tasks.
    #[arg(last = true, value_name = "FINETUNE FLAGS")]
    flags: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let checkpoint = pinned_start(&args.checkpoint, &args.output, args.run.quiet)?;
    let stop = stop_on_signals()?;
    let own = [("--seeds", &*args.seed.to_string()), ("--select", "last")];
    let flags = parse_flags(&own, &[], &args.flags)?;
    let tasks = args.tasks.iter();
    let tasks = tasks.map(|task| for_task(&flags, task.clone(), &args.data, &checkpoint, &args.output));
    let tasks = tasks.collect();
    let needs = "needs `.sampling temperature`";
    check(args.temperature.is_none() || args.sampling == Sampling::Temperature, "temperature", needs)?;
    let temperature = args.temperature.unwrap_or(2.0);
    let config = MultitaskConfig { tasks, sampling: args.sampling, temperature, output: args.output.clone() };
    config.check()?;
    if args.output.join("multitask.json").exists() {
        let what = "a finished multitask run";
        let hint = "choose another --output";
        return Err(bert_training::output_exists(&args.output, what, hint).into());
    }
    let mut view = View::new(&config.tasks[0], args.run.quiet);
    let report = multitask(&config, args.run.resume.into(), &stop, &mut |event| view.show(&event));
    drop(view);
    let report = report?;
    print_table(args.format, &report, multitask_table(&report), as_table)
}
