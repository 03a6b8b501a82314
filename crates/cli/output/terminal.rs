//! Makes text from files safe to print: control characters appear as escapes and do not reach the terminal.
//!
//! Names, labels, tokens and texts come from untrusted files. An escape sequence in one of them could clear the screen,
//! change the title or hide the text after it. All output of the programs passes through [`visible`].

use std::io::{self, Write, stderr};

use anstream::{AutoStream, ColorChoice};
use clap::builder::styling::{AnsiColor, Style};

pub use bert_storage::visible;

/// The first word of a message, which is coloured on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The program has failed.
    Error,
    /// Probably wrong.
    Warning,
    /// Worth knowing.
    Note,
    /// As expected.
    Good,
}

impl Word {
    /// Formats a message for stderr: this word, in colour if stderr shows colours, and the text with control characters
    /// escaped.
    pub fn message(self, text: &str) -> String {
        let (word, colour) = match self {
            Self::Error => ("error", AnsiColor::Red),
            Self::Warning => ("warning", AnsiColor::Yellow),
            Self::Note => ("note", AnsiColor::Cyan),
            Self::Good => ("good", AnsiColor::Green),
        };
        let style = match AutoStream::choice(&stderr()) {
            ColorChoice::Never => Style::new(),
            _ => colour.on_default().bold(),
        };
        format!("{style}{word}:{style:#} {}", visible(text))
    }
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
    fn characters_cut_between_two_writes_are_whole() {
        let mut writer = VisibleWriter::new(Vec::new());
        for byte in "\u{e9}\u{9b}2J \u{6cb3}\n".as_bytes() {
            writer.write_all(&[*byte]).unwrap();
        }
        assert_eq!(String::from_utf8(writer.out).unwrap(), "\u{e9}\\u009b2J \u{6cb3}\n");
    }
}
