//! Errors of translation.

use std::path::PathBuf;

/// An error of translation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the libraries for models, data and runs.
    #[error(transparent)]
    Trainer(#[from] bert_training::Error),
    /// Two files of parallel text differ in length.
    #[error("{} has {source_lines} lines, but {} has {target_lines}: line N of one must translate line N of the other",
        source_file.display(), target_file.display())]
    LineCounts {
        /// The source text.
        source_file: PathBuf,
        /// Its lines.
        source_lines: usize,
        /// The target text, or the outputs that are scored.
        target_file: PathBuf,
        /// Its lines.
        target_lines: usize,
    },
    /// A text has no usable line.
    #[error("{}: no lines with text{}", path.display(), if *dropped > 0 { " on both sides" } else { "" })]
    NoText {
        /// The file.
        path: PathBuf,
        /// Pairs with an empty side.
        dropped: usize,
    },
    /// A model folder has no translation model.
    #[error("{}: this is not a translation model ({file}: {reason}); use a folder written by `bert translate train`",
        path.display())]
    NotATranslationModel {
        /// The folder.
        path: PathBuf,
        /// The missing or damaged file.
        file: &'static str,
        /// The problem with it.
        reason: String,
    },
}

impl Error {
    /// Returns the documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Trainer(error) => error.exit_code(),
            Self::LineCounts { .. } | Self::NoText { .. } => 3,
            Self::NotATranslationModel { .. } => 4,
        }
    }
}

macro_rules! through_trainer {
    ($($source:ty),*) => {
        $(impl From<$source> for Error {
            fn from(error: $source) -> Self {
                Self::Trainer(error.into())
            }
        })*
    };
}

through_trainer!(
    bert_tasks::TaskError,
    bert_model::Error,
    bert_data::Error,
    bert_inference::Error,
    bert_tokenization::Error
);
