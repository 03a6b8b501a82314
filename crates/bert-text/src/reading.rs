//! The options that decide how files are read, and the names under which they are recorded.

use std::path::Path;

use bert_hub::name_of_cached;
use serde::{Deserialize, Serialize};

/// Default name of the text column.
pub const TEXT_COLUMN: &str = "text";

/// The options that decide how a file is recognized and read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Name, path or number of the text column of tables.
    pub text_column: &'a str,
    /// Meaning of line breaks.
    pub line_breaks: LineBreaks,
    /// Whether lines are read as the reference reads them.
    pub reference: bool,
}

impl Default for Reading<'_> {
    fn default() -> Self {
        Self { text_column: TEXT_COLUMN, line_breaks: LineBreaks::Auto, reference: false }
    }
}

/// The meaning of the line breaks of plain text, and of line breaks inside rows of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum LineBreaks {
    /// Measured for each file and row: joined if they lie inside sentences, else the end of a sentence.
    #[default]
    Auto,
    /// The end of a sentence.
    Sentence,
    /// The end of a paragraph; paragraphs are split into sentences, as with --split-sentences.
    Paragraph,
    /// Nothing: lines are joined to paragraphs, which end at blank lines and are split into sentences.
    Wrapped,
}

/// Returns the name under which an input is recorded: its path; its name with the commit for a file of a data set in the
/// cache of the Hugging Face Hub; or `-` for a file without a name that a program opened for standard input.
pub fn recorded_name(path: &Path) -> String {
    if path.starts_with("/proc/self/fd") {
        return "-".to_owned();
    }
    name_of_cached(path).unwrap_or_else(|| path.to_string_lossy().into_owned())
}

/// Returns the file name under which an input is recorded: the output must not depend on its location.
pub fn recorded_file_name(path: &Path) -> String {
    let name = recorded_name(path);
    Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned()
}
