//! Reads a file as blocks of whole lines, decompressed, in bounded memory.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bert_storage::objects::is_transient;
use bert_storage::open_stream;

use super::known_format::{self, HEAD};
use super::{BLOCK, Format, InputEntry, LONGEST_LINE};
use crate::error::{Error, InputProblem, Locate, Result};
use crate::parallel::lock;

/// What a compressed file may grow to before it is asked how much it has grown.
const GROWN: u64 = 64 << 20;
/// How much larger than itself a compressed file may then be: text is 3 to 20 times as large, a bomb a thousand times.
const GROWTH: u64 = 500;
/// The most memory that decompressing xz may take: `xz -9` asks for 65 MiB.
const XZ_MEMORY: u64 = 256 << 20;

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
type Seen = Arc<Mutex<(blake3::Hasher, u64)>>;

/// Counts and digests the bytes that come from disk.
struct Tee {
    file: Box<dyn Read + Send>,
    seen: Seen,
}

impl Read for Tee {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        let mut seen = lock(&self.seen);
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
        let seen = lock(&self.seen);
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
        lock(&self.seen).1
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
        Some(format) if !is_transient(&source) => {
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
