//! Errors of the text that was named as input.

use std::path::PathBuf;

/// What is wrong with the text that was named as input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// No input was named.
    #[error("no input: name at least one file, folder or pattern")]
    NoneNamed,
    /// A named input does not exist.
    #[error("input {} does not exist", path.display())]
    Missing {
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
    FolderEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// An input is neither a regular file nor a folder.
    #[error("input {} is neither a regular file nor a folder", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A file is named twice among the inputs.
    #[error("input {} is named twice", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
    },
    /// A compressed input is damaged or cut off.
    #[error("{} is damaged {format} data", path.display())]
    CorruptCompression {
        /// The file.
        path: PathBuf,
        /// "gzip", "zstd", "bzip2" or "xz".
        format: &'static str,
        /// What the decoder says.
        source: std::io::Error,
    },
    /// A compressed input grows beyond what text can.
    #[error(
        "{}: {compressed} bytes of {format} have become {text} bytes of text and more: no text is so repetitive. If it \
         is meant, give it as plain text",
        path.display()
    )]
    Bomb {
        /// The file.
        path: PathBuf,
        /// "gzip", "zstd", "bzip2", "xz" or "Parquet".
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
    Codec {
        /// The file.
        path: PathBuf,
        /// The codec's name in the file.
        codec: String,
    },
    /// A line is longer than any text should be.
    #[error("{}:{line}: the line is longer than {limit} bytes; break it between sentences or paragraphs", path.display())]
    LineTooLong {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The most that is accepted.
        limit: usize,
    },
    /// The list of input files would be longer than a manifest may be.
    #[error(
        "{files} input files: the list of their names and digests is too long for a manifest; join them into fewer files \
         (text with a blank line between them, JSON Lines or Parquet), which are read faster too"
    )]
    TooMany {
        /// How many there are.
        files: usize,
    },
    /// A document has more tokens than can be counted in 32 bits, in the reference's mode, which cannot cut it.
    #[error("a document has more than {} tokens; are the empty lines between documents missing?", u32::MAX)]
    DocumentTooLong,
    /// A line is not UTF-8, and `--strict-utf8` is on.
    #[error("{}:{line}: invalid UTF-8 (without --strict-utf8 it would be replaced and counted)", path.display())]
    InvalidUtf8 {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
    },
    /// A line holds a NUL byte, and `--strict-utf8` is on.
    #[error("{}:{line}: a NUL byte (without --strict-utf8 it would be dropped and counted)", path.display())]
    NulByte {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
    },
    /// More than one line in twenty is not UTF-8 or holds a NUL byte.
    #[error(
        "{}: {bad} of {lines} lines are not UTF-8 text, line {first} the first: convert the file to UTF-8 (iconv), leave it \
         out, or let --lossy-utf8 repair all such lines",
        path.display()
    )]
    NotUtf8Text {
        /// The file.
        path: PathBuf,
        /// Lines that are not UTF-8 or hold a NUL byte.
        bad: u64,
        /// Lines so far that are not blank.
        lines: u64,
        /// The first bad line, counted from 1.
        first: u64,
    },
    /// A file begins as one of a format that is no text.
    #[error("{} is {format}: {advice}", path.display())]
    KnownFormat {
        /// The file.
        path: PathBuf,
        /// What it is, with its article.
        format: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A file is named like Parquet but is not.
    #[error("{} is no Parquet file: it does not begin with PAR1", path.display())]
    NotParquet {
        /// The file.
        path: PathBuf,
    },
    /// A Parquet input is damaged, or made in a way that this program cannot read.
    #[error("{} is not readable as Parquet", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the reader says.
        source: parquet::errors::ParquetError,
    },
    /// Rows of a Parquet input are not readable.
    #[error("{}, after row {rows}: not readable as Parquet", path.display())]
    Batch {
        /// The file.
        path: PathBuf,
        /// Rows that were read before.
        rows: u64,
        /// What the reader says.
        source: arrow::error::ArrowError,
    },
    /// A Parquet input lacks the text column, or it is no text.
    #[error("{}: column {column:?} is {found}, expected text (see --text-column)", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its type, or that it is missing and which columns there are.
        found: String,
    },
    /// A column of a Parquet table holds what is neither text nor a number.
    #[error("{}: column {column:?} is {found}, expected text, numbers or truth values", path.display())]
    ColumnType {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its type.
        found: String,
    },
    /// A line of a JSON Lines input is not JSON.
    #[error("{}:{line}: not a JSON object (one object on each line is expected)", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// Where in the line and why.
        source: serde_json::Error,
    },
    /// A row of a JSON Lines or Parquet input has no text.
    #[error("{}:{row}: {column:?} {problem} (see --text-column)", path.display())]
    Text {
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
}

impl InputError {
    /// 2 where what was named is not there, 3 where what is there is no good.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::NoneNamed
            | Self::Missing { .. }
            | Self::PatternMatchesNothing { .. }
            | Self::InvalidPattern { .. }
            | Self::FolderEmpty { .. }
            | Self::NotAFile { .. }
            | Self::TooMany { .. }
            | Self::Twice { .. } => 2,
            _ => 3,
        }
    }
}

/// What a row of an input has instead of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextProblem {
    /// The key is not there.
    #[error("is missing")]
    Missing,
    /// The value is null, and `--strict-rows` is on.
    #[error("is null, which --strict-rows refuses")]
    Null,
    /// The value is empty or blank, and `--strict-rows` is on.
    #[error("is empty, which --strict-rows refuses")]
    Empty,
    /// The value has another type.
    #[error("is {0}, expected text")]
    NotText(&'static str),
}
