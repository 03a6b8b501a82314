//! Finds the input files and reads them as blocks of whole lines.
//!
//! [`expand`] lists the files named by paths, folders and patterns, each argument's files in bytewise order.
//! [`BlockReader`] reads a file as [`Block`]s in bounded memory and returns its size, line count and digest. Plain
//! text, compressed text, JSON and tables are recognized by their content. A block contains bytes that are neither
//! decoded nor split. [`table`] reads files whose rows are documents or examples. As in the reference, only `\n` ends a line.
//! Unlike the reference, inputs are sorted and a missing input is an error.

mod blocks;
pub(crate) mod bytes;
mod dump;
mod files;
mod findings;
pub(crate) mod forms;
mod json;
mod recognize;
mod row_blocks;
pub mod table;
pub(crate) mod texts;
pub mod wikitext;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bert_storage::{is_url, open_stream};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use crate::config::Reading;
pub use blocks::{Block, BlockReader};
pub use files::{
    expand, first_duplicate, reject_output_inside, skipped_names_note, skipped_tables_warning, split_lists,
};
pub(crate) use files::{files_to_read, reject_too_many, reject_vocabulary};
pub use findings::{line_check, remarks};

use crate::error::{Error, InputError, InputProblem, Locate, Result};
use crate::input::bytes::decompress::HEAD;
use crate::input::bytes::decompress::Source;
use crate::input::bytes::file_range::{DocumentEnd, FileRange, RangeDigests, SharedRange};
use crate::input::forms::form::Form;
use crate::input::recognize::known_format::reject_known_format;
use crate::input::recognize::{Articles, Head, Layout};
use crate::parallel::pool;

/// Minimum size of a full block; it ends at the next line end.
pub(crate) const BLOCK: usize = 1 << 18;
/// Version of the conversion of files to sentences. It changes when the same file gives other sentences, so that an
/// unfinished build does not continue with other text.
pub(crate) const TEXT_VERSION: u32 = 3;
/// Maximum length of a line: far longer than any real text, and far smaller than memory.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 20;

/// Number of concurrent object-store requests.
const MAX_CONCURRENT_REQUESTS: usize = 32;

/// Format of an input file after decompression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Lines of text, a blank line between documents.
    #[default]
    Text,
    /// JSON: one object per line, an array of objects, or a sequence of objects; each object has a document in one
    /// value.
    Jsonl,
    /// Parquet: one document in each row of a text column.
    Parquet,
    /// Comma-separated values with a header: one document in each row of a text column.
    Csv,
    /// Tab-separated values with a header: one document in each row of a text column.
    Tsv,
    /// XML dump of a wiki: one document per article.
    WikiDump,
    /// Output of WikiExtractor: one document per `<doc>` element.
    DocTags,
    /// Lines that break inside sentences.
    Wrapped,
    /// Lines with a separator such as `<|endoftext|>` between documents.
    Delimited,
    /// Sentences with annotation, as in Universal Dependencies.
    Conllu,
    /// One token per line, and a blank line after each sentence.
    Conll,
    /// One token per line between tags of sentences.
    Vertical,
    /// SubRip or WebVTT: one document per file.
    Subtitles,
    /// Mails: one document each.
    Mail,
    /// Records of MEDLINE or RIS: one document each.
    Medline,
    /// Verses with their numbers: one document per chapter.
    Verses,
}

impl Format {
    /// Recognizes a file by its content after decompression: Parquet, JSON, CSV, TSV, or else text. Ambiguous content
    /// is decided by its name (`.jsonl`, `.ndjson`, `.json`, `.csv`, `.tsv`, optionally followed by a compression
    /// suffix).
    ///
    /// # Errors
    /// [`crate::Error::Storage`] and the errors of decompression; [`InputProblem::NotParquet`] for a
    /// file that has only the name of a Parquet file; [`InputProblem::KnownFormat`].
    pub fn detect(path: &Path, reading: Reading<'_>) -> Result<Self> {
        Ok(OpenInput::open(path, reading)?.format())
    }

    /// Returns whether blocks contain rows instead of lines.
    #[must_use]
    pub fn has_rows(self) -> bool {
        matches!(self, Self::Parquet | Self::Csv | Self::Tsv | Self::WikiDump | Self::DocTags)
    }

    /// Returns the format of a file in a form that is converted.
    fn from_form(form: &Form) -> Self {
        match form {
            Form::Conllu => Self::Conllu,
            Form::Columns(_) => Self::Conll,
            Form::Vertical => Self::Vertical,
            Form::Delimited => Self::Delimited,
            Form::Subtitles => Self::Subtitles,
            Form::Mail => Self::Mail,
            Form::Medline => Self::Medline,
            Form::Verses => Self::Verses,
            Form::Wrapped(_) => Self::Wrapped,
        }
    }

    /// Returns whether rows have named columns or keys.
    #[must_use]
    pub fn has_columns(self) -> bool {
        matches!(self, Self::Jsonl | Self::Parquet | Self::Csv | Self::Tsv)
    }

    /// Returns whether each row is a document of running text.
    #[must_use]
    pub fn is_table(self) -> bool {
        self.has_rows() || self == Self::Jsonl
    }

    /// Returns whether the text is split into sentences: its lines and rows are paragraphs.
    #[must_use]
    pub fn is_running_text(self) -> bool {
        self.is_table() || matches!(self, Self::Wrapped | Self::Subtitles | Self::Mail | Self::Medline)
    }
}

/// An input file, opened and recognized.
enum OpenInput {
    /// A Parquet file, which is opened separately.
    Parquet,
    /// Articles of a wiki.
    Articles(Box<Source>, Articles),
    /// Text in some layout.
    Text(Box<Source>, Layout),
}

impl OpenInput {
    /// Opens and recognizes a file.
    ///
    /// # Errors
    /// The errors of [`Format::detect`].
    fn open(path: &Path, reading: Reading<'_>) -> Result<Self> {
        let source = Source::open(path)?;
        if source.raw_head.starts_with(b"PAR1") {
            return Ok(Self::Parquet);
        }
        if let Some(articles) = recognize::articles(&source.head) {
            return Ok(Self::Articles(Box::new(source), articles));
        }
        reject_known_format(path, &source.head, source.compression)?;
        if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("parquet")) {
            return Err(InputProblem::NotParquet.located(path).into());
        }
        let text = String::from_utf8_lossy(&source.head);
        let head = Head::new(&text, source.head.len() < HEAD);
        let layout = recognize::layout(path, &head, reading);
        Ok(Self::Text(Box::new(source), layout))
    }

    fn format(&self) -> Format {
        match self {
            Self::Parquet => Format::Parquet,
            Self::Articles(_, Articles::WikiDump) => Format::WikiDump,
            Self::Articles(_, Articles::DocTags) => Format::DocTags,
            Self::Text(_, Layout::Lines) => Format::Text,
            Self::Text(_, Layout::Form(form)) => Format::from_form(form),
            Self::Text(_, Layout::JsonLines | Layout::JsonValues) => Format::Jsonl,
            Self::Text(_, Layout::Separated(b'\t')) => Format::Tsv,
            Self::Text(_, Layout::Separated(_)) => Format::Csv,
        }
    }
}

/// Returns where the documents of an uncompressed file of lines end, or `None` for other files, which cannot be divided.
///
/// # Errors
/// The errors of [`Format::detect`].
pub(crate) fn document_end(path: &Path, reading: Reading<'_>) -> Result<Option<DocumentEnd>> {
    Ok(match OpenInput::open(path, reading)? {
        OpenInput::Text(source, Layout::Lines) if source.compression.is_none() => {
            Some(DocumentEnd::BlankLine)
        }
        OpenInput::Text(source, Layout::JsonLines) if source.compression.is_none() => {
            Some(DocumentEnd::LineEnd)
        }
        _ => None,
    })
}

/// The language of a Wikipedia dump, and its pages that are not documents; part of the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpPages {
    /// The language code in the header of the dump.
    pub language: String,
    /// Number of redirects.
    pub redirects: u64,
    /// Number of pages outside the namespace of articles, and of pages that are not wikitext.
    pub other_pages: u64,
}

/// The properties of one input file as it was read; part of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputEntry {
    /// The path as it was opened.
    pub path: String,
    /// Its size on disk.
    pub bytes: u64,
    /// Its format.
    #[serde(default)]
    pub format: Format,
    /// Its number of lines after decompression; for tables and dumps, its number of rows or
    /// articles.
    pub lines: u64,
    /// For a Wikipedia dump: its language, and the pages that were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dump: Option<DumpPages>,
    /// The BLAKE3 digest of its bytes on disk.
    pub blake3: String,
}

/// Calls `ask` for each file, many at a time. If several calls fail, the error of the first file is returned; if several
/// files have content that cannot be read, one error names them all.
pub(crate) fn each_file<T: Send>(
    files: &[PathBuf],
    ask: impl Fn(&Path) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    // Object-store requests wait on the network; local files use the processor for decompression.
    let threads = if files.iter().any(|file| is_url(file)) {
        MAX_CONCURRENT_REQUESTS
    } else {
        std::thread::available_parallelism().map_or(1, usize::from)
    };
    let asked: Vec<Result<T>> = match threads.min(files.len()) {
        0 | 1 => files.iter().map(|file| ask(file)).collect(),
        threads => pool(threads)?.install(|| files.par_iter().map(|file| ask(file)).collect()),
    };
    let refused: Vec<String> = asked.iter().filter_map(|asked| refusal(asked.as_ref().err()?)).collect();
    if refused.len() > 1 {
        return Err(InputError::Refused { files: refused.len(), list: listed_lines(&refused) }.into());
    }
    asked.into_iter().collect()
}

/// Returns the message of an error about the content of a file.
fn refusal(error: &Error) -> Option<String> {
    match error {
        Error::InputFile(file) => Some(file.to_string()),
        _ => None,
    }
}

/// Maximum number of refused files that are named.
const MAX_NAMED: usize = 20;

/// Returns messages, each on its own line.
fn listed_lines(messages: &[String]) -> String {
    let mut list: String = messages.iter().take(MAX_NAMED).map(|message| format!("\n  {message}")).collect();
    if messages.len() > MAX_NAMED {
        list += &format!("\n  and {} more", messages.len() - MAX_NAMED);
    }
    list
}

/// Returns whether files contain the text that was read, in the same order, regardless of their location.
///
/// # Errors
/// [`Error::Storage`], also once `stop` is set, and the errors of [`Format::detect`].
pub(crate) fn same_text(
    read: &[InputEntry],
    files: &[PathBuf],
    reading: Reading<'_>,
    stop: &AtomicBool,
) -> Result<bool> {
    if read.len() != files.len() {
        return Ok(false);
    }
    for (entry, path) in read.iter().zip(files) {
        if Format::detect(path, reading)? != entry.format || digest_unless(stop, path)? != entry.blake3 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether a range of a file contains the text that was read.
///
/// # Errors
/// [`Error::Storage`], also once `stop` is set.
pub(crate) fn same_range(
    read: &RangeDigests,
    path: &Path,
    range: FileRange,
    stop: &AtomicBool,
) -> Result<bool> {
    let (shared, text) = SharedRange::open(path, range)?;
    let copied = std::io::copy(&mut Stoppable(text, stop), &mut std::io::sink());
    copied.map_err(Error::io("read", path))?;
    Ok(shared.digests() == *read)
}

/// A reader that fails once a flag is set.
struct Stoppable<'a, R>(R, &'a AtomicBool);

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.1.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("the caller has cancelled the work"));
        }
        self.0.read(buffer)
    }
}

/// Returns the BLAKE3 digest of a file in hex; fails once `stop` is set.
fn digest_unless(stop: &AtomicBool, path: &Path) -> Result<String> {
    let file = open_stream(path).map_err(Error::io("open", path))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(Stoppable(file, stop)).map_err(Error::io("read", path))?;
    Ok(hasher.finalize().to_hex().to_string())
}
