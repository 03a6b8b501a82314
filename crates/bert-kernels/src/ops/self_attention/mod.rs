//! Self-attention with its projections: `attention(x Wq + bq, x Wk + bk, x Wv + bv)`.
//!
//! This module adds the three projections before [`mod@attention`], but not the output projection. The backward pass
//! adds up the gradient of x in one buffer: `dx = dq Wq' + dk Wk' + dv Wv'`, `dWq = x' dq`, `dbq = sum(dq)`.
//!
//! In f32, queries, keys and values are products over the whole batch and are saved for the backward pass. In bf16, one
//! thread projects one row of the batch, which is packed once for all three projections and stays in the L2 cache. The
//! projections are saved if the batch is small (`ops::saves_projections`); otherwise the backward pass projects x
//! again.

mod bf16_rows;

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, assert_shape};
use rayon::prelude::*;

use crate::arguments::{AttentionOutput, Compute, Precision};
pub use crate::arguments::{Projection, QkvProjections};
use crate::cpu::flex_slices::{buffer, contiguous, slice, tensor, width};
use crate::cpu::row_blocks::{add_bias, column_sums, rows_per_block};
use crate::fused_op::{Fused, Input, OnBackend, apply_or, fused_path};
use crate::matmul::matrix_view::Threads;
use crate::matmul::packed_weights::{KernelContext, PackedWeights};
use crate::matmul::{MatmulContext, run_both};
use crate::ops::attention::{Attention, AttentionSettings};
use crate::ops::plain::linear;
use crate::ops::{attention, dense};

/// Returns the multi-head attention with queries, keys and values projected from the same hidden states. In bf16 on a
/// GPU the output is in bf16.
///
/// # Shapes
/// - x and output: `[batch, seq, hidden]`, `hidden` a multiple of `heads`
/// - projections: `[hidden, hidden]` and `[hidden]`
/// - bias: `[batch, 1, 1, seq]`
pub fn self_attention<'a>(
    ctx: impl Into<KernelContext<'a>>,
    x: Tensor<3>,
    projections: QkvProjections,
    bias: Tensor<4>,
    settings: AttentionSettings,
) -> Tensor<3> {
    let AttentionSettings { heads, scale, dropout } = settings;
    let KernelContext { compute, packed } = ctx.into();
    let [batch, seq, hidden] = x.dims();
    let QkvProjections { query, key, value } = &projections;
    let mut tensors: Vec<&dyn OnBackend> = vec![&x, &bias];
    for Projection { weight, bias } in [query, key, value] {
        assert_shape!(weight, [hidden, hidden]);
        assert_shape!(bias, [hidden]);
        tensors.push(weight);
        tensors.push(bias);
    }
    assert_shape!(bias, [batch, 1, 1, seq]);
    assert_eq!(hidden % heads, 0, "{hidden} is not a multiple of {heads} heads");
    let Some(path) = fused_path(compute, &tensors) else {
        #[cfg(feature = "cubecl")]
        if let Some(context) =
            crate::gpu::self_attention::self_attention(compute, &x, &projections, &bias, settings)
        {
            return context;
        }
        return plain(compute, x, projections, bias, settings).context;
    };
    let bias = contiguous(Input::from(bias).into_primitive());
    let precision = compute.precision;
    let attention = Attention { bias, heads, scale: scale as f32, dropout, precision };
    let QkvProjections { query: q, key: k, value: v } = projections;
    let inputs: [Input; 7] = [
        x.into(),
        q.weight.into(),
        k.weight.into(),
        v.weight.into(),
        q.bias.into(),
        k.bias.into(),
        v.bias.into(),
    ];
    match precision {
        Precision::Bf16 => {
            apply_or(bf16_rows::SelfAttention(attention), path, inputs, |operation, inputs| {
                operation.contexts(&inputs.map(contiguous), packed, false).0
            })
        }
        Precision::F32 => apply_or(SelfAttention(attention), path, inputs, |operation, inputs| {
            operation.contexts(&inputs.map(contiguous), packed).0
        }),
    }
}

/// Computes [`self_attention()`] with burn's own operations. Returns the probabilities as well.
///
/// # Shapes
/// - inputs: same as [`self_attention()`]
/// - output: see [`AttentionOutput`]
pub fn plain(
    compute: Compute,
    x: Tensor<3>,
    projections: QkvProjections,
    bias: Tensor<4>,
    settings: AttentionSettings,
) -> AttentionOutput {
    let QkvProjections { query, key, value } = projections;
    let projected = [query, key, value]
        .map(|Projection { weight, bias }| linear(compute.precision, x.clone(), weight, Some(bias)));
    attention::plain(compute, projected, bias, settings)
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
            let ctx = MatmulContext::new(self.0.precision, Threads::All);
            dense::forward(ctx, slice(x), weight, packed, &mut y);
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
        let hidden = width(&x);
        let precision = self.0.precision;
        let gradients = self.0.backward(saved, gradient, [true; 3]).map(|g| g.expect("all are wanted"));
        let gradients = gradients.each_ref().map(slice);
        let weights = [&wq, &wk, &wv].map(slice);
        let values = slice(&x);
        let mut d_x = wanted[0].then(|| buffer(values.len()));
        let mut d_weights: [Option<Vec<f32>>; 3] =
            std::array::from_fn(|i| wanted[1 + i].then(|| buffer(hidden * hidden)));
        run_both(
            |threads| {
                if let Some(d_x) = &mut d_x {
                    let ctx = MatmulContext::new(precision, threads);
                    for (i, (weight, gradient)) in weights.into_iter().zip(gradients).enumerate() {
                        dense::backward_x(ctx.adding(i > 0), weight, hidden, gradient, d_x);
                    }
                }
            },
            |threads| {
                let ctx = MatmulContext::new(precision, threads);
                for (d_weight, gradient) in d_weights.iter_mut().zip(gradients) {
                    if let Some(d_weight) = d_weight {
                        dense::backward_weight(ctx, values, hidden, gradient, d_weight);
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
