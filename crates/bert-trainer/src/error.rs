//! Lists everything that can go wrong in this crate, one variant per cause, with the exit codes for programs.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use bert_storage::{Locate, Located};

use crate::device_name::DeviceName;

/// An error of loading data, training or checkpoints.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data folder or its text was at fault.
    #[error(transparent)]
    Data(#[from] bert_data::Error),
    /// A file of ours could not be written, read or locked.
    #[error(transparent)]
    Storage(#[from] bert_storage::Error),
    /// The model, its configuration or its weights were at fault.
    #[error(transparent)]
    Model(#[from] bert_model::Error),
    /// A task's files were at fault.
    #[error(transparent)]
    Task(#[from] crate::tasks::TaskError),
    /// A folder of data, of a run or of a model was at fault, or a file in it.
    #[error(transparent)]
    Folder(#[from] Located<FolderProblem>),
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What was asked for by `--device` is no device.
    #[error("unknown device {0:?}: use {help}", help = crate::device_name::DEVICE_HELP)]
    UnknownDevice(String),
    /// The backend of a device is not in this build.
    #[error(
        "this build has no {device} backend: build it with `cargo build --release --features {feature}`{}",
        if *feature == "cuda" { " (no figure from a CUDA card exists yet)" } else { "" }
    )]
    DeviceNotBuilt {
        /// The device.
        device: DeviceName,
        /// The cargo feature that adds it.
        feature: &'static str,
    },
    /// The device is not on this machine, or its driver is missing.
    #[error(
        "{device} cannot be used here: {reason} (is the NVIDIA driver installed, and does `nvidia-smi` \
         list the card? `--device flex` runs on the CPU)"
    )]
    DeviceUnavailable {
        /// The device.
        device: DeviceName,
        /// What the runtime said.
        reason: String,
    },
    /// A configuration value that makes no sense.
    #[error("--{flag}: {reason}")]
    Configuration {
        /// The flag.
        flag: &'static str,
        /// What is wrong with its value.
        reason: String,
    },
    /// Data and model do not fit; each difference in words.
    #[error("data and model do not fit: {}", .0.join("; "))]
    Mismatch(Vec<String>),
    /// A run is to be continued with another configuration.
    #[error(
        "{run}: the run was started with another configuration: {}. --resume takes the same flags; for others start a \
         new run from its weights: --init-checkpoint {run} --output NEW",
        differences.join("; "), run = path.display()
    )]
    RunDiffers {
        /// The run's folder.
        path: PathBuf,
        /// Each difference in words.
        differences: Vec<String>,
    },
    /// Results could not be written where the caller wants them.
    #[error("cannot write the results: {0}")]
    Results(#[source] std::io::Error),
    /// An optimizer state names a parameter that the model lacks.
    #[error("the optimizer state has moments of {0}, which is no parameter of the model")]
    OptimizerState(String),
    /// Loss or gradient was NaN or infinite for more steps in a row than may be skipped.
    #[error(
        "step {step}: loss {loss}, gradient norm {gradient_norm}: not finite, and so were those of the {} steps before \
         it (--max-skipped-steps {most}); a lower --learning-rate or more warm-up helps; the last checkpoint is intact",
        skipped - 1
    )]
    TooManySkippedSteps {
        /// The step.
        step: u64,
        /// Its loss.
        loss: f64,
        /// Its gradient norm.
        gradient_norm: f64,
        /// Steps in a row that were skipped, with this one.
        skipped: u64,
        /// How many may be.
        most: u64,
    },
    /// Loss or gradient was NaN or infinite.
    #[error(
        "step {step}: loss {loss}, gradient norm {gradient_norm}: not finite, so the update was not made \
         (a lower --learning-rate or more warm-up helps)"
    )]
    NotFinite {
        /// The step.
        step: u64,
        /// Its loss.
        loss: f64,
        /// Its gradient norm.
        gradient_norm: f64,
    },
    /// A training step needs more memory than the process can have.
    #[error("{needed}: {remedy}")]
    NotEnoughMemory {
        /// The estimate with its parts, and the limit, in words.
        needed: String,
        /// The options that need less, in words.
        remedy: String,
    },
    /// A signal asked for a stop; a checkpoint has been written, unless it came before the first step.
    #[error(
        "stopped by signal {signal} {}",
        match step {
            0 => "before the first step; no step is lost, start again (with --resume where the run's folder is there)".into(),
            step => format!("after step {step}; a checkpoint was written, continue with --resume"),
        }
    )]
    Stopped {
        /// The signal's number.
        signal: i32,
        /// The last finished step.
        step: u64,
    },
}

/// What is wrong with a folder of data, of a run, of a fine-tuning or of a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderProblem {
    /// The disk is full.
    #[error(
        "no room on the disk: the checkpoint needs about {needed} bytes, {free} are free; nothing committed is damaged, \
         and with room the run goes on with --resume"
    )]
    CheckpointNeedsRoom {
        /// Bytes of all its files.
        needed: u64,
        /// Bytes that the disk has left.
        free: u64,
        /// The write that failed.
        source: Box<Error>,
    },
    /// A data folder without instances.
    #[error("the data folder holds no instances")]
    NoInstances,
    /// A fine-tuning is to be continued with another configuration; each difference in words.
    #[error(
        "the fine-tuning here was started with another configuration, other weights or other data, and is not finished: \
         {}. The same flags and --resume finish it; for others choose another --output",
        .0.join("; ")
    )]
    TuningDiffers(Vec<String>),
    /// A finished fine-tuning is not of the configuration, the weights or the data that are given now; each difference in
    /// words.
    #[error(
        "the finished fine-tuning here is of another configuration, other weights or other data: {}. --resume takes over \
         results of the same ones only; choose another --output",
        .0.join("; ")
    )]
    FinishedDiffers(Vec<String>),
    /// The output folder holds something already.
    #[error("the folder already holds {what}; {hint}")]
    OutputExists {
        /// What is in it.
        what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// `--resume` where there is nothing to resume.
    #[error("there is no run to resume (run.json is not there); leave --resume out to start one")]
    NothingToResume,
    /// A folder of which a page was asked is neither a run nor a fine-tuning.
    #[error(
        "neither a pre-training run (run.json) nor a fine-tuning (report.json); for a data folder: bert inspect --html"
    )]
    NothingToReport,
    /// A folder in which a fine-tuning was expected has none that is finished.
    #[error("no finished fine-tuning here (report.json)")]
    NoFinetuning,
    /// Fine-tunings that are to be put together have a seed in common.
    #[error("seed {0} of this configuration is in another folder too")]
    SeedTwice(u64),
    /// Fine-tunings that are to be put together were scored on different sets.
    #[error(
        "{task} on {examples} examples, the first folder has {first_task} on {first_examples}: scores on different sets \
         are not put together"
    )]
    DifferentDevSets {
        /// Its task.
        task: crate::tasks::Task,
        /// Examples of its dev set.
        examples: usize,
        /// The task of the first folder.
        first_task: crate::tasks::Task,
        /// Examples of the first folder's dev set.
        first_examples: usize,
    },
    /// Fine-tunings that are to be compared were scored on different examples.
    #[error("not the dev set of {}: {difference}; only answers to the same examples are compared", first.display())]
    OtherDevSet {
        /// The folder that it is compared with.
        first: PathBuf,
        /// In what the sets differ.
        difference: String,
    },
    /// A file with a fine-tuning's answers is not as it was written; what is wrong.
    #[error("{0}")]
    AnswersCorrupt(String),
    /// A path at which a folder was expected does not exist.
    #[error("this folder does not exist")]
    NoSuchFolder,
    /// A path that does not exist, and that has the form of a name of the Hugging Face Hub.
    #[error(
        "this folder does not exist. If it is a name of the Hugging Face Hub: nothing is downloaded here; fetch the model \
         with `hf download {0} --local-dir DIR` and name DIR"
    )]
    HubName(String),
    /// An adapter's encoder has other weights than the one that the adapter was trained on.
    #[error(
        "the adapter was trained on other weights than those that are now in {}; name the folder with the right ones by \
         --encoder", .0.display()
    )]
    OtherEncoder(PathBuf),
    /// A folder in which a checkpoint was expected has none.
    #[error("no checkpoint here (looked for model.safetensors and checkpoints/step-*/COMMITTED.json)")]
    NoCheckpoint,
    /// A model folder lacks the head that is asked for.
    #[error("the model has no {head}; {hint}")]
    NoHead {
        /// The head in words.
        head: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// An adapter's encoder is not where its folder says, or it does not say; what is known of it, in words.
    #[error("an adapter whose encoder is {0}; name the checkpoint that it was trained on by --encoder")]
    NoEncoder(String),
    /// A checkpoint's files are not those that were committed; what is wrong.
    #[error("the checkpoint is corrupt: {0}")]
    CheckpointCorrupt(String),
    /// `run.json` is not as it was written; what is wrong.
    #[error("damaged: {0}; the checkpoints can still be used with --init-checkpoint")]
    RunCorrupt(String),
    /// Checkpoints exist but none of them is good.
    #[error("all {count} checkpoints are corrupt; the newest: {newest}")]
    NoGoodCheckpoint {
        /// How many there are.
        count: usize,
        /// What is wrong with the newest.
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
            | Self::NoHead { .. }
            | Self::NoEncoder(_)
            | Self::OtherEncoder(_)
            | Self::NoSuchFolder
            | Self::HubName(_)
            | Self::CheckpointCorrupt(_)
            | Self::RunCorrupt(_)
            | Self::NoGoodCheckpoint { .. } => 4,
            Self::CheckpointNeedsRoom { .. }
            | Self::OutputExists { .. }
            | Self::NothingToResume
            | Self::NothingToReport
            | Self::NoFinetuning => 1,
        }
    }
}

impl Error {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), source }
    }

    /// A checkpoint or a report that is not as it was written.
    pub(crate) fn corrupt(path: &Path, reason: impl Display) -> Self {
        FolderProblem::CheckpointCorrupt(reason.to_string()).at(path).into()
    }

    /// An output folder that already holds `what`, and a hint what to do.
    pub fn output_exists(path: &Path, what: &'static str, hint: &'static str) -> Self {
        FolderProblem::OutputExists { what, hint }.at(path).into()
    }

    /// The documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Data(error) => error.exit_code(),
            Self::Storage(error) => error.exit_code(),
            Self::Model(error) => error.exit_code(),
            Self::Task(error) => error.exit_code(),
            Self::Folder(error) => error.problem.exit_code(),
            Self::UnknownDevice(_) | Self::Configuration { .. } => 2,
            Self::Mismatch(_) | Self::RunDiffers { .. } | Self::OptimizerState(_) => 4,
            Self::NotFinite { .. } | Self::TooManySkippedSteps { .. } => 5,
            Self::NotEnoughMemory { .. } => 7,
            // 130 for SIGINT, 143 for SIGTERM.
            Self::Stopped { signal, .. } => 128 + *signal as u8,
            Self::Io { .. }
            | Self::Results(_)
            | Self::DeviceNotBuilt { .. }
            | Self::DeviceUnavailable { .. } => 1,
        }
    }
}
