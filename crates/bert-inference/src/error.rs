//! Defines the errors of this crate, one variant per cause, and the exit codes of programs.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use bert_storage::{Locate, Located, did_you_mean};

/// An error of models, their folders and their inputs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The vocabulary or the tokenizer's files are invalid.
    #[error(transparent)]
    Tokenizer(#[from] bert_tokenization::Error),
    /// An output file could not be written, read or locked.
    #[error(transparent)]
    Storage(#[from] bert_storage::Error),
    /// The model, its configuration or its weights are invalid.
    #[error(transparent)]
    Model(#[from] bert_model::Error),
    /// A task's files are invalid.
    #[error(transparent)]
    Task(#[from] bert_tasks::TaskError),
    /// A folder of a model is invalid, or a file in it.
    #[error(transparent)]
    Folder(#[from] Located<FolderProblem>),
    /// A model of the Hugging Face Hub cannot be had.
    #[error(transparent)]
    Hub(#[from] bert_hub::Error),
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
    /// The device failed while it computed; the runtime's message.
    #[error("the device failed: {0}")]
    DeviceFailed(String),
    /// A stop was requested, so the computation has no result.
    #[error("stopped by signal {signal}")]
    Stopped {
        /// The signal's number.
        signal: i32,
    },
    /// The results could not be written to the caller's output.
    #[error("cannot write the results: {0}")]
    Results(#[source] std::io::Error),
}

/// A problem with a folder of a model.
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
    /// A folder does not exist.
    #[error("this folder does not exist")]
    NoSuchFolder,
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
    /// The folder has no models of seeds.
    #[error(
        "no models of seeds here; finetune --keep-seeds writes them into seed-N/model of its output folder"
    )]
    NoSeedModels,
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
            Self::CheckpointDiskFull { .. } => 1,
            _ => 4,
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

    /// Returns the error for a value of an option.
    pub fn configuration(flag: &'static str, reason: impl Into<String>) -> Self {
        Self::Configuration { flag, reason: reason.into() }
    }

    /// Returns the documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Tokenizer(error) => error.exit_code(),
            Self::Storage(error) => error.exit_code(),
            Self::Model(error) => error.exit_code(),
            Self::Task(error) => error.exit_code(),
            Self::Folder(error) => error.problem.exit_code(),
            Self::Hub(error) => error.exit_code(),
            Self::UnknownDevice { .. } | Self::Configuration { .. } => 2,
            Self::Mismatch(_) => 4,
            Self::Stopped { signal } => 128 + *signal as u8,
            Self::Io { .. }
            | Self::Results(_)
            | Self::DeviceFailed(_)
            | Self::DeviceNotBuilt { .. }
            | Self::DeviceUnavailable { .. } => 1,
        }
    }
}

/// Rejects the value of a flag if `good` is false.
pub fn check(good: bool, flag: &'static str, reason: &str) -> Result<(), Error> {
    if good { Ok(()) } else { Err(Error::configuration(flag, reason)) }
}
