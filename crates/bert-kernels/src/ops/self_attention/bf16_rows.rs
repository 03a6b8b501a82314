//! The bf16 kernel of self-attention: one thread projects one row of the batch and computes its attention.

use std::borrow::Borrow;

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;

use crate::cpu::buffer_pool::{Scratch, scratch};
use crate::cpu::flex_slices::{buffer, contiguous, slice, tensor, width};
use crate::cpu::row_blocks::{add_bias, add_blocks, add_rows};
use crate::fused_op::Fused;
use crate::matmul::bf16::{Operand, Packed, PackedBlock};
use crate::matmul::matrix_view::{Gemm, Matrix, MatrixMut, Side, Threads};
use crate::matmul::packed_weights::{PackedWeights, packed};
use crate::matmul::{MatmulContext, multiply};
use crate::ops::attention::{Attention, BatchRow, RowScratch, Sizes, SoftmaxStatistics};
use crate::ops::saves_projections;

#[derive(Clone, Debug)]
pub(crate) struct SelfAttention(pub(crate) Attention);

fn right(matrix: Matrix, hidden: usize) -> Packed {
    Packed::whole(Threads::All, Side::Right, matrix, hidden, hidden)
}

/// Computes a product of one row of the batch, `[seq, hidden]` times `[hidden, hidden]`.
fn product<'a>(ctx: MatmulContext, sizes: Sizes, c: &mut [f32], a: impl Into<Operand<'a>>, b: &'a Packed) {
    let Sizes { seq, hidden, .. } = sizes;
    let sizes = Gemm { m: seq, n: hidden, k: hidden };
    multiply(ctx, sizes, MatrixMut::new(c, hidden), a, b);
}

/// A projector of batch rows to queries, keys and values.
struct Projector<'a, W> {
    threads: Threads,
    sizes: Sizes,
    weights: [W; 3],
    biases: [&'a [f32]; 3],
}

impl<W: Borrow<Packed>> Projector<'_, W> {
    /// Computes the queries, keys and values of a row of the batch, `[3, seq, hidden]`.
    fn project(&self, x: &[f32], projected: &mut [f32]) {
        let Sizes { seq, hidden, .. } = self.sizes;
        let x = Packed::whole(Threads::One, Side::Left, Matrix::rows(x, hidden), seq, hidden);
        let rows = projected.chunks_exact_mut(seq * hidden);
        for ((y, weight), bias) in rows.zip(&self.weights).zip(self.biases) {
            product(MatmulContext::bf16(self.threads), self.sizes, y, &x, weight.borrow());
            add_bias(y, bias);
        }
    }
}

fn thirds(all: &[f32]) -> [&[f32]; 3] {
    let part = all.len() / 3;
    std::array::from_fn(|i| &all[i * part..(i + 1) * part])
}

impl SelfAttention {
    /// Returns the threads that compute the products of one row of the batch.
    fn threads(&self, seq: usize) -> Threads {
        if self.0.threads_to_spare(seq) { Threads::All } else { Threads::One }
    }

    /// Returns the contexts, and the values that the backward pass needs. It saves queries, keys and values
    /// if `save` is true.
    pub(crate) fn contexts(
        &self,
        inputs: &[FlexTensor; 7],
        cache: Option<&PackedWeights>,
        save: bool,
    ) -> (FlexTensor, SavedValues) {
        let [x, _, _, _, bq, bk, bv] = inputs.each_ref().map(slice);
        let shape = inputs[0].layout().shape().clone();
        let sizes @ Sizes { seq, hidden, .. } = self.0.sizes(shape[1], shape[2]);
        let weights: [_; 3] = std::array::from_fn(|i| {
            let weight = &inputs[1 + i];
            packed(cache, weight, || vec![right(Matrix::rows(slice(weight), hidden), hidden)])
        });
        let weights = weights.each_ref().map(|parts| &parts[0]);
        let projector = Projector { threads: self.threads(seq), sizes, weights, biases: [bq, bk, bv] };
        let mut context = buffer(x.len());
        let mut statistics = self.0.statistics(shape[0], seq);
        let chunk = seq * hidden;
        let mut saved = save.then(|| buffer(3 * x.len()));
        let saved_of_rows: Vec<Option<&mut [f32]>> = match &mut saved {
            Some(saved) => saved.chunks_mut(3 * chunk).map(Some).collect(),
            None => (0..shape[0]).map(|_| None).collect(),
        };
        context
            .par_chunks_mut(chunk)
            .zip(x.par_chunks(chunk))
            .zip(statistics.par_chunks_mut(self.0.heads * seq))
            .zip(saved_of_rows)
            .enumerate()
            .for_each_init(
                || (RowScratch::new(seq), (!save).then(|| scratch(3 * chunk))),
                |(scratch, unsaved), (batch, (((context, x), statistics), saved))| {
                    let projected = saved.or(unsaved.as_deref_mut()).expect("a saved or a scratch buffer");
                    projector.project(x, projected);
                    let row = BatchRow { batch, sizes, qkv: thirds(projected) };
                    self.0.row_forward(row, statistics, context, scratch);
                },
            );
        let projected = saved.map(|saved| tensor(saved, [shape[0], 3, seq, hidden]));
        (tensor(context, shape), SavedValues { statistics, projected })
    }
}

/// Values that the forward pass saves, next to its inputs.
#[derive(Clone, Debug)]
pub(crate) struct SavedValues {
    statistics: Vec<SoftmaxStatistics>,
    /// Queries, keys and values, `[batch, 3, seq, hidden]`; without them the backward pass projects x again.
    projected: Option<FlexTensor>,
}

impl Fused<7> for SelfAttention {
    type Saved = ([FlexTensor; 7], SavedValues);

    fn forward(&self, inputs: [FlexTensor; 7]) -> (FlexTensor, Self::Saved) {
        let inputs = inputs.map(contiguous);
        let hidden = width(&inputs[0]);
        let save = saves_projections(slice(&inputs[0]).len() / hidden, hidden);
        let (context, saved) = self.contexts(&inputs, None, save);
        (context, (inputs, saved))
    }

    fn backward(
        self,
        (inputs, saved): Self::Saved,
        gradient: FlexTensor,
        wanted: [bool; 7],
    ) -> [Option<FlexTensor>; 7] {
        let gradient = contiguous(gradient);
        let pass = BackwardPass::new(&self, &inputs, saved.projected.as_ref(), wanted);
        let x = slice(&inputs[0]);
        let shape = inputs[0].layout().shape().clone();
        let Sizes { seq, hidden, .. } = pass.sizes;
        let tokens = shape[0] * seq;
        let chunk = seq * hidden;
        let mut dx = buffer(x.len());
        let mut sums = vec![0.0; shape[0] * 3 * hidden];
        // The packed operands of the weights' gradients, which are sums over all tokens.
        let mut left = Packed::new(Side::Left, hidden, tokens, seq);
        let mut rights: [Packed; 3] = std::array::from_fn(|_| Packed::new(Side::Right, hidden, tokens, seq));
        let [all_q, all_k, all_v] = rights.each_mut().map(Packed::k_blocks_mut);
        dx.par_chunks_mut(chunk)
            .zip(x.par_chunks(chunk))
            .zip(slice(&gradient).par_chunks(chunk))
            .zip(saved.statistics.par_chunks(self.0.heads * seq))
            .zip(sums.par_chunks_mut(3 * hidden))
            .zip(left.k_blocks_mut())
            .zip(all_q.zip(all_k).zip(all_v))
            .enumerate()
            .for_each_init(
                || (RowScratch::new(seq), pass.projections.scratch(3 * chunk), scratch(3 * chunk)),
                |(scratch, projected, gradients), (batch, row)| {
                    let ((((((dx, x), gradient), statistics), sums), left), ((q, k), v)) = row;
                    let projected =
                        pass.projections.row(batch, x, projected.as_deref_mut().unwrap_or_default());
                    let qkv = BatchRow { batch, sizes: pass.sizes, qkv: thirds(projected) };
                    let input = RowInput { qkv, x, gradient, statistics };
                    let output = RowOutput { dx, sums, left, rights: [q, k, v] };
                    pass.row(input, output, gradients, scratch);
                },
            );
        let [dq, dk, dv] = std::array::from_fn(|i| {
            wanted[1 + i].then(|| {
                let mut weight = buffer(hidden * hidden);
                let sizes = Gemm { m: hidden, n: hidden, k: tokens };
                let c = MatrixMut::new(&mut weight, hidden);
                multiply(MatmulContext::bf16(Threads::All), sizes, c, &left, &rights[i]);
                tensor(weight, [hidden, hidden])
            })
        });
        let sums = add_blocks(&sums, 3 * hidden);
        let [bq, bk, bv] = std::array::from_fn(|i| {
            let sum = sums[i * hidden..(i + 1) * hidden].to_vec();
            wanted[4 + i].then(|| tensor(sum, [hidden]))
        });
        [wanted[0].then(|| tensor(dx, shape)), dq, dk, dv, bq, bk, bv]
    }
}

/// The source of queries, keys and values in the backward pass.
enum Projections<'a> {
    /// The projections that the forward pass saved for the whole batch, `[batch, 3, seq, hidden]`.
    Saved(&'a [f32]),
    /// Projections that the backward pass computes again.
    Computed(Box<Projector<'a, Packed>>),
}

impl Projections<'_> {
    /// Returns a scratch buffer of `len` numbers if [`Self::row`] needs it.
    fn scratch(&self, len: usize) -> Option<Scratch> {
        matches!(self, Self::Computed(_)).then(|| scratch(len))
    }

    /// Returns the projections of one row of the batch from its x, `[3, seq, hidden]`.
    fn row<'a>(&'a self, batch: usize, x: &[f32], scratch: &'a mut [f32]) -> &'a [f32] {
        match self {
            Self::Saved(projected) => &projected[3 * x.len() * batch..][..3 * x.len()],
            Self::Computed(projector) => {
                projector.project(x, scratch);
                scratch
            }
        }
    }
}

/// The inputs that all rows of the backward pass share.
struct BackwardPass<'a> {
    attention: &'a Attention,
    threads: Threads,
    sizes: Sizes,
    projections: Projections<'a>,
    /// The transposed weights.
    transposed: [Packed; 3],
    x_wanted: bool,
    weights_wanted: bool,
}

/// One row of the batch in the backward pass.
struct RowInput<'a> {
    qkv: BatchRow<'a>,
    x: &'a [f32],
    /// The gradient of the context.
    gradient: &'a [f32],
    statistics: &'a [SoftmaxStatistics],
}

/// The results of one row of the batch.
struct RowOutput<'a> {
    dx: &'a mut [f32],
    /// The sums over the tokens of the gradients of queries, keys and values.
    sums: &'a mut [f32],
    /// Operands of the weights' gradients: x, and the gradients of queries, keys and values.
    left: PackedBlock<'a>,
    rights: [PackedBlock<'a>; 3],
}

impl<'a> BackwardPass<'a> {
    fn new(
        operation: &'a SelfAttention,
        inputs: &'a [FlexTensor; 7],
        projected: Option<&'a FlexTensor>,
        wanted: [bool; 7],
    ) -> Self {
        let [_, wq, wk, wv, bq, bk, bv] = inputs.each_ref().map(slice);
        let shape = inputs[0].layout().shape();
        let sizes @ Sizes { seq, hidden, .. } = operation.0.sizes(shape[1], shape[2]);
        let threads = operation.threads(seq);
        let weights = [wq, wk, wv].map(|weight| Matrix::rows(weight, hidden));
        let projections = match projected {
            Some(projected) => Projections::Saved(slice(projected)),
            None => {
                let weights = weights.map(|weight| right(weight, hidden));
                Projections::Computed(Box::new(Projector { threads, sizes, weights, biases: [bq, bk, bv] }))
            }
        };
        Self {
            attention: &operation.0,
            threads,
            sizes,
            projections,
            transposed: weights.map(|weight| right(weight.transposed(), hidden)),
            x_wanted: wanted[0],
            weights_wanted: wanted[1..4].contains(&true),
        }
    }

    /// Computes one row of the batch. `gradients` is a scratch buffer, `[3, seq, hidden]`.
    fn row(&self, input: RowInput, mut output: RowOutput, gradients: &mut [f32], scratch: &mut RowScratch) {
        let Sizes { seq, hidden, .. } = self.sizes;
        let chunk = seq * hidden;
        let outputs = gradients
            .get_disjoint_mut([0..chunk, chunk..2 * chunk, 2 * chunk..3 * chunk])
            .expect("three parts");
        self.attention.row_backward(input.qkv, input.statistics, input.gradient, outputs, scratch);
        for (gradient, sum) in thirds(gradients).into_iter().zip(output.sums.chunks_exact_mut(hidden)) {
            add_rows(gradient, sum);
        }
        let gradients = thirds(gradients).map(|gradient| Matrix::rows(gradient, hidden));
        if self.x_wanted {
            for (i, (gradient, weight)) in gradients.into_iter().zip(&self.transposed).enumerate() {
                product(
                    MatmulContext::bf16(self.threads).adding(i > 0),
                    self.sizes,
                    output.dx,
                    gradient,
                    weight,
                );
            }
        }
        if self.weights_wanted {
            output.left.fill(Matrix::rows(input.x, hidden).transposed(), 0..hidden, seq);
            for (gradient, right) in gradients.into_iter().zip(&mut output.rights) {
                right.fill(gradient, 0..hidden, seq);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, Tensor, Tolerance};

    use super::*;
    use crate::fused_op::{Input, apply, fused_path};
    use crate::{Compute, Dropout, Precision};

    /// The products sum over the tokens 32 at a time, so the bits of the weights' gradients are equal if
    /// `seq` is a multiple of 32.
    #[test]
    #[ignore = "needs AVX-512 BF16"]
    fn bf16_rows_equal_the_whole_batch() {
        assert!(crate::has_bf16_instructions(), "this test needs a processor with AVX-512 BF16");
        let compute = Compute { precision: Precision::Bf16, ..Compute::default() };
        let device = Device::flex().autodiff();
        for (batch, seq, heads, head) in [(1, 1, 1, 1), (3, 32, 2, 16), (2, 45, 3, 11), (2, 96, 4, 64)] {
            let hidden = heads * head;
            let normal = Distribution::Normal(0.0, 0.3);
            let matrix = || Tensor::<2>::random([hidden, hidden], normal, &device).require_grad();
            let vector = || Tensor::<1>::random([hidden], normal, &device).require_grad();
            let x = Tensor::<3>::random([batch, seq, hidden], normal, &device).require_grad();
            let outer = Tensor::<3>::random([batch, seq, hidden], normal, &device);
            let weights = [matrix(), matrix(), matrix()];
            let biases = [vector(), vector(), vector()];
            let mask = Tensor::<4>::zeros([batch, 1, 1, seq], &device);
            let path = fused_path(compute, &[&x]).expect("a fused path");
            let bias = contiguous(Input::from(mask).into_primitive());
            let dropout = Dropout::new(5, 0.1);
            let attention = Attention { bias, heads, scale: 0.3, dropout, precision: compute.precision };
            let inputs = || -> [Input; 7] {
                let [wq, wk, wv] = weights.clone().map(Input::from);
                let [bq, bk, bv] = biases.clone().map(Input::from);
                [x.clone().into(), wq, wk, wv, bq, bk, bv]
            };
            let by_row: Tensor<3> = apply(SelfAttention(attention.clone()), path, inputs());
            let at_once: Tensor<3> =
                apply(crate::ops::self_attention::SelfAttention(attention), path, inputs());
            by_row.clone().into_data().assert_eq(&at_once.clone().into_data(), true);
            let [by_row, at_once] = [by_row, at_once].map(|y| {
                let gradients = (y * outer.clone()).sum().backward();
                let mut all = vec![x.grad(&gradients).expect("a gradient").into_data()];
                all.extend(weights.each_ref().map(|w| w.grad(&gradients).expect("a gradient").into_data()));
                all.extend(biases.each_ref().map(|b| b.grad(&gradients).expect("a gradient").into_data()));
                all
            });
            for (i, (by_row, at_once)) in by_row.iter().zip(&at_once).enumerate() {
                if i == 0 || seq % 32 == 0 && i < 4 {
                    by_row.assert_eq(at_once, true);
                }
                by_row.assert_approx_eq(at_once, Tolerance::<f32>::relative(1e-4).set_absolute(1e-4));
            }
        }
    }
}
