//! Distinguishes JSON, CSV and TSV from plain text, first by content and then by file name.

pub(crate) mod known_format;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use serde::de::IgnoredAny;

use crate::Format;
use crate::bytes::utf16;
use crate::forms::recognize::{is_vertical, recognize};
use crate::json::repaired;
use crate::reading::Reading;

/// Layout of the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Lines of text.
    Lines,
    /// One JSON object per line.
    JsonLines,
    /// JSON objects in an array, or over several lines.
    JsonValues,
    /// Values separated by this byte.
    Separated(u8),
    /// Lines that are converted from this format.
    Form(Format),
    /// Articles of a wiki, in a dump or in the output of WikiExtractor.
    Articles(Format),
    /// Parquet, which is opened separately.
    Parquet,
}

/// Recognizes a dump or the output of WikiExtractor by the first bytes of its text.
pub(super) fn articles(head: &[u8]) -> Option<Format> {
    let text: Cow<'_, str> = match utf16::detect(head) {
        Some(encoding) => encoding.decode_without_bom_handling(head).0,
        None => String::from_utf8_lossy(head),
    };
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    if rest.starts_with("<doc id=\"") || rest.starts_with("<doc id='") {
        // Vertical text of corpus tools begins with the same tag.
        let lines: Vec<&str> = rest.lines().filter(|line| !line.trim().is_empty()).collect();
        return (!is_vertical(&lines)).then_some(Format::DocTags);
    }
    // Declarations and comments precede the first element.
    loop {
        let end = match rest {
            _ if rest.starts_with("<?xml") => "?>",
            _ if rest.starts_with("<!--") => "-->",
            _ => break,
        };
        rest = rest[rest.find(end)? + end.len()..].trim_start();
    }
    let after = rest.strip_prefix("<mediawiki")?;
    after.starts_with([' ', '>', '\n', '\r', '\t']).then_some(Format::WikiDump)
}

/// The beginning of the text of a file.
pub(super) struct Head<'a> {
    /// The first lines, without a byte-order mark; the last one may be cut.
    text: &'a str,
    /// Whether this is the whole file.
    is_whole: bool,
}

impl<'a> Head<'a> {
    pub(super) fn new(text: &'a str, is_whole: bool) -> Self {
        Self { text: text.trim_start_matches('\u{feff}'), is_whole }
    }

    /// Iterates over the complete lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'a str> {
        let end = if self.is_whole { self.text.len() } else { self.text.rfind('\n').map_or(0, |at| at + 1) };
        self.text[..end].lines()
    }
}

/// File name endings of comma-separated and tab-separated tables.
const CSV_NAMES: [&str; 1] = [".csv"];
const TSV_NAMES: [&str; 2] = [".tsv", ".tab"];

/// Returns the name of a file in lower case, without its compression suffix.
fn unpacked_name(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let packed = [".gz", ".gzip", ".zst", ".zstd", ".bz2", ".bzip2", ".xz", ".lzma", ".lz"];
    packed.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name).to_owned()
}

/// Returns whether a file has the name of a CSV or TSV table, compressed or not.
pub(super) fn has_table_name(path: &Path) -> bool {
    let name = unpacked_name(path);
    CSV_NAMES.iter().chain(&TSV_NAMES).any(|end| name.ends_with(end))
}

/// Returns the layout of a file that is not Parquet or another known format.
pub(super) fn layout(path: &Path, head: &Head<'_>, reading: Reading<'_>) -> Layout {
    let name = unpacked_name(path);
    let named = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    let is_named_json = named(&[".jsonl", ".ndjson", ".json"]);
    if let Some(layout) = json(head, is_named_json) {
        return layout;
    }
    if is_named_json {
        return Layout::JsonLines;
    }
    let lines: Vec<&str> = head.lines().collect();
    let separated = if named(&CSV_NAMES) {
        Some(separator_of_csv(head))
    } else if named(&TSV_NAMES) {
        Some(b'\t')
    } else {
        separator(head)
    };
    // Annotated text and verses have tabs too, so tables come after them. Lines that break inside sentences come last.
    match (recognize(&lines, reading), separated) {
        (Some(form @ (Format::Conllu | Format::Conll | Format::Vertical | Format::Verses)), _) => {
            Layout::Form(form)
        }
        (_, Some(separator)) => Layout::Separated(separator),
        (Some(form), None) => Layout::Form(form),
        (None, None) => Layout::Lines,
    }
}

/// Returns the layout of JSON, or `None` if the text is not JSON. Plain text may begin with a bracket or a JSON sample.
fn json(head: &Head<'_>, is_named: bool) -> Option<Layout> {
    let text = head.text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{1e}');
    let is_array = text.starts_with('[');
    if !is_array && !text.starts_with('{') {
        return None;
    }
    if is_array && !is_named && !text[1..].trim_start().starts_with(['{', '[', '"']) {
        return None;
    }
    let is_object = |line: &str| {
        let line = repaired(line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}'));
        line.json.starts_with('{') && serde_json::from_str::<IgnoredAny>(&line.json).is_ok()
    };
    let mut lines = head.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    if lines.peek().is_some_and(|line| is_object(line)) {
        let mut good = 0;
        let mut bad = 0;
        lines.for_each(|line| *if is_object(line) { &mut good } else { &mut bad } += 1);
        return (is_named || good >= bad).then_some(Layout::JsonLines);
    }
    let first_is_whole = head.is_whole || text.contains('\n');
    // If even the first line is cut, JSON Lines cannot be told from one JSON value, so JSON Lines are assumed.
    match first_value(text, is_named) {
        Value::Bad => None,
        Value::Cut if !is_array && !first_is_whole => Some(Layout::JsonLines),
        Value::Whole | Value::Cut => Some(Layout::JsonValues),
    }
}

/// The JSON value at the start of a text.
#[derive(Clone, Copy, PartialEq)]
enum Value {
    Whole,
    Cut,
    Bad,
}

/// Classifies the first value; it is bad if the text after it is not JSON, unless `first_decides`.
fn first_value(text: &str, first_decides: bool) -> Value {
    let text = repaired(text);
    let mut first = None;
    for value in serde_json::Deserializer::from_str(&text.json).into_iter::<IgnoredAny>() {
        let kind = match value {
            Ok(_) => Value::Whole,
            Err(error) if error.is_eof() => Value::Cut,
            Err(_) => Value::Bad,
        };
        let known = *first.get_or_insert(kind);
        if first_decides || kind == Value::Bad {
            return if first_decides { known } else { kind };
        }
    }
    first.unwrap_or(Value::Bad)
}

/// Returns whether JSON has one object per line, as far as its head shows: it is not an array of objects, and its first
/// line does not end inside a value.
pub(super) fn is_json_lines(head: &Head<'_>) -> bool {
    let text = head.text.trim_start();
    if let Some(array) = text.strip_prefix('[') {
        return !array.trim_start().starts_with('{');
    }
    let first = repaired(text.lines().next().unwrap_or_default());
    !matches!(serde_json::from_str::<IgnoredAny>(&first.json), Err(error) if error.is_eof())
}

/// Returns the separator of a table with the name of a CSV file: the candidate that is most frequent in the first line.
/// Candidates that give all rows the same number of values take precedence over others.
pub(super) fn separator_of_csv(head: &Head<'_>) -> u8 {
    const CANDIDATES: &[u8] = b",;\t|";
    let divides = |byte: &u8| head.text.lines().next().unwrap_or_default().as_bytes().contains(byte);
    let agreeing: Vec<u8> =
        CANDIDATES.iter().copied().filter(|byte| divides(byte) && rows_agree(head, *byte)).collect();
    most_frequent(head, if agreeing.is_empty() { CANDIDATES } else { &agreeing })
}

/// Returns the candidate byte that is most frequent in the first line; the first candidate if none occurs.
fn most_frequent(head: &Head<'_>, bytes: &[u8]) -> u8 {
    let header = head.text.lines().next().unwrap_or_default();
    let count = |byte: u8| header.bytes().filter(|&b| b == byte).count();
    let found = bytes.iter().rev().max_by_key(|&&byte| count(byte));
    found.copied().filter(|&byte| count(byte) > 0).unwrap_or(bytes[0])
}

/// Returns the separator of a file that is clearly a table even without the name of one. Either nine of ten lines have
/// as many tabs as the first, apart from blank lines and comments at the beginning; or the first line contains column
/// names, and nine of ten rows have the same number of values.
fn separator(head: &Head<'_>) -> Option<u8> {
    let lines: Vec<&str> = head.lines().collect();
    let rows = lines.iter().skip_while(|line| line.starts_with('#') && !line.contains('\t'));
    let rows: Vec<&str> = rows.copied().filter(|line| !line.trim().is_empty()).collect();
    let [first, rest @ ..] = rows.as_slice() else { return None };
    if rest.len() < 2 {
        return None;
    }
    let tabs = |line: &str| line.trim().bytes().filter(|&byte| byte == b'\t').count();
    let same = rest.iter().filter(|line| tabs(line) == tabs(first)).count();
    // A row with a stray tab is an error of the table, not text.
    if tabs(first) > 0 && 10 * same >= 9 * rest.len() {
        return Some(b'\t');
    }
    b",;|".iter().copied().find(|&separator| is_header(first, separator) && rows_agree(head, separator))
}

/// Returns whether a line consists of column names.
fn is_header(line: &str, separator: u8) -> bool {
    let fields: Vec<&str> =
        line.trim_end().split(char::from(separator)).map(|name| name.trim_matches('"')).collect();
    are_column_names(&fields)
}

/// Returns whether the fields of a first row are column names: distinct words without white space around them. The first
/// one may be missing, as for the index that pandas writes.
pub(super) fn are_column_names<S: AsRef<str>>(fields: &[S]) -> bool {
    let is_name = |name: &str| {
        let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
        name.len() <= 64
            && name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && name.chars().all(inside)
    };
    let mut different: HashSet<&str> = fields.iter().map(S::as_ref).collect();
    let is_index = |name: &str| name.is_empty() || name == "Unnamed: 0";
    let has_index =
        fields.first().is_some_and(|name| is_index(name.as_ref()) && different.remove(name.as_ref()));
    fields.len() > 1
        && different.len() + usize::from(has_index) == fields.len()
        && different.into_iter().all(is_name)
}

/// Returns whether at least two rows follow the header, and nine of ten have as many values as the header. A different row
/// is an error of the table, not text.
fn rows_agree(head: &Head<'_>, separator: u8) -> bool {
    let mut reader = csv::ReaderBuilder::new().delimiter(separator).from_reader(head.text.as_bytes());
    let mut good: Vec<bool> = reader.byte_records().map(|row| row.is_ok()).collect();
    if !head.is_whole {
        // The last row may be cut.
        good.pop();
    }
    let agreeing = good.iter().filter(|&&good| good).count();
    agreeing >= 2 && 10 * agreeing >= 9 * good.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout_of(name: &str, text: &str) -> Layout {
        layout(Path::new(name), &Head::new(text, true), Reading::default())
    }

    fn cut(name: &str, text: &str) -> Layout {
        layout(Path::new(name), &Head::new(text, false), Reading::default())
    }

    #[test]
    fn json_is_known_by_what_it_holds() {
        let row = "{\"id\": NaN, \"text\": \"a b\"}";
        let rows = format!("\u{feff}{row}\n\n{row}\r\n");
        assert_eq!(layout_of("wiki_00", &rows), Layout::JsonLines);
        assert_eq!(layout_of("wiki_00", row), Layout::JsonLines);
        assert_eq!(cut("wiki_00", &format!("{row}\n{}", &row[..9])), Layout::JsonLines);
        assert_eq!(
            cut("wiki_00", &row[..18]),
            Layout::JsonLines,
            "a first line that is longer than the head"
        );
        assert_eq!(
            layout_of("wiki_00", &format!("{row}\nbroken\n{row}\n")),
            Layout::JsonLines,
            "one bad line"
        );
        for values in [
            format!("[{row}, {row}]"),
            format!("[\n  {row},\n  {row}\n]\n"),
            row.replace(", ", ",\n "),
            format!("{row}{row}"),
            format!("{row}\r{row}\r"),
            "[\"a\", \"b\"]".to_owned(),
        ] {
            assert_eq!(layout_of("data", &values), Layout::JsonValues, "{values}");
            assert_eq!(cut("data.json", &values[..values.len() - 1]), Layout::JsonValues, "{values}");
        }
        assert_eq!(layout_of("a.jsonl.zst", "no JSON"), Layout::JsonLines);
    }

    #[test]
    fn tables_are_known_by_name_or_beyond_doubt() {
        let semicolons = "id;text\n1;\"a; b\"\n2;c\n";
        assert_eq!(layout_of("a.csv", semicolons), Layout::Separated(b';'));
        assert_eq!(layout_of("a", semicolons), Layout::Separated(b';'));
        let odd = "25;2026-01-25;Es war alt; niemand kam.\n";
        let rows: String =
            (1..25).map(|row| format!("{row};2026-01-{row:02};Die Mühle brannte.\n")).collect();
        assert_eq!(layout_of("a.txt", &format!("id;datum;text\n{rows}{odd}")), Layout::Separated(b';'));
        let with_index = ",review,label\n0,\"Good, really\",1\n1,Bad,0\n";
        assert_eq!(layout_of("a.txt", with_index), Layout::Separated(b','));
        let without_header = "1;Ja, nein, ja.;a\n2;Der Fluss stieg.;b\n3;Das Wehr, das alte, hielt.;a\n";
        assert_eq!(layout_of("a.csv", without_header), Layout::Separated(b';'));
        assert_eq!(layout_of("A.CSV.gz", "text\none\n"), Layout::Separated(b','));
        assert_eq!(layout_of("a.tsv", "text\none\n"), Layout::Separated(b'\t'));
        assert_eq!(layout_of("a.txt", "id,text\n1,\"a,\n\nb\"\n2,c\n"), Layout::Separated(b','));
        assert_eq!(cut("a.txt", "id,text\n1,\"a,\nb\"\n2,c\n3,\"d\ne"), Layout::Separated(b','));
        assert_eq!(
            layout_of("a.txt", "1\tone sentence\n2\tanother\n3\tthe last\n"),
            Layout::Separated(b'\t')
        );
    }

    #[test]
    fn text_is_not_taken_for_json_or_a_table() {
        for text in [
            "",
            "One, two, three.\nFour, five, six.\nSeven, eight, nine.\n",
            "Yes,no\nSo it goes.\nAnd on.\n",
            "\tA paragraph.\n\tAnother one.\n\tThe last.\n",
            "A title\tby somebody\n\nThe text.\nMore text.\n",
            "| a | b |\n| - | - |\n| 1 | 2 |\n",
            "{\"a\": 1}\nis JSON, as one says.\nIt is widely used.\n",
            "[1]\nThe first reference.\n",
            "[\"Hello\"], he said.\n",
            "[[Category:Mills]]\nA mill.\n",
            "{{Infobox}}\nA mill.\n",
            "{\nreturn 0;\n}\n",
        ] {
            assert_eq!(layout_of("a.txt", text), Layout::Lines, "{text}");
        }
    }
}
