//! Remarks on input files that were read but may have unintended content.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A kind of observation about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Remark {
    /// The file contains no token.
    NoText,
    /// Trailing bytes after the compressed data; counts bytes.
    IgnoredBytes,
    /// Carriage returns inside lines; counts lines.
    CarriageReturns,
    /// Halves of surrogate pairs in JSON; counts rows.
    HalfSurrogates,
    /// Lines that begin with a tag; counts lines.
    Tags,
    /// CSV or TSV read by the default column; counts rows.
    Table,
    /// The language of a dump has no sentence rules; counts articles.
    SentenceRules,
}

/// Number of files with an observation, its total count, and the first file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Occurrences {
    files: u64,
    count: u64,
    first: String,
}

/// All remarks on a set of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remarks(BTreeMap<Remark, Occurrences>);

impl Remarks {
    /// Returns whether there are no remarks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there is no remark of this kind.
    pub(crate) fn is_without(&self, remark: Remark) -> bool {
        !self.0.contains_key(&remark)
    }

    /// Adds an observation about a file, unless its count is zero.
    pub(crate) fn add_count(&mut self, remark: Remark, path: &Path, count: u64) {
        if count > 0 {
            // Only the file name: the location must not affect the output.
            let first = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.add_one(remark, Occurrences { files: 1, count, first });
        }
    }

    fn add_one(&mut self, remark: Remark, more: Occurrences) {
        let seen = self.0.entry(remark).or_default();
        if seen.files == 0 {
            seen.first = more.first;
        }
        seen.files = seen.files.saturating_add(more.files);
        seen.count = seen.count.saturating_add(more.count);
    }

    /// Adds the remarks on later files.
    pub(crate) fn add(&mut self, other: Self) {
        other.0.into_iter().for_each(|(remark, seen)| self.add_one(remark, seen));
    }

    /// Removes the names of files.
    pub(crate) fn clear_names(&mut self) {
        self.0.values_mut().for_each(|seen| seen.first.clear());
    }

    /// Iterates over the remarks as sentences.
    pub(crate) fn sentences(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(remark, seen)| sentence(*remark, seen))
    }
}

fn sentence(remark: Remark, Occurrences { files, count, first }: &Occurrences) -> String {
    let first = first.escape_debug();
    let origin = match files {
        1 => format!("of {first}"),
        _ => format!("of {files} files, {first} the first,"),
    };
    match remark {
        Remark::NoText => format!("{files} input file(s) gave no text, {first} the first: not one token."),
        Remark::IgnoredBytes => {
            format!(
                "{count} byte(s) {origin} follow the compressed data and were ignored, as gzip and bzip2 do."
            )
        }
        Remark::CarriageReturns => format!(
            "{count} line(s) {origin} hold carriage returns (\\r) that end no line and were read as blanks; if they end lines, \
             convert them (tr '\\r' '\\n')."
        ),
        Remark::HalfSurrogates => format!(
            "{count} row(s) {origin} held half of a surrogate pair (as \"\\ud83d\"), which was replaced by U+FFFD."
        ),
        Remark::Tags => format!(
            "{count} line(s) {origin} begin with a tag of markup (as <p>), and the tags are text here; extract the text first."
        ),
        Remark::SentenceRules => format!(
            "{count} article(s) {origin} are in a language for which the sentence splitter has no rules; those of English were \
             used. --language selects those of a similar language."
        ),
        Remark::Table => format!(
            "{count} row(s) {origin} were read as a CSV or TSV table, by its column \"text\"; --text-column names another one."
        ),
    }
}
