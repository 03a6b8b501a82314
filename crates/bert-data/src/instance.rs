//! From documents to sentence pairs.
//!
//! In goes one document of a corpus and a source of draws; out come [`Pair`]s, one after another, each where A and B lie
//! in the corpus, B behind A or in another document, and from a pair an [`Instance`] `[CLS] A [SEP] B [SEP]`. All draws
//! are for the pair; filling it with tokens needs none. Not for masks: the caller masks each instance as it comes,
//! because the reference draws for the mask before it draws for the next pair. Ports `create_instances_from_document`
//! and `truncate_seq_pair`, draw by draw.
//!
//! Beside the reference's pairs there are two other kinds ([`Nsp`]). Without next sentences an instance is one segment
//! `[CLS] A [SEP]` of consecutive sentences; a sentence that does not fit in is cut and goes on in the next instance,
//! so that every token is used once. With sentence order (ALBERT) A and B are always consecutive, and swapped in half
//! of the instances; a document of one sentence then gives none, and neither does a single sentence that is left over
//! at a document's end.

use std::ops::Range;

use crate::config::Nsp;
use crate::document::{DocumentReader, Documents, Look};
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

/// Where the segments of an instance lie in the corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    a: u64,
    b: u64,
    a_tokens: u16,
    /// 0 where there is one segment only.
    b_tokens: u16,
    /// Whether B was drawn from elsewhere.
    b_elsewhere: bool,
    /// Whether B does not follow A in the text: it is random, or the two are swapped.
    pub is_random_next: bool,
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
    fn lengths<R: Random>(&self, special: usize, random: &mut R) -> (u64, u64) {
        let most_tokens = self.max_seq_length - special;
        if random.chance(self.short_seq_prob) {
            return (most_tokens as u64, random.range_inclusive(2, most_tokens) as u64);
        }
        (most_tokens as u64, most_tokens as u64)
    }
}

/// Makes all instances of one document in one pass and hands each to `emit`, together with the source of draws.
///
/// # Errors
/// Those of `emit` and of reading the documents.
pub fn create_instances_from_document<R: Random>(
    documents: &Documents,
    index: usize,
    rules: &PairRules,
    random: &mut R,
    mut emit: impl FnMut(&mut R, &Instance) -> Result<()>,
) -> Result<()> {
    let mut instance = Instance::default();
    draw_pairs(&mut documents.reader(), index, rules, random, |random, reader, pair| {
        pair.fill(reader, rules, &mut instance)?;
        emit(random, &instance)
    })
}

/// Draws all pairs of one document in one pass and hands each to `emit`, together with the source of draws.
///
/// # Errors
/// As [`create_instances_from_document`].
pub fn draw_pairs<'a, R: Random>(
    reader: &mut DocumentReader<'a>,
    index: usize,
    rules: &PairRules,
    random: &mut R,
    mut emit: impl FnMut(&mut R, &mut DocumentReader<'a>, Pair) -> Result<()>,
) -> Result<()> {
    let document = reader.document(Look::Here, index)?;
    if rules.nsp == Nsp::Off {
        return cut_single_segments(reader, document, rules, random, emit);
    }
    let (most_tokens, target) = rules.lengths(3, random);
    // One document gives no random next: its pairs are then all taken from consecutive text.
    let alone = rules.nsp == Nsp::Sop || (reader.documents().len() == 1 && !rules.reference);
    let mut start = document.start;
    let mut i = start;
    while i < document.end {
        let length = reader.token_range(Look::Here, start..i + 1)?;
        let segments = i + 1 - start;
        let is_last = i + 1 == document.end;
        if (is_last || length.end - length.start >= target) && !(alone && segments == 1) {
            let a_end =
                if segments >= 2 { random.range_inclusive(1, segments as usize - 1) as u64 } else { 1 };
            let border = reader.sentence_start(Look::Here, start + a_end)?;
            let (mut a, mut b) = (length.start..border, border..length.end);
            let b_elsewhere = !alone && (segments == 1 || random.chance(0.5));
            if b_elsewhere {
                b = random_next(reader, index, rules.reference, target.saturating_sub(tokens(&a)), random)?;
                // The unused segments are put back, so that they do not go to waste.
                i -= segments - a_end;
            }
            truncate_seq_pair(&mut a, &mut b, most_tokens, random);
            let swapped = rules.nsp == Nsp::Sop && random.chance(0.5);
            if swapped {
                std::mem::swap(&mut a, &mut b);
            }
            let pair = Pair {
                a: a.start,
                b: b.start,
                a_tokens: tokens(&a) as u16,
                b_tokens: tokens(&b) as u16,
                b_elsewhere,
                is_random_next: b_elsewhere || swapped,
            };
            emit(random, reader, pair)?;
            start = i + 1;
        }
        i += 1;
    }
    Ok(())
}

fn tokens(range: &Range<u64>) -> u64 {
    range.end - range.start
}

/// Instances of one segment: the document's tokens, cut at every target.
fn cut_single_segments<'a, R: Random>(
    reader: &mut DocumentReader<'a>,
    document: Range<u64>,
    rules: &PairRules,
    random: &mut R,
    mut emit: impl FnMut(&mut R, &mut DocumentReader<'a>, Pair) -> Result<()>,
) -> Result<()> {
    let (_, target) = rules.lengths(2, random);
    let all = reader.token_range(Look::Here, document)?;
    for a in all.clone().step_by(target as usize) {
        let a_tokens = target.min(all.end - a) as u16;
        let pair = Pair { a, b: 0, a_tokens, b_tokens: 0, b_elsewhere: false, is_random_next: false };
        emit(random, reader, pair)?;
    }
    Ok(())
}

/// Text from another document: from a random sentence on, until there is enough or the document ends.
fn random_next<R: Random>(
    reader: &mut DocumentReader<'_>,
    index: usize,
    reference: bool,
    target: u64,
    random: &mut R,
) -> Result<Range<u64>> {
    let documents = reader.documents().len();
    let mut other = index;
    if reference {
        for _ in 0..10 {
            other = random.below(documents);
            if other != index {
                break;
            }
        }
    } else {
        // Every other document is equally likely.
        other = random.below(documents - 1);
        other += usize::from(other >= index);
    }
    let document = reader.document(Look::There, other)?;
    let start = document.start + random.below((document.end - document.start) as usize) as u64;
    let mut range = reader.token_range(Look::There, start..start + 1)?;
    let mut end = start + 1;
    while end < document.end && tokens(&range) < target {
        end += 1;
        range.end = reader.sentence_start(Look::There, end)?;
    }
    Ok(range)
}

/// Cuts single tokens from the longer side (B on a tie), front or back at random, until the pair fits.
fn truncate_seq_pair<R: Random>(a: &mut Range<u64>, b: &mut Range<u64>, most_tokens: u64, random: &mut R) {
    while tokens(a) + tokens(b) > most_tokens {
        let longer = if tokens(a) > tokens(b) { &mut *a } else { &mut *b };
        if random.chance(0.5) {
            longer.start += 1;
        } else {
            longer.end -= 1;
        }
    }
}

impl Pair {
    /// Number of tokens of the instance, `[CLS]` and `[SEP]` included.
    #[must_use]
    pub fn instance_tokens(&self) -> usize {
        let special = if self.b_tokens == 0 { 2 } else { 3 };
        usize::from(self.a_tokens) + usize::from(self.b_tokens) + special
    }

    /// The segments that are not empty, as places of tokens in the corpus.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let segments = [self.a..self.a + u64::from(self.a_tokens), self.b..self.b + u64::from(self.b_tokens)];
        segments.into_iter().filter(|segment| !segment.is_empty())
    }

    /// Number of tokens that come from the document that the pair was drawn for.
    pub(crate) fn own_tokens(&self) -> u64 {
        u64::from(self.a_tokens) + if self.b_elsewhere { 0 } else { u64::from(self.b_tokens) }
    }

    /// Makes the instance of this pair. No draws.
    ///
    /// # Errors
    /// Those of reading the documents.
    pub fn fill(
        &self,
        reader: &mut DocumentReader<'_>,
        rules: &PairRules,
        instance: &mut Instance,
    ) -> Result<()> {
        let tokens = &mut instance.tokens;
        tokens.clear();
        tokens.push(rules.cls);
        reader.append_tokens(Look::Here, self.a..self.a + u64::from(self.a_tokens), tokens)?;
        tokens.push(rules.sep);
        instance.segment_ids.clear();
        instance.segment_ids.resize(tokens.len(), 0);
        if self.b_tokens > 0 {
            let look = if self.b_elsewhere { Look::There } else { Look::Here };
            reader.append_tokens(look, self.b..self.b + u64::from(self.b_tokens), tokens)?;
            tokens.push(rules.sep);
            instance.segment_ids.resize(tokens.len(), 1);
        }
        instance.is_random_next = self.is_random_next;
        Ok(())
    }
}
