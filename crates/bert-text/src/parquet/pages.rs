//! Checks the pages of a column chunk before the `parquet` crate decodes them, and rejects pages that would take too
//! much memory.
//!
//! The header of a page gives its decompressed size. The crate's decoders of Snappy, zstd and LZ4 blocks stop at this
//! size; the decoders of gzip, Brotli and LZ4 frames return any number of bytes. So pages of these codecs are first
//! decompressed here, discarding the output, until they exceed the size in their header.

use std::fs::File;
use std::io::{self, Read};

use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

use crate::parquet::thrift::Compact;

type Result<T> = std::result::Result<T, ParquetError>;

/// Maximum decompressed size of a page: four rows of the maximum length. Writers use pages of 1 MiB, some of 100 MB.
const MAX_PAGE_BYTES: u64 = 256 << 20;
/// Maximum size of a page header: some numbers and two values.
const MAX_HEADER_BYTES: u64 = 1 << 20;
/// Number of values that any column chunk may contain, regardless of its size.
const MIN_VALUE_LIMIT: u64 = 64 << 20;
/// Maximum number of values for each byte of a larger column chunk; shards of this workspace have two.
const MAX_VALUES_PER_BYTE: u64 = 500;
/// Number of bytes that the Brotli decoder reads at a time.
const BROTLI_INPUT: usize = 1 << 16;
/// First byte of a Brotli stream with a window of up to 1 GiB, an extension of RFC 7932.
const LARGE_WINDOW: u8 = 0x11;

/// The numbers in the header of a page.
#[derive(Debug, Default)]
struct PageHeader {
    /// Decompressed size of the page; -1 if the header does not contain it.
    decompressed: i64,
    /// Stored size of the page; -1 if the header does not contain it.
    stored: i64,
    values: i64,
    /// Number of bytes of the uncompressed levels before the values, in version 2 data pages.
    levels: i64,
    is_compressed: bool,
}

impl PageHeader {
    fn read(header: &mut Compact<impl Read>) -> io::Result<Self> {
        let mut page = Self { decompressed: -1, stored: -1, is_compressed: true, ..Self::default() };
        header.fields(|header, field| {
            match field.id {
                2 => page.decompressed = header.number(field)?,
                3 => page.stored = header.number(field)?,
                // The header of a data page or a dictionary page begins with its number of values.
                5 | 7 => header.fields_of(field, |inner, field| match field.id {
                    1 => inner.number(field).map(|number| page.values = number),
                    _ => inner.skip(field),
                })?,
                // A version 2 data page.
                8 => header.fields_of(field, |inner, field| match field.id {
                    1 => inner.number(field).map(|number| page.values = number),
                    5 | 6 => {
                        inner.number(field).map(|number| page.levels = page.levels.saturating_add(number))
                    }
                    7 => inner.truth(field).map(|truth| page.is_compressed = truth),
                    _ => inner.skip(field),
                })?,
                _ => header.skip(field)?,
            }
            Ok(())
        })?;
        Ok(page)
    }
}

/// Returns the decompressed size of the largest page of a column chunk, according to the page headers.
///
/// # Errors
/// Fails when a header is damaged, when a page is too large or decompresses to more than its header says, or when
/// there are more values than a column chunk of its size may contain.
pub(crate) fn check_pages(file: &File, start: u64, length: u64, codec: Compression) -> Result<u64> {
    let mut at = start;
    let end = start + length;
    let mut largest = 0;
    let mut values = 0u64;
    while at < end {
        let mut header = Compact::new(file.get_read(at)?, MAX_HEADER_BYTES.min(end - at));
        let page = PageHeader::read(&mut header)
            .map_err(|error| rejected(format!("the header of a page is damaged: {error}")))?;
        let number =
            |number: i64| u64::try_from(number).map_err(|_| rejected("a page has no size".to_owned()));
        let decompressed = number(page.decompressed)?;
        let stored = number(page.stored)?;
        let page_values = number(page.values)?;
        let levels = number(page.levels)?;
        let bytes = decompressed.max(stored);
        if bytes > MAX_PAGE_BYTES {
            return Err(rejected(format!(
                "a page has {bytes} bytes, more than {MAX_PAGE_BYTES}; write the file again with smaller pages"
            )));
        }
        values += page_values;
        if values > MIN_VALUE_LIMIT && values / MAX_VALUES_PER_BYTE > length {
            return Err(rejected(format!(
                "at least {values} values in {length} bytes: no real data is that repetitive"
            )));
        }
        at += header.position();
        if page.is_compressed && levels <= stored.min(decompressed) {
            let stored = file.get_read(at + levels)?.take(stored - levels);
            reject_bomb(stored, codec, decompressed - levels)?;
        }
        largest = largest.max(decompressed);
        at += stored;
    }
    Ok(largest)
}

/// Rejects a page that decompresses to more than `limit` bytes. A damaged page is not rejected here, because the
/// decoder reports it.
fn reject_bomb(mut stored: impl Read, codec: Compression, limit: u64) -> Result<()> {
    let is_more = match codec {
        Compression::GZIP(_) => is_longer(flate2::read::MultiGzDecoder::new(stored), limit),
        Compression::BROTLI(_) => {
            let mut first = [0];
            let read = stored.read(&mut first)?;
            if read == 1 && first[0] & 0x7f == LARGE_WINDOW {
                return Err(rejected("a page of Brotli with a window above 16 MiB".to_owned()));
            }
            is_longer(brotli::Decompressor::new(first[..read].chain(stored), BROTLI_INPUT), limit)
        }
        // A page has either blocks, as Hadoop writes them, or a frame, as Arrow formerly wrote it.
        Compression::LZ4 => is_longer(lz4_flex::frame::FrameDecoder::new(stored), limit),
        _ => false,
    };
    if is_more {
        return Err(rejected(format!("a page decompresses to more than the {limit} bytes in its header")));
    }
    Ok(())
}

fn is_longer(bytes: impl Read, limit: u64) -> bool {
    io::copy(&mut bytes.take(limit + 1), &mut io::sink()).is_ok_and(|length| length > limit)
}

/// Returns the error for a rejected file.
pub(crate) fn rejected(what: String) -> ParquetError {
    ParquetError::General(what)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use parquet::basic::{BrotliLevel, GzipLevel};

    use super::*;

    fn largest(bytes: &[u8], codec: Compression) -> Result<u64> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        check_pages(&file, 0, bytes.len() as u64, codec)
    }

    #[test]
    fn pages_without_a_size_are_rejected() {
        let pages = |bytes: &[u8]| largest(bytes, Compression::UNCOMPRESSED);
        // Sizes 6 (zigzag 12) and 2, then two bytes; twice.
        assert_eq!(pages(&[0x25, 12, 0x15, 4, 0, 9, 9, 0x25, 14, 0x15, 4, 0, 9, 9]).unwrap(), 7);
        for (header, wanted) in [
            (&[0x35, 4, 0, 9, 9][..], "a page has no size"),
            (&[0x25, 12, 0], "a page has no size"),
            (&[0x25, 11, 0x15, 4, 0], "a page has no size"),
            (&[0x25, 12], "the header of a page is damaged: it ends after 2 bytes"),
            (&[0x28, 1, 1, 0], "field 2 of type 8 where a number is expected"),
            (&[0x55, 4, 0], "field 5 of type 5 where a struct is expected"),
        ] {
            let message = pages(header).unwrap_err().to_string();
            assert!(message.contains(wanted), "{message}");
        }
        // A data page of 2^31 - 1 values in a handful of bytes.
        let many = [0x25, 12, 0x15, 4, 0x2c, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 9, 9];
        assert!(pages(&many).unwrap_err().to_string().contains("at least 2147483647 values in 15 bytes"));
    }

    #[test]
    fn brotli_windows_are_those_of_the_standard() {
        let codec = Compression::BROTLI(BrotliLevel::default());
        let message = largest(&page(&[0x11, 30, 3], false), codec).unwrap_err().to_string();
        assert!(message.contains("a window above 16 MiB"), "{message}");
    }

    /// Returns a page with a decompressed size of 64 bytes; `second` makes it version 2, with three bytes of levels.
    fn page(stored: &[u8], second: bool) -> Vec<u8> {
        let length = stored.len() + if second { 3 } else { 0 };
        let zigzag = [(2 * length) as u8 & 0x7f | 0x80, (length >> 6) as u8];
        let sizes = [&[0x25, 0x80, 1, 0x15][..], &zigzag].concat();
        let levels: &[u8] = if second { &[0x5c, 0x15, 2, 0x45, 6, 0x15, 0, 0, 0, 1, 2, 3] } else { &[0] };
        [&sizes[..], levels, stored].concat()
    }

    #[test]
    fn pages_become_no_larger_than_they_say() {
        let packed = |codec: Compression, bytes: usize| {
            let text = vec![b'x'; bytes];
            let mut packed = Vec::new();
            match codec {
                Compression::GZIP(_) => {
                    flate2::write::GzEncoder::new(&mut packed, flate2::Compression::fast())
                        .write_all(&text)
                        .unwrap()
                }
                Compression::BROTLI(_) => {
                    brotli::CompressorWriter::new(&mut packed, 4096, 1, 22).write_all(&text).unwrap()
                }
                _ => {
                    let mut frame = lz4_flex::frame::FrameEncoder::new(&mut packed);
                    frame.write_all(&text).unwrap();
                    frame.finish().unwrap();
                }
            }
            packed
        };
        let gzip = GzipLevel::default();
        let brotli = BrotliLevel::default();
        for codec in [Compression::GZIP(gzip), Compression::BROTLI(brotli), Compression::LZ4] {
            for (second, fits) in [(false, 64), (true, 61)] {
                assert_eq!(largest(&page(&packed(codec, fits), second), codec).unwrap(), 64, "{codec}");
                for bytes in [fits + 1, 100_000] {
                    let message =
                        largest(&page(&packed(codec, bytes), second), codec).unwrap_err().to_string();
                    assert!(
                        message.contains(&format!("more than the {fits} bytes in its header")),
                        "{message}"
                    );
                }
            }
        }
    }
}
