//! Beam search with a length penalty (Wu et al., 2016, section 7); greedy search is a beam of one.
//!
//! The score of a finished sentence is `log p / ((5 + length) / 6)^a`, and its length includes the end token.
//!
//! [`StepScores`] computes the log-probabilities of the next token, one decoding step after another, with a cache.

use std::cmp::Ordering;

use bert_inference::host_tensors::{int_vector, values};
use bert_model::Mode;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, TensorData};

use crate::layers::decoder::LayerCache;
use crate::layers::encoder::MaskedStates;
use crate::model::transformer::{EncodedSource, SourceBatch, TranslationModel};

/// The settings of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchConfig {
    /// Number of hypotheses per sentence; 1 is greedy search.
    pub beam_size: usize,
    /// Exponent `a` of the length penalty; 0 disables the penalty.
    pub length_penalty: f64,
    /// Maximum number of tokens, the end token included.
    pub max_length: usize,
}

/// The special tokens of the target vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialTokens {
    /// The token before the first.
    pub start: u32,
    /// The token after the last.
    pub end: u32,
    /// Padding, which is never generated.
    pub pad: u32,
    /// The mask, which is never generated.
    pub mask: u32,
}

/// A finished sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// The tokens without the start and the end.
    pub ids: Vec<u32>,
    /// Log-probability of the tokens and the end, divided by the length penalty.
    pub score: f64,
}

/// The partial sentences of one source sentence.
struct Beam {
    /// `beam_size` hypotheses: their tokens and log-probabilities. Unused ones have the log-probability minus
    /// infinity.
    open: Vec<(Vec<u32>, f64)>,
    /// Finished sentences, the best first, at most `beam_size`.
    finished: Vec<Translation>,
}

/// Returns the best translation of every sentence of a batch.
pub fn translate(
    model: &TranslationModel,
    source: &SourceBatch,
    special: SpecialTokens,
    config: SearchConfig,
) -> Vec<Translation> {
    let k = config.beam_size;
    let [sentences, _] = source.input_ids.dims();
    let first = |at: usize| (vec![], if at == 0 { 0.0 } else { f64::NEG_INFINITY });
    let mut beams: Vec<Beam> =
        (0..sentences).map(|_| Beam { open: (0..k).map(first).collect(), finished: vec![] }).collect();
    let mut scores = StepScores::new(model, source, k);
    for length in 1..=config.max_length {
        let last = |(ids, _): &(Vec<u32>, f64)| *ids.last().unwrap_or(&special.start);
        let ids: Vec<u32> = beams.iter().flat_map(|beam| beam.open.iter().map(last)).collect();
        let next = scores.next(&ids);
        let vocabulary = next.len() / ids.len();
        let mut rows = Vec::with_capacity(ids.len());
        for (sentence, beam) in beams.iter_mut().enumerate() {
            let first = sentence * k;
            let beam_scores = &next[first * vocabulary..(first + k) * vocabulary];
            rows.extend(beam.advance(beam_scores, length, special, config).map(|row| first + row));
        }
        if beams.iter().all(|beam| beam.is_done(length, config)) {
            break;
        }
        scores.select(&rows);
    }
    beams.into_iter().map(Beam::best).collect()
}

impl Beam {
    /// Extends the hypotheses by their best tokens. Returns, for each new hypothesis, the index of the hypothesis that
    /// it extends.
    fn advance(
        &mut self,
        scores: &[f32],
        length: usize,
        special: SpecialTokens,
        config: SearchConfig,
    ) -> impl Iterator<Item = usize> + use<> {
        let k = config.beam_size;
        let at_limit = length == config.max_length;
        let mut extended = Vec::with_capacity(k);
        for (row, token, score) in self.candidates(scores, special, at_limit, 2 * k) {
            if token == special.end {
                // Finish only hypotheses among the best k. Otherwise a beam of one would not be greedy search.
                if extended.len() < k {
                    self.finish(self.open[row].0.clone(), score, length, config);
                }
            } else if extended.len() < k {
                extended.push((row, token, score));
            }
            if extended.len() == k {
                break;
            }
        }
        let continued = |&(row, token, score): &(usize, u32, f64)| {
            (self.open[row].0.iter().copied().chain([token]).collect(), score)
        };
        let mut open: Vec<(Vec<u32>, f64)> = extended.iter().map(continued).collect();
        let mut rows: Vec<usize> = extended.into_iter().map(|(row, ..)| row).collect();
        // With a small vocabulary, there may be fewer than k candidates.
        open.resize(k, (vec![], f64::NEG_INFINITY));
        rows.resize(k, 0);
        self.open = open;
        rows.into_iter()
    }

    /// Returns the `count` best extensions, the best first, each as a hypothesis, a token and the log-probability of
    /// both together. Equally probable extensions are in the order of hypotheses and tokens. `at_limit` allows the end
    /// token only.
    fn candidates(
        &self,
        scores: &[f32],
        special: SpecialTokens,
        at_limit: bool,
        count: usize,
    ) -> Vec<(usize, u32, f64)> {
        let vocabulary = scores.len() / self.open.len();
        let is_allowed = |token| {
            if at_limit {
                token == special.end
            } else {
                ![special.pad, special.start, special.mask].contains(&token)
            }
        };
        let mut all = Vec::new();
        for (row, (_, so_far)) in self.open.iter().enumerate().filter(|(_, (_, score))| score.is_finite()) {
            let row_scores = &scores[row * vocabulary..(row + 1) * vocabulary];
            for (token, score) in (0u32..).zip(row_scores) {
                if is_allowed(token) {
                    all.push((row, token, so_far + f64::from(*score)));
                }
            }
        }
        let order = |a: &(usize, u32, f64), b: &(usize, u32, f64)| {
            b.2.partial_cmp(&a.2).unwrap_or(Ordering::Equal).then((a.0, a.1).cmp(&(b.0, b.1)))
        };
        if all.len() > count {
            all.select_nth_unstable_by(count, order);
            all.truncate(count);
        }
        all.sort_by(order);
        all
    }

    fn finish(&mut self, ids: Vec<u32>, log_probability: f64, length: usize, config: SearchConfig) {
        self.finished.push(Translation { ids, score: log_probability / penalty(length, config) });
        self.finished.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.finished.truncate(config.beam_size);
    }

    /// Returns whether no open hypothesis can become better than the finished ones, even if all its later tokens had
    /// probability 1.
    fn is_done(&self, length: usize, config: SearchConfig) -> bool {
        let best_open = self.open.iter().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
        if best_open == f64::NEG_INFINITY || config.beam_size == 1 && !self.finished.is_empty() {
            return true;
        }
        let longest = if config.length_penalty > 0.0 { config.max_length } else { length };
        let bound = best_open / penalty(longest, config);
        self.finished.first().is_some_and(|best| best.score >= bound)
    }

    fn best(self) -> Translation {
        self.finished.into_iter().next().expect("the last step allows the end only")
    }
}

fn penalty(length: usize, config: SearchConfig) -> f64 {
    ((5.0 + length as f64) / 6.0).powf(config.length_penalty)
}

/// The state of decoding a batch: the caches of all layers.
pub struct StepScores<'a> {
    model: &'a TranslationModel,
    caches: Vec<LayerCache>,
    position: usize,
}

impl<'a> StepScores<'a> {
    /// Encodes a batch of sentences, each of which takes `copies` consecutive rows.
    pub fn new(model: &'a TranslationModel, source: &SourceBatch, copies: usize) -> Self {
        let EncodedSource { encoder, bert } = model.encode(source, Mode::Eval);
        let repeat = |MaskedStates { states, bias }| {
            let [batch, ..] = Tensor::<3>::dims(&states);
            let rows: Vec<i32> = (0..batch * copies).map(|row| (row / copies) as i32).collect();
            let rows = int_vector(&rows, &states.device());
            MaskedStates { states: states.select(0, rows.clone()), bias: Tensor::<4>::select(bias, 0, rows) }
        };
        let encoded = match copies {
            1 => EncodedSource { encoder, bert },
            _ => EncodedSource { encoder: repeat(encoder), bert: bert.map(repeat) },
        };
        Self { model, caches: model.transformer.caches(&encoded), position: 0 }
    }

    /// Returns the log-probabilities of the next token, `[rows, vocabulary]` row by row. `ids` has the
    /// preceding token of each row.
    pub fn next(&mut self, ids: &[u32]) -> Vec<f32> {
        let device = self.model.transformer.target_embeddings.weight.val().device();
        let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        let rows = ids.len();
        let ids: Tensor<2, Int> = Tensor::from_data(TensorData::new(ids, [rows, 1]), &device);
        let transformer = &self.model.transformer;
        let hidden = transformer.decode(ids, self.position, &mut self.caches, Mode::Eval);
        self.position += 1;
        let width = hidden.dims()[2];
        values(log_softmax(transformer.logits(hidden.reshape([rows, width])), 1)) // [rows, vocabulary]
    }

    /// Replaces row `i` of the caches by row `rows[i]`, for every `i`; both rows must belong to the same sentence.
    pub fn select(&mut self, rows: &[usize]) {
        let rows: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
        let rows = int_vector(&rows, &self.model.transformer.target_embeddings.weight.val().device());
        self.caches.iter_mut().for_each(|cache| cache.select_targets(&rows));
    }
}
