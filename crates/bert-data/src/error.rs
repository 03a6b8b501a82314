//! Everything that can go wrong while text becomes training data, one variant per way, each saying what and where.
//!
//! The numbers of [`Error::exit_code`] are the documented exit codes of the programs: 1 error, 2 usage or
//! configuration, 3 bad or corrupt data, 6 output in use by another process. Printing is the application's.

use std::path::{Path, PathBuf};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried: "open", "read", "write", "rename", ...
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },

    /// There is no room left for a file.
    #[error("no room on the disk for {}: it needs {needed} bytes or more", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// Bytes of the file up to the write that failed, and with it.
        needed: u64,
        /// What the system said.
        source: std::io::Error,
    },

    /// An option has a value that cannot be used.
    #[error("--{option} is {value}, but must be {expected}")]
    InvalidOption {
        /// The flag's name without dashes.
        option: &'static str,
        /// The value given.
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// Two options contradict each other.
    #[error("--{option} cannot be used with {with}: {reason}")]
    ConflictingOptions {
        /// The flag's name without dashes.
        option: &'static str,
        /// The other option and its value.
        with: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// A required option is missing.
    #[error("--{option} is required: {reason}")]
    MissingOption {
        /// The flag's name without dashes.
        option: &'static str,
        /// What it is needed for.
        reason: &'static str,
    },
    /// The memory budget is too small to work in.
    #[error("--memory-budget is {budget}, but {threads} thread(s) need at least {least}")]
    BudgetTooSmall {
        /// What was given.
        budget: crate::budget::ByteSize,
        /// What would do.
        least: crate::budget::ByteSize,
        /// Worker threads.
        threads: usize,
    },
    /// The output folder holds what another command left unfinished.
    #[error(
        "{} holds an unfinished build in which {option} is {found}, not {expected}: give that command again to finish \
         it, or --overwrite to discard it (of parts: remove the folder)", path.display()
    )]
    UnfinishedBuild {
        /// The output folder.
        path: PathBuf,
        /// The first thing that differs.
        option: String,
        /// What it is there.
        found: String,
        /// What it is now.
        expected: String,
    },
    /// A part of a build has not been made, or not finished.
    #[error(
        "{found} of {parts} parts are finished; part {missing} is missing: make it with --part {missing} --parts {parts}"
    )]
    PartsMissing {
        /// Finished parts.
        found: usize,
        /// All parts.
        parts: usize,
        /// The first part that is missing.
        missing: usize,
    },
    /// A folder has no parts to merge.
    #[error("{} holds no parts of a build", path.display())]
    NoParts {
        /// The folder.
        path: PathBuf,
    },
    /// A part's receipt is not what this program writes.
    #[error("{} is not the receipt of a part that this program made", path.display())]
    PartInvalid {
        /// The receipt.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A part was made of another text, with other options or by another program.
    #[error("part {part} does not belong to the others: it has other {what}")]
    PartsDiffer {
        /// The part.
        part: usize,
        /// What differs from the first one.
        what: &'static str,
    },
    /// Something was lost or made twice: a fault of this program or of the machine.
    #[error(
        "the law of conservation is broken: {what}{} is {found}, but must be {expected}; nothing was committed",
        pass.map(|pass| format!(" of pass {pass}")).unwrap_or_default()
    )]
    NotConserved {
        /// What was counted.
        what: &'static str,
        /// In which pass over the text, where it is counted for each.
        pass: Option<u64>,
        /// What came out.
        found: u64,
        /// What went in.
        expected: u64,
    },
    /// A configuration file is not the JSON that is expected.
    #[error("{} is not a valid configuration", path.display())]
    InvalidConfiguration {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },

    /// No input was named.
    #[error("no input: name at least one file, folder or pattern")]
    NoInputNamed,
    /// A named input does not exist.
    #[error("input {} does not exist", path.display())]
    InputMissing {
        /// The path as it was given.
        path: PathBuf,
    },
    /// A pattern matches no file.
    #[error("input pattern {pattern:?} matches no file")]
    PatternMatchesNothing {
        /// The pattern as it was given.
        pattern: String,
    },
    /// A pattern cannot be read.
    #[error("input pattern {pattern:?} is not valid")]
    InvalidPattern {
        /// The pattern as it was given.
        pattern: String,
        /// Where and why.
        source: glob::PatternError,
    },
    /// A folder that was named as input holds no file.
    #[error("input folder {} holds no files", path.display())]
    InputFolderEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// An input is neither a regular file nor a folder.
    #[error("input {} is neither a regular file nor a folder", path.display())]
    InputNotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A file is named twice among the inputs.
    #[error("input {} is named twice", path.display())]
    InputTwice {
        /// The file.
        path: PathBuf,
    },
    /// A compressed input is damaged or cut off.
    #[error("{} is damaged {format} data", path.display())]
    CorruptCompression {
        /// The file.
        path: PathBuf,
        /// "gzip" or "zstd".
        format: &'static str,
        /// What the decoder says.
        source: std::io::Error,
    },
    /// A compressed input grows beyond what text can.
    #[error(
        "{}: {compressed} bytes of {format} have become {text} bytes of text and more: no text is so repetitive. If it \
         is meant, decompress it first",
        path.display()
    )]
    InputBomb {
        /// The file.
        path: PathBuf,
        /// "gzip" or "zstd".
        format: &'static str,
        /// Bytes after decompression so far.
        text: u64,
        /// Bytes of the file so far.
        compressed: u64,
    },
    /// A row of a Parquet input is longer than any text should be.
    #[error("{}: row {row} is longer than {limit} bytes", path.display())]
    RowTooLong {
        /// The file.
        path: PathBuf,
        /// The row, counted from 1.
        row: u64,
        /// The most that is accepted.
        limit: usize,
    },
    /// A Parquet input is compressed in a way that is not read.
    #[error("{}: compressed with {codec}; snappy, gzip and zstd are read, and no compression", path.display())]
    InputCodec {
        /// The file.
        path: PathBuf,
        /// The codec's name in the file.
        codec: String,
    },
    /// A line is longer than any text should be.
    #[error("{}:{line}: the line is longer than {limit} bytes", path.display())]
    LineTooLong {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The most that is accepted.
        limit: usize,
    },
    /// A line is not UTF-8, and `--strict-utf8` is on.
    #[error("{}:{line}: invalid UTF-8 (without --strict-utf8 it would be replaced and counted)", path.display())]
    InvalidUtf8 {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
    },
    /// A file is named like Parquet but is not.
    #[error("{} is no Parquet file: it does not begin with PAR1", path.display())]
    NotParquet {
        /// The file.
        path: PathBuf,
    },
    /// A Parquet input is damaged, or made in a way that this program cannot read.
    #[error("{} is not readable as Parquet", path.display())]
    InputParquet {
        /// The file.
        path: PathBuf,
        /// What the reader says.
        source: parquet::errors::ParquetError,
    },
    /// Rows of a Parquet input are not readable.
    #[error("{}, after row {rows}: not readable as Parquet", path.display())]
    InputBatch {
        /// The file.
        path: PathBuf,
        /// Rows that were read before.
        rows: u64,
        /// What the reader says.
        source: arrow::error::ArrowError,
    },
    /// A Parquet input lacks the text column, or it is no text.
    #[error("{}: column {column:?} is {found}, expected text (see --text-column)", path.display())]
    InputColumn {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its type, or that it is missing and which columns there are.
        found: String,
    },
    /// A line of a JSON Lines input is not JSON.
    #[error("{}:{line}: not a JSON object (one object on each line is expected)", path.display())]
    InputJson {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// Where in the line and why.
        source: serde_json::Error,
    },
    /// A row of a JSON Lines or Parquet input has no text.
    #[error("{}:{row}: {column:?} {problem} (see --text-column)", path.display())]
    InputText {
        /// The file.
        path: PathBuf,
        /// The line or row, counted from 1.
        row: u64,
        /// The key or column.
        column: String,
        /// What is there instead.
        problem: TextProblem,
    },
    /// All inputs together hold not one document with a token.
    #[error("the input holds no text: {files} file(s), {lines} line(s), not one token")]
    NoText {
        /// How many files were read.
        files: usize,
        /// How many lines they had.
        lines: u64,
    },
    /// There are documents, but no instance can be made of them.
    #[error(
        "no instance can be made: the only document has {sentences} sentence(s), and one document alone gives no \
         random next sentence; put a blank line between documents, or one sentence on each line (--split-sentences)"
    )]
    NoInstances {
        /// How many sentences the document has.
        sentences: usize,
    },

    /// There are documents, but none has two sentences, which `--nsp sop` needs.
    #[error(
        "no instance can be made: --nsp sop needs two sentences of one document, and each of the {documents} \
         document(s) has one; put a blank line between documents only, or use --split-sentences"
    )]
    NoSentencePairs {
        /// How many documents there are.
        documents: usize,
    },

    /// A vocabulary file has no tokens.
    #[error("vocabulary {} is empty", path.display())]
    VocabularyEmpty {
        /// The file.
        path: PathBuf,
    },
    /// A vocabulary lacks a token that BERT needs.
    #[error("vocabulary {} ({size} tokens) has no {token}", path.display())]
    VocabularyLacksToken {
        /// The file.
        path: PathBuf,
        /// How many tokens it has.
        size: usize,
        /// The token.
        token: &'static str,
    },
    /// A token stands twice in a vocabulary.
    #[error("{}:{line}: token {token:?} is already on line {first_line}", path.display())]
    VocabularyDuplicateToken {
        /// The file.
        path: PathBuf,
        /// The second line, counted from 1.
        line: usize,
        /// The first line.
        first_line: usize,
        /// The token.
        token: String,
    },
    /// A vocabulary is not UTF-8.
    #[error("{}:{line}: invalid UTF-8 in a vocabulary", path.display())]
    VocabularyInvalidUtf8 {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// The output folder holds something that this program did not write.
    #[error("output folder {} holds other data ({}): choose an empty or new folder", path.display(), found.display())]
    OutputHoldsOtherData {
        /// The folder.
        path: PathBuf,
        /// The first entry that is not ours.
        found: PathBuf,
    },
    /// The output folder holds a finished data set.
    #[error("output folder {} already holds a finished data set: use --overwrite to replace it", path.display())]
    OutputFinished {
        /// The folder.
        path: PathBuf,
    },
    /// The output path is a file.
    #[error("output {} is not a folder", path.display())]
    OutputNotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Another process writes to the output folder.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },

    /// A shard cannot be written.
    #[error("cannot write shard {}", path.display())]
    ShardWrite {
        /// The file.
        path: PathBuf,
        /// What the Parquet writer says.
        source: parquet::errors::ParquetError,
    },
    /// A shard is not readable as Parquet.
    #[error("shard {} is damaged", path.display())]
    ShardUnreadable {
        /// The file.
        path: PathBuf,
        /// What the Parquet reader says.
        source: parquet::errors::ParquetError,
    },
    /// A shard's record batch is not readable.
    #[error("shard {} is damaged", path.display())]
    ShardBatchUnreadable {
        /// The file.
        path: PathBuf,
        /// What the reader says.
        source: arrow::error::ArrowError,
    },
    /// A shard's columns are not those of pre-training data.
    #[error("shard {}: column {column:?} is {found}, expected {expected}", path.display())]
    ShardColumn {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its type, or "missing".
        found: String,
        /// The type it must have.
        expected: String,
    },
    /// A row of a shard contradicts itself.
    #[error("shard {}, row {row}: {problem}", path.display())]
    ShardRow {
        /// The file.
        path: PathBuf,
        /// The row, counted from 0.
        row: u64,
        /// What is wrong with it.
        problem: RowProblem,
    },

    /// A folder holds no manifest: no data set, or one that was never finished.
    #[error("{} holds no {name}: it is no finished data set", path.display(), name = crate::manifest::MANIFEST)]
    ManifestMissing {
        /// The folder.
        path: PathBuf,
    },
    /// A manifest is not the JSON that is expected.
    #[error("{} is not a valid manifest", path.display())]
    ManifestInvalid {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A manifest's bytes are not those that were sealed.
    #[error("{} is damaged", path.display())]
    ManifestSeal {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: crate::sealed::SealError,
    },
    /// A manifest of another format version.
    #[error("{} has format version {found}, this program reads {expected}", path.display())]
    ManifestVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// A manifest names a file outside its own folder.
    #[error("{} names {file:?}, which is not a plain file name", path.display())]
    ManifestUnsafePath {
        /// The manifest.
        path: PathBuf,
        /// The name in it.
        file: String,
    },
    /// A number in a manifest contradicts another one.
    #[error("{}: {what} is {found}, expected {expected}", path.display())]
    ManifestCount {
        /// The manifest.
        path: PathBuf,
        /// What was counted.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The number that would agree.
        expected: u64,
    },
    /// A file that a manifest names is missing.
    #[error("{} is missing, though the manifest names it", path.display())]
    FileMissing {
        /// The file.
        path: PathBuf,
    },
    /// A file has not the size that its manifest says.
    #[error("{} has {found} bytes, the manifest says {expected}", path.display())]
    FileSize {
        /// The file.
        path: PathBuf,
        /// Bytes found.
        found: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// A file has not the digest that its manifest says.
    #[error("{} has BLAKE3 {found}, the manifest says {expected}", path.display())]
    FileDigest {
        /// The file.
        path: PathBuf,
        /// Digest found.
        found: String,
        /// Digest expected.
        expected: String,
    },
    /// The worker threads could not be started.
    #[error("cannot start {threads} worker threads")]
    Threads {
        /// How many.
        threads: usize,
        /// Why not.
        source: rayon::ThreadPoolBuildError,
    },
}

/// What a row of an input has instead of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextProblem {
    /// The key is not there.
    #[error("is missing")]
    Missing,
    /// The value is null.
    #[error("is null")]
    Null,
    /// The value has another type.
    #[error("is {0}, expected text")]
    NotText(&'static str),
}

/// How a row of a shard can contradict itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowProblem {
    /// A value is null.
    #[error("column {0} holds a null")]
    Null(&'static str),
    /// `segment_ids` has another length than `input_ids`.
    #[error("{segments} segment_ids for {tokens} input_ids")]
    SegmentCount {
        /// Number of segment ids.
        segments: usize,
        /// Number of tokens.
        tokens: usize,
    },
    /// A segment id that is neither 0 nor 1.
    #[error("segment id {0}")]
    SegmentId(i8),
    /// `masked_lm_ids` has another length than `masked_lm_positions`.
    #[error("{ids} masked_lm_ids for {positions} masked_lm_positions")]
    MaskCount {
        /// Number of ids.
        ids: usize,
        /// Number of positions.
        positions: usize,
    },
    /// A masked position outside the row, or positions not ascending.
    #[error("masked_lm_positions holds {position}: outside the {tokens} tokens or not ascending")]
    Position {
        /// The position.
        position: i32,
        /// The row's length.
        tokens: usize,
    },
    /// A token id outside the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocabulary}")]
    TokenId {
        /// The id.
        id: i32,
        /// Number of tokens of the vocabulary.
        vocabulary: usize,
    },
    /// A label that is neither 0 nor 1.
    #[error("next_sentence_label {0}")]
    Label(i8),
    /// A sentence without tokens, or with a negative number of them.
    #[error("sentence_lengths holds {0}")]
    SentenceLength(i32),
    /// The sentences of a document have not the document's tokens.
    #[error("sentence_lengths add up to {sum}, but there are {tokens} input_ids")]
    SentenceSum {
        /// The sum.
        sum: i64,
        /// Number of tokens.
        tokens: usize,
    },
    /// `continues_word` has another length than `input_ids`.
    #[error("{marks} marks in continues_word for {tokens} input_ids")]
    MarkCount {
        /// Number of marks.
        marks: usize,
        /// Number of tokens.
        tokens: usize,
    },
    /// A row without tokens.
    #[error("no tokens")]
    Empty,
    /// A row longer than `max_seq_length`.
    #[error("{tokens} tokens, more than max_seq_length {limit}")]
    TooLong {
        /// The row's length.
        tokens: usize,
        /// The most allowed.
        limit: usize,
    },
    /// More masks than `max_predictions_per_seq`; any at all where the loader makes them (the limit is then 0).
    #[error(
        "{masks} masked positions, more than {limit} (max_predictions_per_seq, or 0 with dynamic masking)"
    )]
    TooManyMasks {
        /// The row's masks.
        masks: usize,
        /// The most allowed.
        limit: usize,
    },
}

impl Error {
    /// The documented exit code of a program that ends with this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::InvalidOption { .. }
            | Self::ConflictingOptions { .. }
            | Self::MissingOption { .. }
            | Self::InvalidConfiguration { .. }
            | Self::NoInputNamed
            | Self::InputMissing { .. }
            | Self::PatternMatchesNothing { .. }
            | Self::InvalidPattern { .. }
            | Self::InputFolderEmpty { .. }
            | Self::InputNotAFile { .. }
            | Self::InputTwice { .. }
            | Self::OutputHoldsOtherData { .. }
            | Self::OutputFinished { .. }
            | Self::BudgetTooSmall { .. }
            | Self::UnfinishedBuild { .. }
            | Self::OutputNotAFolder { .. } => 2,
            Self::InUse { .. } => 6,
            Self::Io { .. } | Self::DiskFull { .. } | Self::Threads { .. } | Self::ShardWrite { .. } => 1,
            _ => 3,
        }
    }

    /// Whether a full disk or quota is at the bottom of it: then the same command works once there is room.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        is_disk_full(self)
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Whether an error, or what caused it, is that a disk or quota is full.
#[must_use]
pub fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            if matches!(io.kind(), StorageFull | QuotaExceeded) {
                return true;
            }
            // What an `io::Error` wraps is not among its sources itself.
            if io.get_ref().is_some_and(|inner| is_disk_full(inner)) {
                return true;
            }
        }
        next = error.source();
    }
    false
}
