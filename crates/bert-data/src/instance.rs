//! From documents to sentence pairs.
//!
//! In goes one document of a corpus and a source of draws; out come [`Instance`]s, one after another, each a pair
//! `[CLS] A [SEP] B [SEP]` where B follows A or is taken from another document. Not for masks: the caller masks each
//! instance as it comes, because the reference draws for the mask before it draws for the next pair. Ports
//! `create_instances_from_document` and `truncate_seq_pair`, draw by draw.
//!
//! Beside the reference's pairs there are two other kinds ([`Nsp`]). Without next sentences an instance is one segment
//! `[CLS] A [SEP]` of consecutive sentences; a sentence that does not fit in is cut and goes on in the next instance,
//! so that every token is used once. With sentence order (ALBERT) A and B are always consecutive, and swapped in half
//! of the instances; a document of one sentence then gives none, and neither does a single sentence that is left over
//! at a document's end.

use std::ops::Range;

use crate::config::Nsp;
use crate::document::{Document, Documents};
use crate::error::Result;
use crate::rng::Random;
use crate::vocabulary::Vocabulary;

/// One sentence pair, not yet masked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Token ids with `[CLS]` and `[SEP]`.
    pub tokens: Vec<u32>,
    /// 0 for `[CLS] A [SEP]`, 1 for `B [SEP]`.
    pub segment_ids: Vec<i8>,
    /// Whether B does not follow A in the text: it is random, or ([`Nsp::Sop`]) the two are swapped.
    pub is_random_next: bool,
}

impl Instance {
    /// Number of tokens of `[CLS] A [SEP]`.
    #[must_use]
    pub fn first_segment_tokens(&self) -> usize {
        self.segment_ids.partition_point(|&segment| segment == 0)
    }
}

/// How pairs are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairRules {
    /// Most tokens of an instance.
    pub max_seq_length: usize,
    /// Probability that a document's instances are made short.
    pub short_seq_prob: f64,
    /// The 2018 script's rules: another document is sought in ten draws, and the same one taken if they all fail.
    /// Otherwise one exact draw among the others; in a corpus of one document, only pairs that follow each other.
    pub reference: bool,
    /// What the segments are.
    pub nsp: Nsp,
    cls: u32,
    sep: u32,
}

impl PairRules {
    /// Rules over a vocabulary.
    #[must_use]
    pub fn new(
        vocabulary: &Vocabulary,
        max_seq_length: usize,
        short_seq_prob: f64,
        nsp: Nsp,
        reference: bool,
    ) -> Self {
        let (cls, sep) = (vocabulary.cls_id(), vocabulary.sep_id());
        Self { max_seq_length, short_seq_prob, reference, nsp, cls, sep }
    }

    /// How many tokens of text an instance of a document may have, and how many it shall have in this pass. One draw
    /// for each document and pass: truncation is to the former, the latter is only a rough target.
    fn lengths<R: Random>(&self, special: usize, random: &mut R) -> (usize, usize) {
        let most_tokens = self.max_seq_length - special;
        if random.chance(self.short_seq_prob) {
            return (most_tokens, random.range_inclusive(2, most_tokens));
        }
        (most_tokens, most_tokens)
    }
}

/// Makes all instances of one document in one pass and hands each to `emit`, together with the source of draws.
///
/// # Errors
/// Only those of `emit`.
pub fn create_instances_from_document<R: Random>(
    documents: &Documents,
    index: usize,
    rules: &PairRules,
    random: &mut R,
    mut emit: impl FnMut(&mut R, &Instance) -> Result<()>,
) -> Result<()> {
    let document = documents.document(index);
    if rules.nsp == Nsp::Off {
        return create_single_segments(document, rules, random, emit);
    }
    let (most_tokens, target) = rules.lengths(3, random);
    // One document gives no random next: its pairs are then all taken from consecutive text.
    let alone = rules.nsp == Nsp::Sop || (documents.len() == 1 && !rules.reference);
    let mut instance = Instance::default();
    let (mut start, mut length, mut i) = (0, 0, 0);
    while i < document.sentences() {
        length += document.sentence_tokens(i);
        let segments = i + 1 - start;
        let is_last = i + 1 == document.sentences();
        if (is_last || length >= target) && !(alone && segments == 1) {
            let a_end = if segments >= 2 { random.range_inclusive(1, segments - 1) } else { 1 };
            let mut a = document.token_range(start..start + a_end);
            let is_random_next = !alone && (segments == 1 || random.chance(0.5));
            let mut b;
            if is_random_next {
                b = random_next(documents, index, rules.reference, target.saturating_sub(a.len()), random);
                // The unused segments are put back, so that they do not go to waste.
                i -= segments - a_end;
            } else {
                b = document.token_range(start + a_end..i + 1);
            }
            truncate_seq_pair(&mut a, &mut b, most_tokens, random);
            let is_random_next = is_random_next || (rules.nsp == Nsp::Sop && random.chance(0.5));
            if is_random_next && rules.nsp == Nsp::Sop {
                std::mem::swap(&mut a, &mut b);
            }
            fill(&mut instance, document, a, b, is_random_next, rules);
            emit(random, &instance)?;
            start = i + 1;
            length = 0;
        }
        i += 1;
    }
    Ok(())
}

/// Instances of one segment: the document's tokens, cut at every target.
fn create_single_segments<R: Random>(
    document: Document<'_>,
    rules: &PairRules,
    random: &mut R,
    mut emit: impl FnMut(&mut R, &Instance) -> Result<()>,
) -> Result<()> {
    let (_, target) = rules.lengths(2, random);
    let mut instance = Instance::default();
    let all = document.token_range(0..document.sentences());
    for start in all.clone().step_by(target) {
        instance.tokens.clear();
        instance.tokens.push(rules.cls);
        document.append_tokens(start..all.end.min(start + target), &mut instance.tokens);
        instance.tokens.push(rules.sep);
        instance.segment_ids.clear();
        instance.segment_ids.resize(instance.tokens.len(), 0);
        emit(random, &instance)?;
    }
    Ok(())
}

/// Text from another document: from a random sentence on, until there is enough or the document ends.
fn random_next<R: Random>(
    documents: &Documents,
    index: usize,
    reference: bool,
    target: usize,
    random: &mut R,
) -> Range<usize> {
    let mut other = index;
    if reference {
        for _ in 0..10 {
            other = random.below(documents.len());
            if other != index {
                break;
            }
        }
    } else {
        // Every other document is equally likely.
        other = random.below(documents.len() - 1);
        other += usize::from(other >= index);
    }
    let document = documents.document(other);
    let start = random.below(document.sentences());
    let mut end = start + 1;
    while end < document.sentences() && document.token_range(start..end).len() < target {
        end += 1;
    }
    document.token_range(start..end)
}

/// Cuts single tokens from the longer side (B on a tie), front or back at random, until the pair fits.
fn truncate_seq_pair<R: Random>(
    a: &mut Range<usize>,
    b: &mut Range<usize>,
    most_tokens: usize,
    random: &mut R,
) {
    while a.len() + b.len() > most_tokens {
        let longer = if a.len() > b.len() { &mut *a } else { &mut *b };
        if random.chance(0.5) {
            longer.start += 1;
        } else {
            longer.end -= 1;
        }
    }
}

fn fill(
    instance: &mut Instance,
    document: Document<'_>,
    a: Range<usize>,
    b: Range<usize>,
    is_random_next: bool,
    rules: &PairRules,
) {
    let (first, second) = (a.len() + 2, b.len() + 1);
    instance.tokens.clear();
    instance.tokens.push(rules.cls);
    document.append_tokens(a, &mut instance.tokens);
    instance.tokens.push(rules.sep);
    document.append_tokens(b, &mut instance.tokens);
    instance.tokens.push(rules.sep);
    instance.segment_ids.clear();
    instance.segment_ids.resize(first, 0);
    instance.segment_ids.resize(first + second, 1);
    instance.is_random_next = is_random_next;
}
