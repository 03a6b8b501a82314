//! Converters of text files whose lines are not sentences with blank lines between documents.
//!
//! `recognize` finds the form of a file in its first lines. A `Converter` of the form turns its lines into lines of
//! text with a blank line between documents, so that every later stage reads one form. `line_breaks` also serves
//! rows of tables.

mod columns;
mod conllu;
pub mod joiner;
pub mod line_breaks;
mod mail;
mod medline;
pub(crate) mod recognize;
mod subtitles;
pub(crate) mod text;
mod verses;
mod wrapped;

use std::io::{self, BufRead, Read};
use std::sync::{Arc, Mutex};

use text::{Converter, FormCounts, Text};

use crate::Format;
use crate::line_counts::LineCounts;
use crate::reading::LineBreaks;
use crate::threads::lock;

/// Returns the converter of a file in a format, of which `lines` are the first complete lines; `breaks` is the meaning
/// of the line breaks inside its documents.
fn converter(format: Format, lines: &[&str], breaks: LineBreaks) -> Box<dyn Converter> {
    match format {
        Format::Conllu => Box::new(conllu::Sentences::default()),
        Format::Conll => {
            let (column, count) = recognize::word_column(lines).unzip();
            Box::new(columns::Columns::new(column, count.unwrap_or_default()))
        }
        Format::Vertical => Box::new(columns::Columns::new(None, 0)),
        Format::Subtitles => Box::new(subtitles::Cues::default()),
        Format::Mail => Box::new(mail::Mails::new(breaks)),
        Format::Medline => Box::new(medline::Records::default()),
        Format::Verses => Box::new(verses::Verses::default()),
        Format::Wrapped if !verses::are_delimited(lines) => Box::new(wrapped::Paragraphs::new(lines)),
        _ => Box::new(verses::Delimited::new(lines, format == Format::Wrapped)),
    }
}

/// Counts that a reader and the owner of its blocks share.
pub(crate) type SharedCounts = Arc<Mutex<Counts>>;

/// Counts of a file that is converted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The counts of the conversion, set when the file ends.
    pub(crate) form: FormCounts,
    /// The counts of the lines that were read since the last block; `None` if a line may be in any character set.
    pub(crate) lines: Option<LineCounts>,
}

/// Reader that converts a file in some form to lines of text.
pub(crate) struct Converted {
    text: Box<dyn BufRead + Send>,
    converter: Box<dyn Converter>,
    line: Vec<u8>,
    out: Text,
    /// The counts of the lines read, before their conversion.
    read: Option<LineCounts>,
    given: usize,
    /// Maximum number of bytes of a line; longer ones are passed on as they are.
    max_line: usize,
    ended: bool,
    counts: SharedCounts,
}

impl Converted {
    /// Returns a reader of the text of a file in a format, of which `lines` are the first complete lines, and the
    /// counts. `breaks` is the meaning of the line breaks inside its documents.
    pub(crate) fn new(
        format: Format,
        lines: &[&str],
        breaks: LineBreaks,
        text: Box<dyn BufRead + Send>,
        max_line: usize,
    ) -> (Self, SharedCounts) {
        let counts = SharedCounts::default();
        let line = Vec::new();
        let converter = converter(format, lines, breaks);
        let out = Text { is_between: true, ..Text::default() };
        let shared = counts.clone();
        (
            Self { text, converter, line, out, read: None, given: 0, max_line, ended: false, counts: shared },
            counts,
        )
    }

    /// Reads and converts the next line.
    fn convert_line(&mut self) -> io::Result<()> {
        self.line.clear();
        let limit = self.max_line as u64 + 2;
        self.text.by_ref().take(limit).read_until(b'\n', &mut self.line)?;
        if self.line.is_empty() {
            self.ended = true;
            self.converter.end(&mut self.out);
            lock(&self.counts).form = self.out.counts.clone();
        } else if self.line.len() > self.max_line {
            // The reader of the blocks rejects a line of this length.
            self.out.lines.extend_from_slice(&self.line);
        } else {
            let end =
                self.line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
            let line = self.line[..end].strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.line[..end]);
            self.out.counts.lines += 1;
            if !self.converter.raw_line(line, &mut self.out) {
                let text = self.read.get_or_insert_default().see(line, self.out.counts.lines);
                self.converter.line(&text, &mut self.out);
            }
        }
        Ok(())
    }
}

impl BufRead for Converted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.given == self.out.lines.len() {
            self.out.lines.clear();
            self.given = 0;
            while self.out.lines.len() < 1 << 16 && !self.ended {
                self.convert_line()?;
            }
            if let Some(read) = self.read.take() {
                lock(&self.counts).lines.get_or_insert_default().add(read);
            }
        }
        Ok(&self.out.lines[self.given..])
    }

    fn consume(&mut self, length: usize) {
        self.given += length;
    }
}

impl Read for Converted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(into)?;
        self.consume(length);
        Ok(length)
    }
}

/// Converts a text, for tests.
#[cfg(test)]
fn converted(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let form = recognize::recognize(&lines, crate::reading::Reading::default()).expect("a form");
    let mut out = String::new();
    let text: Box<dyn BufRead + Send> = Box::new(io::Cursor::new(text.to_owned().into_bytes()));
    Converted::new(form, &lines, LineBreaks::Auto, text, 1 << 20)
        .0
        .read_to_string(&mut out)
        .expect("text in memory");
    out
}
