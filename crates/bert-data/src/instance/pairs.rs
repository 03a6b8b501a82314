//! Generates sentence pairs from documents.
//!
//! A [`Pair`] gives the positions of A and B; B follows A or comes from another document. [`Pair::fill`] turns it into
//! an [`Instance`], `[CLS] A [SEP] B [SEP]`, without random draws. The caller masks each instance immediately, because
//! the reference draws an instance's masks before the next pair. The module ports `create_instances_from_document` and
//! `truncate_seq_pair`, draw by draw.
//!
//! [`Nsp`] has two more kinds of pairs. Without next sentence prediction (`off`), an instance is one segment `[CLS] A
//! [SEP]` of consecutive sentences. A sentence that does not fit is split and continues in the next instance, so every
//! token is used once. With sentence order prediction (`sop`, as in ALBERT), A and B are always consecutive, and
//! swapped in half of the instances. In this case, a document of one sentence gives no instance, and neither does a
//! single remaining sentence at a document's end.

use std::ops::Range;

use bert_random::Random;
use bert_tokenization::TokenId;

use crate::config::Nsp;
use crate::documents::{Document, Documents};
use crate::error::Result;

/// One sentence pair: a row of the training data, before or after masking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Token ids with `[CLS]` and `[SEP]` (`input_ids`).
    pub tokens: Vec<TokenId>,
    /// Segment of each token: 0 for `[CLS] A [SEP]`, 1 for `B [SEP]`.
    pub segment_ids: Vec<i8>,
    /// Positions of the masked tokens, ascending; none before masking.
    pub masked_lm_positions: Vec<u32>,
    /// The original ids at the masked positions.
    pub masked_lm_ids: Vec<TokenId>,
    /// Whether B does not follow A in the text: it is random, or ([`Nsp::Sop`]) the two are swapped.
    pub is_random_next: bool,
}

impl Instance {
    /// Returns the number of tokens of `[CLS] A [SEP]`.
    pub fn first_segment_tokens(&self) -> usize {
        self.segment_ids.partition_point(|&segment| segment == 0)
    }
}

/// Positions of the segments of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    a: Segment,
    /// Segment B, which is empty if there is only one segment.
    b: Segment,
    /// Whether B was drawn from another document.
    b_elsewhere: bool,
    /// Whether B does not follow A in the text: it is random, or the two are swapped.
    pub is_random_next: bool,
}

/// Consecutive tokens of a document, identified by its index in the corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) document: u32,
    start: u32,
    tokens: u16,
}

impl Segment {
    fn new(document: usize, tokens: &Range<usize>) -> Self {
        Self { document: document as u32, start: tokens.start as u32, tokens: tokens.len() as u16 }
    }

    /// Returns the range of its tokens in the document.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + usize::from(self.tokens)
    }
}

/// Rules for generating pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairRules {
    /// Maximum number of tokens of an instance.
    pub max_seq_length: usize,
    /// Probability that a document's instances get a shorter target length.
    pub short_seq_prob: f64,
    /// Whether the 2018 script's rules apply: ten draws for another document, and the same document if all fail.
    /// Otherwise one draw selects among the other documents; a corpus of one document gives only consecutive pairs.
    pub reference: bool,
    /// Relation between the segments.
    pub nsp: Nsp,
    /// The id of `[CLS]`.
    pub cls: TokenId,
    /// The id of `[SEP]`.
    pub sep: TokenId,
}

impl PairRules {
    /// Returns the maximum and the target number of text tokens of an instance. There is one draw for each document and
    /// pass; truncation uses the maximum, and the target is only approximate.
    fn lengths<R: Random>(&self, special: usize, random: &mut R) -> (usize, usize) {
        let max_tokens = self.max_seq_length - special;
        if random.chance(self.short_seq_prob) {
            return (max_tokens, random.range_inclusive(2, max_tokens));
        }
        (max_tokens, max_tokens)
    }
}

/// The segments of a pair before they were truncated, as token ranges of their documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UncutPair {
    /// Target number of text tokens of this document's instances: the maximum, or a shorter length that was drawn at
    /// random.
    pub(crate) target: usize,
    pub(crate) a: Range<usize>,
    pub(crate) b: Range<usize>,
}

/// Draws all pairs of one document in one pass and passes each to `emit`, together with the source of draws.
///
/// # Errors
/// Returns the errors of `emit`.
pub(crate) fn draw_pairs<R: Random>(
    documents: &Documents,
    index: usize,
    rules: &PairRules,
    random: &mut R,
    mut emit: impl FnMut(&mut R, Pair) -> Result<()>,
) -> Result<()> {
    draw_uncut_pairs(documents, index, rules, random, |random, pair, _| emit(random, pair))
}

/// Draws pairs as [`draw_pairs`] does, and also passes the segments before their truncation to `emit`.
///
/// # Errors
/// Returns the errors of `emit`.
pub(crate) fn draw_uncut_pairs<R: Random>(
    documents: &Documents,
    index: usize,
    rules: &PairRules,
    random: &mut R,
    mut emit: impl FnMut(&mut R, Pair, &UncutPair) -> Result<()>,
) -> Result<()> {
    let document = documents.document(index);
    if rules.nsp == Nsp::Off {
        return cut_single_segments(document, index, rules, random, emit);
    }
    let (max_tokens, target) = rules.lengths(3, random);
    // A single document gives no random next sentence: all its pairs are consecutive text.
    let alone = rules.nsp == Nsp::Sop || (documents.len() == 1 && !rules.reference);
    let mut start = 0;
    let mut i = 0;
    while i < document.sentences() {
        let chunk = document.sentence_start(start)..document.sentence_start(i + 1);
        let segments = i + 1 - start;
        let is_last = i + 1 == document.sentences();
        if (is_last || chunk.len() >= target) && !(alone && segments == 1) {
            let a_end = if segments >= 2 { random.range_inclusive(1, segments - 1) } else { 1 };
            let border = document.sentence_start(start + a_end);
            let mut a = chunk.start..border;
            let mut b = border..chunk.end;
            let b_elsewhere = !alone && (segments == 1 || random.chance(0.5));
            let mut other = index;
            if b_elsewhere {
                let wanted = target.saturating_sub(a.len());
                (other, b) = random_next(documents, index, rules.reference, wanted, random);
                // The unused segments are put back, so that they are used by a later pair.
                i -= segments - a_end;
            }
            let uncut = UncutPair { target, a: a.clone(), b: b.clone() };
            truncate_seq_pair(&mut a, &mut b, max_tokens, random);
            let mut a = Segment::new(index, &a);
            let mut b = Segment::new(other, &b);
            let swapped = rules.nsp == Nsp::Sop && random.chance(0.5);
            if swapped {
                std::mem::swap(&mut a, &mut b);
            }
            emit(random, Pair { a, b, b_elsewhere, is_random_next: b_elsewhere || swapped }, &uncut)?;
            start = i + 1;
        }
        i += 1;
    }
    Ok(())
}

/// Generates instances of one segment: the document's tokens, split at every target length.
fn cut_single_segments<R: Random>(
    document: Document<'_>,
    index: usize,
    rules: &PairRules,
    random: &mut R,
    mut emit: impl FnMut(&mut R, Pair, &UncutPair) -> Result<()>,
) -> Result<()> {
    let (_, target) = rules.lengths(2, random);
    for start in (0..document.tokens()).step_by(target) {
        let uncut = UncutPair { target, a: start..(start + target).min(document.tokens()), b: 0..0 };
        let a = Segment::new(index, &uncut.a);
        let b = Segment { tokens: 0, ..a };
        emit(random, Pair { a, b, b_elsewhere: false, is_random_next: false }, &uncut)?;
    }
    Ok(())
}

/// Returns text of another document: from a random sentence to the target length or the end of the document.
fn random_next<R: Random>(
    documents: &Documents,
    index: usize,
    reference: bool,
    target: usize,
    random: &mut R,
) -> (usize, Range<usize>) {
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
    let first = random.below(document.sentences());
    let mut tokens = document.sentence(first);
    let mut end = first + 1;
    while end < document.sentences() && tokens.len() < target {
        end += 1;
        tokens.end = document.sentence_start(end);
    }
    (other, tokens)
}

/// Cuts single tokens from the longer side (B on a tie), front or back at random, until the pair fits.
fn truncate_seq_pair<R: Random>(
    a: &mut Range<usize>,
    b: &mut Range<usize>,
    max_tokens: usize,
    random: &mut R,
) {
    while a.len() + b.len() > max_tokens {
        let longer = if a.len() > b.len() { &mut *a } else { &mut *b };
        if random.chance(0.5) {
            longer.start += 1;
        } else {
            longer.end -= 1;
        }
    }
}

impl Pair {
    /// Returns the number of tokens of the instance, including `[CLS]` and `[SEP]`.
    pub fn instance_tokens(&self) -> usize {
        let special = if self.b.tokens == 0 { 2 } else { 3 };
        usize::from(self.a.tokens) + usize::from(self.b.tokens) + special
    }

    /// Iterates over the segments that are not empty.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> + use<> {
        [self.a, self.b].into_iter().filter(|segment| segment.tokens > 0)
    }

    /// Returns the number of tokens from the document that the pair was drawn for.
    pub(crate) fn own_tokens(&self) -> u64 {
        u64::from(self.a.tokens) + if self.b_elsewhere { 0 } else { u64::from(self.b.tokens) }
    }

    /// Fills `instance` with this pair. Makes no random draws.
    pub fn fill(&self, documents: &Documents, rules: &PairRules, instance: &mut Instance) {
        let tokens = &mut instance.tokens;
        tokens.clear();
        instance.segment_ids.clear();
        instance.masked_lm_positions.clear();
        instance.masked_lm_ids.clear();
        tokens.push(rules.cls);
        for (id, segment) in [0, 1].into_iter().zip(self.segments()) {
            documents.document(segment.document as usize).append_tokens(segment.range(), tokens);
            tokens.push(rules.sep);
            instance.segment_ids.resize(tokens.len(), id);
        }
        instance.is_random_next = self.is_random_next;
    }
}
