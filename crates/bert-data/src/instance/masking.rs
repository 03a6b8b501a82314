//! Masks sentence pairs: hides some tokens of an [`Instance`] and keeps their positions and original ids.
//!
//! [`Masker`] ports `create_masked_lm_predictions`, in reference mode draw by draw.
//!
//! Whole-word masking outside reference mode: a word is a piece with the `##` pieces after it *within its segment*.
//! (The reference joins a `##` piece that begins B to the last word of A.) One decision is made for all pieces of a
//! word (80 % `[MASK]`, 10 % kept, 10 % random pieces), so no word is half hidden. An ideograph that continues a word
//! according to the segmenter ([`bert_tokenization::IdSpace`]) counts as a `##` piece. As in the reference, a word
//! that would exceed the budget is skipped, so long words are masked slightly less often.
//!
//! Spans (`max_ngram` above 1) have 1 to N adjacent words of one segment. A length n is drawn with weight 1/n, and one
//! decision is made for a whole span. As in `_masking_ngrams` of tensorflow/models (after ALBERT), spans that overlap a
//! chosen span or would exceed the budget are skipped. So the whole budget is used whenever the remaining words allow
//! it.
//!
//! [`KeyedInstances`] generates instances in keyed mode, as a pure function of seed, pass and document.
//!
//! Each (pass, document) has its own stream for pairs, and each (pass, document, instance) its own stream for masks. So
//! a document's instances can be generated on any thread or machine, and one instance can be masked without the others.
//! The reference has one serial generator.

use bert_random::{Domain, Random, Stream};
use bert_tokenization::{IdSpace, TokenId, Vocabulary, is_special_token};

use crate::config::derived::number_to_predict;
use crate::config::resolved::ResolvedConfig;
use crate::config::{Layout, Masking, RandomMode};
use crate::documents::Documents;
use crate::error::Result;
use crate::instance::ngram_spans::Spans;
use crate::instance::pairs::{Instance, Pair, PairRules, draw_pairs};

/// Rules for masking tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskRules {
    /// Fraction of the tokens to mask.
    pub masked_lm_prob: f64,
    /// Maximum number of masked tokens.
    pub max_predictions_per_seq: usize,
    /// Whether whole words are masked instead of single pieces.
    pub do_whole_word_mask: bool,
    /// Maximum number of words in a span; above 1 the units are whole words.
    pub max_ngram: usize,
    /// Whether random replacements are never special tokens or `[unused...]` tokens.
    pub random_word_skip_special: bool,
    /// Whether the 2018 script's rules and its order of draws are used.
    pub reference: bool,
}

impl Default for MaskRules {
    /// Returns rules that mask 15 % of the tokens as single pieces, but at most 20.
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

/// Replacement of a chosen token.
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

/// Masker of instances, which reuses its buffers.
#[derive(Clone, Debug)]
pub struct Masker {
    rules: MaskRules,
    ids: IdSpace,
    mask: TokenId,
    cls: TokenId,
    sep: TokenId,
    /// For each plain id, whether its token begins with `##`.
    continues: Vec<bool>,
    /// The ids for random replacements; empty if every id of the vocabulary may be used.
    replacements: Vec<TokenId>,
    /// The sets of positions that are masked together: first position and number of tokens.
    candidates: Vec<(u32, u32)>,
    /// The positions that are masked, and the original ids there.
    chosen: Vec<(u32, TokenId)>,
    spans: Spans,
}

impl Masker {
    /// Creates a masker for a vocabulary.
    pub fn new(vocabulary: &Vocabulary, rules: MaskRules) -> Self {
        let tokens = vocabulary.tokens().iter().zip(0..);
        let ordinary = tokens.filter(|(token, _)| !is_special_token(token)).map(|(_, id)| id);
        Self {
            rules,
            replacements: if rules.random_word_skip_special { ordinary.collect() } else { Vec::new() },
            spans: Spans::default(),
            ids: IdSpace { vocabulary: vocabulary.len(), word_marks: true },
            mask: vocabulary.mask_id(),
            cls: vocabulary.cls_id(),
            sep: vocabulary.sep_id(),
            continues: vocabulary.tokens().iter().map(|token| token.starts_with("##")).collect(),
            candidates: Vec::new(),
            chosen: Vec::new(),
        }
    }

    /// Masks an unmasked instance and removes the word marks from its ids.
    pub fn mask<R: Random>(&mut self, instance: &mut Instance, random: &mut R) {
        self.find_candidates(instance);
        instance.tokens.iter_mut().for_each(|id| *id = self.ids.unmarked(*id).0);
        self.choose(&mut instance.tokens, random);
        self.chosen.sort_unstable();
        instance.masked_lm_positions.extend(self.chosen.iter().map(|&(position, _)| position));
        instance.masked_lm_ids.extend(self.chosen.iter().map(|&(_, id)| id));
    }

    /// Returns whether a token continues the word before it: a `##` piece, or a marked token.
    fn continues(&self, id: TokenId) -> bool {
        self.continues.get(id as usize).is_none_or(|continues| *continues)
    }

    fn is_special(&self, id: TokenId) -> bool {
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

    fn choose<R: Random>(&mut self, tokens: &mut [TokenId], random: &mut R) {
        let rules = self.rules;
        let wanted = number_to_predict(tokens.len(), rules.masked_lm_prob, rules.max_predictions_per_seq);
        self.chosen.clear();
        if rules.max_ngram > 1 {
            return self.choose_spans(wanted, tokens, random);
        }
        if rules.reference {
            random.shuffle(&mut self.candidates);
        }
        for next in 0..self.candidates.len() {
            if self.chosen.len() >= wanted {
                break;
            }
            if !rules.reference {
                // This draws the same uniform order as a shuffle, but only as far as needed.
                let other = next + random.below(self.candidates.len() - next);
                self.candidates.swap(next, other);
            }
            let (first, count) = self.candidates[next];
            if self.chosen.len() + count as usize <= wanted {
                self.hide(tokens, first, count, random);
            }
        }
    }

    fn choose_spans<R: Random>(&mut self, wanted: usize, tokens: &mut [TokenId], random: &mut R) {
        let mut spans = std::mem::take(&mut self.spans);
        spans.fill(&self.candidates, self.rules.max_ngram.min(wanted));
        while self.chosen.len() < wanted
            && let Some(words) = spans.draw(wanted - self.chosen.len(), &self.candidates, random)
        {
            let first = self.candidates[words.start].0;
            let count = self.candidates[words].iter().map(|&(_, count)| count).sum();
            self.hide(tokens, first, count, random);
        }
        self.spans = spans;
    }

    fn random_token<R: Random>(&self, random: &mut R) -> TokenId {
        match self.replacements.len() {
            0 => random.below(self.ids.vocabulary) as TokenId,
            some => self.replacements[random.below(some)],
        }
    }

    /// Chooses replacements for the tokens of one set. In the reference a set may span a `[SEP]`, and each token is
    /// decided separately.
    fn hide<R: Random>(&mut self, tokens: &mut [TokenId], first: u32, count: u32, random: &mut R) {
        let mut fate = draw_fate(random);
        let mut hidden = 0;
        for position in first.. {
            let original = tokens[position as usize];
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

/// Generator of the instances of one document in one pass; reuses its buffers.
#[derive(Clone, Debug)]
pub(crate) struct KeyedInstances {
    seed: u64,
    masking: Masking,
    rules: PairRules,
    masker: Masker,
    instance: Instance,
}

impl KeyedInstances {
    /// Generates the instances of a document in a pass; the document's number in the order of the text addresses the
    /// draws. Calls `emit` with each instance and the pair that it was made from.
    ///
    /// # Errors
    /// Returns the errors of `emit`.
    pub(crate) fn generate(
        &mut self,
        documents: &Documents,
        pass: u64,
        (index, document): (usize, u64),
        mut emit: impl FnMut(&Pair, &Instance) -> Result<()>,
    ) -> Result<()> {
        let masks = mask_stream(self.seed, pass, document);
        let rules = self.rules;
        let mut pairs = pair_stream(self.seed, pass, document);
        let mut number = 0;
        draw_pairs(documents, index, &rules, &mut pairs, |_, pair| {
            number += 1;
            emit(&pair, self.row(documents, &masks, number - 1, pair))
        })
    }

    /// Returns the row of pair number `number` of its document and pass.
    fn row(&mut self, documents: &Documents, masks: &Stream, number: u64, pair: Pair) -> &Instance {
        pair.fill(documents, &self.rules, &mut self.instance);
        if self.masking == Masking::Static {
            self.masker.mask(&mut self.instance, &mut masks.branch(number));
        }
        &self.instance
    }
}

/// Returns the random stream for the masks of a document in one pass; instance `n` uses branch `n`.
pub(crate) fn mask_stream(seed: u64, pass: u64, document: u64) -> Stream {
    Stream::new(seed, Domain::Masks, &[pass, document])
}

/// Returns the random stream for the pairs of a document in one pass.
pub(crate) fn pair_stream(seed: u64, pass: u64, document: u64) -> Stream {
    Stream::new(seed, Domain::Pairs, &[pass, document])
}

impl ResolvedConfig {
    /// Returns the pair rules for these options.
    pub(crate) fn pair_rules(&self, vocabulary: &Vocabulary) -> PairRules {
        PairRules {
            max_seq_length: self.max_seq_length,
            short_seq_prob: self.short_seq_prob,
            reference: self.random == RandomMode::Reference,
            nsp: self.nsp,
            cls: vocabulary.cls_id(),
            sep: vocabulary.sep_id(),
        }
    }

    /// Returns the masker for these options.
    pub(crate) fn masker(&self, vocabulary: &Vocabulary) -> Masker {
        let rules = MaskRules {
            masked_lm_prob: self.masked_lm_prob,
            max_predictions_per_seq: self.max_predictions_per_seq,
            do_whole_word_mask: self.do_whole_word_mask,
            max_ngram: self.max_ngram,
            random_word_skip_special: self.random_word_skip_special,
            reference: self.random == RandomMode::Reference,
        };
        Masker::new(vocabulary, rules)
    }

    /// Returns the keyed-mode generator of instances for these options. Instances of stored documents, which are only
    /// counted, are masked too.
    pub(crate) fn keyed(&self, vocabulary: &Vocabulary) -> KeyedInstances {
        KeyedInstances {
            seed: self.random_seed,
            masking: if self.layout == Layout::Documents { Masking::Static } else { self.masking },
            rules: self.pair_rules(vocabulary),
            masker: self.masker(vocabulary),
            instance: Instance::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BuildConfig, Nsp};
    use crate::documents::DocumentsBuilder;

    #[test]
    fn an_instance_is_masked_without_the_others() {
        let words: String = (0..100).map(|word| format!("word{word}\n")).collect();
        let tokens = format!("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n{words}");
        let vocabulary = Vocabulary::from_bytes(tokens.into(), "vocab.txt".as_ref()).unwrap();
        let mut builder = DocumentsBuilder::new(vocabulary.len());
        for document in 0..3 {
            for sentence in 0..12 {
                let ids: Vec<u32> = (0..9).map(|word| 5 + document + sentence + word).collect();
                builder.push_sentence(&ids).unwrap();
            }
            builder.close_document().unwrap();
        }
        let documents = builder.finish().unwrap();
        let config = BuildConfig { max_seq_length: 32, nsp: Nsp::On, ..BuildConfig::default() };
        let mut keyed = ResolvedConfig::new(&config, true.into(), 1, &[]).keyed(&vocabulary);
        let mut generated = Vec::new();
        keyed
            .generate(&documents, 4, (1, 1), |_, row| {
                generated.push(row.clone());
                Ok(())
            })
            .unwrap();
        assert!(generated.len() > 2, "{}", generated.len());

        let mut drawn = Vec::new();
        let rules = keyed.rules;
        let mut pairs = pair_stream(keyed.seed, 4, 1);
        draw_pairs(&documents, 1, &rules, &mut pairs, |_, pair| {
            drawn.push(pair);
            Ok(())
        })
        .unwrap();
        let masks = mask_stream(keyed.seed, 4, 1);
        for number in (0..drawn.len()).rev() {
            let row = keyed.row(&documents, &masks, number as u64, drawn[number]);
            assert_eq!(*row, generated[number]);
            assert_eq!(row.tokens.len(), drawn[number].instance_tokens());
        }
    }
}
