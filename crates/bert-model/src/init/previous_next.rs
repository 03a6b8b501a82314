//! Previous-next initialization: heads of the first layer attend to the neighbouring tokens from the first step.
//!
//! With the reference's initialization, small BERT models plateau at the unigram loss for thousands of steps: attention
//! over random position embeddings has to learn a direction for "the previous token" first. This initialization
//! provides that direction. Only initial values differ; the architecture is BERT's.
//!
//! `D` dimensions of the hidden size ([`position_width`]) are reserved for positions. The embedding of position `p` in
//! these dimensions is
//!
//! ```text
//! P[p, 2k] = sin(f_k p), P[p, 2k+1] = cos(f_k p)        times the scale of embeddings
//! ```
//!
//! with evenly spaced frequencies, so that the product of two positions has one sharp peak. A head attends to offset
//! `o` if its keys are `P` and its queries are `P` rotated by `f_k o`. The first heads of the first layer attend to the
//! offsets -1 and +1 and, with at least four heads, -2 and +2. The gain makes the attention probability about 0.97. The
//! weights of values, outputs and the feed-forward network of this layer have standard deviation `1 / sqrt(inputs)`, so
//! that the outputs of the heads reach the residual stream at full strength. The transform of the masked-LM head has
//! the same standard deviation. The other layers have the reference's initialization.

use super::truncated_normal;
use crate::config::BertConfig;
use crate::error::{Error, config_key};

/// Standard deviation of word and position embeddings, each in its own dimensions.
pub(super) const EMBEDDING_STD: f64 = 0.12;
/// Lowest and highest frequency of the positions, in radians per token.
const FREQUENCIES: (f64, f64) = (0.06, 2.6);
/// The attention score at a head's offset, before the softmax, without the random part of the weights.
const PEAK_SCORE: f64 = 10.24;
/// Maximum number of dimensions reserved for positions.
const MAX_POSITION_WIDTH: usize = 32;
/// Minimum number of dimensions reserved for positions; with fewer frequencies the peak is not sharp.
const MIN_POSITION_WIDTH: usize = 6;
/// The token offsets that the first heads attend to.
const OFFSETS: [i64; 4] = [-1, 1, -2, 2];

/// Number of dimensions that follow the dimensions of the positions and are zero in word embeddings: the marks of the
/// segment and of `[CLS]`.
pub(super) const MARKS: usize = 2;

pub(super) const FIRST_LAYER: &str = "bert.encoder.layer.0.";

/// Returns the number of dimensions reserved for positions: the head size minus the marks, rounded down to an even
/// number, but at most 32.
pub(super) fn position_width(config: &BertConfig) -> usize {
    let without_marks = (config.hidden_size / config.num_attention_heads).saturating_sub(MARKS);
    (without_marks / 2 * 2).min(MAX_POSITION_WIDTH)
}

/// Returns the offsets that the first heads attend to: all, or the nearest two if there are fewer than four heads.
pub(super) fn offsets(config: &BertConfig) -> Result<&'static [i64], Error> {
    let heads = config.num_attention_heads;
    let width = position_width(config);
    if heads < 2 || width < MIN_POSITION_WIDTH {
        let reason = format!(
            "is {heads}, each {} wide; previous-next and bigram initialization need at least two heads of width {} or \
             more (`reference` works with any)",
            config.hidden_size / heads,
            MIN_POSITION_WIDTH + MARKS
        );
        return Err(config_key("num_attention_heads", reason));
    }
    Ok(if heads < OFFSETS.len() { &OFFSETS[..2] } else { &OFFSETS })
}

/// The initial values of [`Initialization::PreviousNext`](super::Initialization::PreviousNext).
pub(super) struct PreviousNextWeights<'a> {
    config: &'a BertConfig,
    seed: u64,
    /// Number of dimensions reserved for positions.
    width: usize,
    /// The offsets that the first heads attend to.
    offsets: &'static [i64],
}

impl<'a> PreviousNextWeights<'a> {
    pub(super) fn new(config: &'a BertConfig, seed: u64) -> Result<Self, Error> {
        Ok(Self { config, seed, width: position_width(config), offsets: offsets(config)? })
    }

    /// Returns the values of a parameter in the published layout; `None` for the reference's values.
    pub(super) fn values(&self, name: &str, shape: &[usize]) -> Option<Vec<f32>> {
        let drawn = |std| truncated_normal::values(name, shape, std, self.seed);
        let reference = || drawn(self.config.initializer_range);
        let fan_in = || drawn(1.0 / (shape[1] as f64).sqrt());
        match name {
            "bert.embeddings.word_embeddings.weight" => Some(self.without_positions(drawn(EMBEDDING_STD))),
            "bert.embeddings.position_embeddings.weight" => Some(self.positions(shape)),
            "bert.embeddings.token_type_embeddings.weight" => Some(self.without_positions(reference())),
            "cls.predictions.transform.dense.weight" => Some(fan_in()),
            _ => match name.strip_prefix(FIRST_LAYER)? {
                "attention.self.query.weight" => {
                    Some(self.add_position_matrix(reference(), |offset| rotation(self.width, offset)))
                }
                "attention.self.key.weight" => {
                    Some(self.add_position_matrix(reference(), |_| rotation(self.width, 0.0)))
                }
                "attention.self.value.weight"
                | "attention.output.dense.weight"
                | "intermediate.dense.weight"
                | "output.dense.weight" => Some(fan_in()),
                _ => None,
            },
        }
    }

    /// Returns the table with zeros in the dimensions of positions and marks.
    pub(super) fn without_positions(&self, mut table: Vec<f32>) -> Vec<f32> {
        table.chunks_exact_mut(self.config.hidden_size).for_each(|row| row[..self.width + MARKS].fill(0.0));
        table
    }

    /// Returns the position embeddings, `[max_position_embeddings, hidden]`.
    fn positions(&self, shape: &[usize]) -> Vec<f32> {
        let mut table = vec![0.0; shape[0] * shape[1]];
        for (position, row) in table.chunks_exact_mut(shape[1]).enumerate() {
            for (k, pair) in row[..self.width].chunks_exact_mut(2).enumerate() {
                let (sin, cos) = (frequency(k, self.width) * position as f64).sin_cos();
                pair[0] = (EMBEDDING_STD * std::f64::consts::SQRT_2 * sin) as f32;
                pair[1] = (EMBEDDING_STD * std::f64::consts::SQRT_2 * cos) as f32;
            }
        }
        table
    }

    /// Adds `matrix(offset)`, `[width, width]`, times the gain to the position dimensions of each previous-next head.
    fn add_position_matrix(&self, mut weights: Vec<f32>, matrix: impl Fn(f64) -> Vec<f64>) -> Vec<f32> {
        let hidden = self.config.hidden_size;
        let head_size = hidden / self.config.num_attention_heads;
        let gain = (PEAK_SCORE * (head_size as f64).sqrt() / self.width as f64).sqrt();
        for (rows, &offset) in weights.chunks_exact_mut(head_size * hidden).zip(self.offsets) {
            let matrix = matrix(offset as f64);
            for (row, on_positions) in rows.chunks_exact_mut(hidden).zip(matrix.chunks_exact(self.width)) {
                row.iter_mut().zip(on_positions).for_each(|(value, added)| *value += (gain * added) as f32);
            }
        }
        weights
    }
}

/// Returns frequency `k` of `width / 2`, in radians per token.
fn frequency(k: usize, width: usize) -> f64 {
    let (lowest, highest) = FREQUENCIES;
    lowest + (highest - lowest) * k as f64 / (width / 2 - 1) as f64
}

/// Returns the matrix `[width, width]` that maps the embedding of position `p` to the embedding of `p + offset`.
fn rotation(width: usize, offset: f64) -> Vec<f64> {
    let mut matrix = vec![0.0; width * width];
    for k in 0..width / 2 {
        let (sin, cos) = (frequency(k, width) * offset).sin_cos();
        matrix[2 * k * width + 2 * k] = cos;
        matrix[2 * k * width + 2 * k + 1] = sin;
        matrix[(2 * k + 1) * width + 2 * k] = -sin;
        matrix[(2 * k + 1) * width + 2 * k + 1] = cos;
    }
    matrix
}
