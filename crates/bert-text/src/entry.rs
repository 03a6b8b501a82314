//! Records of files that were read ([`InputEntry`]), and their comparison with files that are named later.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bert_storage::{Class, is_url, open_stream};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::bytes::file_range::{FileRange, RangeDigests, SharedRange};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::reading::Reading;
use crate::threads::pool;

/// Number of concurrent object-store requests.
const MAX_CONCURRENT_REQUESTS: usize = 32;

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
    /// The path as it was opened, or the name on the Hugging Face Hub.
    pub path: String,
    /// The size of the file on disk in bytes.
    pub bytes: u64,
    /// The format of the file.
    #[serde(default)]
    pub format: Format,
    /// The number of lines after decompression; for tables and dumps, the number of rows or articles.
    pub lines: u64,
    /// For a Wikipedia dump: its language, and the pages that were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dump: Option<DumpPages>,
    /// The BLAKE3 digest of the file's bytes on disk.
    pub blake3: String,
}

/// Calls `ask` for each file, many at a time, and returns the results in the order of the files. If several calls fail,
/// the error of the first file is returned; if several files have content that cannot be read, one error names them
/// all.
pub fn each_file<T: Send>(files: &[PathBuf], ask: impl Fn(&Path) -> Result<T> + Sync) -> Result<Vec<T>> {
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
        return Err(Error::data(format!(
            "{} input files are not text that can be read; convert them or leave them out:{}",
            refused.len(),
            listed_lines(&refused)
        )));
    }
    asked.into_iter().collect()
}

/// Returns the message of an error, if the error is about the content of a file.
fn refusal(error: &Error) -> Option<String> {
    (error.class() == Class::Data && error.path().is_some()).then(|| error.to_string())
}

/// Maximum number of rejected files that are named.
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
/// Fails when a file cannot be read, when `stop` is set, or when [`Format::detect`] fails.
pub fn same_text(
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
/// Fails when the file cannot be read, or when `stop` is set.
pub fn same_range(read: &RangeDigests, path: &Path, range: FileRange, stop: &AtomicBool) -> Result<bool> {
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

/// Returns the size of a file or object in bytes.
///
/// # Errors
/// Fails when the size cannot be read.
pub fn size(path: &Path) -> Result<u64> {
    bert_storage::size(path).map_err(Error::io("read", path))
}

/// Returns the BLAKE3 digest of a file in hex; fails once `stop` is set.
fn digest_unless(stop: &AtomicBool, path: &Path) -> Result<String> {
    let file = open_stream(path).map_err(Error::io("open", path))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(Stoppable(file, stop)).map_err(Error::io("read", path))?;
    Ok(hasher.finalize().to_hex().to_string())
}
