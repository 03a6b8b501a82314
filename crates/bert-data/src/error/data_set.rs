//! Errors of the files of a data set: vocabulary, manifest, shards.

/// What is wrong with a vocabulary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VocabularyProblem {
    /// A vocabulary file has no tokens.
    #[error("the vocabulary is empty")]
    Empty,
    /// A vocabulary lacks a token that BERT needs.
    #[error("the vocabulary ({size} tokens) has no {token}")]
    LacksToken {
        /// How many tokens it has.
        size: usize,
        /// The token.
        token: &'static str,
    },
    /// A token stands twice in a vocabulary.
    #[error("token {token:?} is already on line {first_line}")]
    DuplicateToken {
        /// The first line.
        first_line: usize,
        /// The token.
        token: String,
    },
    /// A vocabulary is not UTF-8.
    #[error("invalid UTF-8 in a vocabulary")]
    InvalidUtf8,
    /// A vocabulary of SentencePiece, in which a tab and a score follow each token.
    #[error(
        "no {token}, and most lines hold a tab and a score: a vocabulary of SentencePiece. BERT needs a WordPiece \
         vocabulary with one token on each line; `bert make-vocab` trains one"
    )]
    Scores {
        /// The token that is not there.
        token: &'static str,
    },
    /// A folder without a tokenizer that can be read.
    #[error("no vocab.txt and no tokenizer.json in this folder, so it has no WordPiece vocabulary")]
    NoVocabulary,
    /// A file of a tokenizer is not the JSON object that it should be; where and why.
    #[error("not a JSON object")]
    Json(#[source] serde_json::Error),
    /// A file describes another tokenizer than BERT's.
    #[error("`{key}` is {value}; only {only} is supported")]
    Unsupported {
        /// The key in the file.
        key: String,
        /// Its value as JSON, cut to a line.
        value: String,
        /// The value that is supported.
        only: &'static str,
    },
    /// A token that the tokenizer finds in the text before the text is split.
    #[error(
        "{token:?} is an added token, which is found anywhere in the text before it is split; that is not supported. \
         Put it in the place of an [unused...] token of vocab.txt, and take it out of the added tokens"
    )]
    AddedToken {
        /// The token.
        token: String,
    },
    /// A token whose id is not a number, or far above the number of tokens.
    #[error("the id of {token:?} is not a whole number in the range of the vocabulary")]
    NotAnId {
        /// The token.
        token: String,
    },
    /// Two tokens have one id.
    #[error("{token:?} has id {id}, which another token has, or which is far above the others")]
    IdTwice {
        /// The id.
        id: usize,
        /// The second token.
        token: String,
    },
    /// A token with white space at an end, or a line break in it.
    #[error("{token:?} has white space at an end or a line break in it: vocab.txt has no such tokens")]
    NotALine {
        /// The token.
        token: String,
    },
}

impl VocabularyProblem {
    /// 4 for a tokenizer that is not BERT's, 3 for a file that is damaged.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Unsupported { .. } | Self::AddedToken { .. } | Self::NoVocabulary => 4,
            _ => 3,
        }
    }
}

/// What is wrong with a manifest, with the receipt of a part, or with a file that one of them names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestProblem {
    /// A folder holds no manifest: no data set, or one that was never finished.
    #[error("no manifest.json in this folder: it is no finished data set")]
    Missing,
    /// A folder has no parts to merge.
    #[error("no parts of a build in this folder")]
    NoParts,
    /// A manifest is not the JSON that is expected; where and why.
    #[error("not a valid manifest")]
    Invalid(#[source] serde_json::Error),
    /// A part's receipt is not what this program writes; where and why.
    #[error("not the receipt of a part that this program made")]
    InvalidReceipt(#[source] serde_json::Error),
    /// A manifest's bytes are not those that were sealed.
    #[error("damaged")]
    Seal(#[source] bert_storage::sealed::SealError),
    /// A manifest of another format version.
    #[error("format version {found}, this program reads {expected}")]
    Version {
        /// Its version.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// A manifest names a file outside its own folder; the name in it.
    #[error("it names {0:?}, which is not a plain file name")]
    UnsafePath(String),
    /// A number in a manifest contradicts another one.
    #[error("{what} is {found}, expected {expected}")]
    Count {
        /// What was counted.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The number that would agree.
        expected: u64,
    },
    /// A number in a manifest is outside of the range that a build can give.
    #[error("{what} is {found}, but must be between {least} and {most}")]
    Range {
        /// What was counted.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The least that can be.
        least: u64,
        /// The most that can be.
        most: u64,
    },
    /// A value in a manifest is not the one that goes with its options or its other counts.
    #[error("{0} contradicts the other values")]
    Contradiction(&'static str),
    /// A build would refuse the options in a manifest; why.
    #[error("its options are not those of a build")]
    Options(#[source] Box<crate::Error>),
    /// A file that a manifest names is missing.
    #[error("missing, though the manifest names it")]
    FileMissing,
    /// A file has not the size that its manifest says.
    #[error("{found} bytes, the manifest says {expected}")]
    FileSize {
        /// Bytes found.
        found: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// A file has not the digest that its manifest says.
    #[error("BLAKE3 {found}, the manifest says {expected}")]
    FileDigest {
        /// Digest found.
        found: String,
        /// Digest expected.
        expected: String,
    },
}

/// What is wrong with a shard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardProblem {
    /// A shard cannot be written; what the Parquet writer says.
    #[error("cannot write this shard")]
    Write(#[source] parquet::errors::ParquetError),
    /// A shard is not readable as Parquet; what the reader says.
    #[error("a damaged shard")]
    Unreadable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A shard's columns are not those of pre-training data.
    #[error("column {column:?} is {found}, expected {expected}")]
    Column {
        /// The column.
        column: String,
        /// Its type, or "missing".
        found: String,
        /// The type it must have.
        expected: String,
    },
    /// A row of a shard contradicts itself.
    #[error("row {row}: {problem}")]
    Row {
        /// The row, counted from 0.
        row: u64,
        /// What is wrong with it.
        problem: RowProblem,
    },
}

impl ShardProblem {
    /// The problem of a shard that its reader gave up.
    pub(crate) fn unreadable(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Unreadable(Box::new(source))
    }
}

/// How a row of a shard can contradict itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowProblem {
    /// A value is null.
    #[error("column {0} holds a null")]
    Null(&'static str),
    /// A column has another length than the one that it goes with.
    #[error("{found} {column} for {expected} {of}")]
    Length {
        /// The column.
        column: &'static str,
        /// Its values.
        found: usize,
        /// The other column.
        of: &'static str,
        /// Its values.
        expected: usize,
    },
    /// A value that its column cannot have: a segment id or a label that is neither 0 nor 1, a sentence without tokens.
    #[error("{column} holds {value}")]
    Value {
        /// The column.
        column: &'static str,
        /// What is there.
        value: i32,
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
    /// The sentences of a document have not the document's tokens.
    #[error("sentence_lengths add up to {sum}, but there are {tokens} input_ids")]
    SentenceSum {
        /// The sum.
        sum: i64,
        /// Number of tokens.
        tokens: usize,
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
