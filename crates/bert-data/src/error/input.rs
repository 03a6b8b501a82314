//! Errors of the text that was named as input.

use std::path::PathBuf;

use bert_storage::shown;

/// What is wrong with the input as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// No input was named.
    #[error("no input: name at least one file, folder or pattern")]
    NoneNamed,
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

/// What is wrong with a file, folder or pattern that was named as input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputProblem {
    /// It changed while it was read.
    #[error(
        "this input had {before} bytes when the build began and {after} when it was read: start the same command again \
         when nobody writes to it"
    )]
    Changed {
        /// Its size when the text was divided.
        before: u64,
        /// Its size when it was read.
        after: u64,
    },
    /// It does not exist.
    #[error("this input does not exist")]
    Missing,
    /// A pattern matches no file.
    #[error("this input pattern matches no file")]
    PatternMatchesNothing,
    /// A pattern cannot be read.
    #[error("this input pattern is not valid")]
    InvalidPattern(#[source] glob::PatternError),
    /// A name that begins with `~` does not exist.
    #[error(
        "this input does not exist: only a shell puts your home folder for ~, at the beginning of a word; write $HOME"
    )]
    Home,
    /// A folder that was named as input holds no file.
    #[error("this input folder holds no files (names that begin with . or _ are skipped)")]
    FolderEmpty,
    /// An input is neither a regular file nor a folder.
    #[error("this input is neither a regular file nor a folder")]
    NotAFile,
    /// A link leads to nothing, or to itself.
    #[error("this link leads to no file: remove it, or bring back the file")]
    DanglingLink,
    /// A link leads back to a folder that it is in.
    #[error("this link leads back to a folder that it is in: remove it, or name the folders that are meant")]
    LinkLoop,
    /// A file is named twice among the inputs.
    #[error("this input is named twice, or a link leads to it too")]
    Twice,
    /// The output is below an input folder, or inputs are in the output folder.
    #[error("this output and the input {} are inside each other, so that the output would be read as text: choose another folder", shown(.0))]
    OutputInside(PathBuf),
    /// The vocabulary is among the inputs.
    #[error("this file is the vocabulary and would be read as text too: move it out of the input folder")]
    IsVocabulary,
    /// A compressed input is damaged or cut off; "gzip", "zstd", "bzip2", "xz", "lzma" or "lzip", and what the decoder says.
    #[error("damaged {0} data")]
    CorruptCompression(&'static str, #[source] std::io::Error),
    /// A compressed input takes more memory to decompress than is allowed or there is.
    #[error(
        "{} to decompress it, and more than {} MiB are not used for that: decompress it first ({}), or compress it again \
         with a smaller window ({})",
        match window {
            Some(bytes) => format!("this is {format} data with a window of {} MiB, which takes as much memory", bytes >> 20),
            None => format!("this is {format} data with a large window, which takes as much memory"),
        },
        limit >> 20,
        if *format == "zstd" { "zstd -d --long=31 --memory=4GB" } else { "xz -d" },
        if *format == "zstd" { "zstd --long=27" } else { "xz -9" }
    )]
    Window {
        /// "zstd", "xz", "lzma" or "lzip".
        format: &'static str,
        /// How much of the text the decoder has to remember, in bytes, where that is known.
        window: Option<u64>,
        /// The most that is used.
        limit: u64,
    },
    /// A compressed input needs a dictionary of its own.
    #[error("zstd data that was compressed with a dictionary: decompress it first (zstd -d -D DICTIONARY)")]
    Dictionary,
    /// A compressed input grows beyond what text can.
    #[error(
        "{compressed} bytes of {format} have become {text} bytes of text and more: no text is so repetitive. If it is \
         meant, give it as plain text"
    )]
    Bomb {
        /// "gzip", "zstd", "bzip2", "xz" or "Parquet".
        format: &'static str,
        /// Bytes after decompression so far.
        text: u64,
        /// Bytes of the file so far.
        compressed: u64,
    },
    /// A row of a table is longer than any text should be.
    #[error("row {row} is longer than {limit} bytes")]
    RowTooLong {
        /// The row, counted from 1.
        row: u64,
        /// The most that is accepted.
        limit: usize,
    },
    /// A row of a column of bytes is not UTF-8.
    #[error("row {row} is not UTF-8: the column holds something else than text, or text in another encoding")]
    RowNotUtf8 {
        /// The row, counted from 1.
        row: u64,
    },
    /// A Parquet input is compressed in a way that is not read.
    #[error("compressed with {0}; snappy, gzip, zstd, brotli and lz4 are read, and no compression")]
    Codec(&'static str),
    /// A line is longer than any text should be; the most bytes that are accepted.
    #[error(
        "the line is longer than {0} bytes; break it between sentences or paragraphs, and write JSON with a row on each \
         line (jq -c)"
    )]
    LineTooLong(usize),
    /// A line is not UTF-8, and `--strict-utf8` is on.
    #[error("invalid UTF-8 (without --strict-utf8 it would be replaced and counted)")]
    InvalidUtf8,
    /// A row of JSON holds half of a surrogate pair, and `--strict-utf8` is on.
    #[error(
        "half of a surrogate pair, as \"\\ud83d\" (without --strict-utf8 it would be replaced and counted)"
    )]
    HalfPair,
    /// Most lines of a file hold carriage returns.
    #[error(
        "{returns} of {lines} lines hold carriage returns (\\r), which end lines in files of old Macs; end lines in \\n \
         instead (tr '\\r' '\\n')"
    )]
    CarriageReturns {
        /// Lines with carriage returns inside.
        returns: u64,
        /// Lines that are not blank.
        lines: u64,
    },
    /// A row of a table of separated values has more or fewer fields than the header.
    #[error(
        "{found} field(s), but the header has {expected}; a separator within a field needs quotes around the field, and \
         tab-separated fields hold neither tabs nor line ends"
    )]
    Fields {
        /// Fields of the row.
        found: u64,
        /// Fields of the header.
        expected: u64,
    },
    /// A file of separated values ends within quotes.
    #[error("the quote that begins a field in this row is never closed")]
    OpenQuote,
    /// A line holds a NUL byte, and `--strict-utf8` is on.
    #[error("a NUL byte (without --strict-utf8 it would be dropped and counted)")]
    NulByte,
    /// More than one line in twenty is not UTF-8 or holds a NUL byte.
    #[error(
        "{bad} of {lines} lines are not UTF-8 text, line {first} the first: convert the file to UTF-8 (iconv), leave it \
         out, or let --lossy-utf8 repair all such lines"
    )]
    NotUtf8Text {
        /// Lines that are not UTF-8 or hold a NUL byte.
        bad: u64,
        /// Lines so far that are not blank.
        lines: u64,
        /// The first bad line, counted from 1.
        first: u64,
    },
    /// A file begins as one of a format that is not text.
    #[error("this is {format}: {advice}")]
    KnownFormat {
        /// What it is, with its article.
        format: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A file is named like Parquet but is not.
    #[error("no Parquet file: it does not begin with PAR1")]
    NotParquet,
    /// A Parquet input is damaged, or made in a way that this program cannot read.
    #[error("not readable as Parquet")]
    Parquet(#[source] parquet::errors::ParquetError),
    /// Rows of a Parquet input are not readable; how many were read before, and what the reader says.
    #[error("after row {0}: not readable as Parquet")]
    Batch(u64, #[source] arrow_schema::ArrowError),
    /// A column of a Parquet input is missing or of another type.
    #[error("column {column:?} is {found}, expected {expected}")]
    Column {
        /// The column.
        column: String,
        /// Its type, or that it is missing and which columns there are.
        found: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A row of a JSON input is not an object; where in the row and why.
    #[error("not a JSON object (one object on each line is expected)")]
    Json(#[source] serde_json::Error),
    /// A row of a table has no text.
    #[error("{column:?} {problem} (see --text-column)")]
    Text {
        /// The key or column.
        column: String,
        /// What is there instead.
        problem: TextProblem,
    },
}

/// What a row of an input has instead of text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextProblem {
    /// The key is not there; which keys are, in words.
    #[error("is missing ({0})")]
    Missing(String),
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
