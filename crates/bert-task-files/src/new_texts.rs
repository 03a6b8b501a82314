//! Reads new texts from files or standard input, in windows of bounded size.
//!
//! The index of an example is its line number from 1, or its row number in a Parquet file.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

use bert_tasks::{Error, Example, InputText, Task, TextSource, Window, Windows};
use bert_text::{LineReader, RowValues, TableReader, TextFormat};

use crate::columns::{ColumnNames, ColumnPositions, RowTexts, TextColumns};

/// The path that means standard input.
pub const STANDARD_INPUT: &str = "-";

/// Maximum number of bytes of text in a window, apart from its last line.
const WINDOW_BYTES: usize = 4 << 20;

/// New texts: their source and the columns to read.
#[derive(Clone, Debug)]
pub struct NewTexts<'a> {
    /// A file, a pipe, or [`STANDARD_INPUT`].
    pub source: &'a Path,
    /// Format of the source; `None` to infer it from the file name.
    pub format: Option<TextFormat>,
    /// Columns to read from a table.
    pub columns: TextColumns,
}

/// The lines of a file or of [`STANDARD_INPUT`], blank ones included, as texts or pairs.
#[derive(Clone, Copy, Debug)]
pub struct TextLines<'a> {
    /// A file, a pipe, or [`STANDARD_INPUT`].
    pub source: &'a Path,
    /// Divides a line into a text and an optional second text.
    pub split: for<'l> fn(&'l str) -> InputText<'l>,
}

impl<'a> TextLines<'a> {
    /// Returns the lines of a file or of [`STANDARD_INPUT`], without white space at their ends.
    pub fn trimmed(source: &'a Path) -> Self {
        Self { source, split: |line| line.trim().into() }
    }
}

impl TextSource for NewTexts<'_> {
    fn name(&self) -> &Path {
        name(self.source)
    }

    fn windows(&self, trained_task: Option<&Task>, size: usize) -> Result<Windows<'_>, Error> {
        let format = self.format.unwrap_or_else(|| TextFormat::from_path(self.source));
        let task = trained_task.cloned();
        if format == TextFormat::Text {
            return lines(self.source, size, move |text| {
                let text_a = without_label(task.as_ref(), text).to_string();
                filled(RowTexts { text_a, ..RowTexts::default() })
            });
        }
        let mut rows = Rows::open(self, format, ColumnNames::new(&self.columns, task))?;
        Ok(windows(size, move || rows.next()))
    }

    fn second_column(&self) -> &str {
        self.columns.texts.get(1).map_or("the second column", String::as_str)
    }
}

impl TextSource for TextLines<'_> {
    fn name(&self) -> &Path {
        name(self.source)
    }

    fn windows(&self, _: Option<&Task>, size: usize) -> Result<Windows<'_>, Error> {
        lines(self.source, size, |text| {
            let InputText { first, second } = (self.split)(text);
            Ok(RowTexts { text_a: first.to_string(), text_b: second.map(str::to_string), id: None })
        })
    }
}

/// Returns the name of an input for messages.
fn name(source: &Path) -> &Path {
    if is_standard_input(source) { Path::new("standard input") } else { source }
}

fn is_standard_input(source: &Path) -> bool {
    source.as_os_str() == STANDARD_INPUT
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, Error> {
    if is_standard_input(path) {
        return Ok(Box::new(stdin().lock()));
    }
    let io = |source| Error::io("read", path)(source);
    if fs::metadata(path).map_err(io)?.is_dir() {
        return Err(Error::data("this is not a regular file").at(path));
    }
    Ok(Box::new(BufReader::new(File::open(path).map_err(io)?)))
}

/// The texts of a row and its number, or `None` at the end of the input.
type NextRow = Result<Option<(u64, RowTexts)>, Error>;

/// Returns an iterator over windows of rows, which ends after the last row or the first error.
fn windows<'a>(size: usize, mut next: impl FnMut() -> NextRow + 'a) -> Windows<'a> {
    let mut is_at_end = false;
    let mut window = move || -> Result<Window, Error> {
        let mut window = Window::default();
        let mut bytes = 0;
        while !is_at_end && window.examples.len() < size && bytes < WINDOW_BYTES {
            is_at_end = true;
            if let Some((line, RowTexts { text_a, text_b, id })) = next()? {
                is_at_end = false;
                bytes += text_a.len() + text_b.as_ref().map_or(0, String::len);
                let index = line.to_string();
                window.examples.push(Example { index, text_a, text_b, choices: vec![], label: None });
                window.ids.push(id);
            }
        }
        Ok(window)
    };
    let is_left =
        |window: &Result<Window, Error>| !matches!(window, Ok(window) if window.examples.is_empty());
    Box::new(std::iter::from_fn(move || Some(window()).filter(is_left)))
}

/// Returns the windows of the lines of an input.
fn lines<'a>(
    source: &'a Path,
    size: usize,
    texts: impl Fn(&str) -> Result<RowTexts, Error> + 'a,
) -> Result<Windows<'a>, Error> {
    let mut lines = LineReader::new(open(source)?, name(source));
    Ok(windows(size, move || {
        let Some((line, text)) = lines.next_line()? else { return Ok(None) };
        let texts = texts(text).map_err(|problem| problem.at_line(name(source), line))?;
        Ok(Some((line, texts)))
    }))
}

/// The rows of a table.
struct Rows<'a> {
    name: &'a Path,
    table: TableReader,
    names: ColumnNames<'a>,
    positions: Option<ColumnPositions>,
}

impl<'a> Rows<'a> {
    fn open(texts: &'a NewTexts<'_>, format: TextFormat, names: ColumnNames<'a>) -> Result<Self, Error> {
        let name = texts.name();
        let mut table = if format == TextFormat::Parquet {
            TableReader::parquet(texts.source)?
        } else {
            TableReader::new(name, format, open(texts.source)?)?
        };
        let mut positions = None;
        if let Some(header) = table.header()? {
            let found = if format == TextFormat::Tsv {
                names.tsv_positions(&header.names)
            } else {
                names.positions(&header.names).map(Some)
            };
            positions = found.map_err(|problem| problem.at_line(name, header.line))?;
        }
        if let Some(found) = &positions {
            table.select(&found.selected())?;
        }
        Ok(Self { name, table, names, positions })
    }

    fn next(&mut self) -> NextRow {
        let separator = self.table.separator();
        let Some(row) = self.table.next_row()? else { return Ok(None) };
        let texts = match (row.values, &self.positions) {
            (RowValues::Object(object), _) => self.names.texts_of_object(&object),
            (RowValues::Fields(fields), Some(positions)) => positions.texts(&fields, separator),
            (RowValues::Fields(fields), None) => text_or_pair(fields),
        };
        let texts = texts.and_then(filled).map_err(|problem| problem.at_line(self.name, row.line))?;
        Ok(Some((row.line, texts)))
    }
}

/// Returns the text of a line `LABEL ||| TEXT` if the model was trained on a task in minBERT's format; returns other
/// lines unchanged.
fn without_label<'a>(trained_task: Option<&Task>, line: &'a str) -> &'a str {
    let Some(task) = trained_task.filter(|task| !task.spec().predicts_in_rows()) else { return line };
    match line.split_once(" ||| ") {
        Some((label, text)) if task.labels().any(|known| known == label.trim()) => text,
        _ => line,
    }
}

/// Returns the texts of a tab-separated line without named columns.
fn text_or_pair(fields: Vec<Option<String>>) -> Result<RowTexts, Error> {
    let found = fields.len();
    let mut fields = fields.into_iter().flatten();
    match (fields.next(), fields.next(), found) {
        (Some(text_a), text_b, ..=2) => Ok(RowTexts { text_a, text_b, id: None }),
        _ => {
            let expected = "a text, or two separated by a tab, or a header that names the columns of the texts (`.columns`)";
            Err(Error::data(format!("{found} tab-separated columns, expected {expected}")))
        }
    }
}

/// Checks that the first text is not blank.
fn filled(texts: RowTexts) -> Result<RowTexts, Error> {
    if texts.text_a.trim().is_empty() {
        Err(Error::data("the line is empty, but must have a text"))
    } else {
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use bert_tasks::TableDescription;
    use bert_text::{Format, InputReader, json_text};
    use serde_json::Value;

    use super::*;
    use crate::read_file;

    fn all_windows(texts: &NewTexts<'_>, size: usize) -> Result<Vec<Window>, Error> {
        texts.windows(None, size)?.collect()
    }

    type Read = Vec<(u64, String, Option<String>, Option<Value>)>;

    fn read(name: &str, text: &str, columns: &[&str], id: Option<&str>) -> Result<Read, String> {
        let folder = tempfile::tempdir().unwrap();
        let source = &folder.path().join(name);
        fs::write(source, text).unwrap();
        let texts = columns.iter().map(|name| name.to_string()).collect();
        let columns = TextColumns { texts, id: id.map(str::to_string) };
        let texts = NewTexts { source, format: None, columns };
        let place = format!("{}/", folder.path().display());
        let row = |(example, id): (Example, Option<Value>)| {
            let Example { index, text_a, text_b, .. } = example;
            (index.parse().unwrap(), text_a, text_b, id)
        };
        all_windows(&texts, 2)
            .map(|windows| {
                windows
                    .into_iter()
                    .flat_map(|window| window.examples.into_iter().zip(window.ids))
                    .map(row)
                    .collect()
            })
            .map_err(|error| error.to_string().replace(&place, ""))
    }

    fn row(line: u64, a: &str, b: Option<&str>) -> (u64, String, Option<String>, Option<Value>) {
        (line, a.to_string(), b.map(str::to_string), None)
    }

    #[test]
    fn labels_of_minbert_lines_are_dropped() {
        let line = "3 ||| a ||| b";
        assert_eq!(without_label(Some(&Task::Sst5), line), "a ||| b");
        assert_eq!(without_label(Some(&Task::Sst5), "good ||| bad"), "good ||| bad");
        assert_eq!(without_label(Some(&Task::Sst2), line), line);
        assert_eq!(without_label(None, line), line);
    }

    #[test]
    fn every_format_gives_texts_and_pairs() {
        let read = |name, text| read(name, text, &[], None).unwrap();
        assert_eq!(read("a.txt", "a\tb\n"), [row(1, "a\tb", None)]);
        assert_eq!(read("a.tsv", "a b\nc\td\n"), [row(1, "a b", None), row(2, "c", Some("d"))]);
        assert_eq!(read("a.tsv", "label\ttext\n1\ta\n"), [row(2, "a", None)]);
        assert_eq!(
            read("a.csv", "id,text,text_b\n1,\"two\nlines, a\",b\n2,c,d\n"),
            [row(2, "two\nlines, a", Some("b")), row(4, "c", Some("d"))]
        );
        assert_eq!(
            read("a.JSONL", "{\"id\": 1, \"text\": \"a\"}\n{\"text\": \"a\", \"text_b\": \"b\"}\n"),
            [row(1, "a", None), row(2, "a", Some("b"))]
        );
        assert_eq!(read("a.ndjson", "{\"question\": \"q\", \"context\": \"c\"}\n"), [row(1, "q", Some("c"))]);
    }

    #[test]
    fn columns_and_ids_are_named() {
        let with_id = |line, a: &str, id: Value| (line, a.to_string(), None, Some(id));
        let named = |name, text| read(name, text, &["body"], Some("key"));
        assert_eq!(named("a.csv", "key,body\nx7,a\n").unwrap(), [with_id(2, "a", "x7".into())]);
        assert_eq!(named("a.tsv", "body\tkey\na\tx7\n").unwrap(), [with_id(2, "a", "x7".into())]);
        assert_eq!(named("a.jsonl", "{\"key\": 7, \"body\": \"a\"}\n").unwrap(), [with_id(1, "a", 7.into())]);
        let missing = named("a.csv", "key,text\nx7,a\n").unwrap_err();
        assert_eq!(missing, "a.csv:1: no column \"body\" in the header (columns here: key, text)");
    }

    #[test]
    fn errors_name_file_and_line() {
        for (name, text, expected) in [
            ("a.txt", "a\n \n", "a.txt:2: the line is empty, but must have a text"),
            (
                "a.tsv",
                "a\tb\tc\n",
                "a.tsv:1: 3 tab-separated columns, expected a text, or two separated by a tab",
            ),
            (
                "a.csv",
                "label,body\n1,a\n",
                "a.csv:1: no column \"text\" in the header (columns here: label, body)",
            ),
            (
                "a.csv",
                "text,label\na\n",
                "a.csv:2: 1 comma-separated columns, expected 2 as in the first row",
            ),
            ("a.jsonl", "{\"texts\": \"a\"}\n", "a.jsonl:1: \"text\" is missing, expected a text"),
            (
                "a.jsonl",
                "{\"text\": \"a\", \"text_b\": 1}\n",
                "a.jsonl:1: \"text_b\" is a number, expected a text",
            ),
            ("a.jsonl", "[]\n", "a.jsonl:1: not a JSON object: "),
            ("a.jsonl", "{\"text\": \"a\"} x\n", "a.jsonl:1: not a JSON object: "),
        ] {
            let error = read(name, text, &[], None).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    /// Returns the texts that the build of a data set reads from a table.
    fn texts_of_build(path: &Path, column: &str) -> Result<Vec<String>, String> {
        let mut reader = InputReader::open(path, 0, column).map_err(|error| error.to_string())?;
        let mut texts = Vec::new();
        while let Some(block) = reader.next_block().map_err(|error| error.to_string())? {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            if block.format == Format::Jsonl {
                for (line, bytes) in block.lines().filter(|(_, bytes)| !bytes.is_empty()) {
                    texts.extend(json_text(&text(bytes), path, line, column).unwrap());
                }
            } else {
                texts.extend(block.rows().map(|(_, bytes)| text(bytes.unwrap())));
            }
        }
        Ok(texts)
    }

    /// Returns the texts that fine-tuning reads from a table.
    fn texts_of_tuning(path: &Path, column: &str) -> Result<Vec<String>, String> {
        let columns = vec![column.to_string(), "none".to_string()];
        let task = Task::table(TableDescription { columns, ..TableDescription::default() }).unwrap();
        let examples = read_file(&task, path, false).map_err(|error| error.to_string())?;
        Ok(examples.into_iter().map(|example| example.text_a).collect())
    }

    /// Returns the texts that prediction reads from a table.
    fn texts_of_prediction(path: &Path, column: &str) -> Result<Vec<String>, String> {
        let columns = TextColumns { texts: vec![column.to_string()], id: None };
        let windows = all_windows(&NewTexts { source: path, format: None, columns }, 2);
        let windows = windows.map_err(|error| error.to_string())?;
        Ok(windows.into_iter().flat_map(|window| window.examples).map(|example| example.text_a).collect())
    }

    #[test]
    fn build_tuning_and_prediction_read_the_same_table() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let readers = [texts_of_build, texts_of_tuning, texts_of_prediction];
        for (name, text, column) in [
            ("a.csv", "\u{feff}\"id\",text\r\n\r\n,\"two\r\n, \"\"b\"\"\"\r\n2,c\r\n", "text"),
            ("b.csv", "# made by hand\nid,text\n,\"two\n, \"\"b\"\"\"\n\n2,c", "text"),
            ("b.CSV", "id;text\n;\"two\n, \"\"b\"\"\"\n\n2;c", "text"),
            ("c.csv", "1,\"two\n, \"\"b\"\"\"\n,c\n", "2"),
            ("d.csv", "id,text\n,\"two\n, \\\"b\\\"\"\n2,c\n", "text"),
            ("e.tsv", "text\tid\n\"two\n, \"\"b\"\"\"\t1\n\nc\t\n", "text"),
            (
                "f.json",
                r#"[{"doc": {"text": "two\n, \"b\""}, "x": NaN}, {"doc": {"text": "c"}}]"#,
                "doc.text",
            ),
            ("g.jsonl", "{\"text\": \"two\\n, \\\"b\\\"\",}\n\n{\"text\": \"c\"}\n", "text"),
        ] {
            let path = at(name, text);
            for read in readers {
                let found = read(&path, column).unwrap();
                // The build of a data set keeps the line ends of a quoted field, which end sentences.
                assert_eq!(found.join("|").replace('\r', ""), "two\n, \"b\"|c", "{name}");
            }
        }
        for (name, text, line) in [
            ("twice.csv", "text,text\na,b\n", ""),
            (
                "open.csv",
                "id,text\n1,a\n2,\"b\n3,c\n",
                ":3: the quote that begins a field here is never closed",
            ),
            ("missing.csv", "id,text\n1\n", ":2: 1 "),
        ] {
            let path = at(name, text);
            for read in readers {
                let error = read(&path, "text").unwrap_err();
                assert!(error.contains(&format!("{name}{line}")), "{error}");
            }
        }
    }

    #[test]
    fn windows_are_bounded_by_lines_and_by_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let sizes = |text: &str, size| {
            fs::write(file.path(), text).unwrap();
            let texts = NewTexts { source: file.path(), format: None, columns: TextColumns::default() };
            let windows = all_windows(&texts, size).unwrap();
            windows.iter().map(|window| window.examples.len()).collect::<Vec<_>>()
        };
        assert_eq!(sizes("a\nb\nc\n", 2), [2, 1]);
        assert_eq!(sizes("a\nb\n", 2), [2]);
        assert!(sizes("", 2).is_empty());
        let long = format!("{}\n", "x".repeat(900_000));
        assert_eq!(sizes(&long.repeat(7), 100), [5, 2]);
    }
}
