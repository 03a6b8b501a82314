//! Defines the errors of training, one variant per cause, and the exit codes of programs.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use bert_collectives::{Lost, Member};
use bert_inference::FolderProblem;
use bert_storage::{Locate, Located};

/// An error of data loading, training, fine-tuning or reports.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A model, its folder, its inputs or its device cannot be used, or the value of an option is invalid.
    #[error(transparent)]
    Inference(bert_inference::Error),
    /// The data folder or its text is invalid.
    #[error(transparent)]
    Data(#[from] bert_data::Error),
    /// A folder of data, of a run or of a fine-tuning is invalid, or a file in it.
    #[error(transparent)]
    Run(#[from] Located<RunProblem>),
    /// A run was resumed with a different configuration.
    #[error(
        "{run}: this run was started with another configuration: {}. Use the same flags with --resume; to change \
         them, start a new run from its weights: --init-checkpoint {run} --output NEW",
        differences.join("; "), run = path.display()
    )]
    RunDiffers {
        /// The run's folder.
        path: PathBuf,
        /// Each difference in words.
        differences: Vec<String>,
    },
    /// An optimizer state does not match the model; the difference in words.
    #[error("the optimizer state has {0}")]
    OptimizerState(String),
    /// The loss or gradient was NaN or infinite for more consecutive steps than may be skipped.
    #[error(
        "step {step}: loss {loss}, gradient norm {gradient_norm}: not finite, like the {} steps before it \
         (--max-skipped-steps {max}); use a lower --learning-rate or more warm-up; the last checkpoint is intact",
        skipped - 1
    )]
    TooManySkippedSteps {
        /// The step.
        step: u64,
        /// Its loss.
        loss: f64,
        /// Its gradient norm.
        gradient_norm: f64,
        /// Consecutive skipped steps, including this one.
        skipped: u64,
        /// Maximum number of consecutive skipped steps.
        max: u64,
    },
    /// The loss or gradient was NaN or infinite.
    #[error(
        "step {step}: loss {loss}, gradient norm {gradient_norm}: not finite, so the update was not applied (use a \
         lower --learning-rate or more warm-up)"
    )]
    NotFinite {
        /// The step.
        step: u64,
        /// Its loss.
        loss: f64,
        /// Its gradient norm.
        gradient_norm: f64,
    },
    /// A training step needs more memory than the process can get.
    #[error("{needed}: {remedy}")]
    NotEnoughMemory {
        /// The estimate with its parts, and the limit, in words.
        needed: String,
        /// The options that reduce memory, in words.
        remedy: String,
    },
    /// A rank of the process group is lost: all others end.
    #[error(
        "{}",
        match step {
            0 => format!("before the first step was finished: {lost}; start again (with --resume if the run's folder exists)"),
            step => format!(
                "after step {step}: {lost}; the last checkpoint is intact, continue with --resume{}",
                or_with_fewer(fewer)
            ),
        }
    )]
    Lost {
        /// The last finished step.
        step: u64,
        /// The ranks and the reason.
        lost: Box<Lost>,
        /// Smaller numbers of ranks that can continue the run, ascending.
        fewer: Box<[usize]>,
    },
    /// Another rank of the process group has an error.
    #[error("{member} ended after step {step}: {text}")]
    Elsewhere {
        /// The rank.
        member: Member,
        /// The last finished step.
        step: u64,
        /// The exit code of its error.
        code: u8,
        /// Its error message.
        text: String,
    },
    /// The ranks of a process group have different programs, settings or data; each difference in words.
    #[error("the ranks differ: {}; start all of them with the same program, flags and data", .0.join("; "))]
    RanksDiffer(Vec<String>),
    /// The weights of the ranks differ before a step: one of them has a defect of its memory or processor.
    #[error(
        "after step {step}: the weights of {} differ from the other ranks'; the computer may have a defect; \
         the last checkpoint is intact, continue with --resume",
        members.iter().map(Member::to_string).collect::<Vec<_>>().join(", ")
    )]
    WeightsDiffer {
        /// The last finished step.
        step: u64,
        /// The ranks that differ from most others, or all ranks.
        members: Vec<Member>,
    },
    /// A signal requested a stop; a checkpoint has been written, unless the stop came before the first step.
    #[error(
        "stopped {}",
        match step {
            0 => "before the first step; nothing is lost, start again (with --resume if the run's folder exists)".into(),
            step => format!("after step {step}; a checkpoint was saved, continue with --resume"),
        }
    )]
    Stopped {
        /// The signal's number.
        signal: i32,
        /// The last finished step.
        step: u64,
    },
    /// A device computes other values than the CPU.
    #[error(
        "{device} computes wrong values: {tensor} differs from the CPU's by {difference:.1e} of its norm, and the maximum \
         is {bound:.0e}; update the driver, or use another --device (`bert devices --check` repeats this check)"
    )]
    DeviceWrong {
        /// The device's name.
        device: String,
        /// The tensor with the greatest difference, in words.
        tensor: String,
        /// The norm of the difference, divided by the norm of the tensor.
        difference: f64,
        /// The maximum.
        bound: f64,
    },
}

/// A problem with a folder of data, of a run or of a fine-tuning.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunProblem {
    /// The data folder has no instances.
    #[error("the data folder has no instances")]
    NoInstances,
    /// A fine-tuning was resumed with a different configuration; each difference in words.
    #[error(
        "this folder has an unfinished fine-tuning with another configuration, other weights or other data: {}. \
         Finish it with the same flags and --resume, or choose another --output",
        .0.join("; ")
    )]
    TuningDiffers(Vec<String>),
    /// A finished fine-tuning has a different configuration, weights or data than now given; each difference in words.
    #[error(
        "the finished fine-tuning in this folder has another configuration, other weights or other data: {}. --resume \
         needs the same ones; choose another --output",
        .0.join("; ")
    )]
    FinishedDiffers(Vec<String>),
    /// The output folder is not empty.
    #[error("the folder already holds {what}; {hint}")]
    OutputExists {
        /// The content found.
        what: &'static str,
        /// How to proceed.
        hint: &'static str,
    },
    /// `--resume` was given, but the folder has no run.
    #[error("no run to resume here (no run.json); start one without --resume")]
    NothingToResume,
    /// The folder to report on is neither a run nor a fine-tuning.
    #[error(
        "neither a pre-training run (run.json) nor a fine-tuning (report.json); for a data folder use bert inspect \
         --html"
    )]
    NothingToReport,
    /// The folder has no finished fine-tuning.
    #[error("no finished fine-tuning here (no report.json)")]
    NoFinetuning,
    /// Two fine-tunings to be combined have a seed in common.
    #[error("seed {0} of this configuration is also in another folder; leave one out")]
    SeedTwice(u64),
    /// Fine-tunings to be combined were scored on different sets.
    #[error(
        "{task} on {examples} examples, but the first folder has {first_task} on {first_examples}: scores on \
         different sets cannot be combined"
    )]
    DifferentDevSets {
        /// Its task.
        task: bert_tasks::Task,
        /// Number of examples in its dev set.
        examples: usize,
        /// The task of the first folder.
        first_task: bert_tasks::Task,
        /// Number of examples in the first folder's dev set.
        first_examples: usize,
    },
    /// Fine-tunings to be compared were scored on different examples.
    #[error(
        "not the same dev set as {}: {difference}; scores are compared on the same examples only",
        first.display()
    )]
    OtherDevSet {
        /// The folder to compare with.
        first: PathBuf,
        /// The difference between the sets.
        difference: String,
    },
    /// A file with a fine-tuning's answers is corrupt; the reason.
    #[error("{0}")]
    AnswersCorrupt(String),
    /// `run.json` is corrupt; the reason.
    #[error("damaged: {0}; the checkpoints can still be used with --init-checkpoint")]
    RunCorrupt(String),
}

impl RunProblem {
    fn exit_code(&self) -> u8 {
        match self {
            Self::SeedTwice(_) | Self::DifferentDevSets { .. } | Self::OtherDevSet { .. } => 2,
            Self::NoInstances | Self::AnswersCorrupt(_) => 3,
            Self::TuningDiffers(_) | Self::FinishedDiffers(_) | Self::RunCorrupt(_) => 4,
            Self::OutputExists { .. }
            | Self::NothingToResume
            | Self::NothingToReport
            | Self::NoFinetuning => 1,
        }
    }
}

/// A stop is one before the first step.
impl From<bert_inference::Error> for Error {
    fn from(error: bert_inference::Error) -> Self {
        Self::after_step(error, 0)
    }
}

macro_rules! from_inference {
    ($($error:ty),+) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::Inference(error.into())
            }
        })+
    };
}

from_inference!(
    bert_model::Error,
    bert_storage::Error,
    bert_tasks::TaskError,
    bert_tokenization::Error,
    Located<FolderProblem>
);

impl Error {
    /// Returns the error for a value of an option.
    pub fn configuration(flag: &'static str, reason: impl Into<String>) -> Self {
        bert_inference::Error::configuration(flag, reason).into()
    }

    /// Returns the error for inputs that do not match; each difference in words.
    pub fn mismatch(differences: Vec<String>) -> Self {
        bert_inference::Error::Mismatch(differences).into()
    }

    /// Returns the error of a run that ends after `step` steps.
    pub fn after_step(error: bert_inference::Error, step: u64) -> Self {
        match error {
            bert_inference::Error::Stopped { signal } => Self::Stopped { signal, step },
            error => Self::Inference(error),
        }
    }

    /// Returns the error of a file operation.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        bert_inference::Error::io(path, source).into()
    }

    /// Returns the error for a damaged file.
    pub fn corrupt_file(path: &Path, reason: impl Display) -> Self {
        bert_inference::Error::corrupt_file(path, reason).into()
    }

    /// Returns the error for a corrupt checkpoint.
    pub fn corrupt(path: &Path, reason: impl Display) -> Self {
        bert_inference::Error::corrupt(path, reason).into()
    }

    /// Returns the error for an output folder that already contains `what`, with a hint how to proceed.
    pub fn output_exists(path: &Path, what: &'static str, hint: &'static str) -> Self {
        RunProblem::OutputExists { what, hint }.located(path).into()
    }

    /// Returns the documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Inference(error) => error.exit_code(),
            Self::Data(error) => error.exit_code(),
            Self::Run(error) => error.problem.exit_code(),
            Self::RunDiffers { .. } | Self::OptimizerState(_) | Self::RanksDiffer(_) => 4,
            Self::NotFinite { .. }
            | Self::TooManySkippedSteps { .. }
            | Self::WeightsDiffer { .. }
            | Self::DeviceWrong { .. } => 5,
            Self::NotEnoughMemory { .. } => 7,
            // The same command may succeed.
            Self::Lost { .. } => 75,
            Self::Elsewhere { code, .. } => *code,
            // 130 for SIGINT, 143 for SIGTERM.
            Self::Stopped { signal, .. } => 128 + *signal as u8,
        }
    }
}

/// Rejects the value of a flag if `good` is false.
pub fn check(good: bool, flag: &'static str, reason: &str) -> Result<(), Error> {
    Ok(bert_inference::check(good, flag, reason)?)
}

/// Returns the smaller numbers of ranks that can continue a run, in words.
fn or_with_fewer(ranks: &[usize]) -> String {
    match ranks {
        [] => String::new(),
        [1] => " on the same number of ranks, or in one process".to_string(),
        more => {
            let numbers: Vec<String> = more.iter().rev().take(8).map(usize::to_string).collect();
            format!(" on the same number of ranks, or on {}", numbers.join(", "))
        }
    }
}
