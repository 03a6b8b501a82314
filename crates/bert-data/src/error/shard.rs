//! Errors of a shard.

use std::path::PathBuf;

/// What is wrong with a shard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// A shard cannot be written.
    #[error("cannot write shard {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the Parquet writer says.
        source: parquet::errors::ParquetError,
    },
    /// A shard is not readable as Parquet.
    #[error("shard {} is damaged", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the Parquet reader says.
        source: parquet::errors::ParquetError,
    },
    /// A shard's record batch is not readable.
    #[error("shard {} is damaged", path.display())]
    BatchUnreadable {
        /// The file.
        path: PathBuf,
        /// What the reader says.
        source: arrow::error::ArrowError,
    },
    /// A shard's columns are not those of pre-training data.
    #[error("shard {}: column {column:?} is {found}, expected {expected}", path.display())]
    Column {
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
    Row {
        /// The file.
        path: PathBuf,
        /// The row, counted from 0.
        row: u64,
        /// What is wrong with it.
        problem: RowProblem,
    },
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
    /// A column of padded rows (`--columns hf`) has another length than `input_ids`.
    #[error("{found} values in {column} for {expected} input_ids")]
    ColumnLength {
        /// The column.
        column: &'static str,
        /// Its values.
        found: usize,
        /// Those of `input_ids`.
        expected: usize,
    },
    /// `attention_mask` is not ones for the tokens and zeros behind them.
    #[error("attention_mask holds {value} at position {position}: not ones and then zeros")]
    AttentionMask {
        /// The position.
        position: usize,
        /// What is there.
        value: i8,
    },
    /// A position behind the tokens has a label.
    #[error("labels holds {label} at position {position}, behind the {tokens} tokens")]
    LabelOfPadding {
        /// The position.
        position: usize,
        /// What is there.
        label: i32,
        /// The row's length.
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
