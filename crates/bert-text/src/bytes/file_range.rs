//! Divides a large uncompressed file of text or JSON lines into ranges of whole documents.
//!
//! A range is read by one process and hashed there. Its digests begin and end at multiples of the block size. Its text
//! begins and ends at the first document after these offsets.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::{Arc, Mutex};

use bert_storage::open_stream_at;
use serde::{Deserialize, Serialize};

use crate::Format;
use crate::bytes::range_digest::{ChainingValues, RangeHasher, block_size};
use crate::error::{Error, Result};
use crate::threads::lock;

const BUFFER: usize = 1 << 17;

/// Maximum distance between the boundary of two ranges and the beginning of the next document. If a document is longer,
/// the file is not divided there.
const MAX_SEARCH: u64 = 1 << 20;

/// A boundary between two ranges of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Offset in bytes, a multiple of the block size, at which the digests of the next range begin.
    pub block: u64,
    /// Offset in bytes of the first document after `block`.
    pub text: u64,
}

/// A range of a divided file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRange {
    /// Text or JSON lines.
    pub(crate) format: Format,
    /// Number of bytes for each chaining value.
    pub block_size: u64,
    /// Number of bytes of the file.
    pub file_bytes: u64,
    /// The start of the range.
    pub start: Cut,
    /// The end of the range.
    pub end: Cut,
}

impl FileRange {
    /// Returns the number of bytes whose digests belong to this range.
    pub fn bytes(&self) -> u64 {
        self.end.block - self.start.block
    }

    /// Returns whether the file ends with this range.
    pub fn ends_file(&self) -> bool {
        self.end.text == self.file_bytes
    }

    /// Returns the number of line ends before the text of this range.
    pub fn lines_before(&self, path: &Path) -> Result<u64> {
        let file = open_stream_at(path, 0).map_err(Error::io("open", path))?;
        let mut text = BufReader::with_capacity(BUFFER, file).take(self.start.text);
        let mut lines = 0;
        loop {
            let bytes = text.fill_buf().map_err(Error::io("read", path))?;
            if bytes.is_empty() {
                return Ok(lines);
            }
            lines += bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
            let length = bytes.len();
            text.consume(length);
        }
    }
}

/// Returns ranges of about `share` bytes of an uncompressed file of lines, in order. The list is empty if the file is
/// smaller than two shares or has no boundaries of documents.
///
/// # Errors
/// Fails when the file cannot be read.
pub fn ranges_of(path: &Path, file_bytes: u64, share: u64, format: Format) -> Result<Vec<FileRange>> {
    let count = file_bytes / share.max(1);
    let block_size = block_size(share);
    let mut ranges = Vec::new();
    let mut start = Cut { block: 0, text: 0 };
    let end = Cut { block: file_bytes, text: file_bytes };
    for index in 1..count {
        let nominal = (u128::from(file_bytes) * u128::from(index) / u128::from(count)) as u64;
        let block = nominal / block_size * block_size;
        if block <= start.text {
            continue;
        }
        let text = first_document(path, block, format).map_err(Error::io("read", path))?;
        if let Some(text) = text.filter(|&text| text < file_bytes) {
            let cut = Cut { block, text };
            ranges.push(FileRange { format, block_size, file_bytes, start, end: cut });
            start = cut;
        }
    }
    if !ranges.is_empty() {
        ranges.push(FileRange { format, block_size, file_bytes, start, end });
    }
    Ok(ranges)
}

/// Returns the offset of the first document that begins after the line at offset `from`: after the first line end in
/// JSON, and after the first blank line that follows in text. Returns `None` if no document begins within
/// [`MAX_SEARCH`] bytes.
fn first_document(path: &Path, from: u64, format: Format) -> io::Result<Option<u64>> {
    let mut text = BufReader::new(open_stream_at(path, from)?).take(MAX_SEARCH);
    let mut at = from;
    let mut line = Vec::new();
    // The first line may begin before `from`.
    let mut is_whole = false;
    loop {
        line.clear();
        at += text.read_until(b'\n', &mut line)? as u64;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        // Lines of other Unicode white space end a document too, but need not be boundaries.
        if format == Format::Jsonl || (is_whole && line.trim_ascii().is_empty()) {
            return Ok(Some(at));
        }
        is_whole = true;
    }
}

/// The digests of a range that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeDigests {
    /// The chaining values of the bytes between the two cuts.
    pub blocks: ChainingValues,
    /// Digest of the bytes before the text, which belong to the text of the previous range.
    pub before_text: String,
    /// Digest of the last bytes of the text, which the next range also reads.
    pub text_end: String,
}

/// State that computes the digests of a range while the range is read.
pub(crate) struct RangeState {
    range: FileRange,
    at: u64,
    blocks: RangeHasher,
    before_text: blake3::Hasher,
    text_end: blake3::Hasher,
}

impl RangeState {
    fn update(&mut self, bytes: &[u8]) {
        let range = self.range;
        // Returns the part of `bytes` before an offset in the file.
        let before = |offset: u64| &bytes[..bytes.len().min(offset.saturating_sub(self.at) as usize)];
        let after = |offset: u64| offset.saturating_sub(self.at).min(bytes.len() as u64) as usize;
        self.before_text.update(before(range.start.text));
        self.blocks.update(before(range.end.block));
        let text = before(range.end.text);
        self.text_end.update(&text[after(range.end.block).min(text.len())..]);
        self.at += bytes.len() as u64;
    }
}

/// The state of a range that is shared between its text and its reader.
#[derive(Clone)]
pub(crate) struct SharedRange(Arc<Mutex<RangeState>>);

impl SharedRange {
    /// Opens the text of a range.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub(crate) fn open(path: &Path, range: FileRange) -> Result<(Self, Box<dyn BufRead + Send>)> {
        let file = open_stream_at(path, range.start.block).map_err(Error::io("open", path))?;
        let blocks = RangeHasher::new(range.start.block, range.block_size);
        let at = range.start.block;
        let before_text = blake3::Hasher::new();
        let text_end = blake3::Hasher::new();
        let state = RangeState { range, at, blocks, before_text, text_end };
        let shared = Self(Arc::new(Mutex::new(state)));
        let mut text = BufReader::with_capacity(BUFFER, HashedFile { file, state: shared.clone() });
        let skipped = range.start.text - range.start.block;
        io::copy(&mut text.by_ref().take(skipped), &mut io::sink()).map_err(Error::io("read", path))?;
        Ok((shared, Box::new(text.take(range.end.text - range.start.text))))
    }

    /// Returns the number of bytes of the range read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        let state = lock(&self.0);
        (state.at - state.range.start.block).min(state.range.bytes())
    }

    /// Returns the digests of the bytes read so far.
    pub(crate) fn digests(&self) -> RangeDigests {
        let state = lock(&self.0);
        RangeDigests {
            blocks: state.blocks.clone().finish(),
            before_text: state.before_text.finalize().to_hex().to_string(),
            text_end: state.text_end.finalize().to_hex().to_string(),
        }
    }
}

/// Reader that adds the bytes from disk to the digests.
struct HashedFile {
    file: Box<dyn Read + Send>,
    state: SharedRange,
}

impl Read for HashedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        lock(&self.state.0).update(&buffer[..length]);
        Ok(length)
    }
}
