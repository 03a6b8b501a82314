//! Self-attention with its projections: `attention(x Wq + bq, x Wk + bk, x Wv + bv)`.
//!
//! This module adds the three projections before [`mod@crate::ops::attention`], but not the output projection. The backward
//! pass adds up the gradient of x in one buffer: `dx = dq Wq' + dk Wk' + dv Wv'`, `dWq = x' dq`, `dbq = sum(dq)`.
//!
//! In f32 queries, keys and values are products over the whole batch, saved for the backward pass. In bf16 one thread
//! projects one row of the batch, which is packed once for all three and stays in the L2 cache; the backward pass
//! projects it again.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, assert_shape};
use rayon::prelude::*;

use crate::cpu::dropout_mask::Dropout;
use crate::cpu::flex_slices::{buffer, contiguous, slice, tensor, width};
use crate::cpu::row_blocks::{add_bias, column_sums, rows_per_block};
use crate::fused_op::{Fused, Input, apply_or, fused_path, tensor_backend};
use crate::matmul::matrix_view::Threads;
use crate::matmul::packed_weights::{KernelContext, PackedWeights};
use crate::matmul::{MatmulContext, run_both};
use crate::ops::attention::Attention;
use crate::ops::plain::linear;
use crate::ops::{attention, dense};

/// Weight and bias of a dense layer.
pub type Projection = (Tensor<2>, Tensor<1>);

/// Returns the multi-head attention with queries, keys and values projected from the same hidden states.
///
/// # Shapes
///
/// - x and output: `[batch, seq, hidden]`, `hidden` a multiple of `heads`
/// - projections: `[hidden, hidden]` and `[hidden]`
/// - bias: `[batch, 1, 1, seq]`
pub fn self_attention<'a>(
    ctx: impl Into<KernelContext<'a>>,
    x: Tensor<3>,
    projections: [Projection; 3],
    bias: Tensor<4>,
    heads: usize,
    scale: f64,
    dropout: Option<Dropout>,
) -> Tensor<3> {
    let KernelContext { compute, packed } = ctx.into();
    let [batch, seq, hidden] = x.dims();
    for (weight, vector) in &projections {
        assert_shape!(weight, [hidden, hidden]);
        assert_shape!(vector, [hidden]);
    }
    assert_shape!(bias, [batch, 1, 1, seq]);
    assert_eq!(hidden % heads, 0, "{hidden} is not a multiple of {heads} heads");
    let mut backends = vec![tensor_backend(&x), tensor_backend(&bias)];
    backends
        .extend(projections.iter().flat_map(|(weight, bias)| [tensor_backend(weight), tensor_backend(bias)]));
    match fused_path(compute, &backends) {
        Some(path) => {
            let bias = contiguous(Input::from(bias).into_flex());
            let precision = compute.precision;
            let attention = Attention { bias, heads, scale: scale as f32, dropout, precision };
            let [(wq, bq), (wk, bk), (wv, bv)] = projections;
            let inputs: [Input; 7] =
                [x.into(), wq.into(), wk.into(), wv.into(), bq.into(), bk.into(), bv.into()];
            #[cfg(target_arch = "x86_64")]
            if precision == crate::Precision::Bf16 {
                return apply_or(bf16_rows::SelfAttention(attention), path, inputs, |operation, inputs| {
                    operation.contexts(&inputs.map(contiguous), packed).0
                });
            }
            apply_or(SelfAttention(attention), path, inputs, |operation, inputs| {
                operation.contexts(&inputs.map(contiguous), packed).0
            })
        }
        None => {
            let projected =
                projections.map(|(weight, bias)| linear(compute.precision, x.clone(), weight, Some(bias)));
            attention::plain(compute, projected, bias, heads, scale, dropout)
        }
    }
}

#[derive(Clone, Debug)]
struct SelfAttention(Attention);

impl SelfAttention {
    /// Returns the contexts and the values that the attention saves.
    fn contexts(
        &self,
        [x, wq, wk, wv, bq, bk, bv]: &[FlexTensor; 7],
        packed: Option<&PackedWeights>,
    ) -> (FlexTensor, <Attention as Fused<3>>::Saved) {
        let hidden = width(x);
        let shape = x.layout().shape().clone();
        let projected = [(wq, bq), (wk, bk), (wv, bv)].map(|(weight, bias)| {
            let mut y = buffer(shape.num_elements());
            dense::forward(
                MatmulContext::new(self.0.precision, Threads::All),
                slice(x),
                weight,
                packed,
                &mut y,
            );
            let block = rows_per_block(y.len() / hidden, hidden) * hidden;
            y.par_chunks_mut(block).for_each(|y| add_bias(y, slice(bias)));
            tensor(y, shape.clone())
        });
        self.0.forward(projected)
    }
}

impl Fused<7> for SelfAttention {
    /// x, the three weights, and the values that the attention saves.
    type Saved = ([FlexTensor; 4], <Attention as Fused<3>>::Saved);

    fn forward(&self, inputs: [FlexTensor; 7]) -> (FlexTensor, Self::Saved) {
        let inputs = inputs.map(contiguous);
        let (context, saved) = self.contexts(&inputs, None);
        let [x, wq, wk, wv, ..] = inputs;
        (context, ([x, wq, wk, wv], saved))
    }

    fn backward(
        self,
        ([x, wq, wk, wv], saved): Self::Saved,
        gradient: FlexTensor,
        wanted: [bool; 7],
    ) -> [Option<FlexTensor>; 7] {
        let (hidden, precision) = (width(&x), self.0.precision);
        let gradients = self.0.backward(saved, gradient, [true; 3]).map(|g| g.expect("all are wanted"));
        let gradients = gradients.each_ref().map(slice);
        let (weights, values) = ([&wq, &wk, &wv].map(slice), slice(&x));
        let mut d_x = wanted[0].then(|| buffer(values.len()));
        let mut d_weights: [Option<Vec<f32>>; 3] =
            std::array::from_fn(|i| wanted[1 + i].then(|| buffer(hidden * hidden)));
        run_both(
            |threads| {
                if let Some(d_x) = &mut d_x {
                    for (i, (weight, gradient)) in weights.into_iter().zip(gradients).enumerate() {
                        dense::backward_x(
                            MatmulContext::new(precision, threads),
                            weight,
                            hidden,
                            gradient,
                            d_x,
                            i > 0,
                        );
                    }
                }
            },
            |threads| {
                for (d_weight, gradient) in d_weights.iter_mut().zip(gradients) {
                    if let Some(d_weight) = d_weight {
                        dense::backward_weight(
                            MatmulContext::new(precision, threads),
                            values,
                            hidden,
                            gradient,
                            d_weight,
                        );
                    }
                }
            },
        );
        let [dq, dk, dv] = d_weights.map(|d| d.map(|d| tensor(d, [hidden, hidden])));
        let [bq, bk, bv] = std::array::from_fn(|i| {
            wanted[4 + i].then(|| tensor(column_sums(gradients[i], hidden), [hidden]))
        });
        let shape = x.layout().shape().clone();
        [d_x.map(|d_x| tensor(d_x, shape)), dq, dk, dv, bq, bk, bv]
    }
}

/// The bf16 kernel, one row of the batch after another.
#[cfg(target_arch = "x86_64")]
mod bf16_rows {
    use burn::backend::flex::FlexTensor;
    use rayon::prelude::*;

    use crate::cpu::buffer_pool::scratch;
    use crate::cpu::flex_slices::{buffer, contiguous, slice, tensor};
    use crate::cpu::row_blocks::{add_bias, add_blocks, add_rows};
    use crate::fused_op::Fused;
    use crate::matmul::bf16::{Factor, Packed, multiply};
    use crate::matmul::matrix_view::{Matrix, Side, Threads};
    use crate::matmul::packed_weights::{PackedWeights, packed};
    use crate::ops::attention::{Attention, RowScratch, Sizes};

    #[derive(Clone, Debug)]
    pub(crate) struct SelfAttention(pub(crate) Attention);

    fn right(matrix: Matrix, hidden: usize) -> Packed {
        Packed::whole(Threads::All, Side::Right, matrix, hidden, hidden)
    }

    /// Computes a product of one row of the batch, `[seq, hidden]` times `[hidden, hidden]`.
    fn product((threads, sizes): (Threads, Sizes), c: &mut [f32], add: bool, a: Factor, b: &Packed) {
        let Sizes { seq, hidden, .. } = sizes;
        multiply(threads, (seq, hidden, hidden), (c, hidden), add, a, Factor::Packed(b));
    }

    /// Computes the queries, keys and values of a row of the batch, `[3, seq, hidden]`.
    fn project(
        ctx: (Threads, Sizes),
        x: &[f32],
        weights: [&Packed; 3],
        biases: [&[f32]; 3],
        projected: &mut [f32],
    ) {
        let Sizes { seq, hidden, .. } = ctx.1;
        let x = Packed::whole(Threads::One, Side::Left, Matrix::rows(x, hidden), seq, hidden);
        for ((y, weight), bias) in projected.chunks_exact_mut(seq * hidden).zip(weights).zip(biases) {
            product(ctx, y, false, Factor::Packed(&x), weight);
            add_bias(y, bias);
        }
    }

    fn thirds(all: &[f32]) -> [&[f32]; 3] {
        let part = all.len() / 3;
        std::array::from_fn(|i| &all[i * part..(i + 1) * part])
    }

    impl SelfAttention {
        /// Returns the contexts, and the maximum and the inverse sum of each row of scores.
        pub(crate) fn contexts(
            &self,
            inputs: &[FlexTensor; 7],
            cache: Option<&PackedWeights>,
        ) -> (FlexTensor, Vec<[f32; 2]>) {
            let [x, _, _, _, bq, bk, bv] = inputs.each_ref().map(slice);
            let shape = inputs[0].layout().shape().clone();
            let sizes @ Sizes { seq, hidden, .. } = self.0.sizes(shape[1], shape[2]);
            let threads = if self.0.threads_to_spare(seq) { Threads::All } else { Threads::One };
            let weights: [_; 3] = std::array::from_fn(|i| {
                let weight = &inputs[1 + i];
                packed(cache, weight, || vec![right(Matrix::rows(slice(weight), hidden), hidden)])
            });
            let weights = weights.each_ref().map(|parts| &parts[0]);
            let mut context = buffer(x.len());
            let mut rows = vec![[0.0; 2]; shape[0] * self.0.heads * seq];
            context
                .par_chunks_mut(seq * hidden)
                .zip(x.par_chunks(seq * hidden))
                .zip(rows.par_chunks_mut(self.0.heads * seq))
                .enumerate()
                .for_each_init(
                    || (RowScratch::new(seq), scratch(3 * seq * hidden)),
                    |(scratch, projected), (batch, ((context, x), rows))| {
                        project((threads, sizes), x, weights, [bq, bk, bv], projected);
                        self.0.row_forward(sizes, batch, thirds(projected), rows, context, scratch);
                    },
                );
            (tensor(context, shape), rows)
        }
    }

    impl Fused<7> for SelfAttention {
        /// The inputs, and the maximum and the inverse sum of each row of scores.
        type Saved = ([FlexTensor; 7], Vec<[f32; 2]>);

        fn forward(&self, inputs: [FlexTensor; 7]) -> (FlexTensor, Self::Saved) {
            let inputs = inputs.map(contiguous);
            let (context, rows) = self.contexts(&inputs, None);
            (context, (inputs, rows))
        }

        fn backward(
            self,
            (inputs, rows): Self::Saved,
            gradient: FlexTensor,
            wanted: [bool; 7],
        ) -> [Option<FlexTensor>; 7] {
            let gradient = contiguous(gradient);
            let [x, wq, wk, wv, bq, bk, bv] = inputs.each_ref().map(slice);
            let shape = inputs[0].layout().shape().clone();
            let sizes @ Sizes { seq, hidden, .. } = self.0.sizes(shape[1], shape[2]);
            let threads = if self.0.threads_to_spare(seq) { Threads::All } else { Threads::One };
            let tokens = shape[0] * seq;
            let matrices = [wq, wk, wv].map(|weight| Matrix::rows(weight, hidden));
            let weights = matrices.map(|weight| right(weight, hidden));
            let transposed = matrices.map(|weight| right(weight.transposed(), hidden));
            let mut dx = buffer(x.len());
            let mut sums = vec![0.0; shape[0] * 3 * hidden];
            // Packed factors of the weight gradients, which sum over all tokens.
            let mut left = Packed::new(Side::Left, hidden, tokens, seq);
            let mut rights: [Packed; 3] =
                std::array::from_fn(|_| Packed::new(Side::Right, hidden, tokens, seq));
            let (fill_left, all_left) = left.k_blocks_mut();
            let [(fill_right, all_q), (_, all_k), (_, all_v)] = rights.each_mut().map(Packed::k_blocks_mut);
            let weights_wanted = wanted[1..4].contains(&true);
            let chunk = seq * hidden;
            dx.par_chunks_mut(chunk)
                .zip(x.par_chunks(chunk))
                .zip(slice(&gradient).par_chunks(chunk))
                .zip(rows.par_chunks(self.0.heads * seq))
                .zip(sums.par_chunks_mut(3 * hidden))
                .zip(all_left)
                .zip(all_q.zip(all_k).zip(all_v))
                .enumerate()
                .for_each_init(
                    || (RowScratch::new(seq), scratch(3 * chunk), scratch(3 * chunk)),
                    |(scratch, projected, gradients), (batch, row)| {
                        let ((((((dx, x), gradient), rows), sums), all_left), ((all_q, all_k), all_v)) = row;
                        project((threads, sizes), x, weights.each_ref(), [bq, bk, bv], projected);
                        let [dq, dk, dv] = gradients
                            .get_disjoint_mut([0..chunk, chunk..2 * chunk, 2 * chunk..3 * chunk])
                            .expect("three parts");
                        let outputs = [dq, dk, dv];
                        self.0.row_backward(
                            sizes,
                            batch,
                            thirds(projected),
                            rows,
                            gradient,
                            outputs,
                            scratch,
                        );
                        for (gradient, sum) in
                            thirds(gradients).into_iter().zip(sums.chunks_exact_mut(hidden))
                        {
                            add_rows(gradient, sum);
                        }
                        let gradients = thirds(gradients).map(|gradient| Matrix::rows(gradient, hidden));
                        if wanted[0] {
                            for (i, (gradient, weight)) in gradients.into_iter().zip(&transposed).enumerate()
                            {
                                product((threads, sizes), dx, i > 0, Factor::Plain(gradient), weight);
                            }
                        }
                        if weights_wanted {
                            fill_left.fill(all_left, Matrix::rows(x, hidden).transposed(), 0..hidden, seq);
                            for (gradient, all) in gradients.into_iter().zip([all_q, all_k, all_v]) {
                                fill_right.fill(all, gradient, 0..hidden, seq);
                            }
                        }
                    },
                );
            let [dq, dk, dv] = std::array::from_fn(|i| {
                wanted[1 + i].then(|| {
                    let mut weight = buffer(hidden * hidden);
                    let (a, b) = (Factor::Packed(&left), Factor::Packed(&rights[i]));
                    multiply(Threads::All, (hidden, hidden, tokens), (&mut weight, hidden), false, a, b);
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

    #[cfg(test)]
    mod tests {
        use burn::tensor::{Device, Distribution, Tensor, Tolerance};

        use super::*;
        use crate::fused_op::{Input, apply, fused_path, tensor_backend};
        use crate::{Compute, Dropout, Precision};

        /// Tokens of the batch are summed 32 at a time, so the bits are equal where rows are multiples of that.
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
                let path = fused_path(compute, &[tensor_backend(&x)]).expect("a fused path");
                let bias = contiguous(Input::from(mask).into_flex());
                let precision = Precision::Bf16;
                let attention =
                    Attention { bias, heads, scale: 0.3, dropout: Dropout::new(5, 0.1), precision };
                let inputs = || -> [Input; 7] {
                    let [wq, wk, wv] = weights.clone().map(Input::from);
                    let [bq, bk, bv] = biases.clone().map(Input::from);
                    [x.clone().into(), wq, wk, wv, bq, bk, bv]
                };
                let by_row: Tensor<3> = apply(SelfAttention(attention.clone()), path, inputs());
                let at_once: Tensor<3> = apply(super::super::SelfAttention(attention), path, inputs());
                by_row.clone().into_data().assert_eq(&at_once.clone().into_data(), true);
                let [by_row, at_once] = [by_row, at_once].map(|y| {
                    let gradients = (y * outer.clone()).sum().backward();
                    let mut all = vec![x.grad(&gradients).expect("a gradient").into_data()];
                    all.extend(
                        weights.each_ref().map(|w| w.grad(&gradients).expect("a gradient").into_data()),
                    );
                    all.extend(
                        biases.each_ref().map(|b| b.grad(&gradients).expect("a gradient").into_data()),
                    );
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
}
