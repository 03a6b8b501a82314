//! Decompresses gzip, zstd, bzip2, xz, lzma and lzip in bounded memory, with the behaviour of the tools of these names.
//!
//! A file may consist of several members, streams or frames. `gzip` and `bzip2` skip the bytes after the last one and
//! print a warning; this module skips and counts them (`Source::ignored`). A window or dictionary may take up to
//! `MEMORY` bytes, the largest window of `zstd --long=31`. The decoders allocate it as a whole, but only the part that
//! the text fills takes up physical memory.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::{Arc, Mutex};

use bert_storage::objects::is_transient;
use bert_storage::open_stream;
use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;

use crate::bytes::utf16::{self, Utf16};
use crate::error::{Error, Result};
use crate::threads::lock;

/// Number of bytes of a file that are examined to find its format.
pub(crate) const HEAD: usize = 64 << 10;

/// Maximum memory of a window or a dictionary.
const MEMORY: u64 = 2 << 30;
/// The base-2 logarithm of the largest zstd window, 2 GiB.
const WINDOW_LOG: u32 = 31;
/// Memory of liblzma in addition to the dictionary.
const LZMA_STATE: u64 = 1 << 20;
const BUFFER: usize = 1 << 17;

/// Returns the name of the compression format, detected from the first bytes of a file.
pub(crate) fn compression_of(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x1f, 0x8b, ..] => Some("gzip"),
        // The file begins with a frame, with a frame of zstd 0.5 to 0.7, or, if pzstd wrote it, with a skippable frame.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x25..=0x27, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some("zstd"),
        // The file begins with "BZh", the block size, and the first byte of a block or of the end of the stream.
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31 | 0x17, ..] => Some("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        [0x5d, 0, 0, ..] => Some("lzma"),
        [b'L', b'Z', b'I', b'P', 0 | 1, ..] => Some("lzip"),
        _ => None,
    }
}

/// The digest and the number of the bytes read from disk, and the number of trailing bytes ignored. They are behind a
/// lock, because the reader of the text updates them, possibly on another thread than the one that asks for them.
#[derive(Default)]
struct ReadStats {
    hasher: blake3::Hasher,
    bytes: u64,
    ignored: u64,
}

/// The decompressed text of a file, with its first bytes available in advance.
pub(crate) struct Source {
    /// The compression format of the file.
    pub(crate) compression: Option<&'static str>,
    /// The first bytes of the file as stored.
    pub(crate) raw_head: Vec<u8>,
    /// The first bytes of the text.
    pub(crate) head: Vec<u8>,
    text: Option<Box<dyn BufRead + Send>>,
    stats: Arc<Mutex<ReadStats>>,
}

impl Source {
    /// Opens a file of any content.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or when compressed data are damaged or truncated, or need a dictionary or
    /// more memory than is allowed.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = open_stream(path).map_err(Error::io("open", path))?;
        let stats = Arc::new(Mutex::new(ReadStats::default()));
        let mut raw = Raw::new(Tee { file, stats: stats.clone() });
        let raw_head = raw.peek(HEAD).map_err(Error::io("read", path))?.to_vec();
        let compression = compression_of(&raw_head);
        let failed = |source| damaged(path, compression, &raw_head, source);
        let mut text = decompressed(raw, compression, &stats).map_err(failed)?;
        let mut head = Vec::new();
        text.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(failed)?;
        let text = Some(Box::new(io::Cursor::new(head.clone()).chain(text)) as _);
        Ok(Self { compression, raw_head, head, text, stats })
    }

    /// Returns the source of a text that is read and hashed elsewhere.
    pub(crate) fn from_text(text: Box<dyn BufRead + Send>) -> Self {
        let stats = Arc::default();
        Self { compression: None, raw_head: Vec::new(), head: Vec::new(), text: Some(text), stats }
    }

    /// Returns the text from its beginning; a second call returns empty text.
    pub(crate) fn take_text(&mut self) -> Box<dyn BufRead + Send> {
        self.text.take().unwrap_or_else(|| Box::new(io::empty()))
    }

    /// Returns the text in UTF-8 if its byte-order mark indicates UTF-16, else as [`Self::take_text`] does.
    pub(crate) fn take_decoded(&mut self) -> Box<dyn BufRead + Send> {
        match utf16::detect(&self.head) {
            Some(encoding) => Box::new(BufReader::new(Utf16::new(self.take_text(), encoding))),
            None => self.take_text(),
        }
    }

    /// Returns the number of bytes read from disk so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        lock(&self.stats).bytes
    }

    /// Returns the BLAKE3 digest of the bytes read from disk so far.
    pub(crate) fn digest(&self) -> String {
        lock(&self.stats).hasher.finalize().to_hex().to_string()
    }

    /// Returns the number of trailing bytes that do not belong to the compressed data.
    pub(crate) fn ignored(&self) -> u64 {
        lock(&self.stats).ignored
    }

    /// Returns the error for a file that cannot be read or decompressed.
    pub(crate) fn damaged(&self, path: &Path, source: io::Error) -> Error {
        damaged(path, self.compression, &self.raw_head, source)
    }
}

/// Reader that counts and hashes the bytes from disk.
struct Tee {
    file: Box<dyn Read + Send>,
    stats: Arc<Mutex<ReadStats>>,
}

impl Read for Tee {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        let mut stats = lock(&self.stats);
        stats.hasher.update(&buffer[..length]);
        stats.bytes += length as u64;
        Ok(length)
    }
}

/// The bytes of a file, with a look-ahead of up to `BUFFER` bytes.
struct Raw {
    file: Tee,
    buffer: Vec<u8>,
    start: usize,
}

impl Raw {
    fn new(file: Tee) -> Self {
        Self { file, buffer: Vec::with_capacity(BUFFER), start: 0 }
    }

    /// Returns at least `least` next bytes without consuming them; fewer only at the end of the file.
    fn peek(&mut self, least: usize) -> io::Result<&[u8]> {
        while self.buffer.len() - self.start < least {
            self.buffer.drain(..self.start);
            self.start = 0;
            let room = (BUFFER - self.buffer.len()) as u64;
            match self.file.by_ref().take(room).read_to_end(&mut self.buffer)? {
                0 => break,
                _ => continue,
            }
        }
        Ok(&self.buffer[self.start..])
    }
}

impl Read for Raw {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(into)?;
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Raw {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.peek(1)
    }

    fn consume(&mut self, length: usize) {
        self.start += length;
    }
}

/// Returns the text of a file: the concatenation of all members or streams.
fn decompressed(
    raw: Raw,
    compression: Option<&str>,
    stats: &Arc<Mutex<ReadStats>>,
) -> io::Result<Box<dyn BufRead + Send>> {
    fn buffered(decoder: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
        Box::new(BufReader::with_capacity(BUFFER, decoder))
    }
    let lzma = |raw, stream: Stream| buffered(OneStream(XzDecoder::new_stream(raw, stream), stats.clone()));
    let memory = MEMORY + LZMA_STATE;
    let several = liblzma::stream::CONCATENATED;
    Ok(match compression {
        None => Box::new(raw),
        Some("gzip") => buffered(Members {
            member: Some(GzDecoder::new(raw)),
            begin: GzDecoder::new,
            end: GzDecoder::into_inner,
            first_bytes: &[0x1f, 0x8b],
            padding: Some(0),
            stats: stats.clone(),
        }),
        Some("bzip2") => buffered(Members {
            member: Some(BzDecoder::new(raw)),
            begin: BzDecoder::new,
            end: BzDecoder::into_inner,
            first_bytes: b"BZh",
            padding: None,
            stats: stats.clone(),
        }),
        Some("zstd") => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(raw)?;
            decoder.window_log_max(WINDOW_LOG)?;
            buffered(decoder)
        }
        Some("lzma") => lzma(raw, Stream::new_lzma_decoder(memory)?),
        Some("lzip") => lzma(raw, Stream::new_lzip_decoder(memory, several)?),
        Some(_) => lzma(raw, Stream::new_stream_decoder(memory, several)?),
    })
}

/// A decoder of liblzma, which detects by itself whether another stream follows.
struct OneStream(XzDecoder<Raw>, Arc<Mutex<ReadStats>>);

impl Read for OneStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.0.read(into)?;
        if length == 0 && !into.is_empty() {
            let rest = io::copy(self.0.get_mut(), &mut io::sink())?;
            lock(&self.1).ignored += rest;
        }
        Ok(length)
    }
}

/// All members of a file, one after another. Other bytes after a member are skipped and counted.
struct Members<M> {
    /// The decoder of the current member.
    member: Option<M>,
    begin: fn(Raw) -> M,
    /// Returns the bytes after a member.
    end: fn(M) -> Raw,
    /// The bytes with which a member begins.
    first_bytes: &'static [u8],
    /// The padding byte that may follow the last member.
    padding: Option<u8>,
    stats: Arc<Mutex<ReadStats>>,
}

impl<M> Members<M> {
    /// Starts the next member, if there is one.
    fn advance(&mut self, mut raw: Raw) -> io::Result<()> {
        while let Some(padding) = self.padding {
            let zeros = raw.fill_buf()?.iter().take_while(|&&byte| byte == padding).count();
            if zeros == 0 {
                break;
            }
            raw.consume(zeros);
        }
        if raw.peek(3)?.starts_with(self.first_bytes) {
            self.member = Some((self.begin)(raw));
        } else {
            // These bytes are still read, because the digest covers the whole file.
            let rest = io::copy(&mut raw, &mut io::sink())?;
            lock(&self.stats).ignored = rest;
        }
        Ok(())
    }
}

impl<M: Read> Read for Members<M> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = self.member.as_mut().filter(|_| !into.is_empty()) {
            match member.read(into)? {
                0 => {}
                length => return Ok(length),
            }
            if let Some(member) = self.member.take() {
                self.advance((self.end)(member))?;
            }
        }
        Ok(0)
    }
}

/// Returns the error for a file that cannot be read or decompressed; `head` contains its first bytes.
fn damaged(path: &Path, compression: Option<&'static str>, head: &[u8], source: io::Error) -> Error {
    let Some(format) = compression.filter(|_| !is_transient(&source)) else {
        return Error::io("read", path)(source);
    };
    match source.to_string() {
        text if is_of_memory(&text) => large_window(format, window_of(format, head)).at(path),
        text if text.contains("ictionary mismatch") => Error::data(
            "this zstd data was compressed with a dictionary: decompress it first (zstd -d -D DICTIONARY)",
        )
        .at(path),
        _ => Error::data(format!("damaged {format} data")).because(source).at(path),
    }
}

/// Returns the error for a decoder that needs more memory than is allowed; `window` is the number of bytes of text that
/// the decoder keeps.
fn large_window(format: &str, window: Option<u64>) -> Error {
    let size = match window {
        Some(bytes) => format!("a window of {} MiB", bytes >> 20),
        None => "a large window".to_string(),
    };
    let (decompress, compress) = match format {
        "zstd" => ("zstd -d --long=31 --memory=4GB", "zstd --long=27"),
        _ => ("xz -d", "xz -9"),
    };
    Error::data(format!(
        "this is {format} data with {size}, which needs as much memory to decompress; the limit is {} MiB: decompress it \
         first ({decompress}), or compress it again with a smaller window ({compress})",
        MEMORY >> 20
    ))
}

/// Returns whether an error of zstd or liblzma means that memory is not available, or that more is needed than allowed.
fn is_of_memory(error: &str) -> bool {
    let error = error.to_lowercase();
    ["too much memory", "not enough memory", "memory limit", "allocate memory"]
        .iter()
        .any(|message| error.contains(message))
}

/// Returns the window size in bytes, if the first bytes of a file contain it.
fn window_of(format: &str, head: &[u8]) -> Option<u64> {
    match format {
        "zstd" => zstd_window(head),
        // The last filter of a block is LZMA2. Its bytes are its id, the size of its properties, and its dictionary
        // size.
        "xz" => {
            let header = head.get(12..12 + 4 * (1 + usize::from(*head.get(12)?)))?;
            let at = header.windows(2).position(|pair| pair == [0x21, 1])?;
            let size = u64::from(*header.get(at + 2)? & 63);
            Some((2 | size & 1) << (size / 2 + 11))
        }
        "lzma" => Some(u64::from(u32::from_le_bytes(head.get(1..5)?.try_into().ok()?))),
        _ => None,
    }
}

/// Returns the window size in bytes of the first zstd frame that is not skippable (RFC 8878, 3.1.1).
fn zstd_window(mut head: &[u8]) -> Option<u64> {
    while let [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d, rest @ ..] = head {
        head = rest.get(u32::from_le_bytes([*a, *b, *c, *d]) as usize..)?;
    }
    let &[0x28, 0xb5, 0x2f, 0xfd, descriptor, window, ..] = head else { return None };
    // A single-segment frame has its content size instead of the window, and needs no more memory than its content.
    (descriptor & 0x20 == 0).then(|| {
        let base = 1u64 << (10 + (window >> 3));
        base + base / 8 * u64::from(window & 7)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_from_headers() {
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 0xa8 | 1];
        let skipped = [&[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3], &frame[..]].concat();
        assert_eq!(zstd_window(&frame), Some((2 << 30) + (2 << 27)));
        assert_eq!(zstd_window(&skipped), zstd_window(&frame));
        assert_eq!(window_of("lzma", &[0x5d, 0, 0, 0, 0x40]), Some(1 << 30));
        let options = liblzma::stream::LzmaOptions::new_preset(6).unwrap();
        let mut filters = liblzma::stream::Filters::new();
        filters.lzma2(&options);
        let stream = Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc32).unwrap();
        let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
        io::Write::write_all(&mut encoder, b"some text").unwrap();
        assert_eq!(window_of("xz", &encoder.finish().unwrap()), Some(8 << 20), "of preset 6");
    }
}
