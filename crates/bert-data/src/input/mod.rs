//! Finds the input files and reads them as blocks of whole lines.
//!
//! [`expand`] lists the files that paths, folders and patterns name, each argument's files in bytewise order.
//! [`BlockReader`] reads a file as [`Block`]s in bounded memory and gives its size, line count and digest. Plain text,
//! gzip, zstd, bzip2 and xz are told apart by their first bytes. A block is bytes, neither decoded nor split. [`table`]
//! reads files whose rows are documents. As in the reference, only `\n` ends a line. Unlike there, inputs are sorted
//! and a missing one is an error.

pub(crate) mod known_format;
pub mod line_check;
pub mod table;
pub(crate) mod texts;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{Error, InputError, InputProblem, Locate, Result};
use crate::input::known_format::HEAD;
use bert_storage::objects::{self, is_temporary};
use bert_storage::sealed::LARGEST;
use bert_storage::{digest_file, is_url, on_disk, open_stream, size};

/// How much text a block holds before it is closed at the next line end.
pub(crate) const BLOCK: usize = 1 << 18;
/// The longest line that is accepted: far above any text, far below any memory.
pub(crate) const LONGEST_LINE: usize = 64 << 20;

/// How many objects are asked about at a time.
const AT_ONCE: usize = 32;

/// What a compressed file may grow to before it is asked how much it has grown.
const GROWN: u64 = 64 << 20;
/// How much larger than itself a compressed file may then be: text is 3 to 20 times as large, a bomb a thousand times.
const GROWTH: u64 = 500;
/// The most memory that decompressing xz may take: `xz -9` asks for 65 MiB.
const XZ_MEMORY: u64 = 256 << 20;

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
    let pool = ThreadPoolBuilder::new().num_threads(AT_ONCE.min(files.len())).build();
    let pool = pool.map_err(|source| Error::Threads { threads: AT_ONCE, source })?;
    pool.install(|| files.par_iter().map(|file| ask(file)).collect())
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

/// Bytes of the entry of a file in a manifest, beside its name.
const ENTRY: u64 = 224;
/// What else a manifest may have.
const REST: u64 = 32 << 20;

/// Refuses more files than a manifest can name.
pub(crate) fn refuse_too_many(files: usize, bytes_of_names: u64) -> Result<()> {
    if bytes_of_names + ENTRY * files as u64 > LARGEST - REST {
        return Err(InputError::TooMany { files }.into());
    }
    Ok(())
}

/// Finds the files that the inputs name: each argument's files in bytewise order, arguments in their own order.
///
/// A folder means all regular files below it that are not hidden. An existing path is never read as a pattern. A URL
/// means an object, or all objects below its name.
///
/// # Errors
/// [`Error::Input`], naming the argument; [`Error::Storage`] when a folder cannot be read.
pub fn expand(inputs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if inputs.is_empty() {
        return Err(InputError::NoneNamed.into());
    }
    let mut files = Vec::new();
    for input in inputs {
        files.extend(expand_one(input)?);
    }
    Ok(files)
}

/// The first file that is named more than once, if any.
#[must_use]
pub fn first_duplicate(files: &[PathBuf]) -> Option<&PathBuf> {
    let mut seen = HashSet::new();
    files.iter().find(|file| !seen.insert(fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf())))
}

fn expand_one(input: &Path) -> Result<Vec<PathBuf>> {
    if is_url(input) {
        return expand_url(input);
    }
    let input = &*on_disk(input);
    if let Ok(metadata) = fs::metadata(input) {
        if metadata.is_dir() {
            let mut found = Vec::new();
            walk(input, &mut found)?;
            if found.is_empty() {
                return Err(InputProblem::FolderEmpty.at(input).into());
            }
            return Ok(sorted(found));
        }
        if metadata.is_file() {
            return Ok(vec![input.to_owned()]);
        }
        return Err(InputProblem::NotAFile.at(input).into());
    }
    match input.to_str() {
        Some(pattern) if pattern.contains(['*', '?', '[']) => expand_pattern(pattern),
        _ => Err(InputProblem::Missing.at(input).into()),
    }
}

/// The objects that a URL names: one, those below a name as below a folder, or those that match a pattern.
fn expand_url(url: &Path) -> Result<Vec<PathBuf>> {
    let failed = || Error::io("read", url);
    let list = |folder: &Path| {
        let found = objects::list(folder).map_err(failed())?;
        Ok::<_, Error>(found.into_iter().filter(|(_, bytes)| *bytes > 0).map(|(name, _)| name))
    };
    let text = url.to_str().unwrap_or_default();
    let is_web = text.starts_with("http");
    if let (false, Some(at)) = (is_web, text.find(['*', '?', '['])) {
        let pattern =
            glob::Pattern::new(text).map_err(|source| InputProblem::InvalidPattern(source).at(url))?;
        let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
        let folder = text[..at].rsplit_once('/').map_or("", |(folder, _)| folder);
        let found = list(Path::new(folder))?.filter(|name| pattern.matches_path_with(name, options));
        let found: Vec<_> = found.collect();
        return if found.is_empty() {
            Err(InputProblem::PatternMatchesNothing.at(url).into())
        } else {
            Ok(found)
        };
    }
    if !text.ends_with('/') {
        match size(url) {
            Ok(_) => return Ok(vec![url.to_owned()]),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed()(error)),
            Err(_) if is_web => return Err(InputProblem::Missing.at(url).into()),
            Err(_) => {}
        }
    }
    let below = |name: &Path| name.strip_prefix(url).is_ok_and(|name| !name.iter().any(is_hidden));
    let found: Vec<_> = list(url)?.filter(|name| below(name)).collect();
    if found.is_empty() { Err(InputProblem::Missing.at(url).into()) } else { Ok(found) }
}

fn expand_pattern(pattern: &str) -> Result<Vec<PathBuf>> {
    let paths = glob::glob(pattern).map_err(|source| InputProblem::InvalidPattern(source).at(pattern))?;
    let mut found = Vec::new();
    for path in paths {
        let path = path.map_err(|error| {
            let path = error.path().to_owned();
            Error::io("read", &path)(error.into())
        })?;
        if fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            found.push(path);
        }
    }
    if found.is_empty() {
        return Err(InputProblem::PatternMatchesNothing.at(pattern).into());
    }
    Ok(sorted(found))
}

/// Collects the files below a folder. Linked folders are not followed, so that a loop of links ends.
fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io("read folder", folder))? {
        let entry = entry.map_err(Error::io("read folder", folder))?;
        if is_hidden(&entry.file_name()) {
            continue;
        }
        let path = entry.path();
        let kind = entry.file_type().map_err(Error::io("read", &path))?;
        if kind.is_dir() {
            walk(&path, found)?;
        } else if fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    paths
}

/// Whole lines of one file: every line but a file's last ends in `\n`. Or whole rows of a Parquet file.
#[derive(Clone, Debug)]
pub struct Block {
    /// Which file, by its place in the list.
    pub file: usize,
    /// What the lines are.
    pub format: Format,
    /// The number of the block's first line or row in its file, counted from 1.
    pub first_line: u64,
    /// The lines, or the rows' texts one after another.
    pub bytes: Vec<u8>,
    /// Of Parquet: where each row's text ends in `bytes`.
    pub row_ends: Vec<usize>,
    /// Of Parquet: which rows are null, ascending, counted from 0 in this block.
    pub null_rows: Vec<usize>,
    /// Whether the file ends with this block. A file's last block may be empty.
    pub ends_file: bool,
}

impl Block {
    /// The lines without their `\n`, with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = self.bytes.as_slice();
        let mut number = self.first_line;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (line, after) = match rest.iter().position(|&byte| byte == b'\n') {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &rest[rest.len()..]),
            };
            rest = after;
            number += 1;
            Some((number - 1, line))
        })
    }

    /// The rows' texts of a block of Parquet with their numbers; none for a null.
    pub fn rows(&self) -> impl Iterator<Item = (u64, Option<&[u8]>)> {
        let starts = std::iter::once(0).chain(self.row_ends.iter().copied());
        let mut nulls = self.null_rows.iter().peekable();
        starts.zip(&self.row_ends).enumerate().map(move |(row, (start, &end))| {
            let text = nulls.next_if_eq(&&row).is_none().then(|| &self.bytes[start..end]);
            (self.first_line + row as u64, text)
        })
    }
}

/// The bytes that came from disk: their digest and number. Behind a lock because a reader may change threads.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<(blake3::Hasher, u64)>>);

impl Seen {
    fn get(&self) -> MutexGuard<'_, (blake3::Hasher, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts and digests the bytes that come from disk.
struct Tee {
    file: Box<dyn Read + Send>,
    seen: Seen,
}

impl Read for Tee {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        let mut seen = self.seen.get();
        seen.0.update(&buffer[..length]);
        seen.1 += length as u64;
        Ok(length)
    }
}

/// Reads one file as blocks.
pub struct BlockReader {
    path: PathBuf,
    file: usize,
    format: Format,
    compression: Option<&'static str>,
    text: Box<dyn BufRead + Send>,
    seen: Seen,
    next_line: u64,
    text_bytes: u64,
    done: bool,
}

impl BlockReader {
    /// Opens a file of lines, plain or compressed; `file` is its place in the list.
    ///
    /// # Errors
    /// [`Error::Storage`] when it cannot be opened, [`InputProblem::CorruptCompression`] when its first bytes promise a
    /// format that does not follow, [`InputProblem::KnownFormat`] for what is no text, compressed or not.
    pub fn open(path: &Path, file: usize, format: Format) -> Result<Self> {
        let seen = Seen::default();
        let source = open_stream(path).map_err(Error::io("open", path))?;
        let mut raw = BufReader::with_capacity(1 << 17, Tee { file: source, seen: seen.clone() });
        let compression = compression_of(raw.fill_buf().map_err(Error::io("read", path))?);
        let mut text = decompressed(raw, compression).map_err(Error::io("read", path))?;
        let mut head = Vec::new();
        text.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(damaged(path, compression))?;
        known_format::refuse(path, &head)?;
        let (path, text) = (path.to_owned(), Box::new(io::Cursor::new(head).chain(text)));
        Ok(Self { path, file, format, compression, text, seen, next_line: 1, text_bytes: 0, done: false })
    }

    /// The next block, or `None` after the one that ends the file.
    ///
    /// # Errors
    /// [`Error::Storage`], [`InputProblem::CorruptCompression`], [`InputProblem::LineTooLong`] or
    /// [`InputProblem::Bomb`].
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        if self.done {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(BLOCK + BLOCK / 4);
        let mut lines = 0;
        // Where the line begins that is being read.
        let mut line_start = 0;
        let mut line_is_open = false;
        while bytes.len() < BLOCK || line_is_open {
            let available = match self.text.fill_buf() {
                Ok([]) => {
                    self.done = true;
                    break;
                }
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(damaged(&self.path, self.compression)(source)),
            };
            // Never past the first line end behind the block's size, so that a block ends with a line.
            let room = BLOCK.saturating_sub(bytes.len()).min(available.len());
            let end = available[room..].iter().position(|&byte| byte == b'\n').map(|at| room + at + 1);
            let taken = &available[..end.unwrap_or(available.len())];
            lines += taken.iter().filter(|&&byte| byte == b'\n').count() as u64;
            if let Some(last) = taken.iter().rposition(|&byte| byte == b'\n') {
                line_start = bytes.len() + last + 1;
            }
            bytes.extend_from_slice(taken);
            line_is_open = taken.last() != Some(&b'\n');
            let length = taken.len();
            self.text.consume(length);
            if bytes.len() - line_start > LONGEST_LINE {
                let line = self.next_line + lines;
                return Err(InputProblem::LineTooLong(LONGEST_LINE).at_line(&self.path, line).into());
            }
        }
        self.text_bytes += bytes.len() as u64;
        if let Some(format) = self.compression {
            refuse_bomb(&self.path, format, self.text_bytes, self.bytes_read())?;
        }
        let first_line = self.next_line;
        self.next_line += lines + u64::from(bytes.last().is_some_and(|&byte| byte != b'\n'));
        let (file, format, row_ends, null_rows) = (self.file, self.format, Vec::new(), Vec::new());
        Ok(Some(Block { file, format, first_line, bytes, row_ends, null_rows, ends_file: self.done }))
    }

    /// What was read, once the last block is out.
    #[must_use]
    pub fn entry(&self) -> InputEntry {
        let seen = self.seen.get();
        InputEntry {
            path: self.path.to_string_lossy().into_owned(),
            bytes: seen.1,
            format: self.format,
            lines: self.next_line - 1,
            blake3: seen.0.finalize().to_hex().to_string(),
        }
    }

    /// Bytes taken from disk so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.seen.get().1
    }
}

/// How a file is compressed, by its first bytes.
fn compression_of(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        // "BZh", the size of blocks, and the first byte of a block or of the end.
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31 | 0x17, ..] => Some("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        _ => None,
    }
}

/// The text of a file, of all members or streams one after another.
fn decompressed(raw: BufReader<Tee>, compression: Option<&str>) -> io::Result<Box<dyn BufRead + Send>> {
    fn buffered(decoder: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
        Box::new(BufReader::with_capacity(1 << 17, decoder))
    }
    Ok(match compression {
        None => Box::new(raw),
        Some("gzip") => buffered(flate2::bufread::MultiGzDecoder::new(raw)),
        Some("zstd") => buffered(zstd::stream::read::Decoder::with_buffer(raw)?),
        Some("bzip2") => buffered(bzip2::bufread::MultiBzDecoder::new(raw)),
        Some(_) => {
            let stream =
                liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)?;
            buffered(liblzma::bufread::XzDecoder::new_stream(raw, stream))
        }
    })
}

/// The error of a file that cannot be read, or not be decompressed.
fn damaged(path: &Path, compression: Option<&'static str>) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| match compression {
        Some(format) if !is_temporary(&source) => {
            InputProblem::CorruptCompression(format, source).at(path).into()
        }
        _ => Error::io("read", &path)(source),
    }
}

/// Refuses text that has grown beyond what text can, out of so many bytes of a file.
pub(crate) fn refuse_bomb(path: &Path, format: &'static str, text: u64, compressed: u64) -> Result<()> {
    if text > GROWN && text / GROWTH > compressed {
        return Err(InputProblem::Bomb { format, text, compressed }.at(path).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a manifest with as many inputs as are accepted takes: the entries as they are written.
    #[test]
    fn as_many_inputs_are_accepted_as_a_manifest_can_name() {
        let entry = |path: &str| InputEntry {
            path: path.to_owned(),
            bytes: u64::from(u32::MAX),
            format: Format::Parquet,
            lines: u64::from(u32::MAX),
            blake3: "0".repeat(64),
        };
        #[derive(Serialize)]
        struct Inputs {
            inputs: Vec<InputEntry>,
        }
        let path = "text/0000001.txt";
        let of =
            |files| serde_json::to_string_pretty(&Inputs { inputs: vec![entry(path); files] }).unwrap().len();
        let each = (of(1001) - of(1)) as u64 / 1000;
        assert!((ENTRY - 30..=ENTRY).contains(&(each - path.len() as u64)), "{each} bytes an entry");
        let most = ((LARGEST - REST) / (ENTRY + path.len() as u64)) as usize;
        assert!(most > 900_000, "{most}");
        refuse_too_many(most, (most * path.len()) as u64).unwrap();
        let error = refuse_too_many(most + 1, ((most + 1) * path.len()) as u64).unwrap_err();
        assert!(error.to_string().contains("join them") && error.exit_code() == 2, "{error}");
    }
}
