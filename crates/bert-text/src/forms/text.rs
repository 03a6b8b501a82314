//! Converted text: lines with a blank line between documents.

/// Converter of the lines of a file in one form.
pub(super) trait Converter: Send {
    /// Reads a line without its end, and appends lines of text.
    fn line(&mut self, line: &str, out: &mut Text);

    /// Reads a line of bytes in the character set that the file names, or returns false if its lines are UTF-8.
    fn raw_line(&mut self, _line: &[u8], _out: &mut Text) -> bool {
        false
    }

    /// Appends the text that waits for the end of the file.
    fn end(&mut self, out: &mut Text);
}

/// Lines of converted text, and counts of the file so far.
#[derive(Debug, Default)]
pub(super) struct Text {
    pub(super) lines: Vec<u8>,
    pub(super) counts: FormCounts,
    /// Whether the last line is blank, or there is none.
    pub(super) is_between: bool,
}

impl Text {
    /// Appends a line.
    pub(super) fn push(&mut self, line: &str) {
        let line = line.trim();
        if !line.is_empty() {
            self.lines.extend_from_slice(line.as_bytes());
            self.lines.push(b'\n');
            self.is_between = false;
        }
    }

    /// Ends the document.
    pub(super) fn end_document(&mut self) {
        if !std::mem::replace(&mut self.is_between, true) {
            self.lines.push(b'\n');
        }
    }
}

/// Counts of a converted file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FormCounts {
    /// Number of lines, or of breaks between lines.
    pub(crate) lines: u64,
    /// Number of breaks at which lines were joined.
    pub(crate) joined: u64,
    /// Number of lines or records without text that were left out: page headers, quoted lines, mails that are not text.
    pub(crate) left_out: u64,
    /// The first line that was left out.
    pub(crate) left_out_line: Option<String>,
    /// An example of a break inside a sentence: the lines before and after it.
    pub(crate) example: Option<[String; 2]>,
    /// Whether the file is one document.
    pub(crate) is_one_document: bool,
    /// Whether separators end the documents of a file whose lines were joined.
    pub(crate) is_delimited: bool,
}
