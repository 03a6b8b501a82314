//! Generates instances in keyed mode, as a pure function of seed, pass and document.
//!
//! Each (pass, document) has its own stream for pairs, and each (pass, document, instance) its own stream for masks. So
//! a document's instances can be generated on any thread or machine, and one instance can be masked without the others.
//! The reference has one serial generator.

use bert_random::{Domain, Stream};
use bert_tokenization::Vocabulary;

use crate::config::resolved::ResolvedConfig;
use crate::config::{Layout, Masking, RandomMode};
use crate::documents::Documents;
use crate::error::Result;
use crate::instance::masking::{MaskRules, Masker};
use crate::instance::pairs::{Instance, Pair, PairRules, draw_pairs};

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

/// Returns the mask stream of a document in one pass; instance `n` uses branch `n`.
pub(crate) fn mask_stream(seed: u64, pass: u64, document: u64) -> Stream {
    Stream::new(seed, Domain::Masks, &[pass, document])
}

/// Returns the pair stream of a document in one pass.
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
    use crate::config::resolved::InputFormats;
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
        let mut keyed =
            ResolvedConfig::new(&config, true.into(), 1, InputFormats::default()).keyed(&vocabulary);
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
