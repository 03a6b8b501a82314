//! Tokenized sentences and batches of them.

use bert_inference::host_tensors::int_vector;
use bert_inference::{Features, ModelTokenizer};
use bert_model::BertInput;
use bert_random::{Domain, Permutation, Stream};
use burn::tensor::{Device, Tensor, TensorData};

use crate::model::transformer::{SourceBatch, TargetBatch};
use crate::text::parallel::SentencePair;
use crate::text::tokenizers::Tokenizers;

/// Tokenized source sentences.
pub(crate) struct EncodedSources {
    source: Features,
    bert: Option<Features>,
}

impl EncodedSources {
    /// Tokenizes sentences and cuts them to `max_length` tokens.
    pub(crate) fn new(texts: &[&str], tokenizers: &Tokenizers, max_length: usize) -> Self {
        let all = |tokenizer: &ModelTokenizer| {
            let encoded = texts.iter().map(|text| tokenizer.encode(*text, max_length)).collect();
            Features::from_encoded(encoded, &tokenizer.vocabulary, max_length)
        };
        Self { source: all(&tokenizers.source), bert: tokenizers.bert.as_ref().map(all) }
    }

    /// Returns the number of tokens of each sentence.
    pub(crate) fn lengths(&self) -> Vec<usize> {
        (0..self.source.count()).map(|at| self.source.sequences(at)[0].input_ids.len()).collect()
    }

    /// Returns a batch of sentences.
    pub(crate) fn batch(&self, sentences: &[usize], device: &Device) -> SourceBatch {
        let input = |all: &Features| all.batch(sentences.to_vec()).input(device);
        let BertInput { input_ids, input_mask, .. } = input(&self.source);
        SourceBatch { input_ids, input_mask, bert: self.bert.as_ref().map(input) }
    }
}

/// Tokenized training pairs.
pub(crate) struct EncodedPairs {
    sources: EncodedSources,
    targets: Vec<Vec<i32>>,
    pad: i32,
}

/// A batch of training pairs.
pub(crate) struct PairBatch {
    /// The sources.
    pub source: SourceBatch,
    /// The targets.
    pub target: TargetBatch,
    /// Number of target tokens, end tokens included.
    pub tokens: usize,
}

impl EncodedPairs {
    /// Tokenizes pairs and cuts each side to `max_length` tokens.
    pub(crate) fn new(pairs: &[SentencePair], tokenizers: &Tokenizers, max_length: usize) -> Self {
        let sources: Vec<&str> = pairs.iter().map(|pair| pair.source.as_str()).collect();
        let target = |pair: &SentencePair| {
            let encoded = tokenizers.target.encode(pair.target.as_str(), max_length);
            encoded.input_ids.into_iter().map(|id| id as i32).collect()
        };
        Self {
            sources: EncodedSources::new(&sources, tokenizers, max_length),
            targets: pairs.iter().map(target).collect(),
            pad: tokenizers.target.vocabulary.pad_id() as i32,
        }
    }

    /// Returns the indices of the pairs of a step, which depend only on the seed and the step. Every epoch is
    /// a permutation of all pairs.
    pub(crate) fn sample(&self, seed: u64, step: u64, batch_size: usize) -> Vec<usize> {
        let all = self.targets.len() as u64;
        let size = batch_size as u64;
        let mut order: Option<(u64, Permutation)> = None;
        let mut at = |index: u64| {
            let epoch = index / all;
            if order.as_ref().is_none_or(|(of, _)| *of != epoch) {
                let mut stream = Stream::new(seed, Domain::FinetuneOrder, &[epoch]);
                order = Some((epoch, Permutation::new(all, &mut stream)));
            }
            order.as_ref().expect("set above").1.get(index % all) as usize
        };
        (step * size..(step + 1) * size).map(&mut at).collect()
    }

    /// Returns a batch of pairs.
    pub(crate) fn batch(&self, pairs: &[usize], device: &Device) -> PairBatch {
        // The last token of a target is only a label, never an input.
        let length = pairs.iter().map(|&pair| self.targets[pair].len() - 1).max().unwrap_or(0);
        let mut ids = vec![self.pad; pairs.len() * length];
        let mut positions = vec![];
        let mut labels = vec![];
        for (row, &pair) in pairs.iter().enumerate() {
            let target = &self.targets[pair];
            let first = row * length;
            let real = target.len() - 1;
            ids[first..first + real].copy_from_slice(&target[..real]);
            positions.extend((first..first + real).map(|at| at as i32));
            labels.extend(&target[1..]);
        }
        let tokens = labels.len();
        let target = TargetBatch {
            input_ids: Tensor::from_data(TensorData::new(ids, [pairs.len(), length]), device),
            positions: int_vector(&positions, device),
            labels: int_vector(&labels, device),
        };
        PairBatch { source: self.sources.batch(pairs, device), target, tokens }
    }
}
