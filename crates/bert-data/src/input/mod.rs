//! Finds the input files and reads them as blocks of whole lines.
//!
//! [`expand`] lists the files that paths, folders and patterns name, each argument's files in bytewise order.
//! [`BlockReader`] reads a file as [`Block`]s in bounded memory and gives its size, line count and digest. Plain and
//! compressed text, JSON and tables are told apart by what they hold. A block is bytes, neither decoded nor split.
//! [`table`] reads files whose rows are documents. As in the reference, only `\n` ends a line. Unlike there, inputs are
//! sorted and a missing one is an error.

mod blocks;
mod decompress;
mod expand;
mod json;
mod json_values;
pub(crate) mod known_format;
pub mod line_check;
mod pattern;
mod recognize;
pub mod remarks;
mod separated;
pub mod table;
pub(crate) mod texts;
mod walk;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bert_storage::{is_url, open_stream};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use blocks::{Block, BlockReader};
pub use expand::{expand, first_duplicate, note_of_left_out, refuse_output_inside, split_lists};
pub(crate) use expand::{refuse_too_many, refuse_vocabulary};

use crate::error::{Error, InputProblem, Locate, Result};
use crate::input::decompress::Source;
use crate::input::known_format::HEAD;
use crate::input::recognize::{Head, Layout};
use crate::parallel::pool;

/// How much text a block holds before it is closed at the next line end.
pub(crate) const BLOCK: usize = 1 << 18;
/// The longest line that is accepted: far above any text, far below any memory.
pub(crate) const LONGEST_LINE: usize = 64 << 20;

/// How many objects are asked about at a time.
const AT_ONCE: usize = 32;

/// What an input file holds, after decompression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Lines of text, a blank line between documents.
    #[default]
    Text,
    /// JSON: objects on a line each, in an array or one after another; one document in one of the values of each.
    Jsonl,
    /// Parquet: one document in each row of a text column.
    Parquet,
    /// Comma-separated values with a header: one document in each row of a text column.
    Csv,
    /// Tab-separated values with a header: one document in each row of a text column.
    Tsv,
}

impl Format {
    /// Recognizes a file by what it holds, after decompression: Parquet, JSON, a table of separated values, or else text.
    /// Its name (`.jsonl`, `.ndjson`, `.json`, `.csv`, `.tsv`, also with the ending of a way to compress behind it) counts
    /// where that leaves a doubt.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage) and those of decompression; [`InputProblem::NotParquet`] for a file that
    /// has only the name of one; [`InputProblem::KnownFormat`].
    pub fn of(path: &Path) -> Result<Self> {
        Ok(match Opened::of(path)? {
            Opened::Parquet => Self::Parquet,
            Opened::Text(_, Layout::Lines) => Self::Text,
            Opened::Text(_, Layout::JsonLines | Layout::JsonValues) => Self::Jsonl,
            Opened::Text(_, Layout::Separated(b'\t')) => Self::Tsv,
            Opened::Text(_, Layout::Separated(_)) => Self::Csv,
        })
    }

    /// Whether blocks hold rows, and not lines.
    #[must_use]
    pub fn has_rows(self) -> bool {
        matches!(self, Self::Parquet | Self::Csv | Self::Tsv)
    }

    /// Whether each row is a document of running text.
    #[must_use]
    pub fn is_table(self) -> bool {
        self != Self::Text
    }
}

/// An input file, open and recognized.
enum Opened {
    /// Parquet, which is opened in its own way.
    Parquet,
    /// Text in some layout.
    Text(Box<Source>, Layout),
}

impl Opened {
    /// Opens and recognizes a file.
    ///
    /// # Errors
    /// Those of [`Format::of`].
    fn of(path: &Path) -> Result<Self> {
        let source = Source::open(path)?;
        if source.raw_head.starts_with(b"PAR1") {
            return Ok(Self::Parquet);
        }
        known_format::refuse(path, &source.head, source.compression)?;
        if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("parquet")) {
            return Err(InputProblem::NotParquet.at(path).into());
        }
        let text = String::from_utf8_lossy(&source.head);
        let head = Head::new(&text, source.head.len() < HEAD);
        let layout = recognize::layout(path, &head);
        Ok(Self::Text(Box::new(source), layout))
    }
}

/// One input file as it was read; part of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputEntry {
    /// The path as it was opened.
    pub path: String,
    /// Its size on disk.
    pub bytes: u64,
    /// What it holds.
    #[serde(default)]
    pub format: Format,
    /// Its lines, after decompression; of Parquet its rows.
    pub lines: u64,
    /// The BLAKE3 digest of its bytes on disk.
    pub blake3: String,
}

/// Asks something of each file, many at a time. Of several errors the one of the first file is returned.
pub(crate) fn each_file<T: Send>(
    files: &[PathBuf],
    ask: impl Fn(&Path) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    // A store is waited for; a disk gives at once what is to be decompressed.
    let at_once = match files.iter().any(|file| is_url(file)) {
        true => AT_ONCE,
        false => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let asked: Vec<Result<T>> = match at_once.min(files.len()) {
        0 | 1 => files.iter().map(|file| ask(file)).collect(),
        threads => pool(threads)?.install(|| files.par_iter().map(|file| ask(file)).collect()),
    };
    asked.into_iter().collect()
}

/// Returns whether files hold the text that was read, in the same order, wherever they lie now.
///
/// # Errors
/// [`Error::Storage`], also once `stop` is set, and those of [`Format::of`].
pub(crate) fn same_text(read: &[InputEntry], files: &[PathBuf], stop: &AtomicBool) -> Result<bool> {
    if read.len() != files.len() {
        return Ok(false);
    }
    for (entry, path) in read.iter().zip(files) {
        if Format::of(path)? != entry.format || digest_unless(stop, path)? != entry.blake3 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A reader that fails once a flag is set.
struct Stoppable<'a, R>(R, &'a AtomicBool);

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.1.load(Ordering::Relaxed) {
            true => Err(std::io::Error::other("the caller has given up")),
            false => self.0.read(buffer),
        }
    }
}

/// Returns the BLAKE3 digest of a file in hex; fails once `stop` is set.
fn digest_unless(stop: &AtomicBool, path: &Path) -> Result<String> {
    let file = open_stream(path).map_err(Error::io("open", path))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(Stoppable(file, stop)).map_err(Error::io("read", path))?;
    Ok(hasher.finalize().to_hex().to_string())
}
