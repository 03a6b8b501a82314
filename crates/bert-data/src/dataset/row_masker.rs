//! Masks rows when they are loaded, for `--masking dynamic` and `--layout documents`.
//!
//! The masks are a pure function of the seed, the epoch and the row's number in the data set (or its document and its
//! number there). So a resumed run sees the same masks as an uninterrupted one, and every epoch sees other masks. The
//! rules are those in the data set's manifest. The reference masks once, when it makes the data.

use crate::config::{Layout, Masking, RandomMode};
use crate::dataset::manifest::Manifest;
use crate::instance::keyed::MaskStreams;
use crate::instance::masking::{MaskRules, MaskedInstance, Masker};
use crate::instance::pairs::Instance;
use crate::shard::row::Row;
use crate::tokenization::vocabulary::Vocabulary;
use crate::tokenization::word_marks::marked;
use bert_random::{Domain, Stream};

/// Masks stored rows; keeps its buffers from one to the next.
#[derive(Clone, Debug)]
pub struct RowMasker {
    seed: u64,
    vocabulary: usize,
    masker: Masker,
    instance: Instance,
    masked: MaskedInstance,
    input_ids: Vec<i32>,
    masked_lm_positions: Vec<i32>,
    masked_lm_ids: Vec<i32>,
}

impl RowMasker {
    /// A masker by the rules of a data set, or `None` where its rows are masked already.
    #[must_use]
    pub fn new(manifest: &Manifest, vocabulary: &Vocabulary, seed: u64) -> Option<Self> {
        let config = &manifest.config;
        if config.masking != Masking::Dynamic {
            return None;
        }
        let rules = MaskRules {
            masked_lm_prob: config.masked_lm_prob,
            max_predictions_per_seq: config.max_predictions_per_seq,
            do_whole_word_mask: config.do_whole_word_mask,
            max_ngram: config.max_ngram,
            random_word_skip_special: config.random_word_skip_special,
            reference: config.random == RandomMode::Reference,
        };
        Some(Self {
            seed,
            vocabulary: vocabulary.len(),
            masker: Masker::new(vocabulary, rules),
            instance: Instance::default(),
            masked: MaskedInstance::default(),
            input_ids: Vec::new(),
            masked_lm_positions: Vec::new(),
            masked_lm_ids: Vec::new(),
        })
    }

    /// The masker for looking at stored instances and for evaluating on them: the seed is the data set's own, so that
    /// everyone sees the same masks. The epoch is then 0.
    #[must_use]
    pub(crate) fn fixed(manifest: &Manifest, vocabulary: &Vocabulary) -> Option<Self> {
        match manifest.config.layout {
            Layout::Instances => Self::new(manifest, vocabulary, manifest.config.random_seed),
            Layout::Documents => None,
        }
    }

    /// Masks the row with number `instance`, counted over all shards from 0, for an epoch. All its ids must be inside
    /// the vocabulary ([`crate::ShardRows::check`]).
    pub fn mask<'a>(&'a mut self, row: Row<'a>, epoch: u64, instance: u64) -> Row<'a> {
        let random = Stream::new(self.seed, Domain::LoaderMasks, &[epoch, instance]);
        self.mask_by(row, random)
    }

    /// Masks the instance with number `number` of those that a document gives in a pass, as the builder would.
    pub fn mask_of_document<'a>(
        &'a mut self,
        row: Row<'a>,
        pass: u64,
        document: u64,
        number: u64,
    ) -> Row<'a> {
        let random = MaskStreams::new(self.seed, pass, document).of_instance(number);
        self.mask_by(row, random)
    }

    fn mask_by<'a>(&'a mut self, row: Row<'a>, mut random: Stream) -> Row<'a> {
        let stored = &mut self.instance;
        stored.tokens.clear();
        stored.tokens.extend(row.input_ids.iter().map(|&id| id as u32));
        for (id, _) in stored.tokens.iter_mut().zip(row.continues_word).filter(|(_, continues)| **continues) {
            *id = marked(*id, self.vocabulary);
        }
        self.masker.mask(stored, &mut random, &mut self.masked);
        let copy = |from: &[u32], to: &mut Vec<i32>| {
            to.clear();
            to.extend(from.iter().map(|&value| value as i32));
        };
        copy(&self.masked.tokens, &mut self.input_ids);
        copy(&self.masked.masked_lm_positions, &mut self.masked_lm_positions);
        copy(&self.masked.masked_lm_ids, &mut self.masked_lm_ids);
        Row {
            input_ids: &self.input_ids,
            segment_ids: row.segment_ids,
            masked_lm_positions: &self.masked_lm_positions,
            masked_lm_ids: &self.masked_lm_ids,
            next_sentence_label: row.next_sentence_label,
            continues_word: &[],
        }
    }
}

/// The row as a masker gives it, or as it is where there is none.
pub fn masked<'a>(masker: &'a mut Option<RowMasker>, row: Row<'a>, epoch: u64, instance: u64) -> Row<'a> {
    match masker {
        Some(masker) => masker.mask(row, epoch, instance),
        None => row,
    }
}
