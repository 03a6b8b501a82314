//! `bert multitask` fine-tunes one encoder on several tasks.

use std::path::PathBuf;

use bert_trainer::built_in;
use bert_trainer::finetune::{FinetuneConfig, MultitaskConfig, Sampling, multitask};
use bert_trainer::tasks::Task;
use clap::Args as ClapArgs;

use crate::commands::finetune::View;
use crate::commands::tuning_of;
use crate::exit::print_result;
use crate::signals::stop_on_signals;

/// Fine-tune one encoder on several tasks at once, a classifier each; every task's folder in --output is like one of finetune.
///
/// A step has a batch of one task. Flags of finetune stand after --, as in: bert multitask ... -- --learning-rate 1e-4
/// --num-train-epochs 3.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, one of its checkpoints, or a Hugging Face folder.
    #[arg(long, value_name = "DIR", default_value = built_in::NAME)]
    checkpoint: PathBuf,

    /// Folder with a folder for each task.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Folder for a folder for each task, and multitask.json.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,

    /// The tasks, two or more.
    #[arg(long, value_name = "TASK,TASK,...", value_delimiter = ',', required = true)]
    tasks: Vec<Task>,

    /// How often each task is trained on.
    #[arg(long, value_enum, default_value_t = Sampling::Annealed)]
    sampling: Sampling,

    /// Of --sampling temperature: 1 is proportional, large ones make all tasks equal.
    #[arg(long, value_name = "X", default_value_t = 2.0)]
    temperature: f64,

    /// Seed of classifiers, order of tasks and examples, and dropout.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Go on with what the same command left in --output when it was stopped or killed; it ends with the same bits.
    #[arg(long)]
    resume: bool,

    /// Print the table as one JSON object.
    #[arg(long)]
    json: bool,

    /// No progress on stderr.
    #[arg(long)]
    quiet: bool,

    /// Flags of finetune, for all tasks.
    #[arg(last = true, value_name = "FINETUNE FLAGS")]
    flags: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// When a task's files are missing, a flag is wrong, or training fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    let tasks = args.tasks.iter().map(|&task| of_task(args, task)).collect::<anyhow::Result<Vec<_>>>()?;
    let Args { sampling, temperature, .. } = *args;
    let config = MultitaskConfig { tasks, sampling, temperature, output: args.output.clone() };
    config.check()?;
    if args.output.join("multitask.json").exists() {
        let (what, hint) = ("a finished multitask run", "choose another --output");
        return Err(bert_trainer::Error::output_exists(&args.output, what, hint).into());
    }
    let mut view = View::new(&config.tasks[0], args.quiet);
    let report = multitask(&config, args.resume, &stop, &mut |event| view.show(&event));
    drop(view);
    print_result(args.json, &report?, ToString::to_string)
}

/// What `finetune` would be told of a task.
fn of_task(args: &Args, task: Task) -> anyhow::Result<FinetuneConfig> {
    let seed = args.seed.to_string();
    let places = (args.data.as_path(), args.checkpoint.as_path(), args.output.as_path());
    tuning_of(task, places, &["--seeds", &seed, "--select", "last"], &args.flags)
}
