//! Errors in the files of a data set: manifest, shards.

/// A problem with a manifest, the receipt of a part, or a file that one of them names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestProblem {
    /// A folder has no manifest: it is not a data set, or the data set was never finished.
    #[error("this folder has no manifest.json: the data set is not complete")]
    Missing,
    /// The folder does not exist.
    #[error("this folder does not exist")]
    NoSuchFolder,
    /// The path is a file.
    #[error("this is a file, but a data set is a folder with a manifest.json")]
    NotAFolder,
    /// A folder contains no parts to merge.
    #[error("this folder has no parts of a build")]
    NoParts,
    /// A manifest is not valid JSON of the expected form; the position and the reason.
    #[error("not a valid manifest")]
    Invalid(#[source] serde_json::Error),
    /// A part's receipt was not written by this program; the position and the reason.
    #[error("not a valid receipt of a part")]
    InvalidReceipt(#[source] serde_json::Error),
    /// The content of a manifest does not match its checksum.
    #[error("damaged")]
    Checksum(#[source] bert_storage::checksummed_json::ChecksumError),
    /// A manifest has another format version.
    #[error("format version {found}, but this program reads version {expected}")]
    Version {
        /// Version of the manifest.
        found: u32,
        /// Version that this program reads.
        expected: u32,
    },
    /// A manifest names a file outside its own folder; the name.
    #[error("it names {0:?}, which is not a plain file name")]
    UnsafePath(String),
    /// A number in a manifest contradicts another one.
    #[error("{what} is {found}, expected {expected}")]
    Count {
        /// The counted quantity.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The number that would be consistent.
        expected: u64,
    },
    /// A number in a manifest is outside the range that a build can produce.
    #[error("{what} is {found}, but must be between {min} and {max}")]
    Range {
        /// The counted quantity.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
    /// A value in a manifest contradicts its options or its other counts.
    #[error("{0} contradicts the other values")]
    Contradiction(&'static str),
    /// A build would reject the options in a manifest; the reason.
    #[error("its options are not valid for a build")]
    Options(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A file that a manifest names is missing.
    #[error("this file is missing, but the manifest lists it")]
    FileMissing,
    /// The size of a file differs from the manifest.
    #[error("{found} bytes, but the manifest says {expected}")]
    FileSize {
        /// Bytes found.
        found: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// The digest of a file differs from the manifest.
    #[error("BLAKE3 digest {found}, but the manifest says {expected}")]
    FileDigest {
        /// Digest found.
        found: String,
        /// Digest expected.
        expected: String,
    },
}

/// A problem with a shard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardProblem {
    /// A shard cannot be written; the error of the Parquet writer.
    #[error("cannot write this shard")]
    Write(#[source] parquet::errors::ParquetError),
    /// A shard cannot be read as Parquet; the error of the reader.
    #[error("this shard is damaged")]
    Unreadable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A shard does not have the columns of pre-training data.
    #[error("column {column:?} is {found}, expected {expected}")]
    Column {
        /// The column.
        column: String,
        /// Its type, or "missing".
        found: String,
        /// The type it must have.
        expected: String,
    },
    /// A row of a shard is inconsistent.
    #[error("row {row}: {problem}")]
    Row {
        /// The row, counted from 0.
        row: u64,
        /// The problem with the row.
        problem: RowProblem,
    },
}

impl ShardProblem {
    /// Returns the problem of a shard whose reader failed.
    pub(crate) fn unreadable(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Unreadable(Box::new(source))
    }
}

/// An inconsistency in a row of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowProblem {
    /// A value is null.
    #[error("column {0} has a null")]
    Null(&'static str),
    /// The length of a column does not match the column that it belongs to.
    #[error("{found} {column} for {expected} {of}")]
    Length {
        /// The column.
        column: &'static str,
        /// Number of its values.
        found: usize,
        /// The other column.
        of: &'static str,
        /// Number of its values.
        expected: usize,
    },
    /// A column has an invalid value: a segment id or a label that is neither 0 nor 1, or a sentence without tokens.
    #[error("{column} has the value {value}")]
    Value {
        /// The column.
        column: &'static str,
        /// The value.
        value: i32,
    },
    /// A masked position is outside the row, or the positions are not ascending.
    #[error("masked_lm_positions has {position}, which is outside the {tokens} tokens or not ascending")]
    Position {
        /// The position.
        position: i32,
        /// Number of tokens of the row.
        tokens: usize,
    },
    /// A token id is outside the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocabulary}")]
    TokenId {
        /// The id.
        id: i32,
        /// Number of tokens of the vocabulary.
        vocabulary: usize,
    },
    /// The sentence lengths of a document do not add up to its number of tokens.
    #[error("sentence_lengths add up to {sum}, but there are {tokens} input_ids")]
    SentenceSum {
        /// The sum.
        sum: i64,
        /// Number of tokens.
        tokens: usize,
    },
    /// `attention_mask` is not ones for the tokens followed by zeros.
    #[error("attention_mask has {value} at position {position}, but must be ones followed by zeros")]
    AttentionMask {
        /// The position.
        position: usize,
        /// The value.
        value: i8,
    },
    /// A position after the last token has a label.
    #[error("labels has {label} at position {position}, after the {tokens} tokens")]
    LabelOfPadding {
        /// The position.
        position: usize,
        /// The value.
        label: i32,
        /// Number of tokens of the row.
        tokens: usize,
    },
    /// A row has no tokens.
    #[error("the row has no tokens")]
    Empty,
    /// A row is longer than `max_seq_length`.
    #[error("{tokens} tokens, more than max_seq_length {limit}")]
    TooLong {
        /// Number of tokens of the row.
        tokens: usize,
        /// The maximum.
        limit: usize,
    },
    /// A row has more masks than `max_predictions_per_seq`, or any mask if the loader masks (the limit is then 0).
    #[error(
        "{masks} masked positions, more than {limit} (max_predictions_per_seq, or 0 with dynamic masking)"
    )]
    TooManyMasks {
        /// Number of masks of the row.
        masks: usize,
        /// The maximum.
        limit: usize,
    },
}
