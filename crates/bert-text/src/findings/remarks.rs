//! Remarks on input files that were read but may have unintended content.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Format;
use crate::forms::text::FormCounts;
use crate::reading::recorded_file_name;

/// A kind of observation about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remark {
    /// The file contains no token.
    NoText,
    /// Trailing bytes after the compressed data; counts bytes.
    IgnoredBytes,
    /// Carriage returns inside lines; counts lines.
    CarriageReturns,
    /// Halves of surrogate pairs in JSON; counts rows.
    HalfSurrogates,
    /// Markup: lines or rows with tags.
    Tags,
    /// CSV or TSV read by the default column; counts rows.
    Table,
    /// The language of a dump has no sentence rules; counts articles.
    SentenceRules,
    /// Lines that break inside sentences and were joined; counts breaks.
    JoinedLines,
    /// The same, where the file is one document.
    JoinedBook,
    /// Lines that break inside sentences and were read as sentences; counts breaks.
    BrokenLines,
    /// Rows whose lines break inside sentences and were joined; counts rows.
    JoinedRows,
    /// Lines with tabs in a file that is not a table.
    Tabs,
    /// Lines or rows with entities.
    Entities,
    /// Lines or rows with `\n` in letters.
    LiteralBreaks,
    /// Lines or rows with `<unk>`.
    UnknownWords,
    /// Lines or rows in UTF-8 that was encoded twice.
    TwiceEncoded,
    /// Lines or rows with accents as separate characters.
    Decomposed,
    /// Zero-width spaces that were read as blanks.
    ZeroWidthSpaces,
    /// Files with one token per line; counts lines.
    Columns,
    /// Subtitles; counts lines.
    Subtitles,
    /// Mails; counts mails without text.
    Mail,
    /// Records of MEDLINE or RIS; counts records without abstracts.
    Records,
    /// Bibles; counts lines.
    Verses,
    /// Text with separators of documents; counts lines.
    Delimited,
    /// Page numbers and heads that were left out; counts lines.
    PageHeads,
    /// Sentences that were cut because no end was found in their script; counts sentences.
    Unsegmented,
    /// Lines or rows whose words are not separated, in a script without blanks.
    Unseparated,
    /// Words that are longer than the tokenizer's limit.
    LongWords,
    /// Lines or rows with marks between fields.
    Fields,
    /// Lines or rows that begin with an identifier or a number.
    Identifiers,
    /// Lines of marks.
    Rules,
}

/// Number of files with an observation, its total count, and the first file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Occurrences {
    pub(super) files: u64,
    pub(super) count: u64,
    /// Number of lines, rows or breaks of which these are a part; 0 if it does not matter.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) all: u64,
    pub(super) first: String,
    /// Lines or rows of the first file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) examples: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// All remarks on a set of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remarks(pub(super) BTreeMap<Remark, Occurrences>);

impl Remarks {
    /// Returns whether there are no remarks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there is no remark of this kind.
    pub fn is_without(&self, remark: Remark) -> bool {
        !self.0.contains_key(&remark)
    }

    /// Adds an observation about a file, unless its count is zero.
    pub fn add_count(&mut self, remark: Remark, path: &Path, count: u64) {
        if count > 0 {
            self.add_share(remark, path, [count, 0], Vec::new());
        }
    }

    /// Adds an observation about a part of a file: its count, the count of the whole, and examples.
    pub(crate) fn add_share(
        &mut self,
        remark: Remark,
        path: &Path,
        [count, all]: [u64; 2],
        examples: Vec<String>,
    ) {
        let first = recorded_file_name(path);
        self.add_one(remark, Occurrences { files: 1, count, all, first, examples });
    }

    /// Adds the remarks on a file that was converted.
    pub(crate) fn add_form(&mut self, format: Format, path: &Path, counts: FormCounts) {
        let remark = match format {
            Format::Wrapped if counts.is_one_document => Remark::JoinedBook,
            Format::Wrapped => Remark::JoinedLines,
            Format::Conllu | Format::Conll | Format::Vertical => Remark::Columns,
            Format::Subtitles => Remark::Subtitles,
            Format::Mail => Remark::Mail,
            Format::Medline => Remark::Records,
            Format::Verses => Remark::Verses,
            Format::Delimited => Remark::Delimited,
            _ => return,
        };
        match format {
            Format::Wrapped => {
                let example = counts.example.map(|lines| lines.map(|line| short(&line)));
                self.add_share(
                    remark,
                    path,
                    [counts.joined, counts.lines],
                    example.map(Vec::from).unwrap_or_default(),
                );
                if let Some(line) = counts.left_out_line {
                    self.add_share(Remark::PageHeads, path, [counts.left_out, 0], vec![short(&line)]);
                }
            }
            Format::Mail | Format::Medline => {
                self.add_share(remark, path, [counts.left_out, counts.lines], Vec::new())
            }
            _ => self.add_share(remark, path, [counts.lines, counts.lines], Vec::new()),
        }
    }

    fn add_one(&mut self, remark: Remark, more: Occurrences) {
        let seen = self.0.entry(remark).or_default();
        if seen.files == 0 {
            seen.first = more.first;
            seen.examples = more.examples;
        }
        seen.files = seen.files.saturating_add(more.files);
        seen.count = seen.count.saturating_add(more.count);
        seen.all = seen.all.saturating_add(more.all);
    }

    /// Adds the remarks on later files.
    pub fn add(&mut self, other: Self) {
        other.0.into_iter().for_each(|(remark, seen)| self.add_one(remark, seen));
    }

    /// Removes the names of files.
    pub fn clear_names(&mut self) {
        self.0.values_mut().for_each(|seen| seen.first.clear());
    }
}

/// Maximum number of characters of an example.
const EXAMPLE: usize = 60;

/// Returns the first characters of a text.
pub(super) fn short(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(EXAMPLE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
