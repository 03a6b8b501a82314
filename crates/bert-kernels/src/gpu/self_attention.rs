//! Self-attention with its projections on a GPU, one operation to autodiff, with the equations of
//! [`mod@crate::ops::self_attention`].
//!
//! The three weights are joined to `[hidden, 3 hidden]`, so that queries, keys and values are one product, and so are the
//! gradients of x and of the weights. One kernel adds the biases and stores the heads one after the other, as the batched
//! products of attention need them; one kernel of the backward pass reverses it.

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{Shape, Tensor};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::column_sums::column_sums;
use super::product::{multiply, multiply_transposed, transposed};
use super::softmax::Softmax;
use super::{apply_inputs, elementwise, empty_like, input, into_contiguous, len};
use crate::arguments::{Compute, Kernels, Precision, Projection, QkvProjections};
use crate::cpu::dropout_mask::Dropout;
use crate::fused_op::Fused;

/// Returns the context of every token, if all tensors are on a GPU. The bias is a constant to autodiff.
///
/// # Shapes
/// - as [`crate::ops::self_attention::self_attention`]
pub(crate) fn self_attention(
    compute: Compute,
    x: &Tensor<3>,
    projections: &QkvProjections,
    bias: &Tensor<4>,
    (heads, scale): (usize, f64),
    dropout: Option<Dropout>,
) -> Option<Tensor<3>> {
    if compute.kernels == Kernels::Plain {
        return None;
    }
    let [batch, seq, hidden] = x.dims();
    let sizes = Sizes { batch, seq, heads, hidden };
    let softmax = Softmax { heads, seq, scale: scale as f32, dropout };
    let QkvProjections { query, key, value } = projections;
    let [wq, wk, wv] = [query, key, value].map(|Projection { weight, .. }| input(weight.clone()));
    let [bq, bk, bv] = [query, key, value].map(|Projection { bias, .. }| input(bias.clone()));
    let inputs = [input(x.clone()), wq, wk, wv, bq, bk, bv, input(bias.clone())];
    apply_inputs(SelfAttention { sizes, softmax, precision: compute.precision }, inputs)
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    seq: usize,
    heads: usize,
    hidden: usize,
}

impl Sizes {
    fn rows(self) -> usize {
        self.batch * self.seq
    }

    fn head_dim(self) -> usize {
        self.hidden / self.heads
    }

    /// Returns a flat tensor as one matrix for each head.
    fn heads(self, x: CubeTensor, columns: usize) -> CubeTensor {
        Cube::float_reshape(x, Shape::new([self.batch, self.heads, self.seq, columns]))
    }
}

/// Values that the backward pass needs.
#[derive(Clone, Debug)]
struct Saved {
    /// `[rows, hidden]`
    x: CubeTensor,
    /// `[hidden, 3 hidden]`
    weights: CubeTensor,
    /// Queries, keys and values, `[batch, heads, seq, head_dim]` each.
    qkv: [CubeTensor; 3],
    /// `[batch * heads * seq * seq]`
    before_dropout: CubeTensor,
    /// `[batch, heads, seq, seq]`
    probabilities: CubeTensor,
}

#[derive(Clone, Copy, Debug)]
struct SelfAttention {
    sizes: Sizes,
    softmax: Softmax,
    precision: Precision,
}

impl Fused<8, Cube> for SelfAttention {
    type Saved = Saved;

    fn forward(&self, inputs: [CubeTensor; 8]) -> (CubeTensor, Saved) {
        let Sizes { batch, seq, hidden, .. } = self.sizes;
        let [x, wq, wk, wv, bq, bk, bv, bias] = inputs.map(into_contiguous);
        let x = Cube::float_reshape(x, Shape::new([self.sizes.rows(), hidden]));
        let weights = Cube::float_reshape(join([wq, wk, wv], hidden), Shape::new([hidden, 3 * hidden]));
        let projected = multiply(self.precision, x.clone(), weights.clone());
        let qkv = split_heads(projected, join([bq, bk, bv], hidden), self.sizes);
        let [query, key, value] = qkv.clone().map(|x| self.sizes.heads(x, self.sizes.head_dim()));
        let scores = multiply(self.precision, query.clone(), transposed(key.clone()));
        let scores = Cube::float_reshape(scores, Shape::new([len(&bias) * self.sizes.heads * seq]));
        let (probabilities, before_dropout) = self.softmax.forward([scores, bias]);
        let probabilities = self.sizes.heads(probabilities, seq);
        let context = multiply(self.precision, probabilities.clone(), value.clone());
        let context = into_contiguous(Cube::float_swap_dims(context, 1, 2)); // [batch, seq, heads, head_dim]
        let context = Cube::float_reshape(context, Shape::new([batch, seq, hidden]));
        (context, Saved { x, weights, qkv: [query, key, value], before_dropout, probabilities })
    }

    fn backward(self, saved: Saved, gradient: CubeTensor, wanted: [bool; 8]) -> [Option<CubeTensor>; 8] {
        let Sizes { batch, seq, heads, hidden } = self.sizes;
        let Saved { x, weights, qkv: [query, key, value], before_dropout, probabilities } = saved;
        let head_dim = self.sizes.head_dim();
        let gradient = Cube::float_reshape(gradient, Shape::new([batch, seq, heads, head_dim]));
        let gradient = into_contiguous(Cube::float_swap_dims(gradient, 1, 2)); // [batch, heads, seq, head_dim]
        let d_value = multiply(self.precision, transposed(probabilities), gradient.clone());
        let d_probabilities = multiply(self.precision, gradient, transposed(value));
        let [d_scores, _] = self.softmax.backward(before_dropout, d_probabilities, [true, false]);
        let d_scores = self.sizes.heads(d_scores.expect("it is wanted"), seq);
        let d_query = multiply(self.precision, d_scores.clone(), key);
        let d_key = multiply(self.precision, transposed(d_scores), query);
        let joined = merge_heads([d_query, d_key, d_value], self.sizes); // [rows, 3 hidden]
        let d_x = wanted[0].then(|| {
            let d_x = multiply(self.precision, joined.clone(), transposed(weights));
            Cube::float_reshape(d_x, Shape::new([batch, seq, hidden]))
        });
        let d_weights = wanted[1..4].contains(&true).then(|| {
            let joined = multiply_transposed(self.precision, x, joined.clone());
            divide(joined, hidden, &[hidden, hidden])
        });
        let d_biases = wanted[4..7]
            .contains(&true)
            .then(|| divide(column_sums(joined, self.sizes.rows(), 3 * hidden), hidden, &[hidden]));
        let parts =
            |parts: Option<[CubeTensor; 3]>| parts.map_or([None, None, None], |parts| parts.map(Some));
        let ([wq, wk, wv], [bq, bk, bv]) = (parts(d_weights), parts(d_biases));
        [d_x, wq, wk, wv, bq, bk, bv, None]
    }
}

/// Returns three matrices of `width` columns side by side, flat.
fn join([query, key, value]: [CubeTensor; 3], width: usize) -> CubeTensor {
    let joined = empty_like(&query, 3 * len(&query));
    let (count, dim) = elementwise(len(&joined));
    join_kernel::launch(
        &joined.client,
        count,
        dim,
        query.into_buffer_arg(),
        key.into_buffer_arg(),
        value.into_buffer_arg(),
        joined.clone().into_buffer_arg(),
        width,
    );
    joined
}

/// Returns the three matrices of `width` columns that [`join`] has put side by side.
fn divide(joined: CubeTensor, width: usize, shape: &[usize]) -> [CubeTensor; 3] {
    let parts = [(); 3].map(|()| empty_like(&joined, len(&joined) / 3));
    let (count, dim) = elementwise(len(&joined));
    let [query, key, value] = parts.clone();
    divide_kernel::launch(
        &joined.client,
        count,
        dim,
        into_contiguous(joined.clone()).into_buffer_arg(),
        query.into_buffer_arg(),
        key.into_buffer_arg(),
        value.into_buffer_arg(),
        width,
    );
    parts.map(|part| Cube::float_reshape(part, Shape::from(shape.to_vec())))
}

/// Returns queries, keys and values with their biases, flat, the heads one after the other.
fn split_heads(projected: CubeTensor, bias: CubeTensor, sizes: Sizes) -> [CubeTensor; 3] {
    let parts = [(); 3].map(|()| empty_like(&projected, len(&projected) / 3));
    let (count, dim) = elementwise(len(&projected));
    let [query, key, value] = parts.clone();
    split_kernel::launch(
        &bias.client,
        count,
        dim,
        into_contiguous(projected).into_buffer_arg(),
        bias.clone().into_buffer_arg(),
        query.into_buffer_arg(),
        key.into_buffer_arg(),
        value.into_buffer_arg(),
        sizes.seq,
        sizes.heads,
    );
    parts
}

/// Returns the gradients of queries, keys and values side by side, `[rows, 3 hidden]`.
fn merge_heads(gradients: [CubeTensor; 3], sizes: Sizes) -> CubeTensor {
    let [query, key, value] = gradients.map(into_contiguous);
    let merged = empty_like(&query, 3 * len(&query));
    let (count, dim) = elementwise(len(&merged));
    merge_kernel::launch(
        &merged.client,
        count,
        dim,
        query.into_buffer_arg(),
        key.into_buffer_arg(),
        value.into_buffer_arg(),
        merged.clone().into_buffer_arg(),
        sizes.hidden,
        sizes.seq,
        sizes.heads,
    );
    Cube::float_reshape(merged, Shape::new([sizes.rows(), 3 * sizes.hidden]))
}

#[cube(launch)]
fn join_kernel(query: &[f32], key: &[f32], value: &[f32], joined: &mut [f32], width: usize) {
    if ABSOLUTE_POS < joined.len() {
        let (row, column) = (ABSOLUTE_POS / (3 * width), ABSOLUTE_POS % (3 * width));
        let place = row * width + column % width;
        joined[ABSOLUTE_POS] = one_of_three(query, key, value, place, column / width);
    }
}

#[cube(launch)]
fn divide_kernel(joined: &[f32], query: &mut [f32], key: &mut [f32], value: &mut [f32], width: usize) {
    if ABSOLUTE_POS < joined.len() {
        let (row, column) = (ABSOLUTE_POS / (3 * width), ABSOLUTE_POS % (3 * width));
        let place = row * width + column % width;
        set_one_of_three(query, key, value, place, column / width, joined[ABSOLUTE_POS]);
    }
}

#[cube(launch)]
fn split_kernel(
    projected: &[f32],
    bias: &[f32],
    query: &mut [f32],
    key: &mut [f32],
    value: &mut [f32],
    seq: usize,
    heads: usize,
) {
    if ABSOLUTE_POS < projected.len() {
        let width = bias.len() / 3;
        let (row, column) = (ABSOLUTE_POS / bias.len(), ABSOLUTE_POS % bias.len());
        let place = place_in_heads(row, column % width, width, seq, heads);
        let sum = projected[ABSOLUTE_POS] + bias[column];
        set_one_of_three(query, key, value, place, column / width, sum);
    }
}

#[cube(launch)]
fn merge_kernel(
    query: &[f32],
    key: &[f32],
    value: &[f32],
    merged: &mut [f32],
    width: usize,
    seq: usize,
    heads: usize,
) {
    if ABSOLUTE_POS < merged.len() {
        let (row, column) = (ABSOLUTE_POS / (3 * width), ABSOLUTE_POS % (3 * width));
        let place = place_in_heads(row, column % width, width, seq, heads);
        merged[ABSOLUTE_POS] = one_of_three(query, key, value, place, column / width);
    }
}

/// Returns the place in `[batch, heads, seq, head_dim]` of a row and a column of `[batch * seq, heads * head_dim]`.
#[cube]
fn place_in_heads(row: usize, column: usize, width: usize, seq: usize, heads: usize) -> usize {
    let head_dim = width / heads;
    let head = (row / seq) * heads + column / head_dim;
    (head * seq + row % seq) * head_dim + column % head_dim
}

/// Returns the element at a place of the tensor with this number.
#[cube]
fn one_of_three(first: &[f32], second: &[f32], third: &[f32], place: usize, number: usize) -> f32 {
    let mut element = third[place];
    if number == 0 {
        element = first[place];
    } else if number == 1 {
        element = second[place];
    }
    element
}

/// Sets the element at a place of the tensor with this number.
#[cube]
fn set_one_of_three(
    first: &mut [f32],
    second: &mut [f32],
    third: &mut [f32],
    place: usize,
    number: usize,
    element: f32,
) {
    if number == 0 {
        first[place] = element;
    } else if number == 1 {
        second[place] = element;
    } else {
        third[place] = element;
    }
}
