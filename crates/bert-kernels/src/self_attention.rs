//! Self-attention with its projections: `attention(x Wq + bq, x Wk + bk, x Wv + bv)`.
//!
//! The attention is that of [`mod@crate::attention`]; this module adds the three projections before it, but not the
//! output projection. The backward pass adds up the gradient of x in one buffer: `dx = dq Wq' + dk Wk' + dv Wv'`,
//! `dWq = x' dq`, `dbq = sum(dq)`.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, assert_shape};
use rayon::prelude::*;

use crate::attention::{self, Attention};
use crate::compute::Compute;
use crate::dense;
use crate::dropout::Dropout;
use crate::extension::{Fused, Input, apply, fused_path, place};
use crate::matrix::Threads;
use crate::parallel::{column_sums, rows_per_block};
use crate::precision;
use crate::product::both;
use crate::rows::add_bias;
use crate::storage::{buffer, contiguous, slice, tensor, width};

/// Weight and bias of a dense layer.
pub type Projection = (Tensor<2>, Tensor<1>);

/// Attention of all heads, with queries, keys and values projected from the same hidden states.
///
/// # Shapes
///
/// - x and output: `[batch, seq, hidden]`, `hidden` a multiple of `heads`
/// - projections: `[hidden, hidden]` and `[hidden]`
/// - bias: `[batch, 1, 1, seq]`
pub fn self_attention(
    compute: Compute,
    x: Tensor<3>,
    projections: [Projection; 3],
    bias: Tensor<4>,
    heads: usize,
    scale: f64,
    dropout: Option<Dropout>,
) -> Tensor<3> {
    let [batch, seq, hidden] = x.dims();
    for (weight, vector) in &projections {
        assert_shape!(weight, [hidden, hidden]);
        assert_shape!(vector, [hidden]);
    }
    assert_shape!(bias, [batch, 1, 1, seq]);
    assert_eq!(hidden % heads, 0, "{hidden} is not a multiple of {heads} heads");
    let mut places = vec![place(&x), place(&bias)];
    places.extend(projections.iter().flat_map(|(weight, bias)| [place(weight), place(bias)]));
    match fused_path(compute, &places) {
        Some(path) => {
            let bias = contiguous(Input::from(bias).into_flex());
            let operation = SelfAttention(Attention {
                bias,
                heads,
                scale: scale as f32,
                dropout,
                precision: compute.precision,
            });
            let [(wq, bq), (wk, bk), (wv, bv)] = projections;
            let inputs: [Input; 7] =
                [x.into(), wq.into(), wk.into(), wv.into(), bq.into(), bk.into(), bv.into()];
            apply(operation, path, inputs)
        }
        None => {
            let projected = projections
                .map(|(weight, bias)| precision::linear(compute.precision, x.clone(), weight, Some(bias)));
            attention::plain(compute, projected, bias, heads, scale, dropout)
        }
    }
}

#[derive(Clone, Debug)]
struct SelfAttention(Attention);

impl Fused<7> for SelfAttention {
    /// x, the three weights, and what the attention keeps.
    type Saved = ([FlexTensor; 4], <Attention as Fused<3>>::Saved);

    fn forward(&self, inputs: [FlexTensor; 7]) -> (FlexTensor, Self::Saved) {
        let [x, wq, wk, wv, bq, bk, bv] = inputs.map(contiguous);
        let hidden = width(&x);
        let shape = x.layout().shape().clone();
        let projected = [(&wq, &bq), (&wk, &bk), (&wv, &bv)].map(|(weight, bias)| {
            let mut y = buffer(shape.num_elements());
            dense::forward((self.0.precision, Threads::All), slice(&x), slice(weight), hidden, &mut y);
            let block = rows_per_block(y.len() / hidden, hidden) * hidden;
            y.par_chunks_mut(block).for_each(|y| add_bias(y, slice(bias)));
            tensor(y, shape.clone())
        });
        let (context, kept) = self.0.forward(projected);
        (context, ([x, wq, wk, wv], kept))
    }

    fn backward(
        self,
        ([x, wq, wk, wv], kept): Self::Saved,
        gradient: FlexTensor,
        wanted: [bool; 7],
    ) -> [Option<FlexTensor>; 7] {
        let (hidden, precision) = (width(&x), self.0.precision);
        let gradients = self.0.backward(kept, gradient, [true; 3]).map(|g| g.expect("all are wanted"));
        let weights = [wq, wk, wv];
        let mut d_x = wanted[0].then(|| buffer(slice(&x).len()));
        let mut d_weights: [Option<Vec<f32>>; 3] =
            std::array::from_fn(|i| wanted[1 + i].then(|| buffer(hidden * hidden)));
        both(
            |threads| {
                if let Some(d_x) = &mut d_x {
                    for (i, (weight, gradient)) in weights.iter().zip(&gradients).enumerate() {
                        dense::backward_x(
                            (precision, threads),
                            slice(weight),
                            hidden,
                            slice(gradient),
                            d_x,
                            i > 0,
                        );
                    }
                }
            },
            |threads| {
                for (d_weight, gradient) in d_weights.iter_mut().zip(&gradients) {
                    if let Some(d_weight) = d_weight {
                        dense::backward_weight(
                            (precision, threads),
                            slice(&x),
                            hidden,
                            slice(gradient),
                            d_weight,
                        );
                    }
                }
            },
        );
        let [dq, dk, dv] = d_weights.map(|d| d.map(|d| tensor(d, [hidden, hidden])));
        let [bq, bk, bv] = std::array::from_fn(|i| {
            wanted[4 + i].then(|| tensor(column_sums(slice(&gradients[i]), hidden), [hidden]))
        });
        let shape = x.layout().shape().clone();
        [d_x.map(|d_x| tensor(d_x, shape)), dq, dk, dv, bq, bk, bv]
    }
}
