//! The flags of `bert experiment`.

use std::path::PathBuf;

use bert_finetuning::Seeds;
use bert_inference::{Error, builtin_model};
use bert_tasks::Task;
use clap::Args as ClapArgs;

use super::definition::parse_name;
use crate::commands::at_least;
use crate::options::run_args::RunArgs;
use crate::output::table::FormatArgs;
use crate::process::threads::ThreadArgs;

/// Repeat an experiment of a course report, or list them.
///
/// Each experiment has fixed settings (the files in experiments/ of the repository), fine-tunes with all of them, and
/// writes a page and a table next to the published figures: experiment.html, experiment.md and experiment.json in
/// --output. Finished fine-tunings are kept, so a stopped experiment continues with --resume.
///
/// Before it starts, short runs measure how long it will take. Flags of finetune after -- override the flags of
/// the experiment: bert experiment fusion ... -- --num-train-epochs 1
#[derive(ClapArgs, Debug)]
// The usage line of clap would be longer than 80 columns.
#[command(override_usage = "bert experiment [OPTIONS] [EXPERIMENT] [-- <FINETUNE FLAGS>...]")]
pub struct Args {
    /// Experiment; without one, the experiments are listed.
    #[arg(value_name = "EXPERIMENT", value_parser = parse_name)]
    pub(super) name: Option<String>,

    /// Pre-training runs, checkpoints or Hugging Face folders; the table has rows for each.
    #[arg(long, value_name = "DIR,...", value_delimiter = ',', default_value = builtin_model::NAME)]
    pub(super) checkpoint: Vec<PathBuf>,

    /// Data folder: the files of the tasks, or subfolders with the names of the tasks, glue, sick and minbert. Required
    /// by all experiments but masking.
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,

    /// Output folder: a folder for each fine-tuning, and the page and the table. Required by all experiments but masking.
    #[arg(long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,

    /// Run only these tasks of the experiment [default: all].
    #[arg(long, value_name = "TASK,...", value_delimiter = ',')]
    pub(super) tasks: Vec<Task>,

    /// Seeds of each setting: numbers and ranges, such as 1-5. Masking uses the first one.
    #[arg(long, value_name = "N,N-N,...", default_value = "1-5")]
    pub(super) seeds: Seeds,

    /// Train on a random subset of N examples of each task, for a quick run.
    #[arg(long, value_name = "N")]
    pub(super) max_train_examples: Option<usize>,

    /// Text of masking and held-out text of forgetting: one sentence per line, a blank line between documents [default:
    /// held-out articles of the embedded corpus].
    #[arg(long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,

    /// Maximum number of instances that masking prints [default: 4].
    #[arg(long, value_name = "N", value_parser = at_least(1))]
    pub(super) instances: Option<usize>,

    /// Maximum number of tokens of an instance of masking [default: 64].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(8..))]
    pub(super) max_seq_length: Option<u16>,

    /// Print the estimated time and train nothing.
    #[arg(long)]
    pub(super) dry_run: bool,

    #[command(flatten)]
    pub(super) threads: ThreadArgs,

    #[command(flatten)]
    pub(super) format: FormatArgs,

    #[command(flatten)]
    pub(super) run: RunArgs,

    /// Flags of finetune, applied to every fine-tuning.
    #[arg(last = true, value_name = "FINETUNE FLAGS")]
    pub(super) flags: Vec<String>,
}

impl Args {
    /// Rejects flags that an experiment does not use.
    ///
    /// # Errors
    /// Fails when such a flag is given; the error names the first one.
    pub(super) fn check(&self, experiment: &str) -> Result<(), Error> {
        let masking = [
            ("data", self.data.is_some()),
            ("tasks", !self.tasks.is_empty()),
            ("max_train_examples", self.max_train_examples.is_some()),
            ("dry_run", self.dry_run),
            ("checkpoint", self.checkpoint.len() > 1),
        ];
        let training = [
            ("instances", self.instances.is_some()),
            ("max_seq_length", self.max_seq_length.is_some()),
            ("input", self.input.is_some() && experiment != "forgetting"),
        ];
        let (unused, reason) = match experiment {
            "masking" => (&masking[..], "masking trains nothing and reads one checkpoint and --input"),
            _ => (&training[..], "is for the experiment masking, and --input also for forgetting"),
        };
        if experiment == "masking" && !self.flags.is_empty() {
            return Err(Error::usage(format!("flags of finetune: {reason}")));
        }
        match unused.iter().find(|(_, is_given)| *is_given) {
            Some(&(flag, _)) => Err(Error::option(flag, reason.to_string())),
            None => Ok(()),
        }
    }
}
