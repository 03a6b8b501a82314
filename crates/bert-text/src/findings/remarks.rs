//! Remarks on input files that were read but may have unintended content.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Format;
use crate::forms::text::FormCounts;
use crate::reading::recorded_file_name;

/// A kind of observation about a file. The unit of its count is in parentheses if it is not the first noun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remark {
    /// The file contains no token.
    NoText,
    /// Trailing bytes after the compressed data (unit: bytes).
    IgnoredBytes,
    /// Carriage returns inside lines (unit: lines).
    CarriageReturns,
    /// Halves of surrogate pairs in JSON (unit: rows).
    HalfSurrogates,
    /// Markup: lines or rows with tags.
    Tags,
    /// CSV or TSV whose text was read from the default column (unit: rows).
    Table,
    /// The language of a dump has no sentence rules (unit: articles).
    SentenceRules,
    /// Lines that break inside sentences and were joined (unit: breaks).
    JoinedLines,
    /// Lines that break inside sentences and were joined, in a file that is one document (unit: breaks).
    JoinedBook,
    /// Lines that break inside sentences and were joined, in a file with separators of documents (unit: breaks).
    JoinedParts,
    /// Lines that break inside sentences and were read as sentences (unit: breaks).
    BrokenLines,
    /// Rows whose lines break inside sentences and were joined (unit: rows).
    JoinedRows,
    /// Lines with tabs in a file that is not a table.
    Tabs,
    /// Lines or rows with entities.
    Entities,
    /// Lines or rows with a backslash and the letter n instead of a line break.
    LiteralBreaks,
    /// Lines or rows with `<unk>`.
    UnknownWords,
    /// Lines or rows that were encoded as UTF-8 twice.
    TwiceEncoded,
    /// Lines or rows with accents as separate characters.
    Decomposed,
    /// Zero-width spaces that were read as spaces.
    ZeroWidthSpaces,
    /// One token per line (unit: lines).
    Columns,
    /// Subtitles (unit: lines).
    Subtitles,
    /// Mails (unit: mails without text).
    Mail,
    /// Records of MEDLINE or RIS (unit: records without abstracts).
    Records,
    /// A Bible with one verse per line (unit: lines).
    Verses,
    /// Text with separators such as `<|endoftext|>` between documents (unit: lines).
    Delimited,
    /// Page numbers and page headers that were left out (unit: lines).
    PageHeads,
    /// Sentences that were cut because no end was found in their script (unit: sentences).
    Unsegmented,
    /// Lines or rows whose words are not separated, in a script without spaces.
    Unseparated,
    /// Sentences with words that are longer than the tokenizer's limit (unit: sentences).
    LongWords,
    /// Lines or rows with separators such as `|` between fields.
    Fields,
    /// Lines or rows that begin with an identifier or a number.
    Identifiers,
    /// Lines that consist of one repeated character, such as `-----`.
    Rules,
}

/// Number of files with an observation, its total count, and the first file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Occurrences {
    pub(super) files: u64,
    pub(super) count: u64,
    /// Total number of lines, rows or breaks, of which `count` is a part; 0 if the remark does not state a percentage.
    #[serde(default, skip_serializing_if = "bert_storage::is_default")]
    pub(super) all: u64,
    pub(super) first: String,
    /// Examples of lines or rows of the first file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) examples: Vec<String>,
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
            Format::Wrapped if counts.is_delimited => Remark::JoinedParts,
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

impl Remarks {
    /// Iterates over the remarks as sentences.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(remark, seen)| sentence(*remark, seen))
    }
}

impl Occurrences {
    /// Returns the file, or the number of files and the first one, as part of a sentence.
    fn origin(&self) -> String {
        let first = self.first.escape_debug();
        match self.files {
            1 => format!("of {first}"),
            files => format!("of {files} files, {first} the first,"),
        }
    }

    /// Returns the files as the subject of a sentence, with its verb.
    fn are_read_as(&self, what: &str) -> String {
        let first = self.first.escape_debug();
        match self.files {
            1 => format!("{first} was read as {what}"),
            files => format!("{files} files, {first} the first, were read as {what}"),
        }
    }

    /// Returns the count as a percentage of the total.
    fn percent(&self) -> String {
        format!("{:.0} %", 100.0 * self.count as f64 / self.all.max(1) as f64)
    }

    /// Returns the quoted examples, with `before` in front of the first and `between` between two of them.
    fn examples(&self, before: &str, between: &str) -> String {
        let quoted: Vec<String> =
            self.examples.iter().map(|line| format!("\"{}\"", line.escape_debug())).collect();
        if quoted.is_empty() { String::new() } else { format!("{before}{}", quoted.join(between)) }
    }
}

fn sentence(remark: Remark, seen: &Occurrences) -> String {
    let files = seen.files;
    let count = seen.count;
    let first = seen.first.escape_debug();
    let origin = seen.origin();
    let percent = seen.percent();
    let lines = || seen.examples(", as in ", " and ");
    let broken = || seen.examples(", as between ", " and ");
    let left_out = |what| if count > 0 { format!("; {count} {what} were left out") } else { String::new() };
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
            "{percent} of the lines or rows {origin} have tags of markup{}, and the tags are text here; extract the text first \
             (trafilatura, pandoc -t plain).",
            lines()
        ),
        Remark::SentenceRules => format!(
            "{count} article(s) {origin} are in a language for which the sentence splitter has no rules; those of English were \
             used. --language selects those of a similar language."
        ),
        Remark::Table => format!(
            "{count} row(s) {origin} were read as a CSV or TSV table, by its column \"text\"; --text-column names another one."
        ),
        Remark::JoinedLines => format!(
            "the lines {origin} break inside sentences ({percent} of them{}) and were joined to paragraphs; blank lines end \
             documents. --line-breaks sentence reads each line as a sentence.",
            broken()
        ),
        Remark::JoinedBook => format!(
            "the lines {origin} break inside sentences ({percent} of them{}) and were joined to paragraphs; each file is one \
             document. --line-breaks sentence reads each line as a sentence and each paragraph as a document.",
            broken()
        ),
        Remark::JoinedParts => format!(
            "the lines {origin} break inside sentences ({percent} of them{}) and were joined to paragraphs; the separators \
             (<|endoftext|>) end documents. --line-breaks sentence reads each line as a sentence.",
            broken()
        ),
        Remark::BrokenLines => format!(
            "{percent} of the line breaks {origin} lie inside sentences{}, so lines are fragments of sentences here: \
             --line-breaks wrapped joins them.",
            broken()
        ),
        Remark::JoinedRows => format!(
            "{percent} of the rows {origin} have line breaks inside sentences{}, and their lines were joined; --line-breaks \
             sentence ends a sentence at each line break.",
            broken()
        ),
        Remark::Tabs => format!(
            "{percent} of the lines {origin} have tabs{}, and all columns are text here; if it is a table, give it the name \
             of one (.tsv) and its column with --text-column.",
            lines()
        ),
        Remark::Entities => format!(
            "{percent} of the lines or rows {origin} have entities of markup{}; convert them first (python3 -c 'import \
             html,sys; sys.stdout.writelines(map(html.unescape, sys.stdin))').",
            lines()
        ),
        Remark::LiteralBreaks => format!(
            "{percent} of the lines or rows {origin} have a backslash and n between words{}, which is text here; convert it to \
             line breaks first (sed 's/\\\\n/\\n/g').",
            lines()
        ),
        Remark::UnknownWords => format!(
            "{percent} of the lines or rows {origin} have <unk> for rare words{}, which becomes three tokens here; use the \
             original text (for WikiText the raw version).",
            lines()
        ),
        Remark::TwiceEncoded => format!(
            "{percent} of the lines or rows {origin} are UTF-8 that was read as Latin-1 and encoded again{}; mend them first \
             (ftfy).",
            lines()
        ),
        Remark::Decomposed => format!(
            "{percent} of the lines or rows {origin} have accents as separate characters (NFD){}; a vocabulary of other text \
             has them composed: convert the text (uconv -x any-nfc).",
            lines()
        ),
        Remark::ZeroWidthSpaces => {
            format!("{count} zero-width space(s) (U+200B) {origin} separate words and were read as blanks.")
        }
        Remark::Columns => format!(
            "{}: the words or the text of each sentence were read, the other columns were left out.",
            seen.are_read_as("a treebank with one token per line (CoNLL-U, CoNLL or vertical text)")
        ),
        Remark::Subtitles => format!(
            "{}: the cues were joined to sentences, numbers and time codes were left out; each file is one document.",
            seen.are_read_as("subtitles (SubRip or WebVTT)")
        ),
        Remark::Mail => format!(
            "{}: each mail is a document, without header, quotations and signature{}.",
            seen.are_read_as("mail"),
            left_out("mail(s) without plain text")
        ),
        Remark::Records => format!(
            "{}: title and abstract of each record are a document{}.",
            seen.are_read_as("records of MEDLINE or RIS"),
            left_out("record(s) without abstract")
        ),
        Remark::Verses => format!(
            "{}: each verse is a sentence and each chapter a document; the numbers were left out.",
            seen.are_read_as("a Bible with a number, a tab and a verse on each line")
        ),
        Remark::Delimited => format!(
            "{}: blank lines do not end documents there, and the separators were left out.",
            seen.are_read_as("documents between separators (<|endoftext|>)")
        ),
        Remark::PageHeads => {
            format!("{count} page number(s) and page head(s) {origin} were left out{}.", lines())
        }
        Remark::Unsegmented => format!(
            "{count} sentence(s) {origin} were cut by length, because no end of a sentence was found in them: their script or \
             language has no rules here. Put each sentence on its own line, or give a list of sentences for each row."
        ),
        Remark::Unseparated => format!(
            "{percent} of the lines or rows {origin} are in a script without blanks between words{}, and whole phrases are \
             words here: separate the words first, with blanks or U+200B.",
            lines()
        ),
        Remark::Fields => format!(
            "{percent} of the lines or rows {origin} have fields between marks{}, and all fields are text here; keep the one \
             with the text (awk -F ' *[+|$]+ *' '{{print $NF}}' for the last).",
            lines()
        ),
        Remark::Identifiers => format!(
            "{percent} of the lines or rows {origin} begin with an identifier or a number{}, which is text here; remove it (cut \
             -d' ' -f2- for one word).",
            lines()
        ),
        Remark::Rules => format!(
            "{count} line(s) {origin} are marks only{}, and each is a sentence here; if they separate documents, put blank lines \
             instead (sed 's/^[-_=~#]*$//').",
            lines()
        ),
        Remark::LongWords => format!(
            "{count} sentence(s) {origin} have words that are too long for the tokenizer and became [UNK]: if the script has no \
             blanks between words, separate the words first (with blanks or U+200B)."
        ),
    }
}
