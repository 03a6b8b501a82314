//! Lists everything that can go wrong in this crate, one variant per cause, with the exit codes for programs.

use std::path::{Path, PathBuf};

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
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The disk is full.
    #[error(
        "{}: no room on the disk: the checkpoint needs about {needed} bytes, {free} are free; nothing committed is \
         damaged, and with room the run goes on with --resume",
        path.display()
    )]
    CheckpointNeedsRoom {
        /// The checkpoint that was not written.
        path: PathBuf,
        /// Bytes of all its files.
        needed: u64,
        /// Bytes that the disk has left.
        free: u64,
        /// The write that failed.
        source: Box<Self>,
    },
    /// `--device` names no device.
    #[error("unknown device {name:?}: use {}", crate::device_name::DEVICE_HELP)]
    UnknownDevice {
        /// What was asked for.
        name: String,
    },
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
    /// A data folder without instances.
    #[error("{}: the data folder holds no instances", path.display())]
    NoInstances {
        /// The folder.
        path: PathBuf,
    },
    /// Data and model do not fit.
    #[error("data and model do not fit: {}", differences.join("; "))]
    Mismatch {
        /// Each difference in words.
        differences: Vec<String>,
    },
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
    /// A fine-tuning is to be continued with another configuration.
    #[error(
        "{}: the fine-tuning was started with another configuration or other data: {}. --resume takes the same flags; \
         without it the fine-tuning starts over",
        path.display(), differences.join("; ")
    )]
    TuningDiffers {
        /// The output folder.
        path: PathBuf,
        /// Each difference in words.
        differences: Vec<String>,
    },
    /// The output folder holds something already.
    #[error("{}: the folder already holds {what}; {hint}", path.display())]
    OutputExists {
        /// The folder.
        path: PathBuf,
        /// What is in it.
        what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// `--resume` where there is nothing to resume.
    #[error("{}: there is no run to resume (run.json is not there); leave --resume out to start one", path.display())]
    NothingToResume {
        /// The folder.
        path: PathBuf,
    },
    /// A folder of which a page was asked is neither a run nor a fine-tuning.
    #[error(
        "{}: neither a pre-training run (run.json) nor a fine-tuning (report.json); for a data folder: bert inspect --html",
        path.display()
    )]
    NothingToReport {
        /// The folder.
        path: PathBuf,
    },
    /// A folder in which a fine-tuning was expected has none that is finished.
    #[error("{}: no finished fine-tuning here (report.json)", path.display())]
    NoFinetuning {
        /// The folder.
        path: PathBuf,
    },
    /// Fine-tunings that are to be put together have a seed in common.
    #[error("{}: seed {seed} of this configuration is in another folder too", path.display())]
    SeedTwice {
        /// The second folder.
        path: PathBuf,
        /// The seed.
        seed: u64,
    },
    /// Fine-tunings that are to be put together were scored on different sets.
    #[error(
        "{}: {task} on {examples} examples, the first folder has {first_task} on {first_examples}: scores on different \
         sets are not put together",
        path.display()
    )]
    DifferentDevSets {
        /// The folder.
        path: PathBuf,
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
    #[error(
        "{}: not the dev set of {}: {difference}; only answers to the same examples are compared",
        path.display(),
        first.display()
    )]
    OtherDevSet {
        /// The folder.
        path: PathBuf,
        /// The folder that it is compared with.
        first: PathBuf,
        /// In what the sets differ.
        difference: String,
    },
    /// A file with a fine-tuning's answers is not as it was written.
    #[error("{}:{line}: {reason}", path.display())]
    AnswersCorrupt {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A folder in which a checkpoint was expected has none.
    #[error("{}: no checkpoint here (looked for model.safetensors and checkpoints/step-*/COMMITTED.json)", path.display())]
    NoCheckpoint {
        /// The folder.
        path: PathBuf,
    },
    /// A model folder lacks the head that is asked for.
    #[error("{}: the model has no {head}; {hint}", path.display())]
    NoHead {
        /// The folder.
        path: PathBuf,
        /// The head in words.
        head: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// An adapter's encoder is not where its folder says, or it does not say.
    #[error("{}: an adapter whose encoder is {base}; name the checkpoint that it was trained on by --encoder", path.display())]
    NoEncoder {
        /// The adapter's folder.
        path: PathBuf,
        /// What is known of it, in words.
        base: String,
    },
    /// Results could not be written where the caller wants them.
    #[error("cannot write the results: {source}")]
    Results {
        /// What the system said.
        source: std::io::Error,
    },
    /// A checkpoint's files are not those that were committed.
    #[error("{}: the checkpoint is corrupt: {reason}", path.display())]
    CheckpointCorrupt {
        /// The checkpoint's folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// `run.json` is not as it was written.
    #[error("{}: damaged: {reason}; the checkpoints can still be used with --init-checkpoint", path.display())]
    RunCorrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Checkpoints exist but none of them is good.
    #[error("{}: all {count} checkpoints are corrupt; the newest: {newest}", path.display())]
    NoGoodCheckpoint {
        /// The run's folder.
        path: PathBuf,
        /// How many there are.
        count: usize,
        /// What is wrong with the newest.
        newest: String,
    },
    /// An optimizer state names a parameter that the model lacks.
    #[error("the optimizer state has moments of {name}, which is no parameter of the model")]
    OptimizerState {
        /// The parameter.
        name: String,
    },
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
    /// A signal asked for a stop; a checkpoint has been written.
    #[error("stopped by signal {signal} after step {step}; a checkpoint was written, continue with --resume")]
    Stopped {
        /// The signal's number.
        signal: i32,
        /// The last finished step.
        step: u64,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), source }
    }

    /// The documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Data(error) => error.exit_code(),
            Self::Storage(error) => error.exit_code(),
            Self::Model(error) => error.exit_code(),
            Self::Task(error) => error.exit_code(),
            Self::UnknownDevice { .. }
            | Self::Configuration { .. }
            | Self::SeedTwice { .. }
            | Self::DifferentDevSets { .. }
            | Self::OtherDevSet { .. } => 2,
            Self::NoInstances { .. } | Self::AnswersCorrupt { .. } => 3,
            Self::Mismatch { .. }
            | Self::RunDiffers { .. }
            | Self::TuningDiffers { .. }
            | Self::NoCheckpoint { .. }
            | Self::NoHead { .. }
            | Self::NoEncoder { .. }
            | Self::CheckpointCorrupt { .. }
            | Self::RunCorrupt { .. }
            | Self::NoGoodCheckpoint { .. }
            | Self::OptimizerState { .. } => 4,
            Self::NotFinite { .. } | Self::TooManySkippedSteps { .. } => 5,
            // 130 for SIGINT, 143 for SIGTERM.
            Self::Stopped { signal, .. } => 128 + *signal as u8,
            Self::Io { .. }
            | Self::Results { .. }
            | Self::CheckpointNeedsRoom { .. }
            | Self::DeviceNotBuilt { .. }
            | Self::DeviceUnavailable { .. }
            | Self::OutputExists { .. }
            | Self::NothingToResume { .. }
            | Self::NothingToReport { .. }
            | Self::NoFinetuning { .. } => 1,
        }
    }
}
