//! Visits the texts of a block: lines, or rows of a table.

use std::borrow::Cow;
use std::path::Path;

use crate::error::{Error, InputProblem, Locate, Result, TextProblem};
use crate::input::line_check::{BadLines, LineCheck};
use crate::input::table::json_text;
use crate::input::{Block, Format};
use crate::tokenization::python_str::python_strip;

/// Which lines and rows are refused, and where the text of a row stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextRules<'a> {
    /// As the 2018 script takes line ends.
    pub(crate) reference: bool,
    pub(crate) bad_lines: BadLines,
    pub(crate) strict_rows: bool,
    pub(crate) text_column: &'a str,
}

/// Shows `see` the text of each line or row of a block that is not null, and whether it is a row; returns what the lines
/// were and how many rows were null. Empty lines of JSON, the last one often, are no rows.
pub(crate) fn each_text(
    block: &Block,
    path: &Path,
    rules: TextRules<'_>,
    mut see: impl FnMut(&str, bool),
) -> Result<(LineCheck, u64)> {
    let (mut lines, mut null_rows) = (LineCheck::default(), 0);
    let mut see_row = |row: Option<&str>, number: u64, see: &mut dyn FnMut(&str, bool)| {
        if rules.strict_rows {
            refuse_empty(row, (path, number), rules.text_column)?;
        }
        null_rows += u64::from(row.is_none());
        row.iter().for_each(|row| see(row, true));
        Ok::<(), Error>(())
    };
    for (number, row) in block.rows() {
        see_row(row.map(String::from_utf8_lossy).as_deref(), number, &mut see)?;
    }
    // A block of Parquet has rows and no lines.
    for (number, raw) in block.lines().take_while(|_| block.format != Format::Parquet) {
        let raw = tidy(raw, number, rules.reference);
        let text = lines.decode(&raw, (path, number), rules.bad_lines)?;
        let line = python_strip(&text);
        match block.format {
            Format::Jsonl if line.is_empty() => {}
            Format::Jsonl => {
                let row = json_text(line, path, number, rules.text_column)?;
                see_row(row.as_deref(), number, &mut see)?;
            }
            _ => see(line, false),
        }
    }
    Ok((lines, null_rows))
}

/// Line ends and byte-order marks. The reference's reader deletes every `\r` and leaves the mark to the tokenizer.
fn tidy(raw: &[u8], number: u64, reference: bool) -> Cow<'_, [u8]> {
    if reference {
        if raw.contains(&b'\r') {
            return raw.iter().copied().filter(|&byte| byte != b'\r').collect::<Vec<_>>().into();
        }
        return raw.into();
    }
    let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
    let raw = if number == 1 { raw.strip_prefix(b"\xef\xbb\xbf").unwrap_or(raw) } else { raw };
    raw.into()
}

/// Refuses a row that is null or blank.
fn refuse_empty(text: Option<&str>, (path, row): (&Path, u64), column: &str) -> Result<()> {
    let problem = match text {
        None => TextProblem::Null,
        Some(text) if python_strip(text).is_empty() => TextProblem::Empty,
        Some(_) => return Ok(()),
    };
    Err(InputProblem::Text { column: column.to_owned(), problem }.at_line(path, row).into())
}
