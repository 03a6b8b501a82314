//! Remarks on input files that were read but may hold something else than was meant.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// What was seen in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Remark {
    /// No token.
    NoText,
    /// Bytes behind the compressed data; how many.
    IgnoredBytes,
    /// Carriage returns within lines; in how many.
    CarriageReturns,
    /// Halves of surrogate pairs in JSON; in how many rows.
    HalfSurrogates,
    /// Lines that begin with a tag; how many.
    Tags,
    /// Comma- or tab-separated values, read by the default column; how many rows.
    Table,
}

/// In how many files something was seen, how often, and where first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    files: u64,
    count: u64,
    first: String,
}

/// All remarks on some files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remarks(BTreeMap<Remark, Seen>);

impl Remarks {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is none of this kind.
    pub(crate) fn is_without(&self, remark: Remark) -> bool {
        !self.0.contains_key(&remark)
    }

    /// Notes what was seen in a file, unless that was nothing.
    pub(crate) fn see(&mut self, remark: Remark, path: &Path, count: u64) {
        if count > 0 {
            // Its name alone: where it lies decides nothing.
            let first = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.add_one(remark, Seen { files: 1, count, first });
        }
    }

    fn add_one(&mut self, remark: Remark, more: Seen) {
        let seen = self.0.entry(remark).or_default();
        if seen.files == 0 {
            seen.first = more.first;
        }
        seen.files = seen.files.saturating_add(more.files);
        seen.count = seen.count.saturating_add(more.count);
    }

    /// Adds the remarks on the files behind these.
    pub(crate) fn add(&mut self, other: Self) {
        other.0.into_iter().for_each(|(remark, seen)| self.add_one(remark, seen));
    }

    /// Forgets the names of files.
    pub(crate) fn clear_names(&mut self) {
        self.0.values_mut().for_each(|seen| seen.first.clear());
    }

    /// The remarks in words.
    pub(crate) fn sentences(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(remark, seen)| sentence(*remark, seen))
    }
}

fn sentence(remark: Remark, Seen { files, count, first }: &Seen) -> String {
    let first = first.escape_debug();
    let of = match files {
        1 => format!("of {first}"),
        _ => format!("of {files} files, {first} the first,"),
    };
    match remark {
        Remark::NoText => format!("{files} input file(s) gave no text, {first} the first: not one token."),
        Remark::IgnoredBytes => {
            format!("{count} byte(s) {of} follow the compressed data and were ignored, as gzip and bzip2 do.")
        }
        Remark::CarriageReturns => format!(
            "{count} line(s) {of} hold carriage returns (\\r) that end no line and were read as blanks; if they end lines, \
             convert them (tr '\\r' '\\n')."
        ),
        Remark::HalfSurrogates => format!(
            "{count} row(s) {of} held half of a surrogate pair (as \"\\ud83d\"), which was replaced by U+FFFD."
        ),
        Remark::Tags => format!(
            "{count} line(s) {of} begin with a tag of markup (as <p>), and the tags are text here; extract the text first."
        ),
        Remark::Table => format!(
            "{count} row(s) {of} were read as a CSV or TSV table, by its column \"text\"; --text-column names another one."
        ),
    }
}
