//! Reads examples from files of new texts or standard input, in windows of bounded size.
//!
//! The index of an example is its line number from 1, or its row number in a Parquet file. [`bert_tasks`] reads the
//! files of tasks.

pub(crate) mod columns;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

use bert_data::input::table::{RowValues, TableReader, TextFormat};
use bert_storage::Locate;
use bert_tasks::{Example, Task, TaskError, TaskProblem, for_each_line_in};
use serde_json::Value;

use crate::encoding::input_text::{InputText, SplitLine};
use crate::error::Error;
use crate::text_input::columns::{ColumnNames, RowTexts, TextColumns};

/// The path that means standard input.
pub const STANDARD_INPUT: &str = "-";

/// Maximum bytes of text in a window, apart from its last line.
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

/// A window of examples, in the order of the input.
#[derive(Default)]
pub(crate) struct Window {
    pub(crate) examples: Vec<Example>,
    /// The values copied to the output, one per example.
    pub(crate) ids: Vec<Option<Value>>,
}

/// Collects examples into windows and passes them on.
struct Windows<'a> {
    size: usize,
    bytes: usize,
    window: Window,
    each: &'a mut dyn FnMut(&Window) -> Result<(), Error>,
}

impl<'a> Windows<'a> {
    fn new(size: usize, each: &'a mut dyn FnMut(&Window) -> Result<(), Error>) -> Self {
        Self { size, bytes: 0, window: Window::default(), each }
    }

    fn push(&mut self, line: u64, RowTexts { text_a, text_b, id }: RowTexts) -> Result<(), Error> {
        self.bytes += text_a.len() + text_b.as_ref().map_or(0, String::len);
        let example = Example { index: line.to_string(), text_a, text_b, choices: vec![], label: None };
        self.window.examples.push(example);
        self.window.ids.push(id);
        if self.window.examples.len() == self.size || self.bytes >= WINDOW_BYTES {
            (self.each)(&self.window)?;
            self.window = Window::default();
            self.bytes = 0;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Error> {
        if self.window.examples.is_empty() { Ok(()) } else { (self.each)(&self.window) }
    }
}

impl NewTexts<'_> {
    /// Returns the name of the input for messages.
    pub fn path(&self) -> &Path {
        if self.is_standard_input() { Path::new("standard input") } else { self.source }
    }

    fn is_standard_input(&self) -> bool {
        self.source.as_os_str() == STANDARD_INPUT
    }

    fn open(&self) -> Result<Box<dyn BufRead>, TaskError> {
        if self.is_standard_input() { Ok(Box::new(stdin().lock())) } else { open(self.source) }
    }

    /// Passes the examples to `each` in order, at most `size` at a time (fewer if texts are long), for a model trained
    /// on a task.
    ///
    /// # Errors
    /// Unreadable input, with its line; the errors of `each`.
    pub(crate) fn for_each_window(
        &self,
        trained_task: Option<Task>,
        size: usize,
        each: &mut dyn FnMut(&Window) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut windows = Windows::new(size, each);
        let format = self.format.unwrap_or_else(|| TextFormat::from_path(self.source));
        if format == TextFormat::Text {
            for_each_line_in(self.open()?, self.path(), |line, text| {
                let text_a = without_label(trained_task.as_ref(), text).to_string();
                let texts = filled(RowTexts { text_a, ..RowTexts::default() });
                windows.push(line, texts.map_err(|problem| self.at_line(problem, line))?)
            })?;
        } else {
            self.each_row(format, &ColumnNames::new(&self.columns, trained_task), &mut windows)?;
        }
        windows.finish()
    }

    /// Passes the rows of a table to windows.
    fn each_row(
        &self,
        format: TextFormat,
        names: &ColumnNames<'_>,
        windows: &mut Windows<'_>,
    ) -> Result<(), Error> {
        let mut table = if format == TextFormat::Parquet {
            TableReader::parquet(self.source).map_err(TaskError::from)?
        } else {
            TableReader::new(self.path(), format, self.open()?).map_err(TaskError::from)?
        };
        let mut positions = None;
        if let Some(header) = table.header().map_err(TaskError::from)? {
            let found = if format == TextFormat::Tsv {
                names.tsv_positions(&header.names)
            } else {
                names.positions(&header.names).map(Some)
            };
            positions = found.map_err(|problem| self.at_line(problem, header.line))?;
        }
        if let Some(found) = &positions {
            table.select(&found.selected(), found.first_row_is_header).map_err(TaskError::from)?;
        }
        let separator = table.separator();
        while let Some(row) = table.next_row().map_err(TaskError::from)? {
            let texts = match (row.values, &positions) {
                (RowValues::Object(object), _) => names.texts_of_object(&object),
                (RowValues::Fields(fields), Some(positions)) => positions.texts(&fields, separator),
                (RowValues::Fields(fields), None) => text_or_pair(fields),
            };
            let texts = texts.and_then(filled).map_err(|problem| self.at_line(problem, row.line))?;
            windows.push(row.line, texts)?;
        }
        Ok(())
    }

    /// Returns a problem with its place in the input.
    fn at_line(&self, problem: TaskProblem, line: u64) -> TaskError {
        problem.at_line(self.path(), line).into()
    }
}

/// Returns the text of a line of minBERT's `LABEL ||| TEXT` for a model of such a task; other lines are texts.
fn without_label<'a>(trained_task: Option<&Task>, line: &'a str) -> &'a str {
    let Some(task) = trained_task.filter(|task| !task.spec().predicts_in_rows()) else { return line };
    match line.split_once(" ||| ") {
        Some((label, text)) if task.labels().any(|known| known == label.trim()) => text,
        _ => line,
    }
}

/// Returns the texts of a tab-separated line without named columns.
fn text_or_pair(fields: Vec<Option<String>>) -> Result<RowTexts, TaskProblem> {
    let found = fields.len();
    let mut fields = fields.into_iter().flatten();
    match (fields.next(), fields.next(), found) {
        (Some(text_a), text_b, ..=2) => Ok(RowTexts { text_a, text_b, id: None }),
        _ => {
            let expected = "a text, or two separated by a tab, or a header that names the columns of the texts (--columns)";
            Err(TaskProblem::WrongColumns { found, separator: "tab", expected: expected.to_string() })
        }
    }
}

/// Checks that the first text is not blank.
fn filled(texts: RowTexts) -> Result<RowTexts, TaskProblem> {
    if texts.text_a.trim().is_empty() { Err(TaskProblem::EmptyText) } else { Ok(texts) }
}

/// Passes the texts of every line of `source`, blank ones included, to `each`, at most `size` at a time (fewer if
/// texts are long).
///
/// # Errors
/// Input that is not text, and the errors of `each`.
pub(crate) fn for_each_line_window(
    source: &Path,
    size: usize,
    split: SplitLine,
    each: &mut dyn FnMut(&Window) -> Result<(), Error>,
) -> Result<(), Error> {
    let texts = NewTexts { source, format: None, columns: TextColumns::default() };
    let mut windows = Windows::new(size, each);
    for_each_line_in(texts.open()?, texts.path(), |line, text| {
        let InputText { first, second } = split(text);
        let text_b = second.map(str::to_string);
        windows.push(line, RowTexts { text_a: first.to_string(), text_b, id: None })
    })?;
    windows.finish()
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, TaskError> {
    let io = |source| TaskProblem::Io(source).located(path);
    if fs::metadata(path).map_err(io)?.is_dir() {
        return Err(TaskProblem::NotAFile.located(path).into());
    }
    Ok(Box::new(BufReader::new(File::open(path).map_err(io)?)))
}

#[cfg(test)]
mod tests {
    use bert_data::input::Format;
    use bert_data::input::table::{InputReader, json_text};
    use bert_tasks::{TableDescription, read_file};

    use super::*;

    type Read = Vec<(u64, String, Option<String>, Option<Value>)>;

    fn read(name: &str, text: &str, columns: &[&str], id: Option<&str>) -> Result<Read, String> {
        let folder = tempfile::tempdir().unwrap();
        let source = &folder.path().join(name);
        fs::write(source, text).unwrap();
        let texts = columns.iter().map(|name| name.to_string()).collect();
        let columns = TextColumns { texts, id: id.map(str::to_string) };
        let mut found = Vec::new();
        let read = NewTexts { source, format: None, columns }.for_each_window(None, 2, &mut |window| {
            for (example, id) in window.examples.iter().zip(&window.ids) {
                let Example { index, text_a, text_b, .. } = example.clone();
                found.push((index.parse().unwrap(), text_a, text_b, id.clone()));
            }
            Ok(())
        });
        let place = format!("{}/", folder.path().display());
        read.map(|()| found).map_err(|error| error.to_string().replace(&place, ""))
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

    /// Returns the texts that a build reads from a table.
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

    /// Returns the texts that a fine-tuning reads from a table.
    fn texts_of_tuning(path: &Path, column: &str) -> Result<Vec<String>, String> {
        let columns = vec![column.to_string(), "none".to_string()];
        let task = Task::table(TableDescription { columns, ..TableDescription::default() }).unwrap();
        let examples = read_file(&task, path, false).map_err(|error| error.to_string())?;
        Ok(examples.into_iter().map(|example| example.text_a).collect())
    }

    /// Returns the texts that a prediction reads from a table.
    fn texts_of_prediction(path: &Path, column: &str) -> Result<Vec<String>, String> {
        let columns = TextColumns { texts: vec![column.to_string()], id: None };
        let mut texts = Vec::new();
        let read = NewTexts { source: path, format: None, columns }.for_each_window(None, 2, &mut |window| {
            texts.extend(window.examples.iter().map(|example| example.text_a.clone()));
            Ok(())
        });
        read.map(|()| texts).map_err(|error| error.to_string())
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
                // A build keeps the line ends of a quoted field, which end sentences.
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
            let mut sizes = Vec::new();
            let each = &mut |window: &Window| {
                sizes.push(window.examples.len());
                Ok(())
            };
            let texts = NewTexts { source: file.path(), format: None, columns: TextColumns::default() };
            texts.for_each_window(None, size, each).unwrap();
            sizes
        };
        assert_eq!(sizes("a\nb\nc\n", 2), [2, 1]);
        assert_eq!(sizes("a\nb\n", 2), [2]);
        assert!(sizes("", 2).is_empty());
        let long = format!("{}\n", "x".repeat(900_000));
        assert_eq!(sizes(&long.repeat(7), 100), [5, 2]);
    }
}
