//! Converts JSON of any layout to JSON Lines: an array of objects, or a sequence of objects, each possibly over many
//! lines.
//!
//! `json.dump`, pandas, DuckDB and `jq` write such files. Only strings and brackets are parsed, so memory is bounded;
//! every value becomes a line, so the number of a line is the number of its value.

use std::io::{self, BufRead, Read};

/// Reader that converts JSON to JSON Lines.
pub(crate) struct JsonValues<R> {
    json: R,
    lines: Vec<u8>,
    given: usize,
    /// Number of open brackets within a value.
    depth: u64,
    state: ParserState,
    /// Whether the array around the values is open.
    in_array: bool,
    ended: bool,
}

/// Parser state at the next byte.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ParserState {
    /// Between values.
    Between,
    /// Within an object or an array.
    Inside,
    /// Within a string.
    String,
    /// After a backslash in a string.
    Escaped,
    /// Within a number or a word outside of objects.
    Word,
}

impl<R: BufRead> JsonValues<R> {
    pub(crate) fn new(json: R) -> Self {
        let lines = Vec::new();
        let state = ParserState::Between;
        Self { json, lines, given: 0, depth: 0, state, in_array: false, ended: false }
    }

    fn step(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (ParserState::Between, b'[') if !self.in_array => {
                self.in_array = true;
                return;
            }
            (ParserState::Between, b']') => {
                self.in_array = false;
                return;
            }
            // White space, the bytes of a byte-order mark, and the record separator of RFC 7464.
            (ParserState::Between, b',' | b' ' | b'\t' | b'\r' | b'\n' | 0x1e | 0xef | 0xbb | 0xbf) => return,
            (ParserState::String, b'\\') => ParserState::Escaped,
            (ParserState::Escaped, _) => ParserState::String,
            (ParserState::String, b'"') => ParserState::Inside,
            (ParserState::String, _) => ParserState::String,
            (_, b'"') => ParserState::String,
            (_, b'{' | b'[') => {
                self.depth += 1;
                ParserState::Inside
            }
            (ParserState::Word, b']') if self.depth == 0 => {
                self.end_value();
                self.in_array = false;
                return;
            }
            (_, b'}' | b']') => {
                self.depth = self.depth.saturating_sub(1);
                ParserState::Inside
            }
            (ParserState::Word, b',' | b' ' | b'\t' | b'\r' | b'\n') => return self.end_value(),
            (ParserState::Inside, _) => ParserState::Inside,
            (ParserState::Between | ParserState::Word, _) => ParserState::Word,
        };
        let is_end_of_line = matches!(byte, b'\n' | b'\r') && self.state != ParserState::String;
        self.lines.push(if is_end_of_line { b' ' } else { byte });
        if self.depth == 0 && self.state == ParserState::Inside {
            self.end_value();
        }
    }

    fn end_value(&mut self) {
        self.lines.push(b'\n');
        self.state = ParserState::Between;
    }
}

impl<R: BufRead> BufRead for JsonValues<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.given == self.lines.len() && !self.ended {
            self.lines.clear();
            self.given = 0;
            let json = self.json.fill_buf()?.to_vec();
            self.json.consume(json.len());
            json.iter().for_each(|&byte| self.step(byte));
            self.ended = json.is_empty();
            if self.ended && self.in_array && self.state == ParserState::Between {
                // The file is truncated: this row is not valid JSON and triggers the error.
                self.lines.extend_from_slice(b"{\n");
            }
        }
        Ok(&self.lines[self.given..])
    }

    fn consume(&mut self, length: usize) {
        self.given += length;
    }
}

impl<R: BufRead> Read for JsonValues<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(into)?;
        self.consume(length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(json: &str) -> String {
        // Buffers of any size end at arbitrary positions.
        let read = |size| {
            let mut lines = String::new();
            let json = io::BufReader::with_capacity(size, json.as_bytes());
            JsonValues::new(json).read_to_string(&mut lines).unwrap();
            lines
        };
        let whole = read(1000);
        assert!((1..9).all(|size| read(size) == whole), "{json}");
        whole
    }

    #[test]
    fn every_value_becomes_a_line() {
        let two = "{\"a\": \"x, ]}\\\"\"}\n{\"b\": [{}]}\n";
        for json in [
            "[{\"a\": \"x, ]}\\\"\"}, {\"b\": [{}]}]",
            "\u{feff} [\n\t{\"a\": \"x, ]}\\\"\"}\n,{\"b\": [{}]}\n]\n",
            "{\"a\": \"x, ]}\\\"\"}{\"b\": [{}]}",
            "[{\"a\": \"x, ]}\\\"\"}]\n[{\"b\": [{}]}]",
            "\u{1e}{\"a\": \"x, ]}\\\"\"}\r\u{1e}{\"b\": [{}]}\r",
        ] {
            assert_eq!(lines(json), two, "{json}");
        }
        assert_eq!(lines("{\n \"a\":\r\n 1\n}\n\n{\n}"), "{  \"a\":   1 }\n{ }\n");
        assert_eq!(lines("[\"a, b\", 3, null,[1]]"), "\"a, b\"\n3\nnull\n[1]\n");
        assert_eq!(lines("[]"), "");
    }

    #[test]
    fn json_that_is_cut_off_ends_in_a_bad_row() {
        assert_eq!(lines("[{}, {\"a\": 1"), "{}\n{\"a\": 1");
        assert_eq!(lines("[{},"), "{}\n{\n");
    }
}
