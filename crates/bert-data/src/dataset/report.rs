//! Reports the contents of the data: counts, fractions, and warnings.
//!
//! A [`DataReport`] is computed from sums over the rows, which can be added in any order, and from statistics of the
//! input. It is saved in the manifest and printed. It reveals common mistakes in such data, for example wrong counts,
//! or labels that are all 1.

use bert_text::{DumpPages, InputEntry};
use serde::{Deserialize, Serialize};

use crate::config::derived::warn_of_cap;
use crate::config::resolved::ResolvedConfig;
use crate::config::{Layout, Masking, Nsp};
use crate::dataset::invariants::check_invariant;
use crate::documents::Counts;
use crate::documents::read_report::ReadReport;
use crate::error::Result;
use crate::instance::coverage::{Counters, Uncovered};

/// Maximum fraction of uncovered tokens without a warning, for several passes.
pub(super) const MAX_UNCOVERED: f64 = 0.01;
/// Maximum fraction of uncovered tokens without a warning, for a single pass as in evaluation data: a pass always omits
/// some tokens.
pub(super) const MAX_UNCOVERED_ONE_PASS: f64 = 0.2;
/// Number of equal ranges in the length histogram.
const RANGES: usize = 16;

/// The kinds of text that a data set was built from.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextKinds {
    /// Whether the lines or rows were split into sentences.
    pub(super) split: bool,
    /// Whether all documents are rows, so that blank lines do not matter.
    pub(super) rows: bool,
}

/// One range of the length histogram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthRange {
    /// Minimum length of the range.
    pub from: usize,
    /// Maximum length of the range.
    pub to: usize,
    /// Number of instances in the range.
    pub instances: u64,
}

/// Figures about the contents of a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataReport {
    /// Number of documents with at least one token.
    pub documents: u64,
    /// Number of documents without tokens, which are left out.
    pub empty_documents: u64,
    /// Number of documents with only one sentence.
    pub one_sentence_documents: u64,
    /// Number of sentences in the text.
    pub sentences: u64,
    /// Number of WordPiece tokens in the text.
    pub tokens: u64,
    /// Number of `[UNK]` tokens.
    pub unknown_tokens: u64,
    /// Number of lines that were not valid UTF-8 or contained a NUL byte, and were repaired.
    pub invalid_utf8_lines: u64,
    /// Number of null rows in tables, which are skipped.
    #[serde(default)]
    pub null_rows: u64,
    /// Number of redirects in Wikipedia dumps, which are left out.
    #[serde(default, skip_serializing_if = "bert_storage::is_default")]
    pub redirects: u64,
    /// Number of other pages in Wikipedia dumps, such as talk pages, which are left out.
    #[serde(default, skip_serializing_if = "bert_storage::is_default")]
    pub other_pages: u64,
    /// Number of sentences that were longer than an instance and were cut into pieces.
    pub cut_sentences: u64,
    /// Average fraction of the tokens that a pass omits from the instances of their own document. These tokens were
    /// truncated, or their document yields no instance.
    pub omitted_fraction: f64,
    /// Number of tokens that were checked for occurrence in the instances of all passes: all tokens, or a sample if
    /// there are more than 262,144. If the shards hold documents, the number of passes is unlimited, and only documents
    /// without instances count.
    pub sampled_tokens: u64,
    /// Number of checked tokens that occur in no instance of any pass.
    pub uncovered_tokens: u64,
    /// Number of rows in the data set.
    pub instances: u64,
    /// Number of tokens in all rows, including `[CLS]` and `[SEP]`. This may be more than `tokens` times the number of
    /// passes, because random next sentences are extra text.
    pub instance_tokens: u64,
    /// Relation between the two segments of an instance.
    #[serde(default)]
    pub nsp: Nsp,
    /// Number of rows with label 1: segment B is random, or the segments are swapped.
    pub random_next: u64,
    /// Layout of the shards. With documents, all counts of instances refer to pass 0, and the loader generates new
    /// instances in every later epoch.
    #[serde(default)]
    pub layout: Layout,
    /// Whether the builder or the loader masks.
    #[serde(default)]
    pub masking: Masking,
    /// Number of masked tokens in all rows; 0 if the loader masks stored instances.
    pub masked_tokens: u64,
    /// Number of masked tokens replaced by `[MASK]`.
    pub replaced_by_mask: u64,
    /// Number of masked tokens left unchanged.
    pub left_unchanged: u64,
    /// Number of masked tokens replaced by another token.
    pub replaced_by_random: u64,
    /// Maximum length of a row.
    pub max_seq_length: usize,
    /// Histogram of the row lengths.
    pub length_histogram: Vec<LengthRange>,
    /// Warnings for the user who built the data.
    pub warnings: Vec<String>,
}

pub(super) fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns the fraction of the tokens of all passes that are in no instance of their own document.
pub(crate) fn omitted_fraction(tokens: u64, covered: u64) -> f64 {
    fraction(tokens.saturating_sub(covered), tokens)
}

impl DataReport {
    pub(crate) fn new(
        config: &ResolvedConfig,
        text: &Counts,
        read: &ReadReport,
        counters: &Counters,
        uncovered: Uncovered,
    ) -> Self {
        let pages = |count: fn(&DumpPages) -> u64| -> u64 {
            read.inputs.iter().filter_map(|input| input.dump.as_ref()).map(count).sum()
        };
        let all_passes = text.tokens.saturating_mul(config.dupe_factor as u64);
        let mut report = Self {
            nsp: config.nsp,
            layout: config.layout,
            masking: config.masking,
            documents: text.documents,
            empty_documents: read.empty_documents,
            one_sentence_documents: read.one_sentence_documents,
            sentences: text.sentences,
            tokens: text.tokens,
            unknown_tokens: read.unknown_tokens,
            invalid_utf8_lines: read.invalid_utf8_lines,
            null_rows: read.null_rows,
            redirects: pages(|dump| dump.redirects),
            other_pages: pages(|dump| dump.other_pages),
            cut_sentences: read.cut_sentences,
            omitted_fraction: omitted_fraction(all_passes, counters.own_tokens),
            sampled_tokens: uncovered.sampled,
            uncovered_tokens: uncovered.tokens,
            instances: counters.instances,
            instance_tokens: counters.tokens,
            random_next: counters.random_next,
            masked_tokens: counters.masked,
            replaced_by_mask: counters.mask_tokens,
            left_unchanged: counters.unchanged,
            replaced_by_random: counters
                .masked
                .saturating_sub(counters.mask_tokens)
                .saturating_sub(counters.unchanged),
            max_seq_length: config.max_seq_length,
            length_histogram: histogram(&counters.lengths),
            warnings: Vec::new(),
        };
        // Rows of tables are always split into sentences; a language is set only if lines were split.
        let is_running = |input: &InputEntry| input.format.is_running_text();
        let split = config.split_sentences || config.language.is_some() || read.inputs.iter().any(is_running);
        let rows = !read.inputs.is_empty() && read.inputs.iter().all(|input| input.format.is_table());
        let paragraphs = report.paragraph_warning(read.long_sentence_tokens, split);
        let warnings = read.warnings().into_iter().chain(paragraphs);
        report.warnings = warnings.chain(report.find_warnings(TextKinds { split, rows }, config)).collect();
        report.warnings.extend(warn_of_cap(
            config.max_seq_length,
            config.masked_lm_prob,
            config.max_predictions_per_seq,
        ));
        report
    }

    /// Compares the counts of instances with recounted rows.
    pub(crate) fn check_counters(&self, counters: &Counters) -> Result<()> {
        let sums = [
            ("the number of instances in the shards", counters.instances, self.instances),
            ("the number of tokens in the shards", counters.tokens, self.instance_tokens),
            ("the number of rows with label 1", counters.random_next, self.random_next),
            ("the number of masked tokens in the shards", counters.masked, self.masked_tokens),
            ("the number of tokens replaced by [MASK]", counters.mask_tokens, self.replaced_by_mask),
            ("the number of unchanged masked tokens", counters.unchanged, self.left_unchanged),
        ];
        sums.into_iter().try_for_each(|(what, found, expected)| check_invariant(what, found, expected))?;
        let lengths = histogram(&counters.lengths);
        let ranges = lengths.iter().zip(&self.length_histogram);
        check_invariant(
            "the number of ranges of lengths",
            lengths.len() as u64,
            self.length_histogram.len() as u64,
        )?;
        ranges.into_iter().try_for_each(|(found, expected)| {
            check_invariant("the number of rows of a range of lengths", found.instances, expected.instances)
        })
    }

    /// Returns the fraction of the text's tokens that are `[UNK]`.
    pub fn unknown_fraction(&self) -> f64 {
        fraction(self.unknown_tokens, self.tokens)
    }

    /// Returns the fraction of the text's tokens that occur in no instance of any pass.
    pub fn uncovered_fraction(&self) -> f64 {
        fraction(self.uncovered_tokens, self.sampled_tokens)
    }

    /// Returns whether the uncovered tokens were counted only in a sample of the text.
    pub fn is_sampled(&self) -> bool {
        self.sampled_tokens < self.tokens
    }

    /// Returns the fraction of the rows with label 1: segment B is random, or the segments are swapped.
    pub fn random_next_fraction(&self) -> f64 {
        fraction(self.random_next, self.instances)
    }

    /// Returns the number of masked tokens divided by the number of all tokens in the rows.
    pub fn masked_fraction(&self) -> f64 {
        fraction(self.masked_tokens, self.instance_tokens)
    }

    /// Returns the fraction of padding if every row were padded to `max_seq_length`.
    pub fn padding_fraction(&self) -> f64 {
        let padded = self.instances.saturating_mul(self.max_seq_length as u64);
        fraction(padded.saturating_sub(self.instance_tokens), padded)
    }
}

/// Returns the minimum and maximum length of each range of the histogram for rows of at most `max_length` tokens.
pub(crate) fn length_ranges(max_length: usize) -> impl Iterator<Item = (usize, usize)> {
    let ranges = RANGES.min(max_length);
    (0..ranges).map(move |range| (max_length * range / ranges + 1, max_length * (range + 1) / ranges))
}

fn histogram(lengths: &[u64]) -> Vec<LengthRange> {
    let sum = |counts: &[u64]| counts.iter().fold(0, |sum: u64, &more| sum.saturating_add(more));
    length_ranges(lengths.len() - 1)
        .map(|(from, to)| LengthRange { from, to, instances: sum(&lengths[from..=to]) })
        .collect()
}
