//! The steps of the fit in `log_bilinear.rs`: Adam, and the gradient of the cross-entropy.
//!
//! The threads share the work by elements and by rows. Each element is computed with the same operations in the same
//! order as operations on whole tensors compute it, so the bits do not depend on the number of threads. This module
//! multiplies the moments by the inverse bias corrections. The kernel of AdamW divides by the corrections, which rounds
//! differently and would change the initial weights of every model.

use bert_inference::host_tensors::values;
use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.98;
const EPSILON: f64 = 1e-8;
/// Number of elements that a thread updates at once.
const UPDATED: usize = 1 << 14;
/// Number of words whose logits a thread computes at once.
const BLOCK: usize = 1 << 10;
/// Weight of the unigram prior, in tokens added to the counts of each neighbour, because rare neighbours have few
/// counts.
const PRIOR: f64 = 20.0;

/// A parameter and its moments.
pub(super) struct Parameter {
    tracked: Tensor<2>,
    pub(super) value: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
}

impl Parameter {
    /// Returns the parameter with this value.
    pub(super) fn new(value: Tensor<2>) -> Self {
        let tracked = Tensor::from_inner(value.clone().inner()).require_grad();
        let value = values(value.inner());
        let first = vec![0.0; value.len()];
        let second = vec![0.0; value.len()];
        Self { tracked, value, first, second }
    }

    /// Returns the value, with autodiff.
    pub(super) fn tensor(&self) -> Tensor<2> {
        self.tracked.clone()
    }

    /// Returns the value without autodiff.
    pub(super) fn inner(&self) -> Tensor<2> {
        self.tracked.clone().inner()
    }

    /// Applies one step of Adam with bias correction, in one pass over the elements. Each operation is rounded to f32,
    /// so operations on whole tensors give the same bits.
    pub(super) fn update(&mut self, gradient: &[f32], rate: f64, step: usize) {
        let correction = |beta: f64| (1.0 / (1.0 - beta.powi(step as i32 + 1))) as f32;
        let correction1 = correction(BETA1);
        let correction2 = correction(BETA2);
        let rate = rate as f32;
        let old = self.value.par_chunks_mut(UPDATED).zip(self.first.par_chunks_mut(UPDATED));
        let old = old.zip(self.second.par_chunks_mut(UPDATED)).zip(gradient.par_chunks(UPDATED));
        old.for_each(|(((value, first), second), gradient)| {
            for (((value, first), second), &gradient) in value.iter_mut().zip(first).zip(second).zip(gradient)
            {
                *first = *first * BETA1 as f32 + gradient * (1.0 - BETA1) as f32;
                *second = *second * BETA2 as f32 + gradient * gradient * (1.0 - BETA2) as f32;
                let size = (*second * correction2).sqrt() + EPSILON as f32;
                *value -= *first * correction1 / size * rate;
            }
        });
        let [rows, columns] = self.tracked.dims();
        let value = TensorData::new(self.value.clone(), [rows, columns]);
        self.tracked = Tensor::from_inner(Tensor::from_data(value, &self.inner().device())).require_grad();
    }
}

/// The gradients of the mean cross-entropy at the outputs of the model.
pub(super) struct OutputGradients {
    /// `[neighbours, width]`
    pub(super) hidden: Tensor<2>,
    /// `[words, width]`, row by row.
    pub(super) table: Vec<f32>,
    /// `[words]`
    pub(super) bias: Vec<f32>,
}

impl OutputGradients {
    /// Computes the logits `hidden . table + bias` and the gradients of their cross-entropy with the distributions next
    /// to these neighbours. Each product runs on one thread, with the operations of automatic differentiation.
    pub(super) fn new(
        hidden: Tensor<2>,
        table: &[f32],
        bias: &[f32],
        neighbours: &[&[(u32, u32)]],
        shares: &[f64],
    ) -> Self {
        let device = hidden.device();
        let [rows, width] = hidden.dims();
        let words = bias.len();
        let mut logits = vec![0.0; rows * words];
        let blocks: Vec<Vec<f32>> = table
            .par_chunks(BLOCK * width)
            .zip(bias.par_chunks(BLOCK))
            .map(|(table, bias)| {
                let table =
                    Tensor::<2>::from_data(TensorData::new(table.to_vec(), [bias.len(), width]), &device);
                let bias = Tensor::from_data(TensorData::new(bias.to_vec(), [1, bias.len()]), &device);
                values(hidden.clone().matmul(table.transpose()) + bias)
            })
            .collect();
        logits.par_chunks_mut(words).enumerate().for_each(|(row, logits)| {
            for (logits, block) in logits.chunks_mut(BLOCK).zip(&blocks) {
                logits.copy_from_slice(&block[row * logits.len()..][..logits.len()]);
            }
        });
        let gradient = logit_gradient(logits, neighbours, shares, &device);
        let gradient = Tensor::<2>::from_data(TensorData::new(gradient, [rows, words]), &device);
        let table = Tensor::<2>::from_data(TensorData::new(table.to_vec(), [words, width]), &device);
        let (hidden_gradient, table_gradient) = rayon::join(
            || gradient.clone().matmul(table),
            || values(gradient.clone().transpose().matmul(hidden)),
        );
        Self { hidden: hidden_gradient, table: table_gradient, bias: values(gradient.sum_dim(0)) }
    }
}

/// Returns the gradient of the mean cross-entropy of `neighbours.len()` rows of logits with the distributions next to
/// these neighbours, whose tokens are given. A thread computes a row. It uses the operations of the automatic
/// differentiation of [`log_softmax`](burn::tensor::activation::log_softmax) in the same order, so the bits are the
/// same.
///
/// # Shapes
/// `logits` and the result: `[neighbours, words]`, row by row.
fn logit_gradient(
    mut logits: Vec<f32>,
    neighbours: &[&[(u32, u32)]],
    shares: &[f64],
    device: &Device,
) -> Vec<f32> {
    let scale = (-1.0 / neighbours.len() as f64) as f32;
    logits.par_chunks_mut(shares.len()).zip(neighbours).for_each(|(logits, tokens)| {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        logits.iter_mut().for_each(|logit| *logit = (*logit - max).exp());
        let sum = row_sum(logits, device);
        let mut targets = distribution(tokens, shares);
        targets.iter_mut().for_each(|target| *target = -(*target * scale));
        let factor = row_sum(&targets, device) * (1.0 / sum);
        logits.iter_mut().zip(&targets).for_each(|(logit, target)| *logit = *logit * factor - target);
    });
    logits
}

/// Returns the sum of a row, in the order of the device's sums.
fn row_sum(row: &[f32], device: &Device) -> f32 {
    let row = Tensor::<2>::from_data(TensorData::new(row.to_vec(), [1, row.len()]), device);
    values(row.sum_dim(1))[0]
}

/// Returns the distribution of tokens next to a neighbour, smoothed with the unigram prior.
pub(super) fn distribution(tokens: &[(u32, u32)], shares: &[f64]) -> Vec<f32> {
    let total = tokens.iter().map(|&(_, count)| f64::from(count)).sum::<f64>() + PRIOR;
    let mut distribution: Vec<f32> = shares.iter().map(|share| (PRIOR * share / total) as f32).collect();
    for &(token, count) in tokens {
        distribution[token as usize] += (f64::from(count) / total) as f32;
    }
    distribution
}

#[cfg(test)]
mod tests {
    use bert_random::{Domain, Random, Stream};
    use burn::tensor::activation::log_softmax;

    use super::*;
    use bert_inference::DeviceName;

    const WORDS: usize = 60;

    fn random_values(count: usize, seed: u64) -> Vec<f32> {
        let mut random = Stream::new(seed, Domain::Test, &[]);
        (0..count).map(|_| 9.0 * random.unit() as f32 - 4.5).collect()
    }

    #[test]
    fn logit_gradient_equals_automatic_differentiation() {
        let device = DeviceName::default().open().unwrap();
        let tracking = device.clone().autodiff();
        let tokens = [vec![(1, 3), (7, 20)], vec![(0, 1)], vec![], vec![(59, 5000), (2, 1)]];
        let neighbours: Vec<&[(u32, u32)]> = tokens.iter().map(Vec::as_slice).collect();
        let shares = vec![1.0 / WORDS as f64; WORDS];
        let logits = random_values(4 * WORDS, 2);
        let shape = [4, WORDS];
        let tracked =
            Tensor::<2>::from_data(TensorData::new(logits.clone(), shape), &tracking).require_grad();
        let targets: Vec<f32> = neighbours.iter().flat_map(|tokens| distribution(tokens, &shares)).collect();
        let targets = Tensor::<2>::from_data(TensorData::new(targets, shape), &tracking);
        let loss = (targets * log_softmax(tracked.clone(), 1)).sum().mul_scalar(-1.0 / 4.0);
        let expected = values(tracked.grad(&loss.backward()).unwrap());
        assert_eq!(logit_gradient(logits, &neighbours, &shares, &device), expected);
    }

    #[test]
    fn output_gradients_equal_automatic_differentiation() {
        let tracking = DeviceName::default().open().unwrap().autodiff();
        let rows = 96;
        let words = BLOCK + 60;
        let width = 128;
        let tracked = |shape: [usize; 2], seed| {
            let values = random_values(shape[0] * shape[1], seed);
            Tensor::<2>::from_data(TensorData::new(values, shape), &tracking).require_grad()
        };
        let hidden = tracked([rows, width], 3);
        let table = tracked([words, width], 4);
        let bias = tracked([1, words], 5);
        let tokens: Vec<[(u32, u32); 2]> =
            (0..rows as u32).map(|row| [(row, 3), (1000 + row / 2, 20)]).collect();
        let neighbours: Vec<&[(u32, u32)]> = tokens.iter().map(|tokens| &tokens[..]).collect();
        let shares = vec![1.0 / words as f64; words];
        let targets = neighbours.iter().flat_map(|tokens| distribution(tokens, &shares)).collect::<Vec<_>>();
        let targets = Tensor::<2>::from_data(TensorData::new(targets, [rows, words]), &tracking);
        let logits = hidden.clone().matmul(table.clone().transpose()) + bias.clone();
        let gradients = (targets * log_softmax(logits, 1)).sum().mul_scalar(-1.0 / rows as f64).backward();
        let expected = |x: &Tensor<2>| values(x.grad(&gradients).unwrap());
        let plain = |x: &Tensor<2>| values(x.clone().inner());
        let found =
            OutputGradients::new(hidden.clone().inner(), &plain(&table), &plain(&bias), &neighbours, &shares);
        assert_eq!(values(found.hidden), expected(&hidden));
        assert_eq!(found.table, expected(&table));
        assert_eq!(found.bias, expected(&bias));
    }

    /// Returns the value after the first step of Adam, whose moments start at zero, computed with operations on whole
    /// tensors.
    fn after_first_step(value: Tensor<2>, gradient: Tensor<2>, rate: f64) -> Tensor<2> {
        let first = gradient.clone().mul_scalar(1.0 - BETA1);
        let second = (gradient.clone() * gradient).mul_scalar(1.0 - BETA2);
        let correction = |beta: f64| 1.0 / (1.0 - beta.powi(1));
        let size = second.mul_scalar(correction(BETA2)).sqrt().add_scalar(EPSILON);
        value - (first.mul_scalar(correction(BETA1)) / size).mul_scalar(rate)
    }

    #[test]
    fn adam_equals_operations_on_tensors() {
        let device = DeviceName::default().open().unwrap();
        let tensor = |seed| {
            Tensor::<2>::from_data(TensorData::new(random_values(6 * WORDS, seed), [6, WORDS]), &device)
        };
        let mut parameter = Parameter::new(Tensor::from_inner(tensor(1)));
        let loss = (parameter.tensor() * Tensor::from_inner(tensor(2))).sum();
        parameter.update(&values(parameter.tensor().grad(&loss.backward()).unwrap()), 0.06, 0);
        let expected = values(after_first_step(tensor(1), tensor(2), 0.06));
        assert_eq!(parameter.value, expected);
        assert_eq!(values(parameter.inner()), expected);
    }
}
