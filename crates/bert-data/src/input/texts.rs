//! Visits the texts of a block: lines, or rows of a table.

use std::borrow::Cow;
use std::path::Path;

use crate::error::{Error, InputProblem, Locate, Result, TextProblem};
use crate::input::json::read_row;
use crate::input::line_check::{BadLines, LineCheck};
use crate::input::wikitext::{Wiki, article_text};
use crate::input::{Block, Format};
use crate::tokenization::python_str::{is_python_space, python_strip};

/// Rules for rejecting lines and rows, and the column of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextRules<'a> {
    /// Whether to treat line ends as the 2018 script does.
    pub(crate) reference: bool,
    pub(crate) bad_lines: BadLines,
    pub(crate) strict_rows: bool,
    pub(crate) text_column: &'a str,
}

/// Calls `see` with the text of each line or row of a block that is not null, and whether it is a row. Returns the
/// counts of lines and rows. Empty lines in JSON, such as the last one, do not count as rows.
pub(crate) fn each_text(
    block: &Block,
    path: &Path,
    rules: TextRules<'_>,
    mut see: impl FnMut(&str, bool),
) -> Result<LineCheck> {
    let mut lines = LineCheck::default();
    let mut see_row = |row: Option<&str>, number: u64, lines: &mut LineCheck| {
        if rules.strict_rows {
            reject_empty(row, (path, number), rules.text_column)?;
        }
        lines.null_rows += u64::from(row.is_none());
        if let Some(row) = row {
            lines.texts += u64::from(!python_strip(row).is_empty());
            see(row, true);
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
            see_row(row.as_deref(), number, &mut lines)?;
        }
        return Ok(lines);
    }
    if block.format == Format::Jsonl {
        for (number, raw) in block.lines() {
            let text = lines.decode(raw, (path, number), rules.bad_lines)?;
            let line = text.trim_matches(|c| is_python_space(c) || c == MARK);
            if !line.is_empty() {
                let row = read_row(line, path, number, rules.text_column)?;
                lines.see_half_pair(row.half_pair, (path, number), rules.bad_lines)?;
                see_row(row.text.as_deref(), number, &mut lines)?;
            }
        }
        return Ok(lines);
    }
    for (number, raw) in block.lines() {
        let raw = tidy(raw, rules.reference);
        lines.look_at_text(&raw);
        let text = lines.decode(&raw, (path, number), rules.bad_lines)?;
        let line = python_strip(&text);
        lines.texts += u64::from(!line.is_empty());
        see(line, false);
    }
    Ok(lines)
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
        None => TextProblem::Null,
        Some(text) if python_strip(text).is_empty() => TextProblem::Empty,
        Some(_) => return Ok(()),
    };
    Err(InputProblem::Text { column: column.to_owned(), problem }.at_line(path, row).into())
}
