//! Segment comparison: initial values with which `[CLS]` of an untrained model compares both segments.
//!
//! Next-sentence prediction is hard to learn together with the masked LM: it needs a product of the contents of both
//! segments, and no part of a model with random weights computes one. Here `[CLS]` computes such a product.
//! Two reserved dimensions are marks: the first is positive in segment A and negative in B, the second is nonzero for
//! `[CLS]` only.
//!
//! - In the first layer `[CLS]` attends to itself, so that its hidden state contains no words.
//! - In the second layer one head of `[CLS]` attends to segment A and another one to B. The outputs are the sum `s` of
//!   the segment means along one set of orthonormal directions, and their difference `d` along a second set.
//! - Units of the pooler come in pairs, `tanh(b + s)` and `tanh(b - s)`, and the same for `d`. A pair adds up to an
//!   even function, approximately a square. The square of the sum minus the square of the difference is the product.
//!
//! The queries of other tokens do not distinguish the segments, so both heads have the same mean and the difference
//! cancels. The sum is the mean of the text, a continuous bag of words, which helps to predict a masked token. The
//! directions are orthogonal to the components that all texts share ([`common_directions`]), which would dominate the
//! comparison otherwise.

use super::truncated_normal;
use crate::config::BertConfig;
use crate::init::log_bilinear::LogBilinear;
use crate::init::previous_next::{EMBEDDING_STD, MARKS};

/// The values of the marks, in standard deviations of embeddings.
const SEGMENT_MARK: f64 = 1.4;
const CLS_MARK: f64 = 5.6;
/// Approximate magnitudes of the marks after the first LayerNorm; for `[CLS]`, a fraction of the vector norm.
const SEGMENT_SIZE: f64 = 2.0;
const CLS_SHARE: f64 = 0.62;
/// The attention score of `[CLS]` for itself in the first layer, far above the score of a neighbour.
const SELF_SCORE: f64 = 55.0;
/// The attention score of `[CLS]` for the segment of a head; the score for the other segment is its negative.
const SEGMENT_SCORE: f64 = 1.75;
/// The factor by which a head multiplies the mean of its segment.
const MEAN_GAIN: f64 = 4.0;
/// Weights and biases of the pooler.
const POOLER_GAIN: f64 = 1.5;
const POOLER_BIAS: f32 = 0.7;
/// Weights of the next-sentence classifier.
const CLASSIFIER: f32 = 0.03;

/// The initial values of the parameters that compare the segments.
pub(super) struct Comparison {
    hidden: usize,
    heads: usize,
    /// The dimension of the segment mark; the next dimension is the mark of `[CLS]`.
    mark: usize,
    cls_id: usize,
    /// Orthonormal directions in the dimensions of words, for sums; `differences` has at least as many.
    sums: Vec<Vec<f64>>,
    differences: Vec<Vec<f64>>,
}

impl Comparison {
    /// Creates a comparison in the dimensions of words, the last `width` dimensions.
    pub(super) fn new(config: &BertConfig, fitted: &LogBilinear, width: usize, seed: u64) -> Self {
        let hidden = config.hidden_size;
        let heads = config.num_attention_heads;
        let common = orthonormal(&[], common_directions(fitted, width));
        let rank = (hidden / heads).min((width - common.len()) / 2);
        let drawn = truncated_normal::values("segment comparison", &[2 * rank, width], 1.0, seed);
        let drawn = drawn.chunks_exact(width).map(|row| row.iter().map(|&x| f64::from(x)).collect());
        let mut sums = orthonormal(&common, drawn.collect());
        let differences = sums.split_off(sums.len() / 2);
        Self { hidden, heads, mark: hidden - width - MARKS, cls_id: fitted.cls_id, sums, differences }
    }

    /// Changes the values of a parameter, if it takes part in the comparison.
    pub(super) fn change(&self, name: &str, values: &mut [f32]) {
        let head_size = self.hidden / self.heads;
        let cls_size = CLS_SHARE * (self.hidden as f64).sqrt();
        let scale = (head_size as f64).sqrt();
        let gain = (SEGMENT_SCORE * scale / (cls_size * SEGMENT_SIZE)).sqrt();
        // The mark goes into the first row of a head's query or key weights that the position matrix does not use.
        let add_mark = |values: &mut [f32], head: usize, mark: usize, gain: f64| {
            values[(head * head_size + self.mark) * self.hidden + mark] += gain as f32;
        };
        match name {
            "bert.embeddings.word_embeddings.weight" => {
                let row = &mut values[self.cls_id * self.hidden..][..self.hidden];
                row.fill(0.0);
                row[self.mark + 1] = (CLS_MARK * EMBEDDING_STD) as f32;
            }
            "bert.encoder.layer.0.attention.self.query.weight"
            | "bert.encoder.layer.0.attention.self.key.weight" => {
                (0..self.heads).for_each(|head| {
                    add_mark(values, head, self.mark + 1, (SELF_SCORE * scale).sqrt() / cls_size)
                });
            }
            "bert.encoder.layer.1.attention.self.query.weight" => {
                (0..2).for_each(|head| add_mark(values, head, self.mark + 1, gain));
            }
            "bert.encoder.layer.1.attention.self.key.weight" => {
                add_mark(values, 0, self.mark, gain);
                add_mark(values, 1, self.mark, -gain);
            }
            "bert.encoder.layer.1.attention.self.value.weight" => {
                for (at, sum) in self.sums.iter().enumerate() {
                    self.write_row(values, at, MEAN_GAIN.sqrt(), sum);
                    self.write_row(values, head_size + at, MEAN_GAIN.sqrt(), sum);
                }
            }
            "bert.encoder.layer.1.attention.output.dense.weight" => {
                for (at, (sum, difference)) in self.sums.iter().zip(&self.differences).enumerate() {
                    let column =
                        |sign: f64| sum.iter().zip(difference).map(move |(s, d)| 0.5 * (s + sign * d));
                    self.write_column(values, at, column(1.0));
                    self.write_column(values, head_size + at, column(-1.0));
                }
            }
            "bert.encoder.layer.1.output.dense.weight" => values.fill(0.0),
            _ => self.change_outputs(name, values),
        }
    }

    /// Changes the values of the pooler or the next-sentence classifier.
    fn change_outputs(&self, name: &str, values: &mut [f32]) {
        match name {
            "bert.pooler.dense.weight" => {
                let units = self.units();
                let directions = self.sums.iter().zip(&self.differences);
                for (at, (sum, difference)) in directions.take(units).enumerate() {
                    self.write_row(values, at, POOLER_GAIN, sum);
                    self.write_row(values, units + at, -POOLER_GAIN, sum);
                    self.write_row(values, 2 * units + at, POOLER_GAIN, difference);
                    self.write_row(values, 3 * units + at, -POOLER_GAIN, difference);
                }
            }
            "bert.pooler.dense.bias" => values[..4 * self.units()].fill(POOLER_BIAS),
            "cls.seq_relationship.weight" => {
                // Row 0 is the logit of a true pair. The sum of a pair of units falls when the magnitude of its input
                // rises, so `s` has a negative weight and `d` a positive one.
                for (row, weight) in values.chunks_exact_mut(self.hidden).zip([CLASSIFIER, -CLASSIFIER]) {
                    row[..2 * self.units()].fill(-weight);
                    row[2 * self.units()..4 * self.units()].fill(weight);
                }
            }
            _ => {}
        }
    }

    /// Returns the number of directions for which the pooler has four units each.
    fn units(&self) -> usize {
        self.sums.len().min(self.hidden / 4)
    }

    /// Writes a row that projects onto one direction of words and ignores all other dimensions.
    fn write_row(&self, values: &mut [f32], row: usize, scale: f64, direction: &[f64]) {
        let row = &mut values[row * self.hidden..][..self.hidden];
        row.fill(0.0);
        let words = &mut row[self.mark + MARKS..];
        words.iter_mut().zip(direction).for_each(|(value, x)| *value = (scale * x) as f32);
    }

    /// Writes a column that adds a direction of words and nothing in the other dimensions.
    fn write_column(&self, values: &mut [f32], column: usize, direction: impl Iterator<Item = f64>) {
        let rest = std::iter::repeat_n(0.0, self.mark + MARKS);
        let rows = values.chunks_exact_mut(self.hidden);
        rows.zip(rest.chain(direction)).for_each(|(row, x)| row[column] = (MEAN_GAIN.sqrt() * x) as f32);
    }
}

/// Returns the segment embeddings, flattened, which contain the marks only.
pub(super) fn segments(len: usize, hidden: usize, width: usize) -> Vec<f32> {
    let mut table = vec![0.0; len];
    for (segment, row) in table.chunks_exact_mut(hidden).enumerate() {
        let sign = if segment == 0 { 1.0 } else { -1.0 };
        row[hidden - width - MARKS] = (sign * SEGMENT_MARK * EMBEDDING_STD) as f32;
    }
    table
}

/// Returns the directions that all texts share: the mean word vector, the constant vector (which a LayerNorm leaves at
/// `[CLS]`, where there is no word vector), and the neighbour heads' outputs for these two.
fn common_directions(fitted: &LogBilinear, width: usize) -> Vec<Vec<f64>> {
    let mut mean = vec![0.0; width];
    for (id, row) in fitted.table.chunks_exact(width).enumerate() {
        let length = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        if length > 0.0 && !fitted.special.contains(&id) {
            let share = f64::from(fitted.bias[id]).exp() / length;
            mean.iter_mut().zip(row).for_each(|(sum, &x)| *sum += share * f64::from(x));
        }
    }
    let constant = vec![1.0; width];
    let head_outputs = |seen: &[f64]| {
        let heads = fitted.sides.iter().map(|side| {
            let mut sum = vec![0.0; width];
            for (input, output) in side.inputs.chunks_exact(width).zip(side.outputs.chunks_exact(width)) {
                let projection: f64 = input.iter().zip(seen).map(|(&a, b)| f64::from(a) * b).sum();
                sum.iter_mut().zip(output).for_each(|(sum, &x)| *sum += projection * f64::from(x));
            }
            sum
        });
        heads.collect::<Vec<_>>()
    };
    let outputs = [head_outputs(&mean), head_outputs(&constant)].concat();
    [vec![mean, constant], outputs].concat()
}

/// Returns the vectors, made orthonormal to each other and to `to`, which is already orthonormal (Gram-Schmidt, twice
/// for precision). Drops linearly dependent vectors.
fn orthonormal(to: &[Vec<f64>], vectors: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let mut made: Vec<Vec<f64>> = Vec::new();
    for mut vector in vectors {
        let before = length(&vector);
        for _ in 0..2 {
            for other in to.iter().chain(&made) {
                let share: f64 = vector.iter().zip(other).map(|(a, b)| a * b).sum();
                vector.iter_mut().zip(other).for_each(|(a, b)| *a -= share * b);
            }
        }
        let after = length(&vector);
        if after > 1e-6 * before {
            vector.iter_mut().for_each(|x| *x /= after);
            made.push(vector);
        }
    }
    made
}

fn length(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}
