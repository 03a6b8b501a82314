//! Errors in the request: options, the output folder, the parts of a build.

use std::path::PathBuf;

/// A problem with an option or a configuration file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// An option has an invalid value.
    #[error("--{option} is {value}, but must be {expected}")]
    Invalid {
        /// The flag's name without dashes.
        option: &'static str,
        /// The given value.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// The sentence splitter does not know a language.
    #[error("--language is {value}, but must be the ISO 639 code of one of these: {advice}")]
    Language {
        /// The given value.
        value: String,
        /// The accepted codes, and the one that was probably meant.
        advice: String,
    },
    /// A vocabulary has no room for the special tokens and the alphabet.
    #[error(
        "--vocab-size is {size}, but the special tokens and the alphabet of the text need {needed}: use a larger \
         --vocab-size, or a smaller --limit-alphabet (rare characters then become [UNK])"
    )]
    VocabularyTooSmall {
        /// The requested size.
        size: usize,
        /// Number of special tokens, characters of the alphabet and their continuation pieces.
        needed: usize,
    },
    /// A shard would have more row groups than a Parquet file may have.
    #[error(
        "--num-shards is {shards}, but this text and --dupe-factor need at least {min}: a Parquet file has at most 32767 \
         row groups, and each bucket of documents in each pass is one"
    )]
    TooFewShards {
        /// The requested number.
        shards: usize,
        /// The minimum number.
        min: usize,
    },
    /// The requested instance does not exist.
    #[error("--index is {index}, but the instances are numbered from 0 to {}", instances.saturating_sub(1))]
    NoSuchInstance {
        /// The requested number.
        index: u64,
        /// Number of instances.
        instances: u64,
    },
    /// Two options contradict each other.
    #[error("--{option} cannot be used with {with}: {reason}")]
    Conflict {
        /// The flag's name without dashes.
        option: &'static str,
        /// The other option and its value.
        with: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// A required option is missing.
    #[error("--{option} is required: {reason}")]
    Missing {
        /// The flag's name without dashes.
        option: &'static str,
        /// The purpose of the option.
        reason: &'static str,
    },
    /// The memory budget is too small for the number of threads.
    #[error("--memory-budget is {budget}, but {threads} thread(s) need at least {min}")]
    BudgetTooSmall {
        /// The given budget.
        budget: String,
        /// The minimum budget.
        min: String,
        /// Worker threads.
        threads: usize,
    },
    /// A configuration file is not valid JSON or TOML of the expected form.
    #[error("{}: not a valid configuration", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The position and the reason.
        source: serde_json::Error,
    },
}

/// The reason why an output folder cannot be written to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputProblem {
    /// The output folder contains the unfinished output of another command.
    #[error(
        "this folder holds an unfinished build in which {differences}: repeat that command to finish it, or discard \
         it with --overwrite (parts: remove the folder)"
    )]
    Unfinished {
        /// All differences, with the saved and the given values.
        differences: String,
    },
    /// The output folder contains files that this program did not write; the first of them.
    #[error("this output folder holds other data ({0}): choose an empty or new folder")]
    HoldsOtherData(String),
    /// The output contains a finished data set that differs from the requested one.
    #[error(
        "this output already holds a finished data set: use --overwrite to replace it (parts and engines: remove it \
         first); {differences}"
    )]
    Finished {
        /// All differences, with the saved and the given values.
        differences: String,
    },
    /// The object store contains shards of another unfinished build.
    #[error(
        "this folder holds shards of another unfinished build: repeat that command to finish it, or discard it with \
         --overwrite (parts and engines: remove the files)"
    )]
    OtherBuild,
    /// The output path is a file.
    #[error("this output is not a folder; choose another --output")]
    NotAFolder,
}

/// A problem with the parts of a build that runs on many machines.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// Parts of the build are missing or unfinished.
    #[error("{} of {parts} parts are finished; {}", parts - missing.len(), missing_parts(missing, *parts))]
    Missing {
        /// Number of parts.
        parts: usize,
        /// The missing parts, ascending.
        missing: Vec<usize>,
    },
    /// A part was started before the others had tokenized their shares of the text.
    #[error(
        "{missing} of {segments} shares of the text are not tokenized yet; the first belongs to part {part} of \
         {parts}: run this part again when all parts have run with --tokenize-only"
    )]
    TextMissing {
        /// The part of the first missing share.
        part: usize,
        /// Number of parts.
        parts: usize,
        /// Number of missing shares.
        missing: usize,
        /// Number of shares.
        segments: usize,
    },
    /// A file of a finished part is missing or damaged.
    #[error("part {part} is damaged: build it again with --part {part} --parts {parts}, then merge")]
    Damaged {
        /// The part.
        part: usize,
        /// Number of parts.
        parts: usize,
        /// The file and its problem.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A part was built from different text, with different options or by another program.
    #[error("part {part} does not match the other parts: it has other {what}")]
    Differs {
        /// The part.
        part: usize,
        /// The difference from the first part.
        what: &'static str,
    },
}

/// Returns the missing parts with the command that makes them. A list has the form of a job array: `3,5-7`.
fn missing_parts(missing: &[usize], parts: usize) -> String {
    if let [part] = missing {
        return format!("part {part} is missing: make it with --part {part} --parts {parts}");
    }
    let runs = missing.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run[0].to_string(),
    });
    let list = runs.collect::<Vec<_>>().join(",");
    format!(
        "parts {list} are missing: make each with --part I --parts {parts}, for example as a job array {list}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_missing_parts_are_listed() {
        let error = PartError::Missing { parts: 9, missing: vec![2, 4, 5, 6, 9] };
        assert_eq!(
            error.to_string(),
            "4 of 9 parts are finished; parts 2,4-6,9 are missing: make each with --part I --parts 9, for example as a job \
             array 2,4-6,9"
        );
    }
}
