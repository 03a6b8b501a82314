//! Errors of what was asked for: options, the output folder, the parts of a build.

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
    /// A shard would have more row groups than a Parquet file may have.
    #[error(
        "--num-shards is {shards}, but this text and --dupe-factor need at least {least}: a Parquet file has at most 32767 \
         row groups, and each bucket of documents in each pass is one"
    )]
    TooFewShards {
        /// The number asked for.
        shards: usize,
        /// The least that would do.
        least: usize,
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

/// Why an output folder cannot be written to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputProblem {
    /// The output folder holds what another command left unfinished.
    #[error(
        "an unfinished build is here, in which {differences}: give that command again to finish it, or --overwrite to \
         discard it (parts: remove the folder)"
    )]
    Unfinished {
        /// Everything that differs, with the values there and here.
        differences: String,
    },
    /// The output folder holds something that this program did not write: the first entry that is not ours.
    #[error("this output folder holds other data ({0}): choose an empty or new folder")]
    HoldsOtherData(String),
    /// The output holds a finished data set that the command would not make.
    #[error(
        "this output already holds a finished data set: use --overwrite to replace it (parts and engines: remove it \
         first); {differences}"
    )]
    Finished {
        /// Everything that differs, with the values there and here.
        differences: String,
    },
    /// An object store holds shards of another build that has not ended.
    #[error(
        "shards of another unfinished build are here: give that command again to finish it, or --overwrite to discard it \
         (parts and engines: remove what is here)"
    )]
    OtherBuild,
    /// The output path is a file.
    #[error("the output is not a folder")]
    NotAFolder,
}

/// What is wrong with the parts of a build made on many machines.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// A part of a build has not been made, or not finished.
    #[error(
        "{found} of {parts} parts are finished; part {missing} is missing: make it with --part {missing} --parts {parts}"
    )]
    Missing {
        /// Finished parts.
        found: usize,
        /// All parts.
        parts: usize,
        /// The first part that is missing.
        missing: usize,
    },
    /// A part came before the others had tokenized their shares of the text.
    #[error(
        "{missing} of {segments} shares of the text are not tokenized yet; the first is that of part {part} of {parts}: start \
         this part again when all have run with --tokenize-only"
    )]
    TextMissing {
        /// The part whose share is the first that is missing.
        part: usize,
        /// All parts.
        parts: usize,
        /// Shares that are missing.
        missing: usize,
        /// All shares.
        segments: usize,
    },
    /// A file of a finished part is missing or damaged.
    #[error("part {part} is damaged: make it again with --part {part} --parts {parts}, then merge")]
    Damaged {
        /// The part.
        part: usize,
        /// All parts.
        parts: usize,
        /// Which file, and what is wrong with it.
        source: Box<crate::error::Error>,
    },
    /// A part was made of another text, with other options or by another program.
    #[error("part {part} does not belong to the others: it has other {what}")]
    Differs {
        /// The part.
        part: usize,
        /// What differs from the first one.
        what: &'static str,
    },
}
