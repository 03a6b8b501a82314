//! Visits the texts of a block, lines or rows of a table, for counting words where sentences and documents do not
//! matter.

use std::path::Path;

use crate::error::{InputError, Result, TextProblem};
use crate::input::line_check::{BadLines, LineCheck};
use crate::input::table::json_text;
use crate::input::{Block, Format};
use crate::tokenization::python_str::python_strip;

/// Which lines and rows are refused, and where the text of a row stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextRules<'a> {
    pub(crate) bad_lines: BadLines,
    pub(crate) strict_rows: bool,
    pub(crate) text_column: &'a str,
}

/// Shows `text` each line or row of a block; returns what its lines were and how many rows were null.
pub(crate) fn each_text(
    block: &Block,
    path: &Path,
    rules: TextRules<'_>,
    mut text: impl FnMut(&str),
) -> Result<(LineCheck, u64)> {
    let (mut lines, mut null_rows) = (LineCheck::default(), 0);
    let mut checked = |row: Option<&str>, number: u64| {
        null_rows += u64::from(row.is_none());
        if rules.strict_rows { refuse_empty(row, (path, number), rules.text_column) } else { Ok(()) }
    };
    for (number, row) in block.rows() {
        let row = row.map(String::from_utf8_lossy);
        checked(row.as_deref(), number)?;
        row.iter().for_each(|row| text(row));
    }
    // A block of Parquet has rows and no lines.
    for (number, line) in block.lines().take_while(|_| block.format != Format::Parquet) {
        let line = lines.decode(line, (path, number), rules.bad_lines)?;
        match block.format {
            Format::Jsonl if python_strip(&line).is_empty() => {}
            Format::Jsonl => {
                let row = json_text(python_strip(&line), path, number, rules.text_column)?;
                checked(row.as_deref(), number)?;
                row.iter().for_each(|row| text(row));
            }
            _ => text(&line),
        }
    }
    Ok((lines, null_rows))
}

/// Refuses a row that is null or blank.
pub(crate) fn refuse_empty(text: Option<&str>, (path, row): (&Path, u64), column: &str) -> Result<()> {
    let problem = match text {
        None => TextProblem::Null,
        Some(text) if python_strip(text).is_empty() => TextProblem::Empty,
        Some(_) => return Ok(()),
    };
    Err(InputError::Text { path: path.to_owned(), row, column: column.to_owned(), problem }.into())
}
