//! Masks sentence pairs: hides some tokens of an [`Instance`] and keeps their positions and original ids.
//!
//! Ports `create_masked_lm_predictions`, in reference mode draw by draw.
//!
//! Whole-word masking outside reference mode: a word is a piece with the `##` pieces after it *within its segment*.
//! (The reference joins a `##` piece that begins B to the last word of A.) One decision is made for all pieces of a
//! word (80 % `[MASK]`, 10 % kept, 10 % random pieces), so no word is half hidden. An ideograph that continues a word,
//! as a segmenter found ([`crate::tokenization::word_marks`]), counts as a `##` piece. As in the reference, a word that
//! would exceed the budget is passed over, which makes long words a little rarer among the masked.
//!
//! Spans (`max_ngram` above 1) have 1 to N adjacent words of one segment. A length n is drawn with weight 1/n, and one
//! decision is made for a whole span. As in `_masking_ngrams` of tensorflow/models (after ALBERT), spans that overlap a
//! chosen one or would exceed the budget are passed over. So the budget is used up to the last token whenever the words
//! that are left allow it.

use crate::config::predictions::number_to_predict;
use crate::instance::ngram_spans::Spans;
use crate::instance::pairs::Instance;
use crate::tokenization::vocabulary::Vocabulary;
use crate::tokenization::vocabulary::is_special_token;
use crate::tokenization::word_marks::unmarked;
use bert_random::Random;

/// One masked sentence pair: a row of the training data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaskedInstance {
    /// Token ids after masking (`input_ids`).
    pub tokens: Vec<u32>,
    /// 0 for `[CLS] A [SEP]`, 1 for `B [SEP]`.
    pub segment_ids: Vec<i8>,
    /// Positions of the masked tokens, ascending.
    pub masked_lm_positions: Vec<u32>,
    /// The original ids at these positions.
    pub masked_lm_ids: Vec<u32>,
    /// Whether B does not follow A in the text.
    pub is_random_next: bool,
}

impl MaskedInstance {
    /// Takes over an instance without masking anything.
    pub(crate) fn copy_unmasked(&mut self, instance: &Instance) {
        self.tokens.clone_from(&instance.tokens);
        self.segment_ids.clone_from(&instance.segment_ids);
        self.is_random_next = instance.is_random_next;
        self.masked_lm_positions.clear();
        self.masked_lm_ids.clear();
    }
}

/// How tokens are masked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskRules {
    /// Share of the tokens to mask.
    pub masked_lm_prob: f64,
    /// Most masked tokens.
    pub max_predictions_per_seq: usize,
    /// Whole words instead of single pieces.
    pub do_whole_word_mask: bool,
    /// Most words of a span; above 1 the units are whole words.
    pub max_ngram: usize,
    /// Replace tokens by tokens that are neither special nor `[unused...]`.
    pub random_word_skip_special: bool,
    /// The 2018 script's rules and its order of draws.
    pub reference: bool,
}

impl Default for MaskRules {
    /// Those of the builder's defaults: 15 % and at most 20 single pieces.
    fn default() -> Self {
        Self {
            masked_lm_prob: 0.15,
            max_predictions_per_seq: 20,
            do_whole_word_mask: false,
            max_ngram: 1,
            random_word_skip_special: false,
            reference: false,
        }
    }
}

/// What becomes of a chosen token.
enum Fate {
    Mask,
    Keep,
    Random,
}

fn draw_fate<R: Random>(random: &mut R) -> Fate {
    if random.chance(0.8) {
        Fate::Mask
    } else if random.chance(0.5) {
        Fate::Keep
    } else {
        Fate::Random
    }
}

/// Masks instances; keeps its buffers from one to the next.
#[derive(Clone, Debug)]
pub struct Masker {
    rules: MaskRules,
    mask: u32,
    cls: u32,
    sep: u32,
    /// For each id whether its token begins with `##`; its length is the vocabulary's.
    continues: Vec<bool>,
    /// What random replacements are drawn from; empty for the whole vocabulary.
    replacements: Vec<u32>,
    /// The sets of positions that are masked together: first position and number of tokens.
    candidates: Vec<(u32, u32)>,
    chosen: Vec<(u32, u32)>,
    spans: Spans,
}

impl Masker {
    /// A masker over a vocabulary.
    #[must_use]
    pub fn new(vocabulary: &Vocabulary, rules: MaskRules) -> Self {
        let tokens = vocabulary.tokens().iter().zip(0..);
        let ordinary = tokens.filter(|(token, _)| !is_special_token(token)).map(|(_, id)| id);
        Self {
            rules,
            replacements: if rules.random_word_skip_special { ordinary.collect() } else { Vec::new() },
            spans: Spans::default(),
            mask: vocabulary.mask_id(),
            cls: vocabulary.cls_id(),
            sep: vocabulary.sep_id(),
            continues: vocabulary.tokens().iter().map(|token| token.starts_with("##")).collect(),
            candidates: Vec::new(),
            chosen: Vec::new(),
        }
    }

    /// Masks `instance` into `masked`, whose former content is dropped.
    pub fn mask<R: Random>(&mut self, instance: &Instance, random: &mut R, masked: &mut MaskedInstance) {
        masked.copy_unmasked(instance);
        masked.tokens.iter_mut().for_each(|id| *id = self.plain(*id));
        self.find_candidates(instance);
        self.choose(instance, random, &mut masked.tokens);
        self.chosen.sort_unstable();
        masked.masked_lm_positions.extend(self.chosen.iter().map(|&(position, _)| position));
        masked.masked_lm_ids.extend(self.chosen.iter().map(|&(_, id)| id));
    }

    /// The id without a mark ([`crate::tokenization::word_marks`]).
    fn plain(&self, id: u32) -> u32 {
        unmarked(id, self.continues.len()).0
    }

    /// Whether a token goes on with the word before it: a `##` piece, or a marked one.
    fn continues(&self, id: u32) -> bool {
        self.continues.get(id as usize).is_none_or(|continues| *continues)
    }

    fn is_special(&self, id: u32) -> bool {
        id == self.cls || id == self.sep
    }

    fn find_candidates(&mut self, instance: &Instance) {
        self.candidates.clear();
        let mut segment_begins = true;
        for (position, &id) in instance.tokens.iter().enumerate() {
            if self.is_special(id) {
                segment_begins = true;
                continue;
            }
            let joins = (self.rules.do_whole_word_mask || self.rules.max_ngram > 1)
                && self.continues(id)
                && (self.rules.reference || !segment_begins);
            match self.candidates.last_mut() {
                Some((_, tokens)) if joins => *tokens += 1,
                _ => self.candidates.push((position as u32, 1)),
            }
            segment_begins = false;
        }
    }

    fn choose<R: Random>(&mut self, instance: &Instance, random: &mut R, tokens: &mut [u32]) {
        let rules = self.rules;
        let wanted =
            number_to_predict(instance.tokens.len(), rules.masked_lm_prob, rules.max_predictions_per_seq);
        self.chosen.clear();
        if rules.max_ngram > 1 {
            return self.choose_spans(wanted, instance, random, tokens);
        }
        if rules.reference {
            random.shuffle(&mut self.candidates);
        }
        for next in 0..self.candidates.len() {
            if self.chosen.len() >= wanted {
                break;
            }
            if !rules.reference {
                // The same uniform order as a shuffle, drawn only as far as it is used.
                let other = next + random.below(self.candidates.len() - next);
                self.candidates.swap(next, other);
            }
            let (first, count) = self.candidates[next];
            if self.chosen.len() + count as usize <= wanted {
                self.hide(instance, first, count, random, tokens);
            }
        }
    }

    fn choose_spans<R: Random>(
        &mut self,
        wanted: usize,
        instance: &Instance,
        random: &mut R,
        tokens: &mut [u32],
    ) {
        let mut spans = std::mem::take(&mut self.spans);
        spans.fill(&self.candidates, self.rules.max_ngram.min(wanted));
        while self.chosen.len() < wanted
            && let Some(words) = spans.draw(wanted - self.chosen.len(), &self.candidates, random)
        {
            let first = self.candidates[words.start].0;
            let count = self.candidates[words].iter().map(|&(_, count)| count).sum();
            self.hide(instance, first, count, random, tokens);
        }
        self.spans = spans;
    }

    fn random_token<R: Random>(&self, random: &mut R) -> u32 {
        match self.replacements.len() {
            0 => random.below(self.continues.len()) as u32,
            some => self.replacements[random.below(some)],
        }
    }

    /// Decides over the tokens of one set. In the reference a set may reach over a `[SEP]`, and each token is
    /// decided for itself.
    fn hide<R: Random>(
        &mut self,
        instance: &Instance,
        first: u32,
        count: u32,
        random: &mut R,
        tokens: &mut [u32],
    ) {
        let mut fate = draw_fate(random);
        let mut hidden = 0;
        for position in first.. {
            let original = self.plain(instance.tokens[position as usize]);
            if self.is_special(original) {
                continue;
            }
            tokens[position as usize] = match fate {
                Fate::Mask => self.mask,
                Fate::Keep => original,
                Fate::Random => self.random_token(random),
            };
            self.chosen.push((position, original));
            hidden += 1;
            if hidden == count {
                break;
            }
            if self.rules.reference {
                fate = draw_fate(random);
            }
        }
    }
}
