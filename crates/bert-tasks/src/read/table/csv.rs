//! Splits comma-separated lines into records by RFC 4180: a quoted field may contain commas, line ends and doubled
//! quotes. Input outside the standard is rejected, because other readers would interpret it differently. This needs its
//! own state machine: the `csv` crate accepts stray and unclosed quotes.

use std::io::BufRead;
use std::path::Path;

use bert_storage::Locate;

use super::super::lines::{for_each_line_in, open_file};
use crate::task::error::{TaskError, TaskProblem};

/// Maximum length of a quoted field; a longer one most likely lacks its closing quote.
const MAX_FIELD_BYTES: usize = 1 << 20;

/// The state of the reader within a record.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    FieldStart,
    Plain,
    Quoted,
    AfterQuote,
}

/// Works as [`for_each_record_in`] on a file, and adds the location to the errors of `each`.
pub(crate) fn for_each_record(
    path: &Path,
    mut each: impl FnMut(u64, &[String]) -> Result<(), TaskProblem>,
) -> Result<(), TaskError> {
    for_each_record_in(open_file(path)?, path, |line, fields| {
        each(line, fields).map_err(|problem| problem.at_line(path, line).into())
    })
}

/// Calls `each` with the first line number and the fields of every record of a reader of any length. Blank lines
/// between records are skipped. Errors name `path`.
///
/// # Errors
/// [`TaskProblem::StrayQuote`], [`TaskProblem::UnclosedQuote`], the errors of [`for_each_line_in`], and of `each`.
pub fn for_each_record_in<E: From<TaskError>>(
    reader: impl BufRead,
    path: &Path,
    mut each: impl FnMut(u64, &[String]) -> Result<(), E>,
) -> Result<(), E> {
    let mut record = Record { state: State::FieldStart, line: 0, fields: Vec::new(), field: String::new() };
    let wrong = |problem: TaskProblem, line| TaskError::from(problem.at_line(path, line));
    for_each_line_in(reader, path, |line, text| -> Result<(), E> {
        let fields = record.take(line, text).map_err(|problem| wrong(problem, line))?;
        if record.state == State::Quoted && record.field.len() > MAX_FIELD_BYTES {
            return Err(wrong(TaskProblem::UnclosedQuote, record.line).into());
        }
        fields.map_or(Ok(()), |fields| each(record.line, &fields))
    })?;
    match record.state {
        State::Quoted => Err(wrong(TaskProblem::UnclosedQuote, record.line).into()),
        _ => Ok(()),
    }
}

/// A partially read record.
struct Record {
    state: State,
    /// Line number at which it began.
    line: u64,
    fields: Vec<String>,
    field: String,
}

impl Record {
    /// Reads the next line; returns the fields if the record ends there.
    fn take(&mut self, line: u64, text: &str) -> Result<Option<Vec<String>>, TaskProblem> {
        match self.state {
            // The end of the previous line is part of the field.
            State::Quoted => self.field.push('\n'),
            _ if text.is_empty() => return Ok(None),
            _ => self.line = line,
        }
        for c in text.chars() {
            self.state = self.step(c)?;
        }
        if self.state == State::Quoted {
            return Ok(None);
        }
        self.end_field();
        Ok(Some(std::mem::take(&mut self.fields)))
    }

    fn step(&mut self, c: char) -> Result<State, TaskProblem> {
        Ok(match (self.state, c) {
            (State::FieldStart, '"') => State::Quoted,
            (State::Quoted, '"') => State::AfterQuote,
            (State::Quoted, c) => {
                self.field.push(c);
                State::Quoted
            }
            (State::AfterQuote, '"') => {
                self.field.push('"');
                State::Quoted
            }
            (_, ',') => {
                self.end_field();
                State::FieldStart
            }
            (State::AfterQuote, _) | (State::Plain, '"') => return Err(TaskProblem::StrayQuote),
            (_, c) => {
                self.field.push(c);
                State::Plain
            }
        })
    }

    fn end_field(&mut self) {
        self.fields.push(std::mem::take(&mut self.field));
        self.state = State::FieldStart;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str) -> Result<Vec<(u64, Vec<String>)>, String> {
        let mut records = Vec::new();
        let read = for_each_record_in(text.as_bytes(), Path::new("x.csv"), |line, fields| {
            records.push((line, fields.to_vec()));
            Ok::<(), TaskError>(())
        });
        read.map(|()| records).map_err(|error| error.to_string())
    }

    #[test]
    fn quoted_fields_follow_rfc_4180() {
        let record = |line, fields: &[&str]| (line, fields.iter().map(|f| f.to_string()).collect());
        assert_eq!(
            records("a,b\n c ,\n,\n").unwrap(),
            [record(1, &["a", "b"]), record(2, &[" c ", ""]), record(3, &["", ""]),]
        );
        assert_eq!(
            records("\"a,b\",\"say \"\"no\"\"\"\n\"\",x\n").unwrap(),
            [record(1, &["a,b", "say \"no\""]), record(2, &["", "x"]),]
        );
        assert_eq!(
            records("\"two\n\nlines\",1\nb,2\n\nc,3").unwrap(),
            [record(1, &["two\n\nlines", "1"]), record(4, &["b", "2"]), record(6, &["c", "3"]),]
        );
    }

    #[test]
    fn stray_and_unclosed_quotes_are_errors() {
        let stray =
            "a quote inside an unquoted field; put the whole field in quotes and double the quotes inside it";
        assert_eq!(records("a,b\n5\" disk,1\n"), Err(format!("x.csv:2: {stray}")));
        assert_eq!(records("\"a\"b,1\n"), Err(format!("x.csv:1: {stray}")));
        let open = "the quote that begins a field here is never closed";
        assert_eq!(records("a,b\n\"c,1\nd,2\n"), Err(format!("x.csv:2: {open}")));
        let long = format!("a,\"{}\n", "x\n".repeat(600_000));
        assert_eq!(records(&long), Err(format!("x.csv:1: {open}")));
    }
}
