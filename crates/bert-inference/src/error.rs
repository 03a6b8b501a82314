//! Defines the errors of this crate, one variant per cause, and the exit codes of programs.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use bert_collectives::{Lost, Member};
use bert_storage::{Locate, Located, did_you_mean};

/// An error of data loading, training or checkpoints.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data folder or its text is invalid.
    #[error(transparent)]
    Data(#[from] bert_data::Error),
    /// An output file could not be written, read or locked.
    #[error(transparent)]
    Storage(#[from] bert_storage::Error),
    /// The model, its configuration or its weights are invalid.
    #[error(transparent)]
    Model(#[from] bert_model::Error),
    /// A task's files are invalid.
    #[error(transparent)]
    Task(#[from] bert_tasks::TaskError),
    /// A folder of data, of a run or of a model is invalid, or a file in it.
    #[error(transparent)]
    Folder(#[from] Located<FolderProblem>),
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The value of `--device` is not a known device.
    #[error("unknown device {name:?}: use {known}{}", did_you_mean(name, ["flex", "ndarray", "cuda", "wgpu", "auto"]))]
    UnknownDevice {
        /// The value.
        name: String,
        /// The known devices, in words.
        known: &'static str,
    },
    /// This build does not include the device's backend.
    #[error("this build has no {device} backend: build it with `cargo build --release --features {feature}`")]
    DeviceNotBuilt {
        /// The device's name.
        device: String,
        /// The cargo feature that adds it.
        feature: &'static str,
    },
    /// The device is not on this machine, or its driver is missing.
    #[error("{device} cannot be used here: {reason} ({hint} `--device flex` runs on the CPU)")]
    DeviceUnavailable {
        /// The device's name.
        device: String,
        /// The runtime's error message.
        reason: String,
        /// Commands that show whether a driver is installed, in words.
        hint: &'static str,
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
    /// A configuration value is invalid.
    #[error("--{flag}: {reason}")]
    Configuration {
        /// The flag.
        flag: &'static str,
        /// The problem with the value.
        reason: String,
    },
    /// Data sets, vocabularies or models do not match; each difference in words.
    #[error("the inputs do not match: {}", .0.join("; "))]
    Mismatch(Vec<String>),
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
    /// The results could not be written to the caller's output.
    #[error("cannot write the results: {0}")]
    Results(#[source] std::io::Error),
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
}

/// A problem with a folder of data, of a run, of a fine-tuning or of a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderProblem {
    /// The disk is full.
    #[error(
        "the disk is full: the checkpoint needs about {needed} bytes, {free} are free; all committed checkpoints are \
         intact; free space, then continue with --resume"
    )]
    CheckpointDiskFull {
        /// Size of the checkpoint's files in bytes.
        needed: u64,
        /// Free bytes on the disk.
        free: u64,
        /// The write that failed.
        source: Box<Error>,
    },
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
    /// `--resume` was given, but there is no run to resume.
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
    /// A folder does not exist.
    #[error("this folder does not exist")]
    NoSuchFolder,
    /// A path does not exist, but has the form of a Hugging Face Hub name.
    #[error(
        "this folder does not exist. If {0} is a model of the Hugging Face Hub, download it with `hf download {0} \
         --local-dir DIR` and give DIR"
    )]
    HubName(String),
    /// The encoder's weights differ from the weights that the adapter was trained on.
    #[error(
        "the adapter was trained on other weights than those in {}; give the folder of its encoder with --encoder",
        .0.display()
    )]
    OtherEncoder(PathBuf),
    /// The folder has no checkpoint.
    #[error("no checkpoint here (looked for model.safetensors and checkpoints/step-*/COMMITTED.json)")]
    NoCheckpoint,
    /// The folder has no checkpoint, but a folder in it has one.
    #[error("no checkpoint here, but {} has one; give that folder", .0.display())]
    ModelBelow(PathBuf),
    /// The model folder lacks the requested head.
    #[error("the model has no {head}; {hint}")]
    NoHead {
        /// The head in words.
        head: &'static str,
        /// How to proceed.
        hint: &'static str,
    },
    /// The encoder of an adapter is missing or not recorded; what is known of it, in words.
    #[error("an adapter whose encoder is {0}; give the checkpoint that it was trained on with --encoder")]
    NoEncoder(String),
    /// The checkpoint's files do not match their digests; the reason.
    #[error("the checkpoint is corrupt: {0}")]
    CheckpointCorrupt(String),
    /// A value in a file of a model folder is wrong, contradicts another one, or is not supported.
    #[error("`{key}` {reason}")]
    Setting {
        /// The key in the file.
        key: String,
        /// The problem with its value, and the remedy.
        reason: String,
    },
    /// A JSON file, or a file that one describes, is damaged; the reason.
    #[error("damaged: {0}")]
    FileCorrupt(String),
    /// `run.json` is corrupt; the reason.
    #[error("damaged: {0}; the checkpoints can still be used with --init-checkpoint")]
    RunCorrupt(String),
    /// Checkpoints exist, but all of them are corrupt.
    #[error("all {count} checkpoints are corrupt; the newest: {newest}")]
    NoGoodCheckpoint {
        /// Number of checkpoints.
        count: usize,
        /// The error of the newest.
        newest: String,
    },
}

impl FolderProblem {
    fn exit_code(&self) -> u8 {
        match self {
            Self::SeedTwice(_) | Self::DifferentDevSets { .. } | Self::OtherDevSet { .. } => 2,
            Self::NoInstances | Self::AnswersCorrupt(_) => 3,
            Self::TuningDiffers(_)
            | Self::FinishedDiffers(_)
            | Self::NoCheckpoint
            | Self::ModelBelow(_)
            | Self::NoHead { .. }
            | Self::NoEncoder(_)
            | Self::OtherEncoder(_)
            | Self::NoSuchFolder
            | Self::HubName(_)
            | Self::CheckpointCorrupt(_)
            | Self::Setting { .. }
            | Self::FileCorrupt(_)
            | Self::RunCorrupt(_)
            | Self::NoGoodCheckpoint { .. } => 4,
            Self::CheckpointDiskFull { .. }
            | Self::OutputExists { .. }
            | Self::NothingToResume
            | Self::NothingToReport
            | Self::NoFinetuning => 1,
        }
    }
}

impl Error {
    /// Returns the error of a file operation.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), source }
    }

    /// Returns the error for a damaged file.
    pub fn corrupt_file(path: &Path, reason: impl Display) -> Self {
        FolderProblem::FileCorrupt(reason.to_string()).located(path).into()
    }

    /// Returns the error for a corrupt checkpoint.
    pub fn corrupt(path: &Path, reason: impl Display) -> Self {
        FolderProblem::CheckpointCorrupt(reason.to_string()).located(path).into()
    }

    /// Returns the error for an output folder that already contains `what`, with a hint how to proceed.
    pub fn output_exists(path: &Path, what: &'static str, hint: &'static str) -> Self {
        FolderProblem::OutputExists { what, hint }.located(path).into()
    }

    /// Returns the documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Data(error) => error.exit_code(),
            Self::Storage(error) => error.exit_code(),
            Self::Model(error) => error.exit_code(),
            Self::Task(error) => error.exit_code(),
            Self::Folder(error) => error.problem.exit_code(),
            Self::UnknownDevice { .. } | Self::Configuration { .. } => 2,
            Self::Mismatch(_) | Self::RunDiffers { .. } | Self::OptimizerState(_) | Self::RanksDiffer(_) => 4,
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
            Self::Io { .. }
            | Self::Results(_)
            | Self::DeviceNotBuilt { .. }
            | Self::DeviceUnavailable { .. } => 1,
        }
    }
}

/// Rejects the value of a flag if `good` is false.
pub fn check(good: bool, flag: &'static str, reason: &str) -> Result<(), Error> {
    if good { Ok(()) } else { Err(Error::Configuration { flag, reason: reason.to_string() }) }
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
