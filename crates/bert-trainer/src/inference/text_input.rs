//! Reads examples from files of new texts or standard input, in windows of bounded size.
//!
//! The index of an example is the number of its line, from 1. The files of tasks are read by [`crate::tasks`].

use std::fs::{self, File};
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::Error;
use crate::tasks::{Example, TaskError, TaskProblem, lines_of};
use bert_storage::Locate;

/// The path that means standard input.
pub const STANDARD_INPUT: &str = "-";

/// Bytes of text in a window at most, but for its last line.
const WINDOW_BYTES: usize = 4 << 20;

/// How texts stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum TextFormat {
    /// One text a line.
    Text,
    /// One text or two a line, with a tab between them; no header.
    Tsv,
    /// One JSON object a line, with `text` and perhaps `text_b`, or `question` and `context`; other keys are left
    /// alone.
    Jsonl,
}

impl TextFormat {
    /// The format that a file's name says: `.tsv`; `.jsonl`, `.ndjson` and `.json`; anything else is [`Self::Text`].
    pub fn of(path: &Path) -> Self {
        let end = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match end.as_str() {
            "tsv" => Self::Tsv,
            "jsonl" | "ndjson" | "json" => Self::Jsonl,
            _ => Self::Text,
        }
    }

    /// The example in a line.
    ///
    /// # Errors
    /// [`TaskProblem::EmptyText`], [`TaskProblem::WrongColumns`], [`TaskProblem::NotJson`],
    /// [`TaskProblem::WrongValue`].
    pub(super) fn example(self, line: u64, text: &str) -> Result<Example, TaskProblem> {
        let (text_a, text_b) = match self {
            Self::Text => (text.to_string(), None),
            Self::Tsv => columns(text)?,
            Self::Jsonl => object(text)?,
        };
        if text_a.trim().is_empty() {
            return Err(TaskProblem::EmptyText);
        }
        Ok(Example { index: line.to_string(), text_a, text_b, choices: vec![], label: None })
    }
}

fn columns(text: &str) -> Result<(String, Option<String>), TaskProblem> {
    let fields: Vec<&str> = text.split('\t').collect();
    match fields[..] {
        [a] => Ok((a.to_string(), None)),
        [a, b] => Ok((a.to_string(), Some(b.to_string()))),
        _ => {
            let expected = "a text, or two with a tab between them".to_string();
            Err(TaskProblem::WrongColumns { found: fields.len(), separator: "tab", expected })
        }
    }
}

fn object(text: &str) -> Result<(String, Option<String>), TaskProblem> {
    let mut object: Map<String, Value> = serde_json::from_str(text)?;
    let mut take = |column: &str| match object.remove(column) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong_value(column, kind_of(&other))),
    };
    // A question and its text may be called so.
    let (text, question) = (take("text")?, take("question")?);
    let text = text.or(question).ok_or_else(|| wrong_value("text", "missing"))?;
    let (text_b, context) = (take("text_b")?, take("context")?);
    Ok((text, text_b.or(context)))
}

fn wrong_value(column: &str, found: &'static str) -> TaskProblem {
    TaskProblem::WrongValue { column: column.to_string(), found, expected: "a text" }
}

/// The kind of a JSON value, in words.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Reads `source` (a file, a pipe, or [`STANDARD_INPUT`]) and hands its examples on in order, `size` at a time or fewer
/// where texts are long.
///
/// # Errors
/// What cannot be read as text, and the errors of `parse` and `each`.
pub(super) fn for_each_window(
    source: &Path,
    size: usize,
    parse: impl Fn(u64, &str) -> Result<Example, TaskProblem>,
    each: &mut dyn FnMut(&[Example]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (reader, path): (Box<dyn BufRead>, &Path) = match source.as_os_str() == STANDARD_INPUT {
        true => (Box::new(stdin().lock()), Path::new("standard input")),
        false => (open(source)?, source),
    };
    let (mut window, mut bytes) = (Vec::with_capacity(size), 0);
    lines_of(reader, path, |line, text| {
        let example = parse(line, text).map_err(|problem| problem.at_line(path, line));
        window.push(example.map_err(TaskError::from)?);
        bytes += text.len();
        if window.len() == size || bytes >= WINDOW_BYTES {
            each(&window)?;
            window.clear();
            bytes = 0;
        }
        Ok::<_, Error>(())
    })?;
    match window.is_empty() {
        true => Ok(()),
        false => each(&window),
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, TaskError> {
    let io = |source| TaskProblem::Io(source).at(path);
    if fs::metadata(path).map_err(io)?.is_dir() {
        return Err(TaskProblem::NotAFile.at(path).into());
    }
    Ok(Box::new(BufReader::new(File::open(path).map_err(io)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(format: TextFormat, line: &str) -> Result<(String, Option<String>), String> {
        let example = format.example(7, line).map_err(|problem| problem.to_string())?;
        assert_eq!((example.index.as_str(), example.label), ("7", None));
        Ok((example.text_a, example.text_b))
    }

    #[test]
    fn each_format_and_what_is_wrong_in_it() {
        use TextFormat::{Jsonl, Text, Tsv};
        let one = |a: &str| Ok((a.to_string(), None));
        let two = |a: &str, b: &str| Ok((a.to_string(), Some(b.to_string())));
        let wrong = |said: &str| Err(said.to_string());
        assert_eq!(texts(Text, "a\tb"), one("a\tb"));
        assert_eq!(texts(Tsv, "a b"), one("a b"));
        assert_eq!(texts(Tsv, "a\tb"), two("a", "b"));
        assert_eq!(texts(Jsonl, r#"{"id": 1, "text": "a"}"#), one("a"));
        assert_eq!(texts(Jsonl, r#"{"text": "a", "text_b": "b"}"#), two("a", "b"));
        assert_eq!(texts(Jsonl, r#"{"text": "a", "text_b": null}"#), one("a"));
        assert_eq!(texts(Text, " "), wrong("the line is empty, expected a text"));
        let columns = "3 tab-separated columns, expected a text, or two with a tab between them";
        assert_eq!(texts(Tsv, "a\tb\tc"), wrong(columns));
        assert_eq!(texts(Jsonl, r#"{"texts": "a"}"#), wrong("\"text\" is missing, expected a text"));
        assert_eq!(
            texts(Jsonl, r#"{"text": "a", "text_b": 1}"#),
            wrong("\"text_b\" is a number, expected a text")
        );
        assert!(texts(Jsonl, "[]").unwrap_err().starts_with("not a JSON object: "));
        assert!(texts(Jsonl, r#"{"text": "a"} x"#).unwrap_err().starts_with("not a JSON object: "));
    }

    #[test]
    fn the_name_says_the_format() {
        for (name, format) in [
            ("a.tsv", TextFormat::Tsv),
            ("a.JSONL", TextFormat::Jsonl),
            ("a.ndjson", TextFormat::Jsonl),
            ("a.txt", TextFormat::Text),
            ("-", TextFormat::Text),
        ] {
            assert_eq!(TextFormat::of(Path::new(name)), format, "{name}");
        }
    }

    #[test]
    fn windows_are_bounded_by_lines_and_by_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let sizes = |text: &str, size| {
            fs::write(file.path(), text).unwrap();
            let mut sizes = Vec::new();
            let parse = |line, text: &str| TextFormat::Text.example(line, text);
            let each = &mut |window: &[Example]| {
                sizes.push(window.len());
                Ok(())
            };
            for_each_window(file.path(), size, parse, each).unwrap();
            sizes
        };
        assert_eq!(sizes("a\nb\nc\n", 2), [2, 1]);
        assert_eq!(sizes("a\nb\n", 2), [2]);
        assert!(sizes("", 2).is_empty());
        let long = format!("{}\n", "x".repeat(900_000));
        assert_eq!(sizes(&long.repeat(7), 100), [5, 2]);
    }
}
