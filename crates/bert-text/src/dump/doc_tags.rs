//! Reads the output of WikiExtractor: `<doc id="..." url="..." title="...">`, the title, the text, `</doc>`.

use std::io::{BufRead, Read};

use crate::blocks::{NextRow, RowFile, RowSource};
use crate::bytes::decompress::Source;
use crate::error::{Error, Result, long_row};
use crate::{Format, MAX_LINE_BYTES};

/// Reader of the documents.
pub(super) struct DocTags {
    text: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    /// Number of lines so far.
    number: u64,
    documents: u64,
}

impl DocTags {
    pub(super) fn new(source: &mut Source) -> Self {
        Self { text: source.take_decoded(), line: Vec::new(), number: 0, documents: 0 }
    }

    fn too_long(&self, file: &RowFile) -> Error {
        long_row(self.documents + 1, MAX_LINE_BYTES).at(&file.path)
    }

    /// Reads the next line; returns whether there was one.
    fn read_line(&mut self, file: &RowFile) -> Result<bool> {
        self.line.clear();
        let length = self.text.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut self.line);
        match length.map_err(|error| file.damaged(error))? {
            0 => return Ok(false),
            length if length > MAX_LINE_BYTES => return Err(self.too_long(file)),
            _ => {}
        }
        if self.number == 0 && self.line.starts_with(b"\xef\xbb\xbf") {
            self.line.drain(..3);
        }
        self.number += 1;
        Ok(true)
    }
}

impl RowSource for DocTags {
    /// Appends the text of the next document.
    fn next_row(&mut self, file: &RowFile, into: &mut Vec<u8>) -> Result<NextRow> {
        let title = loop {
            if !self.read_line(file)? {
                return Ok(NextRow::End);
            }
            match self.line.trim_ascii() {
                b"" => {}
                line if line.starts_with(b"<doc ") => break title(line),
                _ => {
                    return Err(Error::data(
                        "this text is outside of the <doc> tags with which WikiExtractor begins and ends a document; \
                         remove it, or run WikiExtractor with --json",
                    )
                    .at_line(&file.path, self.number));
                }
            }
        };
        let begun = self.number;
        let incomplete = || {
            Error::data("the document that begins here has no </doc>: the file is incomplete")
                .at_line(&file.path, begun)
        };
        let start = into.len();
        let mut is_first = true;
        while self.read_line(file)? {
            let line = self.line.trim_ascii();
            if line.starts_with(b"<doc id=") {
                return Err(incomplete());
            }
            if line == b"</doc>" {
                self.documents += 1;
                return Ok(NextRow::Row);
            }
            let line = unescaped(line);
            // The first line repeats the title.
            let is_title = is_first && line == title;
            if !is_title && !line.is_empty() {
                into.extend_from_slice(&line);
                into.push(b'\n');
            }
            is_first = false;
            if into.len() - start > MAX_LINE_BYTES {
                return Err(self.too_long(file));
            }
        }
        Err(incomplete())
    }

    fn format(&self) -> Format {
        Format::DocTags
    }
}

/// Returns whether a text has the form of an attribute's name.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Returns the attribute `title` of a tag.
fn title(tag: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(tag);
    let title = text
        .split_once("title=\"")
        .and_then(|(_, rest)| {
            // A title may contain quotes. The quote that ends the title is followed by another attribute or by the end
            // of the tag.
            let next = rest
                .match_indices("\" ")
                .find(|(at, _)| rest[at + 2..].split_once('=').is_some_and(|(name, _)| is_name(name)));
            next.map(|(at, _)| &rest[..at]).or_else(|| rest.rsplit_once('"').map(|(title, _)| title))
        })
        .unwrap_or_default();
    unescaped(title.as_bytes())
}

/// Replaces the entities that WikiExtractor writes.
fn unescaped(line: &[u8]) -> Vec<u8> {
    if !line.contains(&b'&') {
        return line.to_vec();
    }
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        let entities: [(&[u8], u8); 4] =
            [(b"&lt;", b'<'), (b"&gt;", b'>'), (b"&amp;", b'&'), (b"&quot;", b'"')];
        let found = entities.iter().find(|(entity, _)| byte == b'&' && rest.starts_with(entity));
        out.push(found.map_or(byte, |(_, text)| *text));
        rest = found.map_or(after, |(entity, _)| &rest[entity.len()..]);
    }
    out
}
