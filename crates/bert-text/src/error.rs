//! Errors in the input text.

use std::path::{Path, PathBuf};

use bert_storage::shown;
pub(crate) use bert_storage::{Locate, Located};
use rayon::ThreadPoolBuildError;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of this crate, with its location.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading a file failed.
    #[error(transparent)]
    Storage(#[from] bert_storage::Error),
    /// The worker threads could not be started.
    #[error("cannot start {threads} worker threads")]
    Threads {
        /// Number of threads.
        threads: usize,
        /// The cause.
        source: ThreadPoolBuildError,
    },
    /// The inputs as a whole cannot be used.
    #[error(transparent)]
    Inputs(#[from] InputsError),
    /// A file, folder or pattern that was named as input cannot be used.
    #[error(transparent)]
    InputFile(#[from] Located<InputProblem>),
}

impl Error {
    /// Returns the documented exit code of a program that ends with this error: 2 if the wrong files were named, 3 if their
    /// content is bad.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Storage(error) => error.exit_code(),
            Self::Threads { .. } => 1,
            Self::Inputs(error) => error.exit_code(),
            Self::InputFile(error) => error.problem.exit_code(),
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let io = bert_storage::Error::io(action, path);
        move |source| io(source).into()
    }
}

impl InputsError {
    /// Returns the documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoneNamed | Self::TooMany { .. } => 2,
            Self::Refused { .. } => 3,
        }
    }
}

impl InputProblem {
    /// Returns the documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Missing | Self::Home | Self::PatternMatchesNothing | Self::InvalidPattern(_) => 2,
            Self::FolderEmpty | Self::NotAFile | Self::DanglingLink | Self::LinkLoop | Self::Twice => 2,
            Self::OutputInside(_) | Self::IsVocabulary => 2,
            _ => 3,
        }
    }
}

/// A problem with the list of inputs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputsError {
    /// No input was named.
    #[error("no input: name at least one file, folder or pattern")]
    NoneNamed,
    /// The list of input files would be longer than a manifest may be.
    #[error(
        "{files} input files: the list of their names and digests is too long for a manifest; join them into fewer \
         files (text with a blank line between documents, JSON Lines or Parquet), which are also read faster"
    )]
    TooMany {
        /// Number of input files.
        files: usize,
    },
    /// Several files have formats that cannot be read; their messages, each on its own line.
    #[error("{files} input files are not text that can be read; convert them or leave them out:{list}")]
    Refused {
        /// Number of these files.
        files: usize,
        /// Their names, formats and advice.
        list: String,
    },
}

/// A problem with a file, folder or pattern that was named as input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputProblem {
    /// The file changed while it was read.
    #[error(
        "this input had {before} bytes when the build began and {after} when it was read: run the same command again \
         when no other program writes to it"
    )]
    Changed {
        /// Size when the text was divided.
        before: u64,
        /// Size when it was read.
        after: u64,
    },
    /// Two ranges of the file were read from different text.
    #[error(
        "this input changed while it was read: run the same command again, for every part of the build, when no other program \
         writes to it"
    )]
    ChangedRanges,
    /// The path does not exist.
    #[error("this input does not exist")]
    Missing,
    /// A pattern matches no file.
    #[error("this input pattern matches no file")]
    PatternMatchesNothing,
    /// A pattern is invalid.
    #[error("this input pattern is not valid")]
    InvalidPattern(#[source] glob::PatternError),
    /// A name that begins with `~` does not exist.
    #[error("this input does not exist: a shell expands ~ only at the beginning of a word; write $HOME")]
    Home,
    /// A folder that was named as input contains no files.
    #[error("this input folder has no files (names that begin with . or _ are skipped)")]
    FolderEmpty,
    /// An input is neither a regular file nor a folder.
    #[error("this input is neither a regular file nor a folder")]
    NotAFile,
    /// A link points to nothing, or to itself.
    #[error("this link points to a missing file: remove the link, or restore the file")]
    DanglingLink,
    /// A link points back to a folder that contains it.
    #[error("this link points to a folder that contains it: remove the link, or name the folders to read")]
    LinkLoop,
    /// A file is named twice among the inputs.
    #[error("this input is given twice, or a link points to it; remove one")]
    Twice,
    /// The output is inside an input folder, or inputs are inside the output folder.
    #[error(
        "this output and the input {} contain each other, so the output would be read as text: choose another folder",
        shown(.0)
    )]
    OutputInside(PathBuf),
    /// The vocabulary is among the inputs.
    #[error(
        "this file is the vocabulary, but it is also among the inputs and would be read as text: move it out of the \
         input folder"
    )]
    IsVocabulary,
    /// A compressed input is damaged or truncated; "gzip", "zstd", "bzip2", "xz", "lzma" or "lzip", and the decoder's
    /// error.
    #[error("damaged {0} data")]
    CorruptCompression(&'static str, #[source] std::io::Error),
    /// Decompressing the input needs more memory than is allowed or available.
    #[error(
        "{} to decompress; the limit is {} MiB: decompress it first ({}), or compress it again with a smaller window \
         ({})",
        match window {
            Some(bytes) => format!("this is {format} data with a window of {} MiB, which needs as much memory", bytes >> 20),
            None => format!("this is {format} data with a large window, which needs as much memory"),
        },
        limit >> 20,
        if *format == "zstd" { "zstd -d --long=31 --memory=4GB" } else { "xz -d" },
        if *format == "zstd" { "zstd --long=27" } else { "xz -9" }
    )]
    Window {
        /// "zstd", "xz", "lzma" or "lzip".
        format: &'static str,
        /// Bytes of text that the decoder has to keep, if known.
        window: Option<u64>,
        /// The maximum.
        limit: u64,
    },
    /// A compressed input needs a custom dictionary.
    #[error("this zstd data was compressed with a dictionary: decompress it first (zstd -d -D DICTIONARY)")]
    Dictionary,
    /// A compressed input expands by more than text can.
    #[error(
        "{compressed} bytes of {format} expand to {text} bytes or more, which text does not do; if this is intended, \
         give the file uncompressed"
    )]
    Bomb {
        /// "gzip", "zstd", "bzip2", "xz" or "Parquet".
        format: &'static str,
        /// Bytes after decompression so far.
        text: u64,
        /// Bytes of the file so far.
        compressed: u64,
    },
    /// A row of a table is longer than the limit.
    #[error("row {row} is longer than {limit} bytes")]
    RowTooLong {
        /// The row, counted from 1.
        row: u64,
        /// The maximum.
        limit: usize,
    },
    /// A Parquet file has another number of rows than its footer declares.
    #[error(
        "{found} row(s) were read, but the footer of the file declares {expected}: the file is damaged; write it again"
    )]
    RowCount {
        /// Number of rows in the pages.
        found: u64,
        /// Number of rows in the footer.
        expected: u64,
    },
    /// A row of a binary column is not UTF-8.
    #[error("row {row} is not UTF-8: the column has binary data or text in another encoding")]
    RowNotUtf8 {
        /// The row, counted from 1.
        row: u64,
    },
    /// A Parquet input uses an unsupported compression codec.
    #[error("compressed with {0}; supported are snappy, gzip, zstd, brotli, lz4 and no compression")]
    Codec(&'static str),
    /// A line is longer than the limit; the maximum number of bytes.
    #[error(
        "this line is longer than {0} bytes; break it between sentences or paragraphs, and write JSON with one row \
         per line (jq -c)"
    )]
    LineTooLong(usize),
    /// A line is not UTF-8, and `--strict-utf8` is on.
    #[error("invalid UTF-8 (without --strict-utf8 it would be replaced and counted)")]
    InvalidUtf8,
    /// A JSON row contains half of a surrogate pair, and `--strict-utf8` is on.
    #[error(
        "half of a surrogate pair, such as \"\\ud83d\" (without --strict-utf8 it would be replaced and counted)"
    )]
    HalfPair,
    /// Most lines of a file contain carriage returns.
    #[error(
        "{returns} of {lines} lines contain carriage returns (\\r), the line ends of old Macs; convert them to \\n \
         (tr '\\r' '\\n')"
    )]
    CarriageReturns {
        /// Number of lines with carriage returns inside.
        returns: u64,
        /// Number of lines that are not blank.
        lines: u64,
    },
    /// A row of a CSV or TSV file has more or fewer fields than the header.
    #[error(
        "{found} field(s), but the first row of this table has {expected}; put quotes around a field that contains the \
         separator; tab-separated fields cannot contain tabs or line breaks"
    )]
    Fields {
        /// Number of fields of the row.
        found: u64,
        /// Number of fields of the header.
        expected: u64,
    },
    /// A quoted field of a CSV or TSV file is not closed before a separator or the end of a line.
    #[error("the quote that begins a field here is never closed")]
    OpenQuote,
    /// A field of a table of examples has a quote where RFC 4180 does not allow one.
    #[error(
        "a quote inside an unquoted field; put the whole field in quotes and double the quotes inside it"
    )]
    StrayQuote,
    /// A line of a table of examples exceeds the length limit in bytes; most likely the file is not text.
    #[error("line longer than {0} bytes; is this the right file?")]
    LongLine(usize),
    /// A file of examples is in UTF-16; the name of the encoding.
    #[error("this is {0}, not UTF-8; convert the file: iconv -f {0} -t UTF-8 OLD > NEW")]
    Utf16(&'static str),
    /// A line of a file of examples is not UTF-8; the index of the first invalid byte in the line.
    #[error("invalid UTF-8 at byte {0} of the line; convert the file: iconv -f LATIN1 -t UTF-8 OLD > NEW")]
    BytesNotUtf8(usize),
    /// A row of a table of examples is not a JSON object.
    #[error("not a JSON object: {0}")]
    NotObject(#[source] serde_json::Error),
    /// A line contains a NUL byte, and `--strict-utf8` is on.
    #[error("a NUL byte (without --strict-utf8 it would be dropped and counted)")]
    NulByte,
    /// More than one line in twenty is not UTF-8 or contains a NUL byte.
    #[error(
        "{bad} of {lines} lines are not UTF-8, first line {first}: convert the file to UTF-8 (iconv), leave it out, \
         or replace the invalid bytes with --lossy-utf8"
    )]
    NotUtf8Text {
        /// Number of lines that are not UTF-8 or contain a NUL byte.
        bad: u64,
        /// Number of lines so far that are not blank.
        lines: u64,
        /// The first bad line, counted from 1.
        first: u64,
    },
    /// A file begins with the signature of a format that is not text.
    #[error("this is {format}: {advice}")]
    KnownFormat {
        /// The format, with its article.
        format: &'static str,
        /// Advice to the user.
        advice: &'static str,
    },
    /// A Wikipedia dump is not well-formed XML.
    #[error(
        "after page {pages} of the dump: not well-formed XML; download it again and compare its checksum"
    )]
    DumpXml {
        /// Number of pages read before.
        pages: u64,
        /// The error of the parser.
        source: quick_xml::Error,
    },
    /// A Wikipedia dump ends before its closing tag.
    #[error(
        "the dump ends after page {pages} without </mediawiki>: it is incomplete; download it again, or cut it behind a \
         </page> and append </mediawiki>"
    )]
    DumpCut {
        /// Number of complete pages.
        pages: u64,
    },
    /// A page of a Wikipedia dump is longer than the limit.
    #[error("the page after page {pages} of the dump is longer than {limit} bytes, which no article is")]
    PageTooLong {
        /// Number of pages read before.
        pages: u64,
        /// The maximum.
        limit: usize,
    },
    /// A file with `<doc>` tags has text outside of them.
    #[error(
        "this text is outside of the <doc> tags with which WikiExtractor begins and ends a document; remove it, or run \
         WikiExtractor with --json"
    )]
    OutsideDoc,
    /// A file with `<doc>` tags ends within a document.
    #[error("the document that begins here has no </doc>: the file is incomplete")]
    OpenDoc,
    /// A file has the name of a Parquet file but other content.
    #[error("not a Parquet file: it does not begin with PAR1")]
    NotParquet,
    /// A Parquet input is damaged, or uses features that this program cannot read.
    #[error("cannot be read as Parquet")]
    Parquet(#[source] parquet::errors::ParquetError),
    /// Rows of a Parquet input cannot be read; the number of rows read before, and the reader's error.
    #[error("after row {0}: cannot be read as Parquet")]
    Batch(u64, #[source] arrow_schema::ArrowError),
    /// A column of a Parquet input is missing or has another type.
    #[error("column {column:?} is {found}, expected {expected}")]
    Column {
        /// The column.
        column: String,
        /// Its type, or the statement that it is missing with a list of the columns.
        found: String,
        /// The accepted types.
        expected: &'static str,
    },
    /// A row of a JSON input is not an object; the position in the row and the reason.
    #[error("not a JSON object (expected one object per line)")]
    Json(#[source] serde_json::Error),
    /// A row of a table has no text.
    #[error("{column:?} {problem} (see --text-column)")]
    Text {
        /// The key or column.
        column: String,
        /// The problem with its value.
        problem: TextProblem,
    },
}

/// The reason why a row of an input has no usable text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextProblem {
    /// The key is missing; the keys that exist, in words.
    #[error("is missing ({0})")]
    Missing(String),
    /// The value is null, and `--strict-rows` is on.
    #[error("is null, which --strict-rows rejects")]
    Null,
    /// The value is empty or blank, and `--strict-rows` is on.
    #[error("is empty, which --strict-rows rejects")]
    Empty,
    /// The value has another type.
    #[error("is {0}, expected text")]
    NotText(&'static str),
}
