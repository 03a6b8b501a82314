//! Visits the texts of a block: lines, or rows of a table.

use std::borrow::Cow;
use std::path::Path;

use bert_tokenization::{is_python_space, python_strip};

use crate::error::{Error, Result, no_text};
use crate::forms::line_breaks::is_without_blanks;
use crate::json::read_row;
use crate::line_check::{BadLines, LineCheck};
use crate::wikitext::{Wiki, article_text};
use crate::{Block, Format, Reading};

/// Rules for reading and rejecting lines and rows.
#[derive(Clone, Copy, Debug)]
pub struct TextRules<'a> {
    /// The rules by which files are recognized and read.
    pub reading: Reading<'a>,
    /// The policy for lines that are not text.
    pub bad_lines: BadLines,
    /// Whether rows without text are rejected.
    pub strict_rows: bool,
}

/// The kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// A line of a text file.
    Line,
    /// A row of running text.
    Row,
    /// A row that is a list of sentences, one on each line.
    Sentences,
}

/// Calls `see` with the text and the kind of each line or non-null row of a block. Returns the counts of lines and
/// rows. Empty lines in JSON, such as the last one, do not count as rows.
pub fn each_text(
    block: &Block,
    path: &Path,
    rules: TextRules<'_>,
    mut see: impl FnMut(&str, TextKind),
) -> Result<LineCheck> {
    let mut lines = LineCheck::begin(block.source_lines.as_ref(), path, rules.bad_lines)?;
    let mut see_row = |row: Option<&str>, number: u64, is_list: bool, lines: &mut LineCheck| {
        if rules.strict_rows && block.format.has_columns() {
            reject_empty(row, (path, number), rules.reading.text_column)?;
        }
        lines.null_rows += u64::from(row.is_none());
        if let Some(row) = row {
            let text = python_strip(row);
            lines.texts += u64::from(!text.is_empty());
            let may_separate = lines.signs.look(text);
            let row = if may_separate { separated(row, lines) } else { row.into() };
            see(&row, if is_list { TextKind::Sentences } else { TextKind::Row });
        }
        Ok::<(), Error>(())
    };
    if block.format.has_rows() {
        let no_wiki = Wiki::default();
        for (number, row) in block.rows() {
            let row = match block.format {
                // The Parquet reader has already checked the text.
                Format::Parquet => row.map(String::from_utf8_lossy),
                Format::WikiDump => {
                    let source =
                        row.map(|row| lines.decode(row, (path, number), rules.bad_lines)).transpose()?;
                    let text_of = |source: Cow<'_, str>| {
                        article_text(&source, block.wiki.as_deref().unwrap_or(&no_wiki))
                    };
                    source.map(|source| text_of(source).into())
                }
                _ => row.map(|row| lines.decode(row, (path, number), rules.bad_lines)).transpose()?,
            };
            see_row(row.as_deref(), number, block.lists, &mut lines)?;
        }
        return Ok(lines);
    }
    if block.format == Format::Jsonl {
        for (number, raw) in block.lines() {
            let text = lines.decode(raw, (path, number), rules.bad_lines)?;
            let line = text.trim_matches(|c| is_python_space(c) || c == MARK);
            if !line.is_empty() {
                let row = read_row(line, path, number, rules.reading.text_column)?;
                lines.see_half_pair(row.half_pair, (path, number), rules.bad_lines)?;
                see_row(row.text.as_deref(), number, row.is_list, &mut lines)?;
            }
        }
        return Ok(lines);
    }
    each_line(block, path, rules, &mut lines, see)?;
    Ok(lines.end(block.source_lines.as_ref()))
}

/// Calls `see` with each line of a block of text.
fn each_line(
    block: &Block,
    path: &Path,
    rules: TextRules<'_>,
    lines: &mut LineCheck,
    mut see: impl FnMut(&str, TextKind),
) -> Result<()> {
    let (mut edge, mut before): (_, &[u8]) = (None, &[]);
    for (number, raw) in block.lines() {
        let tidied = tidy(raw, rules.reading.reference);
        lines.look_for_returns(&tidied);
        let text = lines.decode(&tidied, (path, number), rules.bad_lines)?;
        let line = python_strip(&text);
        lines.texts += u64::from(!line.is_empty());
        let may_separate = lines.signs.look(line);
        if block.format == Format::Text {
            lines.signs.broken.add(&mut edge, line, || String::from_utf8_lossy(before).into_owned());
            before = raw;
        }
        if may_separate && !rules.reading.reference {
            see(&separated(line, lines), TextKind::Line);
        } else {
            see(line, TextKind::Line);
        }
    }
    Ok(())
}

/// The zero-width space, with which writers of some scripts separate words.
const ZERO_WIDTH_SPACE: char = '\u{200b}';

/// Returns a text with spaces instead of the zero-width spaces between letters of scripts without spaces, and counts
/// them. Like the reference's tokenizer, ours deletes these characters, which would join the words.
fn separated<'a>(text: &'a str, lines: &mut LineCheck) -> Cow<'a, str> {
    if !text.contains(ZERO_WIDTH_SPACE) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let separates = c == ZERO_WIDTH_SPACE
            && out.chars().next_back().is_some_and(is_without_blanks)
            && chars.peek().copied().is_some_and(is_without_blanks);
        lines.signs.zero_width += u64::from(separates);
        out.push(if separates { ' ' } else { c });
    }
    out.into()
}

/// The byte-order mark, which some programs write at the start of a file. After joining such files, it occurs at the
/// start of a line.
const MARK: char = '\u{feff}';

/// Removes line ends and byte-order marks. The reference's reader deletes every `\r` and leaves the mark to the
/// tokenizer.
fn tidy(raw: &[u8], reference: bool) -> Cow<'_, [u8]> {
    if reference {
        if raw.contains(&b'\r') {
            return raw.iter().copied().filter(|&byte| byte != b'\r').collect::<Vec<_>>().into();
        }
        return raw.into();
    }
    let end = raw.iter().rposition(|&byte| byte != b'\r').map_or(0, |at| at + 1);
    let raw = &raw[..end];
    raw.strip_prefix(b"\xef\xbb\xbf").unwrap_or(raw).into()
}

/// Rejects a row that is null or blank.
fn reject_empty(text: Option<&str>, (path, row): (&Path, u64), column: &str) -> Result<()> {
    let problem = match text {
        None => "is null, which `.strict_rows` rejects",
        Some(text) if python_strip(text).is_empty() => "is empty, which `.strict_rows` rejects",
        Some(_) => return Ok(()),
    };
    Err(no_text(column, problem).at_line(path, row))
}
