//! Finds the input files and reads them as blocks of whole lines.
//!
//! [`expand`] lists the files that paths, folders and patterns name, each argument's files in bytewise order.
//! [`BlockReader`] reads a file as [`Block`]s in bounded memory and gives its size, line count and digest. Plain text,
//! gzip, zstd, bzip2 and xz are told apart by their first bytes. A block is bytes, neither decoded nor split. [`table`]
//! reads files whose rows are documents. As in the reference, only `\n` ends a line. Unlike there, inputs are sorted
//! and a missing one is an error.

mod blocks;
mod expand;
pub(crate) mod known_format;
pub mod line_check;
pub mod table;
pub(crate) mod texts;

use std::io::Read;
use std::path::{Path, PathBuf};

use bert_storage::{digest_file, is_url, open_stream};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub(crate) use blocks::refuse_bomb;
pub use blocks::{Block, BlockReader};
pub(crate) use expand::refuse_too_many;
pub use expand::{expand, first_duplicate};

use crate::error::{Error, InputProblem, Locate, Result};
use crate::input::known_format::HEAD;
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
    /// JSON Lines: an object on each line, one document in one of its values.
    Jsonl,
    /// Parquet: one document in each row of a text column.
    Parquet,
}

impl Format {
    /// Recognizes a file: Parquet by its first bytes, JSON Lines by its name (`.jsonl`, `.ndjson`, `.json`, also with
    /// `.gz`, `.zst`, `.bz2` or `.xz` behind it); everything else is text, unless its first bytes say what else it is.
    ///
    /// # Errors
    /// [`Error::Storage`]; [`InputProblem::NotParquet`] for a file that has only the name of one;
    /// [`InputProblem::KnownFormat`].
    pub fn of(path: &Path) -> Result<Self> {
        let mut head = Vec::new();
        open_stream(path)
            .and_then(|file| file.take(HEAD as u64).read_to_end(&mut head))
            .map_err(Error::io("open", path))?;
        if head.starts_with(b"PAR1") {
            return Ok(Self::Parquet);
        }
        let name =
            path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        if name.ends_with(".parquet") {
            return Err(InputProblem::NotParquet.at(path).into());
        }
        known_format::refuse(path, &head)?;
        let packed = [".gz", ".gzip", ".zst", ".zstd", ".bz2", ".bzip2", ".xz"];
        let name = packed.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        let is_json = [".jsonl", ".ndjson", ".json"].iter().any(|end| name.ends_with(end));
        Ok(if is_json { Self::Jsonl } else { Self::Text })
    }

    /// Whether each row is a document of running text.
    #[must_use]
    pub fn is_table(self) -> bool {
        self != Self::Text
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

/// Asks something of each file; many at a time where they are objects, for each of which a store is asked.
pub(crate) fn each_file<T: Send>(
    files: &[PathBuf],
    ask: impl Fn(&Path) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if !files.iter().any(|file| is_url(file)) {
        return files.iter().map(|file| ask(file)).collect();
    }
    pool(AT_ONCE.min(files.len()))?.install(|| files.par_iter().map(|file| ask(file)).collect())
}

/// Whether files hold what was read, in the same order, wherever they lie now.
///
/// # Errors
/// [`Error::Storage`], and those of [`Format::of`].
pub(crate) fn same_text(read: &[InputEntry], files: &[PathBuf]) -> Result<bool> {
    if read.len() != files.len() {
        return Ok(false);
    }
    for (entry, path) in read.iter().zip(files) {
        if Format::of(path)? != entry.format || digest_file(path)? != entry.blake3 {
            return Ok(false);
        }
    }
    Ok(true)
}
