//! Follows the quotes of separated values, to find quoted fields that are not closed.
//!
//! The crate `csv` reads a field with an open quote up to the next quote or the end of the file, which joins rows. A
//! field of several lines must therefore be closed by a quote before a separator or the end of a line.

/// Where the next byte is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Place {
    #[default]
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote in a quoted field: its end, or the first of two quotes.
    AfterQuote,
    /// After a backslash in a quoted field, if it escapes the next character.
    Escaped,
}

/// The state of the quotes at the end of the bytes so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quotes {
    separator: u8,
    place: Place,
    line: u64,
    /// The line in which the open quoted field begins.
    begun: u64,
    bad_line: Option<u64>,
    /// Number of quoted fields of several lines.
    long_fields: u64,
    /// Whether a backslash escapes a quote.
    escapes: bool,
    /// Number of quotes in quoted fields that only a backslash explains.
    escaped: u64,
    before: u8,
}

impl Quotes {
    /// Returns the state at the beginning of a file; its first line has this number.
    pub(crate) fn new(separator: u8, line: u64) -> Self {
        Self {
            separator,
            place: Place::FieldStart,
            line,
            begun: line,
            bad_line: None,
            long_fields: 0,
            escapes: false,
            escaped: 0,
            before: 0,
        }
    }

    /// Returns the state for fields whose quotes are escaped by backslashes, if `escapes`.
    pub(crate) fn with_escapes(self, escapes: bool) -> Self {
        Self { escapes, ..self }
    }

    /// Follows the next bytes.
    pub(crate) fn follow(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        let ends = byte == self.separator || matches!(byte, b'\n' | b'\r');
        self.place = match self.place {
            Place::FieldStart if byte == b'"' => {
                self.begun = self.line;
                Place::Quoted
            }
            Place::FieldStart | Place::Unquoted if ends => Place::FieldStart,
            Place::FieldStart | Place::Unquoted => Place::Unquoted,
            Place::Quoted if byte == b'"' => Place::AfterQuote,
            Place::Quoted if byte == b'\\' && self.escapes => Place::Escaped,
            Place::Escaped => Place::Quoted,
            Place::AfterQuote if byte == b'"' => Place::Quoted,
            Place::AfterQuote if ends => {
                self.long_fields += u64::from(self.line > self.begun);
                Place::FieldStart
            }
            Place::AfterQuote => {
                self.escaped += u64::from(self.before == b'\\');
                if self.line > self.begun {
                    self.bad_line.get_or_insert(self.begun);
                }
                Place::Unquoted
            }
            Place::Quoted => Place::Quoted,
        };
        if byte != b'"' || self.place != Place::AfterQuote {
            self.before = byte;
        }
        self.line += u64::from(byte == b'\n');
    }

    /// Returns the line of the first quoted field of several lines that is not closed before a separator or a line end;
    /// `at_end` is whether the file ends here.
    pub(crate) fn unclosed(&self, at_end: bool) -> Option<u64> {
        self.bad_line.or((at_end && self.place == Place::Quoted).then_some(self.begun))
    }

    /// Returns whether quotes inside of quoted fields follow backslashes, as MySQL and Spark write them.
    pub(crate) fn are_escaped(&self) -> bool {
        self.escaped > 0
    }

    /// Returns the number of quoted fields of several lines so far.
    pub(crate) fn long_fields(&self) -> u64 {
        self.long_fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unclosed(text: &str) -> Option<u64> {
        let mut quotes = Quotes::new(b',', 1);
        text.as_bytes().chunks(3).for_each(|bytes| quotes.follow(bytes));
        quotes.unclosed(true)
    }

    #[test]
    fn backslashes_escape_quotes_where_only_they_explain_them() {
        let are_escaped = |text: &str| {
            let mut quotes = Quotes::new(b',', 1);
            quotes.follow(text.as_bytes());
            quotes.are_escaped()
        };
        assert!(are_escaped("1,\"said \\\"no\\\" to it\"\n"));
        for text in
            ["1,\"a folder\\\",b\n", "1,\"a \"\"b\"\" c\"\n", "1,said \\\"no\\\" to it\n", "1,\"a\\\"\"b\"\n"]
        {
            assert!(!are_escaped(text), "{text}");
        }
    }

    #[test]
    fn quotes_inside_of_fields_are_text() {
        for text in [
            "id,text\n1,5\" wide\n2,\"a\nb\"\n",
            "1,\"a \"\"b\"\"\nc\",d\n",
            "1,\"said \"no\" to it\n2,b\n",
            "1,\"a\r\nb\"\r\n",
        ] {
            assert_eq!(unclosed(text), None, "{text}");
        }
        for (text, line) in [("1,5\" wide\n2,\"open\n3,c\n", 2), ("1,a\n2,\"open\n3,\"b\"\n", 2), ("\"a", 1)]
        {
            assert_eq!(unclosed(text), Some(line), "{text}");
        }
    }
}
