//! Makes text from files safe to print: control characters appear as escapes and do not reach the terminal.
//!
//! Names, labels, tokens and texts come from untrusted files. An escape sequence in one of them could clear the screen,
//! change the title or hide the text after it. All output of the programs passes through [`visible`].

use std::io::{self, Write, stderr, stdout};

use anstream::{AutoStream, ColorChoice};
use clap::builder::styling::{AnsiColor, Style};
use terminal_size::terminal_size_of;
use textwrap::{Options, WordSeparator, WordSplitter, fill};

pub use bert_storage::visible;
use bert_storage::with_flags;

/// The first word of a message, which is coloured on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A failure that ends the program.
    Error,
    /// A probable mistake.
    Warning,
    /// A remark.
    Note,
    /// A good result.
    Good,
}

impl Word {
    /// Formats a message for stderr: this word, in colour if stderr shows colours, and the text with its settings as flags
    /// and control characters escaped, wrapped to the width of the terminal.
    pub fn message(self, text: &str) -> String {
        let (word, colour) = match self {
            Self::Error => ("error", AnsiColor::Red),
            Self::Warning => ("warning", AnsiColor::Yellow),
            Self::Note => ("note", AnsiColor::Cyan),
            Self::Good => ("good", AnsiColor::Green),
        };
        let style = if shows_colour() { colour.on_default().bold() } else { Style::new() };
        let lines = wrapped(&format!("{word}: {}", visible(&with_flags(text))), stderr_width());
        format!("{style}{word}:{style:#}{}", &lines[word.len() + 1..])
    }
}

/// Returns whether stderr shows colours.
pub fn shows_colour() -> bool {
    AutoStream::choice(&stderr()) != ColorChoice::Never
}

/// Returns the number of columns of the terminal of stdout; a file or a pipe has no limit.
pub fn stdout_width() -> usize {
    terminal_size_of(stdout()).map_or(usize::MAX, |(width, _)| width.0.into())
}

/// Returns the number of columns of the terminal of stderr; a file or a pipe has no limit.
pub fn stderr_width() -> usize {
    terminal_size_of(stderr()).map_or(usize::MAX, |(width, _)| width.0.into())
}

/// Returns the options for breaking lines between words at `width` columns. A longer word is not broken.
pub(crate) fn between_words<'a>(width: usize) -> Options<'a> {
    Options::new(width)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
}

/// Returns a text in which the lines that are wider than `width` are broken between words. The rest of a line is
/// indented: below the text after a label (`best: step 3`), else by two more spaces than the line.
pub fn wrapped(text: &str, width: usize) -> String {
    const LABEL: usize = 16;
    let broken = |line: &str| {
        let lead = line.len() - line.trim_start().len();
        let label = line[lead..].find("  ").map(|at| lead + at).filter(|at| *at < LABEL);
        let after = label.map(|at| line.len() - line[at..].trim_start().len()).filter(|at| *at <= LABEL);
        let indent = " ".repeat(after.unwrap_or(lead + 2));
        fill(line, between_words(width).subsequent_indent(&indent))
    };
    text.split('\n').map(broken).collect::<Vec<_>>().join("\n")
}

/// A writer that escapes control characters like [`visible`].
pub(crate) struct VisibleWriter<W> {
    out: W,
    /// First bytes of a character whose remaining bytes are in the next write.
    rest: Vec<u8>,
}

impl<W: Write> VisibleWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, rest: Vec::new() }
    }
}

impl<W: Write> Write for VisibleWriter<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(buffer);
        let whole = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        self.out.write_all(visible(&String::from_utf8_lossy(&self.rest[..whole])).as_bytes())?;
        self.rest.drain(..whole);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_break_between_words() {
        let text = "best:      step 300, masked LM loss\n  --learning-rate 3e-4 of this run";
        let expected = "best:      step 300,\n           masked LM\n           loss\n  --learning-rate 3e-4\n    of this run";
        assert_eq!(wrapped(text, 22), expected);
        assert_eq!(wrapped(text, usize::MAX), text);
        assert_eq!(wrapped("a/very/long/path", 4), "a/very/long/path");
    }

    #[test]
    fn characters_cut_between_two_writes_are_whole() {
        let mut writer = VisibleWriter::new(Vec::new());
        for byte in "\u{e9}\u{9b}2J \u{6cb3}\n".as_bytes() {
            writer.write_all(&[*byte]).unwrap();
        }
        assert_eq!(String::from_utf8(writer.out).unwrap(), "\u{e9}\\u009b2J \u{6cb3}\n");
    }
}
