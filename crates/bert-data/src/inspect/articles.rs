//! The text of the articles of a dump, as a build reads it.

use std::path::Path;

use bert_text::line_check::BadLines;
use bert_text::{InputReader, Reading, TEXT_COLUMN, TextRules, each_text};

use crate::error::Result;

/// Calls `see` with the plain text of each article of a dump, or of each document of WikiExtractor's output.
///
/// # Errors
/// Returns the errors of [`InputReader::open`] and [`InputReader::next_block`].
pub fn for_each_article(path: &Path, see: &mut dyn FnMut(&str)) -> Result<()> {
    let mut reader = InputReader::open(path, 0, TEXT_COLUMN)?;
    let rules = TextRules { reading: Reading::default(), bad_lines: BadLines::Any, strict_rows: false };
    while let Some(block) = reader.next_block()? {
        each_text(&block, path, rules, |text, _| see(text))?;
    }
    Ok(())
}
