//! Counter-based dropout: zeroes random elements of a tensor and scales the rest so that the expectation is unchanged.
//!
//! A mask is a pure function of (seed, site, sequence, position in the sequence), so there is no generator state to
//! save. The mask is the same on every backend, for any number of threads, and for any split of a batch into
//! micro-batches that are padded to one length.
//!
//! BERT's encoder applies dropout in four places: after the LayerNorm of the embeddings, on the attention
//! probabilities, and before the two residuals of a layer. A classifier applies it to its input, and fused adapters to
//! their scores. There is no dropout after the GELU or in the pre-training heads. [`Site`] lists all places.

use bert_kernels::dropout::{RowDropout, SelectedRows, mix, plain};
use bert_kernels::embeddings::gather;
use bert_kernels::{Compute, Dropout};
use burn::tensor::{Device, Int, Tensor};

/// Dropout setting of one forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Dropout is disabled.
    Eval,
    /// Dropout is enabled.
    Train {
        /// Seed of the masks of one global batch.
        seed: u64,
        /// Index of this pass's first sequence in the global batch.
        first_sequence: u64,
    },
}

/// A place where BERT, its classifier or its fused adapters apply dropout. Each has separate masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// After the embeddings' LayerNorm.
    Embeddings,
    /// On the attention probabilities of a layer.
    AttentionProbabilities(usize),
    /// After the attention's output projection of a layer, before the residual.
    AttentionOutput(usize),
    /// After the second feed-forward projection of a layer, before the residual.
    FeedForwardOutput(usize),
    /// On the scores of a layer's fused adapters.
    AdapterFusion(usize),
    /// On the classifier's input: the pooled output, every token's vector, or the features of a head.
    Classifier,
}

impl Site {
    fn number(self) -> u64 {
        match self {
            Self::Embeddings => 0,
            Self::Classifier => 1,
            // Counting down from the maximum keeps these numbers distinct from all others.
            Self::AdapterFusion(layer) => u64::MAX - layer as u64,
            Self::AttentionProbabilities(layer) => 3 * layer as u64 + 2,
            Self::AttentionOutput(layer) => 3 * layer as u64 + 3,
            Self::FeedForwardOutput(layer) => 3 * layer as u64 + 4,
        }
    }
}

impl Mode {
    /// Returns the mode of a training pass over a complete batch.
    pub fn train(seed: u64) -> Self {
        Self::Train { seed, first_sequence: 0 }
    }

    /// Returns the mode of a pass that starts at this sequence of the global batch.
    #[must_use]
    pub fn from_sequence(self, first_sequence: u64) -> Self {
        match self {
            Self::Eval => Self::Eval,
            Self::Train { seed, .. } => Self::Train { seed, first_sequence },
        }
    }

    /// Returns the key of the masks at one site in this pass.
    pub fn site(self, site: Site) -> DropoutKey {
        DropoutKey(match self {
            Self::Eval => None,
            // Two rounds of mixing make the masks of neighbouring seeds and sites independent.
            Self::Train { seed, first_sequence } => Some((mix(mix(seed) ^ site.number()), first_sequence)),
        })
    }
}

/// Key of the masks at one site in one forward pass; `None` if dropout is disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropoutKey(Option<(u64, u64)>);

impl DropoutKey {
    /// Returns the kernel parameters for dropout with probability `prob`, where a sequence has `per_sequence` elements.
    /// Returns `None` if dropout is disabled.
    ///
    /// `p` is `prob` rounded to a multiple of 2^-16. The scale is computed from the rounded `p`, so the expectation is
    /// exact. The masks of consecutive sequences follow one another without a gap.
    pub fn dropout(self, prob: f64, per_sequence: usize) -> Option<Dropout> {
        let (key, first_sequence) = self.0?;
        Some(Dropout::new(key, prob)?.after(first_sequence.wrapping_mul(per_sequence as u64)))
    }
}

/// Applies dropout with probability `prob`; returns the input unchanged in [`Mode::Eval`] and for `prob` 0.
///
/// Autodiff treats the mask as a constant.
///
/// # Shapes
/// - input and output: `[batch, ..]`
pub fn dropout<const D: usize>(x: Tensor<D>, prob: f64, key: DropoutKey) -> Tensor<D> {
    let shape = x.dims();
    plain(x, key.dropout(prob, shape[1..].iter().product()))
}

/// The masks of a site for all tokens of a batch, or for selected ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenMasks<'a> {
    pub(crate) key: DropoutKey,
    pub(crate) tokens: Option<&'a SelectedTokens>,
}

impl TokenMasks<'_> {
    /// Returns the kernel parameters for tokens with `width` elements each.
    pub(crate) fn dropout(&self, prob: f64, seq: usize, width: usize) -> RowDropout {
        let seq = self.tokens.map_or(seq, |tokens| tokens.seq);
        RowDropout {
            dropout: self.key.dropout(prob, seq * width),
            rows: self.tokens.map(|tokens| tokens.rows.clone()),
        }
    }

    /// Applies dropout with probability `prob`.
    ///
    /// # Shapes
    /// - input and output: `[batch, seq, width]`, or `[1, n, width]` for selected tokens
    pub(crate) fn apply(&self, x: Tensor<3>, prob: f64) -> Tensor<3> {
        let [_, seq, width] = x.dims();
        self.dropout(prob, seq, width).apply(x)
    }
}

/// Tokens of a batch that a head reads. The last layer computes no other token after its attention.
#[derive(Clone, Debug)]
pub struct SelectedTokens {
    rows: SelectedRows,
    seq: usize,
}

impl SelectedTokens {
    /// Selects the first token of each sequence.
    pub fn first([batch, seq]: [usize; 2], device: &Device) -> Self {
        let table_rows = batch * seq;
        let indices = Tensor::arange_step(0..table_rows as i64, seq, device);
        Self { rows: SelectedRows { indices, table_rows }, seq }
    }

    /// Appends tokens to the selected tokens.
    ///
    /// # Shapes
    /// - positions: `[n]`, `row * seq + position` of each token
    #[must_use]
    pub fn and(self, positions: Tensor<1, Int>) -> Self {
        let Self { rows: SelectedRows { indices, table_rows }, seq } = self;
        let indices =
            if positions.dims() == [0] { indices } else { Tensor::cat(vec![indices, positions], 0) };
        Self { rows: SelectedRows { indices, table_rows }, seq }
    }

    /// Returns the tokens for tensors without autodiff.
    pub(crate) fn inner(self) -> Self {
        let SelectedRows { indices, table_rows } = self.rows;
        Self { rows: SelectedRows { indices: indices.inner(), table_rows }, ..self }
    }

    /// Returns the states of the tokens.
    ///
    /// # Shapes
    /// - states: `[batch, seq, hidden]`
    /// - output: `[1, n, hidden]`
    pub(crate) fn select(&self, compute: Compute, states: Tensor<3>) -> Tensor<3> {
        let [_, _, hidden] = states.dims();
        let states = states.reshape([self.rows.table_rows, hidden]); // [batch * seq, hidden]
        gather(compute, states, self.rows.indices.clone()).unsqueeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::TensorData;

    /// Number of elements per parallel task.
    const CHUNK: usize = 1 << 14;
    const TRAIN: Mode = Mode::Train { seed: 7, first_sequence: 0 };

    /// Returns the mask of a batch of one sequence.
    fn mask(mode: Mode, site: Site, prob: f64, len: usize) -> Vec<f32> {
        mode.site(site).dropout(prob, len).expect("something is dropped").mask(len)
    }

    #[test]
    fn dropout_rate_is_within_five_sigma() {
        let n = 1_000_000;
        for prob in [0.1, 0.5, 0.02] {
            let mask = mask(TRAIN, Site::Embeddings, prob, n);
            let dropped = mask.iter().filter(|m| **m == 0.0).count() as f64;
            let sigma = (n as f64 * prob * (1.0 - prob)).sqrt();
            assert!((dropped - n as f64 * prob).abs() < 5.0 * sigma, "{prob}: {dropped}");
            let mean = mask.iter().map(|m| f64::from(*m)).sum::<f64>() / n as f64;
            assert!((mean - 1.0).abs() < 5.0 * (prob / (1.0 - prob) / n as f64).sqrt());
        }
    }

    #[test]
    fn masks_of_sites_and_lags_are_independent() {
        let n = 1_000_000;
        let mask = |mode, site| mask(mode, site, 0.5, n);
        let agreement = |a: &[f32], b: &[f32]| {
            let same = a.iter().zip(b).filter(|(a, b)| a == b).count() as f64;
            (same - a.len() as f64 / 2.0) / (a.len() as f64 / 4.0).sqrt()
        };
        let a = mask(TRAIN, Site::Embeddings);
        for lag in 1..=9 {
            assert!(agreement(&a[lag..], &a[..n - lag]).abs() < 5.0, "lag {lag}");
        }
        for b in [
            mask(TRAIN, Site::Classifier),
            mask(TRAIN, Site::AttentionProbabilities(0)),
            mask(Mode::train(8), Site::Embeddings),
        ] {
            assert!(agreement(&a, &b).abs() < 5.0);
        }
    }

    #[test]
    fn site_numbers_are_unique() {
        let mut numbers: Vec<u64> = (0..48)
            .flat_map(|layer| {
                [
                    Site::AttentionProbabilities(layer),
                    Site::AttentionOutput(layer),
                    Site::FeedForwardOutput(layer),
                ]
            })
            .chain([Site::Embeddings, Site::Classifier])
            .map(Site::number)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 48 * 3 + 2);
    }

    #[test]
    fn mask_prefix_is_independent_of_length_and_threads() {
        let mask = |len| mask(TRAIN, Site::AttentionOutput(3), 0.1, len);
        let long = mask(3 * CHUNK + 5);
        let short = mask(CHUNK + 3);
        assert_eq!(long[..short.len()], short);
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(one_thread.install(|| mask(long.len())), long);
    }

    /// 2 heads of 31 tokens have 1922 probabilities, not a multiple of 4; four elements share one random word.
    #[test]
    fn micro_batches_use_the_masks_of_the_batch() {
        for per_sequence in [24, 1, 7, 2 * 31 * 31] {
            check_masks_of_parts(7, per_sequence);
        }
    }

    fn check_masks_of_parts(sequences: usize, per_sequence: usize) {
        let site = Site::AttentionProbabilities(1);
        let part = |from: usize, to: usize| {
            let key = TRAIN.from_sequence(from as u64).site(site);
            key.dropout(0.3, per_sequence).unwrap().mask((to - from) * per_sequence)
        };
        let whole = part(0, sequences);
        for bounds in [vec![0, 3, 7], vec![0, 1, 2, 3, 4, 5, 6, 7], vec![0, 6, 7]] {
            let parts: Vec<f32> = bounds.windows(2).flat_map(|w| part(w[0], w[1])).collect();
            assert_eq!(parts, whole, "{bounds:?}");
        }
    }

    #[test]
    fn eval_and_zero_probability_disable_dropout() {
        assert!(Mode::Eval.site(Site::Embeddings).dropout(0.1, 10).is_none());
        assert!(Mode::Eval.from_sequence(3).site(Site::Embeddings).dropout(0.1, 10).is_none());
        assert!(TRAIN.site(Site::Embeddings).dropout(0.0, 10).is_none());
    }

    #[test]
    fn dropout_gradient_is_the_mask() {
        let device = burn::tensor::Device::flex().autodiff();
        let key = TRAIN.site(Site::Embeddings);
        let x = Tensor::<2>::ones([8, 50], &device).require_grad();
        let gradients = dropout(x.clone(), 0.2, key).sum().backward();
        let gradient = x.grad(&gradients).unwrap().into_data();
        let mask = TensorData::new(key.dropout(0.2, 50).unwrap().mask(400), [8, 50]);
        gradient.assert_eq(&mask, true);
    }
}
