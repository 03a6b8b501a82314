//! Recognizes non-text files by their first bytes.
//!
//! If a build read an archive, an image or an HTML page as text, it would silently produce garbage training data.
//! [`reject_known_format`] rejects such a file with the name of its format and advice. A signature of printable characters counts
//! only where prose cannot begin like that: as a separate line, or before bytes that do not occur in text.

use std::path::Path;

use crate::bytes::decompress::compression_of;
use crate::error::{Error, Result};

const UNPACK: &str = "unpack it first";
const EXTRACT: &str = "extract its text first";
const TABLE: &str = "convert it to Parquet or JSON Lines";
const RECODE_16: &str = "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)";
const RECODE_32: &str = "convert it to UTF-8 (iconv -f UTF-32 -t UTF-8)";
const COMPRESS: &str = "compress it with gzip, zstd, bzip2 or xz instead, or not at all";
const NO_TEXT: &str = "it holds no text";
const TOKENS: &str = "it has tokens and no text; give a text as input";
const FETCH: &str = "the data itself is missing; fetch it (git lfs pull)";
const FETCH_ANNEX: &str = "the data itself is missing; fetch it (git annex get)";
const ARCHIVE: &str = "extract the texts of its records first, as JSON Lines (with warcio or trafilatura)";
const LATEX: &str = "convert it to text (pandoc -t plain FILE)";
const ABSTRACTS: &str = "write its abstracts as text, one document after the other, or export it as RIS";

/// An offset in a file, the bytes that can be there, the format, and the advice.
type Signature = (usize, &'static [&'static [u8]], &'static str, &'static str);

/// Beginnings of a line or complete lines, the format, and the advice.
type TextSignature = (&'static [&'static str], &'static str, &'static str);

/// Signatures of binary formats. The first match wins.
const BINARY: &[Signature] = &[
    (0, &[b"PK\x03\x04"], "a ZIP archive (.zip, .docx, .xlsx, .epub, .npz, .pt)", UNPACK),
    (0, &[b"PK\x05\x06"], "an empty ZIP archive", NO_TEXT),
    (257, &[b"ustar\0", b"ustar  \0"], "a tar archive", UNPACK),
    (0, &[b"7z\xbc\xaf\x27\x1c"], "a 7-Zip archive", UNPACK),
    (0, &[b"Rar!\x1a\x07"], "a RAR archive", UNPACK),
    (0, &[b"MSCF\0\0\0\0"], "a cabinet archive", UNPACK),
    (0, &[b"\xed\xab\xee\xdb"], "an RPM package", UNPACK),
    (0, &[b"\x04\x22\x4d\x18", b"\x02\x21\x4c\x18"], "lz4 data", COMPRESS),
    (0, &[b"\x89LZO\0\r\n\x1a\n"], "lzo data", COMPRESS),
    (0, &[b"\xff\x06\0\0sNaPpY"], "snappy data", COMPRESS),
    (0, &[b"\x1f\x9d", b"\x1f\xa0"], "data of compress (.Z)", COMPRESS),
    (0, &[b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"], "a Microsoft Office document (.doc, .xls, .ppt)", EXTRACT),
    (0, &[b"\xffWPC"], "a WordPerfect document", EXTRACT),
    (0, &[b"ITSF\x03\0\0\0"], "a help file (.chm)", EXTRACT),
    (0, &[b"AT&TFORM\0"], "a DjVu document", EXTRACT),
    (60, &[b"BOOKMOBI\0"], "a Kindle book", EXTRACT),
    (0, &[b"ARROW1\0\0"], "an Arrow file (Feather)", TABLE),
    // `save_to_disk` of the library `datasets` writes such files.
    (0, &[b"\xff\xff\xff\xff"], "an Arrow stream", TABLE),
    (0, &[b"Obj\x01"], "an Avro file", TABLE),
    (0, &[b"SEQ\x06"], "a Hadoop sequence file", TABLE),
    (0, &[b"SQLite format 3\0"], "an SQLite database", TABLE),
    (0, &[b"\x89HDF\r\n\x1a\n"], "an HDF5 file", TABLE),
    (0, &[b"\x93NUMPY"], "a NumPy array", TABLE),
    (0, &[b"X\n\0\0\0"], "an R file", TABLE),
    (0, &[b"MMIDIDX\0\0"], "an index of Megatron", TABLE),
    (0, &[b"\x80\x02", b"\x80\x03", b"\x80\x04\x95", b"\x80\x05\x95"], "a Python pickle", TABLE),
    (0, &[b"\xff\xfe\0\0", b"\0\0\xfe\xff"], "text in UTF-32", RECODE_32),
    (0, &[b"\xff\xfe", b"\xfe\xff"], "text in UTF-16", RECODE_16),
    (0, &[b"\x89PNG\r\n\x1a\n"], "a PNG image", NO_TEXT),
    (0, &[b"\xff\xd8\xff"], "a JPEG image", NO_TEXT),
    (0, &[b"II*\0", b"MM\0*"], "a TIFF image", NO_TEXT),
    (0, &[b"OggS\0"], "an Ogg file", NO_TEXT),
    (0, &[b"ID3\x02", b"ID3\x03", b"ID3\x04"], "an MP3 file", NO_TEXT),
    (0, &[b"fLaC\0"], "a FLAC file", NO_TEXT),
    (0, &[b"\x1a\x45\xdf\xa3"], "a Matroska or WebM file", NO_TEXT),
    (0, &[b"\x7fELF", b"\0asm", b"MZ\x90\0", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe"], "a program", NO_TEXT),
    (0, &[b"GGUF\x02\0", b"GGUF\x03\0"], "a model (GGUF)", NO_TEXT),
    (0, &[b"\xba\x16\x4f\x2f"], "a model of fastText", NO_TEXT),
];

/// Printable signatures, which count only if bytes follow that do not occur in text.
const PRINTABLE: &[Signature] = &[
    (0, &[b"%PDF-"], "a PDF document", EXTRACT),
    (0, &[b"ORC"], "an ORC file", TABLE),
    (8, &[b"DUCK"], "a DuckDB database", TABLE),
    (4, &[b"ftyp"], "an MPEG-4 file", NO_TEXT),
    (0, &[b"RIFF"], "a sound, image or film (RIFF)", NO_TEXT),
    (0, &[b"GIF87a", b"GIF89a"], "a GIF image", NO_TEXT),
    (0, &[b"FEA1"], "a Feather file", TABLE),
    (0, &[b"RDX2\n", b"RDX3\n"], "an R file", TABLE),
    (0, &[b"MATLAB 5.0 MAT-file"], "a MATLAB file", TABLE),
];

/// Beginnings of the first line that is not blank, in lower case, that do not occur in prose.
const BEGINNINGS: &[TextSignature] = &[
    (&["version https://git-lfs.github.com/spec/"], "a pointer of Git LFS", FETCH),
    (&["version https://hawser.github.com/spec/"], "a pointer of Git LFS", FETCH),
    (&["version http://git-media.io/v/"], "a pointer of Git LFS", FETCH),
    (&["/annex/objects/"], "a pointer of git-annex", FETCH_ANNEX),
    (&["%!ps-adobe-"], "a PostScript document", EXTRACT),
    (&["{\\rtf1"], "an RTF document", EXTRACT),
    (&["filedesc://"], "an ARC file of a web archive", ARCHIVE),
    (&["#version: 0.2"], "the merges of a tokenizer", TOKENS),
    (&["\\documentclass", "\\begin{", "\\chapter{", "\\section{", "\\usepackage"], "a LaTeX document", LATEX),
    (&["\\id"], "a Bible in USFM", "convert it to one verse on each line, its number and a tab before it"),
    (
        &["file type = \"ootextfile\""],
        "a TextGrid of Praat",
        "write the text of its tiers, one sentence on each line",
    ),
    (&["-- mysql dump", "-- mariadb dump"], "a dump of an SQL database", TABLE),
    (&["-- postgresql database dump", "pragma foreign_keys="], "a dump of an SQL database", TABLE),
];

/// Complete first lines that are not blank, in lower case.
const FIRST_LINES: &[TextSignature] = &[
    (&["warc/0.17", "warc/0.18", "warc/1.0", "warc/1.1"], "a WARC or WET file of a web archive", ARCHIVE),
    (&["%pdf-1.3", "%pdf-1.4", "%pdf-1.5", "%pdf-1.6", "%pdf-1.7", "%pdf-2.0"], "a PDF document", EXTRACT),
    (&["[script info]"], "subtitles (SubStation Alpha)", "convert them to SubRip (ffmpeg -i FILE FILE.srt)"),
    (&["@utf8", "@begin"], "a transcript of CHILDES (CHAT)", "write its utterances as text (flo +cr FILE)"),
    (&["<doc>"], "documents in <DOC> tags, as in TREC", EXTRACT),
    (&["!<arch>"], "an archive of ar", UNPACK),
];

/// Rejects a file with the signature of a known non-text format. `head` contains the first
/// [`HEAD`](crate::bytes::decompress::HEAD) bytes, after decompression by `compression`.
///
/// # Errors
/// Fails when a file begins with the signature of a format that is not text.
pub(crate) fn reject_known_format(path: &Path, head: &[u8], compression: Option<&'static str>) -> Result<()> {
    match known(path, head, compression) {
        Some((format, advice)) => Err(Error::data(format!("this is {format}: {advice}")).at(path)),
        None => Ok(()),
    }
}

fn known(path: &Path, head: &[u8], compression: Option<&str>) -> Option<(&'static str, &'static str)> {
    let signature = |table: &[Signature]| {
        let fits = |(at, patterns, ..): &&Signature| {
            head.get(*at..).is_some_and(|rest| patterns.iter().any(|bytes| rest.starts_with(bytes)))
        };
        table.iter().find(fits).map(|&(_, _, format, advice)| (format, advice))
    };
    if compression.is_some() && head.starts_with(b"PAR1") {
        return Some(("Parquet inside compressed data", "decompress it; Parquet is compressed within"));
    }
    if compression.is_some() && compression_of(head).is_some() {
        return Some(("data that was compressed twice", "decompress it once"));
    }
    let found = signature(BINARY)
        .or_else(|| is_tar(head).then_some(("a tar archive", UNPACK)))
        .or_else(|| text_format(path, &String::from_utf8_lossy(head)));
    if found.is_some() || !head.iter().any(|&byte| is_control(byte)) {
        return found;
    }
    signature(PRINTABLE).or_else(|| structure_format(path, head))
}

/// Returns whether a byte is a control character that does not occur in text of any encoding.
fn is_control(byte: u8) -> bool {
    matches!(byte, 0..=8 | 0x0e..=0x1a | 0x7f)
}

/// Recognizes the format of a file of printable characters by its beginning.
fn text_format(path: &Path, head: &str) -> Option<(&'static str, &'static str)> {
    let head = head.trim_start_matches('\u{feff}').trim_start();
    let mut lines = head.lines().map(|line| line.trim().to_lowercase()).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let second = lines.next().unwrap_or_default();
    // An SQL dump may begin with a line that contains only the comment sign. TeX documents may begin with comments.
    let line = if first == "--" { &second } else { &first };
    let after_comments = line_after_comments(head);
    let begins = |line: &str| {
        BEGINNINGS.iter().find(|(begins, ..)| begins.iter().any(|begin| line.starts_with(begin)))
    };
    let whole = || FIRST_LINES.iter().find(|(lines, ..)| lines.contains(&line.as_str()));
    if let Some(&(_, format, advice)) = begins(line).or_else(whole).or_else(|| begins(&after_comments)) {
        return Some((format, advice));
    }
    if is_bibliography(&after_comments) {
        return Some(("a bibliography of BibTeX", ABSTRACTS));
    }
    if is_token(&first) && is_token(&second) {
        return Some(("a vocabulary", TOKENS));
    }
    let keys = ["\"version\"", "\"truncation\"", "\"padding\"", "\"added_tokens\""];
    let beginning = head.get(..400).unwrap_or(head);
    if head.starts_with('{') && keys.iter().all(|key| beginning.contains(key)) {
        return Some(("a tokenizer.json", TOKENS));
    }
    markup_format(path, head)
}

/// Returns the first line that is neither blank nor a comment of TeX, in lower case.
fn line_after_comments(head: &str) -> String {
    let mut lines = head.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('%'));
    lines.next().unwrap_or_default().to_lowercase()
}

/// Returns whether a line in lower case begins an entry of BibTeX.
fn is_bibliography(line: &str) -> bool {
    let entry = line.strip_prefix('@').and_then(|rest| rest.split_once('{'));
    entry
        .is_some_and(|(kind, _)| include_str!("bibtex_entries.txt").lines().any(|known| known == kind.trim()))
}

/// Returns whether a line is a special token of a vocabulary, alone or with its score.
fn is_token(line: &str) -> bool {
    let word = line.split('\t').next().unwrap_or_default();
    matches!(word, "[pad]" | "[unk]" | "[cls]" | "[sep]" | "[mask]" | "<s>" | "</s>" | "<pad>" | "<unk>")
        || word.strip_prefix("[unused").is_some_and(|rest| rest.ends_with(']'))
}

/// Recognizes HTML and XML: readable files that contain markup instead of plain text.
fn markup_format(path: &Path, head: &str) -> Option<(&'static str, &'static str)> {
    let lower = head.to_lowercase();
    let mut rest = lower.as_str();
    let mut is_xml = false;
    // Declarations and comments precede the first element.
    loop {
        let end = match rest {
            _ if rest.starts_with("<?xml") => "?>",
            _ if rest.starts_with("<!--") => "-->",
            _ => break,
        };
        is_xml |= end == "?>";
        let Some(at) = rest.find(end) else { break };
        rest = rest[at + end.len()..].trim_start();
    }
    let begins =
        |tag: &str| rest.strip_prefix(tag).is_some_and(|rest| rest.starts_with([' ', '>', '\n', '\r', '\t']));
    let end = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let named_html = ["html", "htm", "xhtml"].contains(&end.as_str()) && rest.starts_with('<');
    if ["<!doctype html", "<html", "<head", "<body"].iter().any(|tag| begins(tag)) || named_html {
        Some(("a page of HTML", EXTRACT))
    } else if is_xml || rest.starts_with("<!doctype ") || begins("<svg") {
        Some(("an XML document", EXTRACT))
    } else {
        None
    }
}

/// Recognizes the format of a binary file by the structure of its first bytes, or else by its name.
fn structure_format(path: &Path, head: &[u8]) -> Option<(&'static str, &'static str)> {
    let eight = head.get(..8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    if head.starts_with(b"BM") && head.get(6..10) == Some(&[0; 4]) {
        return Some(("a BMP image", NO_TEXT));
    }
    if eight.is_some_and(|length| length < 100 << 20) && head[8..].starts_with(b"{\"") {
        return Some(("a model (safetensors)", NO_TEXT));
    }
    // A SentencePiece model is a protocol buffer. It begins with two lengths and a special token.
    if let [0x0a, _, 0x0a, length, word @ ..] = head
        && word.get(..usize::from(*length)).is_some_and(|word| word.starts_with(b"<") && word.ends_with(b">"))
    {
        return Some(("a model of SentencePiece", TOKENS));
    }
    // A TFRecord file begins with the length of a record, its checksum, and a protocol buffer.
    if eight.is_some_and(|length| (8..1 << 32).contains(&length)) && head.get(12) == Some(&0x0a) {
        return Some(("a TFRecord file", TABLE));
    }
    let end = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    match end.as_str() {
        "br" => Some(("brotli data", COMPRESS)),
        "zlib" | "deflate" => Some(("deflated data", COMPRESS)),
        "lz4" => Some(("lz4 data", COMPRESS)),
        "snappy" | "sz" => Some(("snappy data", COMPRESS)),
        "pkl" | "pickle" => Some(("a Python pickle", TABLE)),
        "mp3" | "wav" | "mp4" | "jpg" | "jpeg" | "ico" => Some(("a sound, image or film", NO_TEXT)),
        _ => None,
    }
}

/// Returns whether a file begins with a tar header of any version, which is recognized by its checksum.
fn is_tar(head: &[u8]) -> bool {
    let Some(header) = head.get(..512) else { return false };
    let field = header[148..156].split(|byte| *byte == 0 || *byte == b' ').find(|part| !part.is_empty());
    let stored = field.and_then(|digits| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    // For the checksum, its own field counts as eight spaces.
    stored == Some(sum(&header[..148]) + 8 * u32::from(b' ') + sum(&header[156..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(head: &[u8]) -> Option<String> {
        reject_known_format(Path::new("it"), head, None).err().map(|error| error.to_string())
    }

    #[test]
    fn every_known_format_is_named() {
        for (table, behind) in [(BINARY, &b"and so on"[..]), (PRINTABLE, b"\0\x01\xff")] {
            let rows = table.iter().flat_map(|(at, patterns, format, advice)| {
                patterns.iter().map(move |bytes| (at, bytes, format, advice))
            });
            for (at, bytes, format, advice) in rows {
                let head = [&vec![b'a'; *at], *bytes, behind].concat();
                let message = rejection(&head).unwrap_or_default();
                let kind = |name: &str| name.split(' ').take(2).collect::<Vec<_>>().join(" ");
                assert!(
                    message.starts_with(&format!("it: this is {}", kind(format))),
                    "{bytes:?}: {message}"
                );
                assert!(message.ends_with(advice), "{bytes:?}: {message}");
            }
        }
        for (begins, format, advice) in BEGINNINGS.iter().chain(FIRST_LINES) {
            for begin in *begins {
                let message = rejection(format!("\u{feff}{begin}\r\nand more\n").as_bytes());
                assert_eq!(message, Some(format!("it: this is {format}: {advice}")), "{begin}");
            }
        }
    }

    #[test]
    fn printable_signatures_alone_are_text() {
        for bytes in BINARY.iter().flat_map(|(_, patterns, ..)| *patterns) {
            let printable = std::str::from_utf8(bytes).is_ok() && !bytes.iter().any(|&byte| is_control(byte));
            assert!(!printable, "{bytes:?} could be text");
        }
        for (at, patterns, ..) in PRINTABLE {
            for bytes in *patterns {
                let text = [&vec![b'a'; *at], *bytes, b" is how such files begin.\n"].concat();
                assert_eq!(rejection(&text), None, "{bytes:?}");
            }
        }
        for line in FIRST_LINES.iter().flat_map(|(lines, ..)| *lines) {
            assert_eq!(rejection(format!("{line} is how such files begin.\n").as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn markup_is_named_by_its_first_element() {
        for (head, format) in [
            ("\n<!DOCTYPE HTML PUBLIC \"-//W3C//DTD\">", "a page of HTML"),
            ("<!-- saved -->\n<Html lang=en>", "a page of HTML"),
            ("<?xml version=\"1.0\"?>\n<!DOCTYPE html>\n<html>", "a page of HTML"),
            ("<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code></Error>", "an XML document"),
        ] {
            assert!(rejection(head.as_bytes()).unwrap_or_default().contains(format), "{head}");
        }
    }

    #[test]
    fn documents_of_tex_are_named_after_comments() {
        for (head, format) in [
            ("%% A paper\n\\documentclass{article}\n", "LaTeX"),
            ("\\section{The mill}\nIt burnt.\n", "LaTeX"),
            ("% Encoding: UTF-8\n\n@InProceedings{mill,\n", "BibTeX"),
            ("@string{mill = \"Mill\"}\n", "BibTeX"),
        ] {
            assert!(rejection(head.as_bytes()).unwrap_or_default().contains(format), "{head}");
        }
        assert_eq!(rejection(b"@ann {the} mill\n% of people\n"), None);
    }

    #[test]
    fn files_of_tokens_are_named() {
        for head in ["[PAD]\n[unused0]\n", "[PAD]\n[UNK]\nthe\n", "<unk>\t0\n<s>\t0\n</s>\t0\n▁the\t-3.1\n"]
        {
            assert!(rejection(head.as_bytes()).unwrap_or_default().contains("a vocabulary"), "{head}");
        }
        let json = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [";
        assert!(rejection(json.as_bytes()).unwrap().contains("tokenizer.json"));
        let pieces = b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02\n\x0c\n\x03<s>";
        assert!(rejection(pieces).unwrap().contains("SentencePiece"));
    }

    #[test]
    fn text_is_not_rejected() {
        let custard = format!("{}custard, mustard and ustar \n", "x".repeat(251));
        for text in [
            "",
            "P",
            "PK",
            &custard,
            "The <mediawiki> tag",
            "# A title\n\n<p align=\"center\">Some Markdown</p>\n",
            "<p align=\"center\">Some Markdown</p>\n\n# A title\n",
            "<headline> is no tag of HTML",
            "[1] A reference\n[2] Another\n",
            "version 1 of the text\n",
            "<doc> is a tag\n",
            "BZ",
            "{\"text\": 1}",
            "\u{feff}a",
            "[MASK] is a token of BERT\n[SEP] is another\n",
        ] {
            assert_eq!(rejection(text.as_bytes()), None, "{text}");
        }
    }
}
