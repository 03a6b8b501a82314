//! Splits lines of comma-separated values into records, by RFC 4180: a field in quotes may hold commas, line ends
//! and doubled quotes. It refuses what the standard does not allow, because other readers would read it
//! differently.

use std::path::Path;

use super::super::error::TaskError;

/// A quoted field that is longer than any text: most likely its second quote is missing.
const MAX_FIELD_BYTES: usize = 1 << 20;

/// Where in a record the reader is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    FieldStart,
    Plain,
    Quoted,
    AfterQuote,
}

/// Makes records of the lines of one file.
pub(in crate::tasks) struct CsvReader<'a> {
    path: &'a Path,
    state: State,
    /// The line on which the record began.
    line: usize,
    fields: Vec<String>,
    field: String,
}

impl<'a> CsvReader<'a> {
    /// A reader for the file at `path`, which is used in messages alone.
    pub(in crate::tasks) fn new(path: &'a Path) -> Self {
        CsvReader { path, state: State::FieldStart, line: 0, fields: Vec::new(), field: String::new() }
    }

    /// Takes the next line; gives the record that ends with it, and the line on which that began. A blank line between
    /// records is none.
    pub(in crate::tasks) fn line(
        &mut self,
        line: usize,
        text: &str,
    ) -> Result<Option<(usize, Vec<String>)>, TaskError> {
        match self.state {
            // The end of the line before is part of the field.
            State::Quoted => self.field.push('\n'),
            _ if text.is_empty() => return Ok(None),
            _ => self.line = line,
        }
        for c in text.chars() {
            self.state = self.step(line, c)?;
        }
        if self.state == State::Quoted {
            return match self.field.len() > MAX_FIELD_BYTES {
                true => Err(self.open_quote()),
                false => Ok(None),
            };
        }
        self.end_field();
        Ok(Some((self.line, std::mem::take(&mut self.fields))))
    }

    /// The file is over.
    pub(in crate::tasks) fn end(self) -> Result<(), TaskError> {
        match self.state {
            State::Quoted => Err(self.open_quote()),
            _ => Ok(()),
        }
    }

    fn step(&mut self, line: usize, c: char) -> Result<State, TaskError> {
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
            (State::AfterQuote, _) | (State::Plain, '"') => {
                return Err(TaskError::StrayQuote { path: self.path.into(), line });
            }
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

    fn open_quote(&self) -> TaskError {
        TaskError::OpenQuote { path: self.path.into(), line: self.line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, String> {
        let mut reader = CsvReader::new(Path::new("x.csv"));
        let mut records = Vec::new();
        for (at, line) in text.lines().enumerate() {
            records.extend(reader.line(at + 1, line).map_err(|error| error.to_string())?);
        }
        reader.end().map_err(|error| error.to_string())?;
        Ok(records)
    }

    #[test]
    fn fields_and_quotes() {
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
    fn quotes_that_the_standard_does_not_allow() {
        let stray = "a quote inside a field; put the whole field in quotes and double those in it";
        assert_eq!(records("a,b\n5\" disk,1\n"), Err(format!("x.csv:2: {stray}")));
        assert_eq!(records("\"a\"b,1\n"), Err(format!("x.csv:1: {stray}")));
        let open = "the quote that begins a field here is never closed";
        assert_eq!(records("a,b\n\"c,1\nd,2\n"), Err(format!("x.csv:2: {open}")));
        let long = format!("a,\"{}\n", "x\n".repeat(600_000));
        assert_eq!(records(&long), Err(format!("x.csv:1: {open}")));
    }
}
