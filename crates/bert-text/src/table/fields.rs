//! Splits separated values into fields: the only parser of CSV and TSV.
//!
//! A quoted field may contain separators, line ends and doubled quotes (RFC 4180), or quotes after a backslash in a
//! table whose beginning has them, as MySQL and Spark write it. The fields of TSV are quoted only if its beginning
//! shows it; else a field loses its outer quotes if its inner quotes are doubled. The crate `csv` reads a field with an
//! open quote up to the next quote, which joins rows, and accepts quotes inside fields. This parser reports both.

/// The quoting of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Quoting {
    #[default]
    Absent,
    Doubled,
    /// A backslash escapes the next character of a quoted field.
    Escaped,
}

/// The position of the next byte in a field.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Place {
    #[default]
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote in a quoted field: its end, or the first of two quotes.
    AfterQuote,
    /// After a backslash that escapes.
    Escaped,
}

/// Parser of a table whose bytes arrive in pieces. It contains one row at a time.
#[derive(Default)]
pub(super) struct FieldParser {
    pub(super) separator: u8,
    quoting: Quoting,
    /// Whether a carriage return ends a row by itself, as on old Macs.
    returns_end_rows: bool,
    place: Place,
    /// Line of the next byte.
    pub(super) line: u64,
    /// Bytes of the fields of the row, one after the other, and the end of each field.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The line in which the row begins.
    pub(super) row_line: u64,
    /// Number of bytes of the row in the file so far.
    pub(super) row_size: usize,
    row_ended: bool,
    /// The line in which the last quoted field begins.
    quoted_line: u64,
    /// The line in which the first quoted field begins that spans several lines and continues after its closing quote.
    pub(super) open_quote: Option<u64>,
    /// The line of the first quote that is inside a field of one line and is not doubled.
    pub(super) stray_quote: Option<u64>,
    /// Number of quoted fields that span several lines.
    long_fields: u64,
    /// Number of quotes in quoted fields that only a backslash explains.
    escaped: u64,
    before: u8,
}

/// Returns the numbers of lines and bytes of the comments before a table: lines that begin with `#` and have no
/// separator. A tab-separated file of one text per line has none.
fn leading_comments(head: &[u8], separator: u8) -> (u64, usize) {
    let mut lines = 0;
    let mut bytes = 0;
    for line in head.split_inclusive(|&byte| byte == b'\n') {
        let has_separator = line.contains(&separator);
        if has_separator || !line.starts_with(b"#") || !line.ends_with(b"\n") {
            return if has_separator || separator != b'\t' { (lines, bytes) } else { (0, 0) };
        }
        lines += 1;
        bytes += line.len();
    }
    (lines, bytes)
}

impl FieldParser {
    /// Detects the comments, line ends and quoting of a table from its first bytes. Returns its parser, and the number
    /// of bytes of a byte-order mark and of comments.
    pub(super) fn detect(head: &[u8], separator: u8) -> (Self, usize) {
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let (comments, skipped) = leading_comments(text, separator);
        let text = &text[skipped..];
        let line = 1 + comments;
        let returns_end_rows = !head.contains(&b'\n');
        let parser = |quoting| Self { separator, quoting, line, returns_end_rows, ..Self::default() };
        let mut trial = parser(Quoting::Doubled);
        let mut rest = text;
        while let Some(length) = trial.take(rest) {
            rest = &rest[length..];
        }
        (parser(trial.table_quoting(text)), head.len() - text.len())
    }

    /// Returns the quoting of the table whose head this parser has read. In CSV, fields may always be quoted. In TSV,
    /// fields may be quoted if the head begins with a quote or has quoted fields of several lines, as pandas and
    /// Python's `csv` write them, and if every quote in the head is explained.
    fn table_quoting(&self, head: &[u8]) -> Quoting {
        let is_sound = self.open_quote.is_none() && (self.stray_quote.is_none() || self.escaped > 0);
        let shows_quotes = head.starts_with(b"\"") || self.long_fields > 0;
        if self.separator == b'\t' && !(shows_quotes && is_sound) {
            Quoting::Absent
        } else if self.escaped > 0 {
            Quoting::Escaped
        } else {
            Quoting::Doubled
        }
    }

    /// Reads bytes up to the end of a row. Returns their number, or `None` if the row does not end in these bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|&byte| self.step(byte)).map(|at| at + 1)
    }

    /// Ends the last row, at the end of the file. Returns whether there is one.
    pub(super) fn finish(&mut self) -> bool {
        if matches!(self.place, Place::Quoted | Place::Escaped) {
            self.open_quote.get_or_insert(self.quoted_line);
        }
        self.row_size > 0 && !self.row_ended && self.end_row()
    }

    /// Reads a byte; returns whether it ends a row that is not blank.
    fn step(&mut self, byte: u8) -> bool {
        if self.row_ended || self.row_size == 0 {
            self.bytes.clear();
            self.ends.clear();
            self.row_size = 0;
            self.row_ended = false;
            self.row_line = self.line;
        }
        self.row_size += 1;
        let ends_row = byte == b'\n' || byte == b'\r' && self.returns_end_rows;
        let is_quote = byte == b'"' && self.quoting != Quoting::Absent;
        let mut is_row = false;
        self.place = match self.place {
            Place::FieldStart if is_quote => {
                self.quoted_line = self.line;
                Place::Quoted
            }
            Place::Quoted if is_quote => Place::AfterQuote,
            Place::Quoted if byte == b'\\' && self.quoting == Quoting::Escaped => Place::Escaped,
            Place::AfterQuote if is_quote => self.text(byte, Place::Quoted),
            Place::Quoted | Place::Escaped => self.text(byte, Place::Quoted),
            _ if ends_row => {
                is_row = self.end_row();
                Place::FieldStart
            }
            _ if byte == self.separator => {
                self.end_field();
                Place::FieldStart
            }
            // A carriage return may precede the line feed that ends the row.
            Place::AfterQuote if byte == b'\r' => Place::AfterQuote,
            Place::AfterQuote => {
                self.escaped += u64::from(self.before == b'\\');
                let wrong =
                    if self.line > self.quoted_line { &mut self.open_quote } else { &mut self.stray_quote };
                wrong.get_or_insert(self.quoted_line);
                self.text(byte, Place::Unquoted)
            }
            Place::FieldStart | Place::Unquoted => {
                if is_quote {
                    self.stray_quote.get_or_insert(self.line);
                }
                self.text(byte, Place::Unquoted)
            }
        };
        // `before` is the byte before a quote that may end a field.
        if self.place != Place::AfterQuote {
            self.before = byte;
        }
        self.line += u64::from(ends_row);
        is_row
    }

    /// Adds a byte to the field; returns the place after it.
    fn text(&mut self, byte: u8, after: Place) -> Place {
        self.bytes.push(byte);
        after
    }

    fn end_field(&mut self) {
        let is_long = self.place == Place::AfterQuote && self.line > self.quoted_line;
        self.long_fields += u64::from(is_long);
        let start = self.ends.last().copied().unwrap_or_default();
        if self.quoting == Quoting::Absent
            && let Some(text) = unquoted(&self.bytes[start..])
        {
            self.bytes.truncate(start);
            self.bytes.extend_from_slice(text.as_bytes());
        }
        self.ends.push(self.bytes.len());
    }

    /// Ends the row; returns whether it is not blank.
    fn end_row(&mut self) -> bool {
        if self.place == Place::Unquoted {
            // The line ends with a carriage return and a line feed.
            self.bytes.pop_if(|last| *last == b'\r');
        }
        self.end_field();
        self.place = Place::FieldStart;
        self.row_ended = true;
        self.ends.len() > 1 || !self.bytes.is_empty() || self.row_size > 2
    }

    /// Returns the number of fields of the row.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns a field of the row.
    pub(super) fn field(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    /// Iterates over the fields of the row as text.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> {
        (0..self.len()).map(|at| String::from_utf8_lossy(self.field(at)).into_owned())
    }

    /// Returns whether the last byte is inside a quoted field.
    pub(super) fn is_in_quotes(&self) -> bool {
        self.place == Place::Quoted
    }
}

/// Returns a field without its outer quotes if its inner quotes are doubled, as pandas and DuckDB write them.
fn unquoted(field: &[u8]) -> Option<String> {
    let inside = field.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let inside = String::from_utf8_lossy(inside);
    let single = inside.replace("\"\"", "\"");
    (inside.len() > single.len() && !inside.replace("\"\"", "").contains('"')).then_some(single)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a table in pieces of any size.
    fn parse(text: &str, separator: u8) -> (Vec<(u64, Vec<String>)>, FieldParser) {
        let read = |size| {
            let (mut parser, skipped) = FieldParser::detect(text.as_bytes(), separator);
            let mut rows = Vec::new();
            for mut bytes in text.as_bytes()[skipped..].chunks(size) {
                while let Some(length) = parser.take(bytes) {
                    rows.push((parser.row_line, parser.texts().collect::<Vec<String>>()));
                    bytes = &bytes[length..];
                }
            }
            if parser.finish() {
                rows.push((parser.row_line, parser.texts().collect()));
            }
            (rows, parser)
        };
        let whole = read(1 << 20);
        assert!((1..4).all(|size| read(size).0 == whole.0), "{text:?}");
        whole
    }

    fn csv(text: &str) -> Vec<(u64, Vec<String>)> {
        parse(text, b',').0
    }

    fn row(line: u64, fields: &[&str]) -> (u64, Vec<String>) {
        (line, fields.iter().map(|field| field.to_string()).collect())
    }

    #[test]
    fn quoted_fields_follow_rfc_4180() {
        assert_eq!(csv("a,b\n c ,\n,\n"), [row(1, &["a", "b"]), row(2, &[" c ", ""]), row(3, &["", ""])]);
        assert_eq!(
            csv("\u{feff}\"a,b\",\"say \"\"no\"\"\"\r\n\"\",x\r\n"),
            [row(1, &["a,b", "say \"no\""]), row(2, &["", "x"])]
        );
        assert_eq!(
            csv("\"two\n\nlines\",1\nb,2\n\nc,3"),
            [row(1, &["two\n\nlines", "1"]), row(4, &["b", "2"]), row(6, &["c", "3"])]
        );
        assert_eq!(csv("# by hand\na,b\n\r\n\"\"\n"), [row(2, &["a", "b"]), row(4, &[""])]);
    }

    #[test]
    fn line_ends_of_old_macs_end_rows() {
        assert_eq!(csv("a,b\rc,d\r"), [row(1, &["a", "b"]), row(2, &["c", "d"])]);
        assert_eq!(csv("a,b\nc\rd,e\n"), [row(1, &["a", "b"]), row(2, &["c\rd", "e"])]);
    }

    #[test]
    fn backslashes_escape_quotes_where_only_they_explain_them() {
        assert_eq!(csv("1,\"said \\\"no\\\" to it\"\n"), [row(1, &["1", "said \"no\" to it"])]);
        assert_eq!(csv("1,\"a folder\\\",b\n"), [row(1, &["1", "a folder\\", "b"])]);
        assert_eq!(csv("1,\"a\\\"\"b\"\n"), [row(1, &["1", "a\\\"b"])]);
        assert_eq!(csv("1,said \\\"no\\\" to it\n"), [row(1, &["1", "said \\\"no\\\" to it"])]);
    }

    #[test]
    fn open_and_stray_quotes_are_reported() {
        let quotes = |text: &str| {
            let parser = parse(text, b',').1;
            (parser.open_quote, parser.stray_quote)
        };
        assert_eq!(quotes("a,5\" wide\nb,\"c\nd\"\n"), (None, Some(1)));
        assert_eq!(quotes("a,b\n\"c\" d,e\n"), (None, Some(2)));
        assert_eq!(quotes("a,b\nc,\"d\ne,\"f\"\n").0, Some(2));
        assert_eq!(quotes("a,b\nc,\"d\n"), (Some(2), None));
        assert_eq!(quotes("a,\"b \"\"c\"\"\"\r\n\"d\r\ne\",f\r\n"), (None, None));
    }

    #[test]
    fn tsv_fields_lose_only_doubled_quotes() {
        let text = |field: &str| parse(&format!("id\ttext\n1\t{field}\n"), b'\t').0[1].1[1].clone();
        assert_eq!(text("\"He said \"\"no\"\"\""), "He said \"no\"");
        for field in ["", "\"", "\"\"", "\"Hello\"", "5\" disk", "\"a\"\"b\" c\"", "\"No", "no\""] {
            assert_eq!(text(field), field);
        }
        assert_eq!(parse("text\n\"a\nb\"\nc\n", b'\t').0[1], row(2, &["a\nb"]));
        assert_eq!(parse("\"No,\" he said.\n\"Yes.\"\n", b'\t').0[1], row(2, &["\"Yes.\""]));
    }
}
