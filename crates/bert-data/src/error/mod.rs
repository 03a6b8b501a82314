//! The errors of this crate: one variant for each kind of failure, with the problem and its location.
//!
//! [`Error::exit_code`] returns the documented exit codes of the programs: 1 error, 2 usage or configuration, 3 bad or
//! corrupt data, 6 output in use by another process, 75 too early (the same command works later). Applications print
//! the errors; this crate does not.

mod build;
mod command;
mod data_set;

use std::path::Path;

pub use bert_storage::{Locate, Located, is_disk_full};
pub use bert_text::{InputProblem, InputsError, TextProblem};
pub use bert_tokenization::VocabularyProblem;
pub use build::TextError;
pub use command::{OptionError, OutputProblem, PartError};
pub use data_set::{ManifestProblem, RowProblem, ShardProblem};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of this crate, with its location.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed.
    #[error(transparent)]
    Storage(#[from] bert_storage::Error),
    /// Something was lost or duplicated: a bug in this program or a fault of the machine.
    #[error(
        "an invariant of the build is broken: {what}{} is {found}, but must be {expected}; nothing was committed",
        pass.map(|pass| format!(" of pass {pass}")).unwrap_or_default()
    )]
    InvariantViolated {
        /// The counted quantity.
        what: &'static str,
        /// The pass over the text, if the quantity is counted for each pass.
        pass: Option<u64>,
        /// The number found in the output.
        found: u64,
        /// The number expected from the input.
        expected: u64,
    },
    /// The worker threads could not be started.
    #[error("cannot start {threads} worker threads")]
    Threads {
        /// Number of threads.
        threads: usize,
        /// The cause.
        source: rayon::ThreadPoolBuildError,
    },
    /// An option or a configuration file is invalid.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The text as a whole cannot be used.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The list of inputs cannot be used.
    #[error(transparent)]
    Inputs(#[from] InputsError),
    /// A file, folder or pattern that was named as input cannot be used.
    #[error(transparent)]
    InputFile(#[from] Located<InputProblem>),
    /// The vocabulary cannot be used.
    #[error(transparent)]
    Vocabulary(#[from] Located<VocabularyProblem>),
    /// The output folder cannot be used.
    #[error(transparent)]
    Output(#[from] Located<OutputProblem>),
    /// The parts of a build are missing or inconsistent.
    #[error(transparent)]
    Part(#[from] PartError),
    /// A shard is damaged or cannot be written.
    #[error(transparent)]
    Shard(#[from] Located<ShardProblem>),
    /// A manifest, the receipt of a part, or a file named in one of them is missing or damaged.
    #[error(transparent)]
    Manifest(#[from] Located<ManifestProblem>),
}

impl Error {
    /// Returns the documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Storage(error) => error.exit_code(),
            // EX_TEMPFAIL of sysexits.h.
            Self::Part(PartError::TextMissing { .. }) => 75,
            Self::Threads { .. } | Self::Shard(Located { problem: ShardProblem::Write(_), .. }) => 1,
            Self::Option(_) | Self::Output(_) => 2,
            Self::Vocabulary(error) => error.problem.exit_code(),
            Self::Inputs(error) => error.exit_code(),
            Self::InputFile(error) => error.problem.exit_code(),
            Self::Text(_)
            | Self::Shard(_)
            | Self::Manifest(_)
            | Self::Part(_)
            | Self::InvariantViolated { .. } => 3,
        }
    }

    /// Returns the error with line numbers that continue after the `lines` before a range of the file. Calls `lines` only if
    /// the error has line numbers.
    pub(crate) fn after_lines(mut self, lines: impl FnOnce() -> Result<u64>) -> Self {
        let Self::InputFile(error) = &mut self else { return self };
        let first = match &mut error.problem {
            InputProblem::NotUtf8Text { first, .. } => Some(first),
            _ => None,
        };
        let mut numbers = error.line.iter_mut().chain(first).peekable();
        if numbers.peek().is_none() {
            return self;
        }
        match lines() {
            Ok(lines) => numbers.for_each(|number| *number += lines),
            Err(error) => return error,
        }
        self
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let io = bert_storage::Error::io(action, path);
        move |source| io(source).into()
    }
}

impl From<bert_text::Error> for Error {
    fn from(error: bert_text::Error) -> Self {
        use bert_text::Error as Text;
        match error {
            Text::Storage(error) => Self::Storage(error),
            Text::Threads { threads, source } => Self::Threads { threads, source },
            Text::Inputs(error) => Self::Inputs(error),
            Text::InputFile(error) => Self::InputFile(error),
        }
    }
}

impl From<bert_tokenization::Error> for Error {
    fn from(error: bert_tokenization::Error) -> Self {
        match error {
            bert_tokenization::Error::Storage(error) => Self::Storage(error),
            bert_tokenization::Error::Vocabulary(error) => Self::Vocabulary(error),
        }
    }
}
