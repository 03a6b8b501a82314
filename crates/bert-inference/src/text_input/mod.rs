//! Reads examples from files of new texts or standard input, in windows of bounded size.
//!
//! The index of an example is its line number from 1, or its row number in a Parquet file. [`bert_tasks`] reads the
//! files of tasks.

pub(crate) mod columns;

use std::cell::OnceCell;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

use bert_data::parquet::text_rows::text_rows;
use bert_storage::Locate;
use bert_tasks::{Example, Task, TaskError, TaskProblem, for_each_line_in, for_each_record_in};
use serde_json::Value;

use crate::encoding::model_tokenizer::PAIR_SEPARATOR;
use crate::error::Error;
use crate::text_input::columns::{ColumnNames, ColumnPositions, RowTexts, TextColumns};

/// The path that means standard input.
pub const STANDARD_INPUT: &str = "-";

/// Maximum bytes of text in a window, apart from its last line.
const WINDOW_BYTES: usize = 4 << 20;

/// The file formats of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum TextFormat {
    /// One text per line.
    Text,
    /// Tab-separated, with a header that names the columns, or one or two texts per line.
    Tsv,
    /// Comma-separated with a header, quoted as in RFC 4180.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// Parquet with text columns.
    Parquet,
}

impl TextFormat {
    /// Returns the format for a file extension: `.tsv`; `.csv`; `.jsonl`, `.ndjson` and `.json`; `.parquet`; otherwise
    /// [`Self::Text`].
    pub fn from_path(path: &Path) -> Self {
        let end = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match end.as_str() {
            "tsv" => Self::Tsv,
            "csv" => Self::Csv,
            "jsonl" | "ndjson" | "json" => Self::Jsonl,
            "parquet" => Self::Parquet,
            _ => Self::Text,
        }
    }
}

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
            (self.window, self.bytes) = (Window::default(), 0);
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
        let names = ColumnNames::new(&self.columns, trained_task.clone());
        let mut windows = Windows::new(size, each);
        let format = self.format.unwrap_or_else(|| TextFormat::from_path(self.source));
        if format == TextFormat::Parquet {
            self.parquet(&names, &mut windows)?;
            return windows.finish();
        }
        let path = self.path();
        let reader = self.open()?;
        let mut table = None;
        let mut take = |line: u64, texts: Result<Option<RowTexts>, TaskProblem>| {
            let filled = texts.and_then(|texts| texts.map(filled).transpose());
            match filled.map_err(|problem| TaskError::from(problem.at_line(path, line)))? {
                Some(texts) => windows.push(line, texts),
                None => Ok(()),
            }
        };
        match format {
            TextFormat::Csv => for_each_record_in(reader, path, |line, fields| {
                take(line, under_header(&names, &mut table, fields))
            })?,
            TextFormat::Tsv => for_each_line_in(reader, path, |line, text| {
                let fields: Vec<String> = text.split('\t').map(str::to_string).collect();
                take(line, tab_separated(&names, &mut table, fields))
            })?,
            TextFormat::Jsonl => for_each_line_in(reader, path, |line, text| {
                let object = serde_json::from_str(text).map_err(TaskProblem::from);
                take(line, object.and_then(|object| names.texts_of_object(object)).map(Some))
            })?,
            TextFormat::Text | TextFormat::Parquet => for_each_line_in(reader, path, |line, text| {
                let text_a = without_label(trained_task.as_ref(), text).to_string();
                take(line, Ok(Some(RowTexts { text_a, ..RowTexts::default() })))
            })?,
        }
        windows.finish()
    }

    fn parquet(&self, names: &ColumnNames<'_>, windows: &mut Windows<'_>) -> Result<(), Error> {
        let places = OnceCell::new();
        let choose = |header: &[String]| {
            let found =
                names.positions(header).map_err(|problem| TaskError::from(problem.located(self.source)))?;
            Ok::<_, Error>(places.get_or_init(|| found).selected())
        };
        text_rows(self.source, choose, |row, values| {
            let places: &ColumnPositions = places.get().expect("chosen before the first row");
            let texts = places.texts_of(values).and_then(filled);
            windows.push(row, texts.map_err(|problem| TaskError::from(problem.at_line(self.source, row)))?)
        })
    }
}

/// Returns the text of a line of minBERT's `LABEL ||| TEXT` for a model of such a task; other lines are texts.
fn without_label<'a>(trained_task: Option<&Task>, line: &'a str) -> &'a str {
    let Some(task) = trained_task.filter(|task| !task.spec().predicts_in_rows()) else { return line };
    match line.split_once(PAIR_SEPARATOR) {
        Some((label, text)) if task.labels().any(|known| known == label.trim()) => text,
        _ => line,
    }
}

/// Parses a row below a header; returns `None` for the header itself.
fn under_header(
    names: &ColumnNames<'_>,
    table: &mut Option<Option<ColumnPositions>>,
    fields: &[String],
) -> Result<Option<RowTexts>, TaskProblem> {
    match table {
        Some(places) => places.expect("a header").texts(fields, "comma").map(Some),
        None => {
            *table = Some(Some(names.positions(fields)?));
            Ok(None)
        }
    }
}

/// Parses a line of a tab-separated file; returns `None` for a header.
fn tab_separated(
    names: &ColumnNames<'_>,
    table: &mut Option<Option<ColumnPositions>>,
    fields: Vec<String>,
) -> Result<Option<RowTexts>, TaskProblem> {
    if table.is_none() {
        let found = names.tsv_positions(&fields)?;
        *table = Some(found);
        if found.is_some() {
            return Ok(None);
        }
    }
    match table.flatten() {
        Some(places) => places.texts(&fields, "tab").map(Some),
        None => text_or_pair(fields).map(Some),
    }
}

fn text_or_pair(fields: Vec<String>) -> Result<RowTexts, TaskProblem> {
    let found = fields.len();
    let mut fields = fields.into_iter();
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

/// Passes every line of `source`, blank ones included, through `parse` to `each`, at most `size` at a time (fewer if
/// texts are long).
///
/// # Errors
/// Input that is not text, and the errors of `each`.
pub(crate) fn for_each_line_window(
    source: &Path,
    size: usize,
    parse: impl Fn(&str) -> (String, Option<String>),
    each: &mut dyn FnMut(&Window) -> Result<(), Error>,
) -> Result<(), Error> {
    let texts = NewTexts { source, format: None, columns: TextColumns::default() };
    let mut windows = Windows::new(size, each);
    for_each_line_in(texts.open()?, texts.path(), |line, text| {
        let (text_a, text_b) = parse(text);
        windows.push(line, RowTexts { text_a, text_b, id: None })
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
