//! Warnings about a data set, found in its figures.

use bert_tokenization::turkic::is_turkic;

use super::report::{DataReport, MAX_UNCOVERED, MAX_UNCOVERED_ONE_PASS, TextKinds, fraction};
use crate::config::language::{has_sentence_rules, language_code};
use crate::config::resolved::ResolvedConfig;
use crate::config::{Layout, Nsp, RandomMode};
use crate::documents::read_report::PARAGRAPH_TOKENS;

/// Minimum number of lines for a warning about their length.
const MIN_LINES: u64 = 20;
/// Share of random next sentences that documents of two or more sentences do not exceed: two or three sentences give
/// 65 %, seven or eight give 62 %.
const MAX_RANDOM: f64 = 0.66;
/// Share of actual next sentences that documents of two or more sentences do not exceed.
const MAX_ACTUAL: f64 = 0.6;

impl TextKinds {
    /// Returns advice for documents that are too short.
    fn advice(self) -> String {
        let or_split = if self.split { "" } else { "; if the lines are paragraphs, use --split-sentences" };
        if self.rows {
            "Give rows of several sentences, or use --nsp off, which needs no pairs of sentences.".to_owned()
        } else {
            format!(
                "Put blank lines between documents, not between sentences{or_split}; single sentences are for --nsp off."
            )
        }
    }
}

impl DataReport {
    /// Returns a warning if most of a text that is not split into sentences is in lines as long as paragraphs.
    pub(super) fn paragraph_warning(&self, long_sentence_tokens: u64, split: bool) -> Option<String> {
        let are_enough = self.sentences >= MIN_LINES || self.tokens >= MIN_LINES * PARAGRAPH_TOKENS as u64;
        let are_paragraphs = !split && 2 * long_sentence_tokens > self.tokens && are_enough;
        are_paragraphs.then(|| {
            format!(
                "{:.0} % of the tokens are in lines of {PARAGRAPH_TOKENS} tokens or more, so the lines are paragraphs, not \
                 sentences: use --split-sentences, with --language for another language than English.",
                100.0 * fraction(long_sentence_tokens, self.tokens)
            )
        })
    }

    /// Returns the warnings that follow from the counts of the report.
    pub(super) fn find_warnings(&self, kinds: TextKinds, config: &ResolvedConfig) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |text: String| warnings.push(text);
        if self.nsp == Nsp::On && self.documents == 1 {
            let advice = if kinds.rows {
                "Give more rows"
            } else {
                "Put blank lines between documents, or give more files"
            };
            warn(format!(
                "There is one document only, so a next sentence cannot be drawn from another one and the next sentence \
                 labels teach nothing. {advice}, or use --nsp off."
            ));
        }
        if self.nsp != Nsp::Off && 2 * self.one_sentence_documents > self.documents {
            let so = match self.nsp {
                Nsp::Sop => " and give no pair of sentences",
                _ => ", and such documents give random next sentences only",
            };
            warn(format!(
                "{} of {} documents have one sentence only{so}. {}",
                self.one_sentence_documents,
                self.documents,
                kinds.advice()
            ));
        }
        let random = self.random_next_fraction();
        if self.nsp == Nsp::On && self.instances > 0 && !(1.0 - MAX_ACTUAL..=MAX_RANDOM).contains(&random) {
            let (class, part) = if random > 0.5 { ("random", random) } else { ("actual", 1.0 - random) };
            let cause = match self.layout {
                Layout::Documents if self.documents < 2 * config.num_shards as u64 => format!(
                    "These counts, and an evaluation, draw random next sentences from the same row group, and some row \
                     groups have one document: --num-shards {} or fewer avoids it. Training draws from many row groups.",
                    (self.documents / 2).max(1)
                ),
                _ if random <= 0.5 => "Too few documents are the usual cause.".to_owned(),
                _ => format!("Documents with one sentence are the usual cause. {}", kinds.advice()),
            };
            warn(format!(
                "{:.1} % of the next sentence labels are {class}: more than {:.0} % in one class. {cause}",
                100.0 * part,
                100.0 * if random > 0.5 { MAX_RANDOM } else { MAX_ACTUAL }
            ));
        }
        let one_pass = config.dupe_factor == 1 && config.layout == Layout::Instances;
        let limit = if one_pass { MAX_UNCOVERED_ONE_PASS } else { MAX_UNCOVERED };
        if self.uncovered_fraction() >= limit {
            warn(self.why_uncovered(kinds, config));
        }
        if self.unknown_fraction() > 0.05 {
            warn(format!(
                "{:.1} % of the tokens are [UNK]: the vocabulary does not fit the text, or --do-lower-case does not \
                 fit the vocabulary.",
                100.0 * self.unknown_fraction()
            ));
        }
        if let Some(language) = config.language.as_ref().filter(|_| kinds.split)
            && !language_code(language).is_some_and(|code| has_sentence_rules(&code))
        {
            warn(format!(
                "The sentence splitter has no rules for the language {language}; its sentences were ended as in English."
            ));
        }
        let is_turkic = config.language.as_deref().is_some_and(is_turkic);
        if is_turkic && config.do_lower_case && config.random == RandomMode::Keyed {
            warn(
                "Words were lower-cased as in Turkish (I to ı), but a model folder cannot state this rule, and the \
                 programs that read the model lower-case I to i: lower-case their texts before."
                    .to_owned(),
            );
        }
        if self.invalid_utf8_lines > 0 {
            warn(format!("{} line(s) were not UTF-8 and were repaired.", self.invalid_utf8_lines));
        }
        if self.null_rows > 0 {
            warn(format!("{} row(s) were null and were skipped.", self.null_rows));
        }
        warnings
    }

    /// Returns an explanation of why tokens occur in no instance, with advice. Advises a larger `--dupe-factor` only if
    /// several passes omit mostly different tokens.
    pub(super) fn why_uncovered(&self, kinds: TextKinds, config: &ResolvedConfig) -> String {
        let uncovered = self.uncovered_fraction();
        let omitted = self.omitted_fraction;
        // Expected fraction if every pass omitted tokens independently; it is `omitted` if all passes omitted the same
        // tokens.
        let independent = omitted.powi(config.dupe_factor as i32);
        let mostly_independent = uncovered < 2.0 * independent && 2.0 * uncovered < independent + omitted;
        let several_passes = config.dupe_factor > 1 && config.layout == Layout::Instances;
        let why = if several_passes && mostly_independent {
            format!(
                "each pass omits {:.1} %, mostly different ones; a larger --dupe-factor covers more",
                100.0 * omitted
            )
        } else if config.nsp == Nsp::Sop {
            "documents of one sentence give no pair of sentences".to_owned()
        } else {
            let keyed = if config.random == RandomMode::Reference { " or --random keyed" } else { "" };
            let split = if kinds.split { "" } else { "--split-sentences, " };
            format!(
                "sentences of more than half an instance lose both ends in every pass; use {split}a larger \
                 --max-seq-length{keyed}"
            )
        };
        let sample = if self.is_sampled() { " of a sample" } else { "" };
        format!("{:.1} % of the tokens{sample} occur in no instance: {why}.", 100.0 * uncovered)
    }
}
