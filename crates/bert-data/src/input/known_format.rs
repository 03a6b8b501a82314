//! Recognizes files that are not text by their first bytes.
//!
//! If a build took an archive, an image or a dump of markup for text, it would make training data of garbage, and
//! nothing would look wrong. [`refuse`] names what such a file is and says what to do with it.

use std::path::Path;

use crate::error::{InputProblem, Locate, Result};

/// How many of a file's first bytes are looked at.
pub(crate) const HEAD: usize = 1024;

const UNPACK: &str = "unpack it first";
const EXTRACT: &str = "extract its text first";
const TABLE: &str = "convert it to Parquet or JSON Lines";
const RECODE_16: &str = "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)";
const RECODE_32: &str = "convert it to UTF-8 (iconv -f UTF-32 -t UTF-8)";
const COMPRESS: &str = "compress it with gzip, zstd, bzip2 or xz instead, or not at all";
const NO_TEXT: &str = "it holds no text";

/// Where in a file which bytes stand, what the file then is, and what to do. The first that fits counts.
const KNOWN: [(usize, &[u8], &str, &str); 36] = [
    (0, b"PK\x03\x04", "a ZIP archive (.zip, .docx, .xlsx, .epub)", UNPACK),
    (0, b"PK\x05\x06", "an empty ZIP archive", NO_TEXT),
    (257, b"ustar", "a tar archive", UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", UNPACK),
    (0, b"Rar!\x1a\x07", "a RAR archive", UNPACK),
    (0, b"\x04\x22\x4d\x18", "lz4 data", COMPRESS),
    (0, b"\xff\x06\0\0sNaPpY", "snappy data", COMPRESS),
    (0, b"\x5d\0\0", "LZMA data", COMPRESS),
    (0, b"LZIP\x01", "lzip data", COMPRESS),
    (0, b"\x1f\x9d", "data of compress (.Z)", COMPRESS),
    (0, b"%PDF-", "a PDF document", EXTRACT),
    (0, b"%!PS-Adobe", "a PostScript document", EXTRACT),
    (0, b"{\\rtf", "an RTF document", EXTRACT),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a Microsoft Office document (.doc, .xls, .ppt)", EXTRACT),
    (0, b"ARROW1\0\0", "an Arrow file (Feather)", TABLE),
    // What `save_to_disk` of datasets writes.
    (0, b"\xff\xff\xff\xff", "an Arrow stream", TABLE),
    (0, b"Obj\x01", "an Avro file", TABLE),
    (0, b"SQLite format 3\0", "an SQLite database", TABLE),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file", TABLE),
    (0, b"\x93NUMPY", "a NumPy array", TABLE),
    (0, b"\x80\x02", "a Python pickle", TABLE),
    (0, b"\x80\x03", "a Python pickle", TABLE),
    (0, b"\x80\x04\x95", "a Python pickle", TABLE),
    (0, b"\x80\x05\x95", "a Python pickle", TABLE),
    (0, b"\xff\xfe\0\0", "text in UTF-32", RECODE_32),
    (0, b"\0\0\xfe\xff", "text in UTF-32", RECODE_32),
    (0, b"\xff\xfe", "text in UTF-16", RECODE_16),
    (0, b"\xfe\xff", "text in UTF-16", RECODE_16),
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image", NO_TEXT),
    (0, b"\xff\xd8\xff", "a JPEG image", NO_TEXT),
    (0, b"GIF87a", "a GIF image", NO_TEXT),
    (0, b"GIF89a", "a GIF image", NO_TEXT),
    (0, b"OggS\0", "an Ogg file", NO_TEXT),
    (4, b"ftyp", "an MPEG-4 file", NO_TEXT),
    (0, b"\x7fELF", "a program", NO_TEXT),
    (0, b"\0asm", "a program", NO_TEXT),
];

/// Refuses a file that begins as a known format that is no text; `head` has its first [`HEAD`] bytes, after
/// decompression.
pub(crate) fn refuse(path: &Path, head: &[u8]) -> Result<()> {
    let known =
        KNOWN.iter().find(|(at, bytes, ..)| head.get(*at..).is_some_and(|rest| rest.starts_with(bytes)));
    let (format, advice) = match known {
        Some(&(_, _, format, advice)) => (format, advice),
        None if is_media_wiki(head) => (
            "an XML dump of a wiki",
            "extract its articles first, as with WikiExtractor --json, whose JSON Lines are read (see --text-column)",
        ),
        None => return Ok(()),
    };
    Err(InputProblem::KnownFormat { format, advice }.at(path).into())
}

/// Whether a file begins as the dumps of Wikipedia do, which are text to the eye but markup.
fn is_media_wiki(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let behind_declaration = head
        .starts_with(b"<?xml")
        .then(|| head.windows(2).position(|pair| pair == b"?>"))
        .flatten()
        .map_or(head, |end| head[end + 2..].trim_ascii_start());
    behind_declaration.starts_with(b"<mediawiki")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(head: &[u8]) -> Option<String> {
        refuse(Path::new("it"), head).err().map(|error| error.to_string())
    }

    #[test]
    fn every_known_format_is_named() {
        for (at, bytes, format, advice) in KNOWN {
            let head = [&vec![b'a'; at], bytes, b"and so on"].concat();
            assert_eq!(refused(&head), Some(format!("it: this is {format}: {advice}")), "{bytes:?}");
            assert_eq!(
                refused(&head[..at + bytes.len() - 1]).is_some(),
                bytes == b"\xff\xfe\0\0",
                "cut {bytes:?}"
            );
        }
    }

    #[test]
    fn dumps_of_a_wiki_are_markup() {
        for dump in [
            "<mediawiki xmlns=\"http://www.mediawiki.org/xml/export-0.11/\">\n",
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\n  <mediawiki>",
        ] {
            assert!(refused(dump.as_bytes()).unwrap().contains("an XML dump of a wiki"), "{dump}");
        }
    }

    #[test]
    fn text_is_not_refused() {
        for text in [
            "",
            "P",
            "PK",
            "The <mediawiki> tag",
            "<?xml version=\"1.0\"?>\n<p>",
            "BZ",
            "{\"text\": 1}",
            "\u{feff}a",
        ] {
            assert_eq!(refused(text.as_bytes()), None, "{text}");
        }
    }
}
