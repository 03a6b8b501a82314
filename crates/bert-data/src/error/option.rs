//! Errors of options and configuration files.

use std::path::PathBuf;

use crate::config::byte_size::ByteSize;

/// What is wrong with an option or a configuration file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// An option has a value that cannot be used.
    #[error("--{option} is {value}, but must be {expected}")]
    Invalid {
        /// The flag's name without dashes.
        option: &'static str,
        /// The value given.
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A vocabulary has no room for the special tokens and the alphabet.
    #[error(
        "--vocab-size is {size}, but the special tokens and the alphabet of the text take {needed}: a larger one, or a \
         smaller --limit-alphabet (rarer characters are then [UNK])"
    )]
    VocabularyTooSmall {
        /// The size asked for.
        size: usize,
        /// What the special tokens, the alphabet and its continuations take.
        needed: usize,
    },
    /// An instance that is not there.
    #[error("--index is {index}, but the instances are numbered from 0 to {}", instances.saturating_sub(1))]
    NoSuchInstance {
        /// The number asked for.
        index: u64,
        /// How many there are.
        instances: u64,
    },
    /// Two options contradict each other.
    #[error("--{option} cannot be used with {with}: {reason}")]
    Conflict {
        /// The flag's name without dashes.
        option: &'static str,
        /// The other option and its value.
        with: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// A required option is missing.
    #[error("--{option} is required: {reason}")]
    Missing {
        /// The flag's name without dashes.
        option: &'static str,
        /// What it is needed for.
        reason: &'static str,
    },
    /// The memory budget is too small to work in.
    #[error("--memory-budget is {budget}, but {threads} thread(s) need at least {least}")]
    BudgetTooSmall {
        /// What was given.
        budget: ByteSize,
        /// What would do.
        least: ByteSize,
        /// Worker threads.
        threads: usize,
    },
    /// A configuration file is not the JSON that is expected.
    #[error("{} is not a valid configuration", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
}
