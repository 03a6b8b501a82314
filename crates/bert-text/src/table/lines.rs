//! Splits untrusted text into lines.
//!
//! A line ends at LF only; a byte-order mark and the CR of a CRLF are dropped. Invalid UTF-8 and overlong lines are
//! errors with a location. Memory is bounded for every file.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use crate::bytes::utf16;
use crate::error::{Error, Result};

/// Maximum length in bytes of a line of a file of examples. The longest published row has about 10 KB.
pub(super) const MAX_LINE_BYTES: usize = 1 << 20;

/// Reader of the lines of a text of any length.
pub struct LineReader<R> {
    text: R,
    path: PathBuf,
    line: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> LineReader<R> {
    /// Returns a reader from the beginning of a text; errors name `path`.
    pub fn new(text: R, path: &Path) -> Self {
        Self { text, path: path.to_owned(), line: 0, bytes: Vec::new() }
    }

    /// Returns the reader with line numbers that continue after the line number `line`.
    #[must_use]
    pub(super) fn after_lines(self, line: u64) -> Self {
        Self { line, ..self }
    }

    /// Returns the next line and its number, from 1. An LF at the end does not begin another line.
    ///
    /// # Errors
    /// Fails when the text cannot be read, when it is in UTF-16, or when a line is too long or not UTF-8; errors in a
    /// line name the line.
    pub fn next_line(&mut self) -> Result<Option<(u64, &str)>> {
        self.line += 1;
        self.bytes.clear();
        let mut text = self.text.by_ref().take(MAX_LINE_BYTES as u64 + 1);
        text.read_until(b'\n', &mut self.bytes).map_err(Error::io("read", &self.path))?;
        if self.bytes.is_empty() {
            return Ok(None);
        }
        if self.bytes.pop_if(|last| *last == b'\n').is_some() {
            self.bytes.pop_if(|last| *last == b'\r');
        }
        let wrong = |problem: Error| problem.at_line(&self.path, self.line);
        if self.bytes.len() > MAX_LINE_BYTES {
            return Err(wrong(Error::data(format!(
                "line longer than {MAX_LINE_BYTES} bytes; is this the right file?"
            ))));
        }
        if let Some(encoding) = utf16::name(&self.bytes).filter(|_| self.line == 1) {
            return Err(wrong(Error::data(format!(
                "this is {encoding}, not UTF-8; convert the file: iconv -f {encoding} -t UTF-8 OLD > NEW"
            ))));
        }
        let text = str::from_utf8(&self.bytes).map_err(|error| {
            wrong(Error::data(format!(
                "invalid UTF-8 at byte {} of the line; convert the file: iconv -f LATIN1 -t UTF-8 OLD > NEW",
                error.valid_up_to()
            )))
        })?;
        let mark = if self.line == 1 { "\u{feff}" } else { "" };
        Ok(Some((self.line, text.strip_prefix(mark).unwrap_or(text))))
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn lines(text: impl BufRead) -> Result<Vec<String>> {
        let mut reader = LineReader::new(text, Path::new("x.tsv"));
        let mut lines = Vec::new();
        while let Some((line, text)) = reader.next_line()? {
            lines.push(text.to_owned());
            assert_eq!(line, lines.len() as u64);
        }
        Ok(lines)
    }

    fn texts(bytes: &[u8]) -> Vec<String> {
        lines(bytes).unwrap()
    }

    #[test]
    fn only_lf_ends_a_line() {
        assert!(texts(b"").is_empty());
        assert_eq!(texts(b"a\nb\n"), ["a", "b"]);
        assert_eq!(texts(b"a\nb"), ["a", "b"]);
        assert_eq!(texts(b"a\n\nb\n"), ["a", "", "b"]);
        // Characters that split lines in other languages.
        let text = "a\rb\u{b}c\u{c}d\u{1c}e\u{85}f\u{2028}g\0h";
        assert_eq!(texts(text.as_bytes()), [text]);
    }

    #[test]
    fn crlf_and_bom_are_dropped() {
        assert_eq!(texts(b"a\r\nb\r\n"), ["a", "b"]);
        assert_eq!(texts(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"), ["a", "\u{feff}b"]);
        assert_eq!(texts(b"a \t\r\n"), ["a \t"]);
    }

    #[test]
    fn invalid_utf8_and_long_lines_name_the_line() {
        let error = lines(&b"good\nab\xff\n"[..]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "x.tsv:2: invalid UTF-8 at byte 2 of the line; convert the file: iconv -f LATIN1 -t UTF-8 OLD > NEW"
        );
        assert_eq!(error.exit_code(), 3);
        let error = lines(&b"\xff\xfet\0e\0\n\0"[..]).unwrap_err();
        let advice =
            "x.tsv:1: this is UTF-16, not UTF-8; convert the file: iconv -f UTF-16 -t UTF-8 OLD > NEW";
        assert_eq!(error.to_string(), advice);
        let mut long = b"a\n".to_vec();
        long.resize(MAX_LINE_BYTES + 2, b'x');
        assert_eq!(texts(&long).len(), 2);
        long.push(b'x');
        let error = lines(&long[..]).unwrap_err();
        assert!(error.to_string().starts_with("x.tsv:2: line longer than"));
        // An endless source fails quickly.
        assert!(lines(BufReader::new(std::io::repeat(0))).is_err());
    }
}
