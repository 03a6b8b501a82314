//! Self-attention with its projections on a GPU as one autodiff operation, with the equations of
//! [`mod@crate::ops::self_attention`].
//!
//! The three weights are joined to `[hidden, 3 hidden]`, so that one product gives queries, keys and values,
//! one the gradient of x and one the gradients of the weights. A kernel adds the biases and stores the heads
//! one after another, as the batched products of attention need them; a kernel of the backward pass does the
//! reverse. With bf16 precision, all values between the products are stored in bf16, as with autocast in
//! other frameworks; sums, the softmax and the gradients of weights are computed in f32.

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::attention::{self, Attention};
use super::column_sums::{self, Blocks, column_of_unit, column_sums, write_sum};
use super::product::{factor_type, multiply, multiply_add, multiply_transposed, rounded, transposed};
use super::softmax::Softmax;
use super::{
    apply_inputs, element, elementwise, empty_like, empty_with, input, into_contiguous, len, vector_size,
};
use crate::arguments::{AttentionSettings, Compute, Kernels, Precision, Projection, QkvProjections};
use crate::fused_op::Fused;

/// Returns the context of every token in the operand dtype ([`factor_type`]); `None` if a tensor is not on a
/// GPU. The bias is a constant to autodiff.
///
/// # Shapes
/// - as [`crate::ops::self_attention::self_attention`]
pub(crate) fn self_attention(
    compute: Compute,
    x: &Tensor<3>,
    projections: &QkvProjections,
    bias: &Tensor<4>,
    settings: AttentionSettings,
) -> Option<Tensor<3>> {
    let [batch, seq, hidden] = x.dims();
    let sizes = Sizes { batch, seq, heads: settings.heads, hidden };
    let softmax = Softmax::new(seq, settings);
    let one_kernel = compute.kernels == Kernels::FusedAttention;
    let QkvProjections { query, key, value } = projections;
    let [wq, wk, wv] = [query, key, value].map(|Projection { weight, .. }| input(weight.clone()));
    let [bq, bk, bv] = [query, key, value].map(|Projection { bias, .. }| input(bias.clone()));
    let inputs = [input(x.clone()), wq, wk, wv, bq, bk, bv, input(bias.clone())];
    let operation = SelfAttention { sizes, softmax, one_kernel, precision: compute.precision };
    apply_inputs(compute.kernels, operation, inputs)
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

    /// Returns x as one `[seq, columns]` matrix for each head: `[batch, heads, seq, columns]`.
    fn heads(self, x: CubeTensor, columns: usize) -> CubeTensor {
        Cube::float_reshape(x, Shape::new([self.batch, self.heads, self.seq, columns]))
    }
}

/// Values that the backward pass needs. The matrices have the operand dtype ([`factor_type`]).
#[derive(Clone, Debug)]
struct Saved {
    /// `[rows, hidden]`
    x: CubeTensor,
    /// `[hidden, 3 hidden]`
    weights: CubeTensor,
    attention: SavedAttention,
}

/// Values of attention that the backward pass needs.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "both have five tensors")]
enum SavedAttention {
    Products {
        /// Queries, keys and values, `[batch, heads, seq, head_dim]` each.
        qkv: [CubeTensor; 3],
        /// `[batch * heads * seq * seq]`
        before_dropout: CubeTensor,
        /// `[batch, heads, seq, seq]`
        probabilities: CubeTensor,
    },
    OneKernel(Attention, attention::Saved),
}

#[derive(Clone, Copy, Debug)]
struct SelfAttention {
    sizes: Sizes,
    softmax: Softmax,
    /// Whether one kernel computes attention, if the sizes and the device allow it.
    one_kernel: bool,
    precision: Precision,
}

impl SelfAttention {
    /// Returns the flat context and the values that the backward pass needs. The inputs are the projections
    /// `[rows, 3 hidden]`, the biases of their columns, and the biases of the keys.
    fn attention(&self, [projected, biases, bias]: [CubeTensor; 3]) -> (CubeTensor, SavedAttention) {
        let Sizes { batch, seq, heads, .. } = self.sizes;
        let kernel = if self.one_kernel { Attention::new(self.softmax, batch, &projected) } else { None };
        if let Some(kernel) = kernel {
            let saved = kernel.forward([projected, biases, bias]);
            return (saved.context.clone(), SavedAttention::OneKernel(kernel, saved));
        }
        let factors = projected.dtype;
        let [query, key, value] =
            split_heads(projected, biases, self.sizes).map(|x| self.sizes.heads(x, self.sizes.head_dim()));
        let scores = multiply(query.clone(), transposed(key.clone()), factors);
        let scores = Cube::float_reshape(scores, Shape::new([batch * heads * seq * seq]));
        let (probabilities, before_dropout) = self.softmax.forward([scores, bias]);
        let probabilities = self.sizes.heads(probabilities, seq);
        let context = multiply(probabilities.clone(), value.clone(), factors);
        let context = exchange_axes(into_contiguous(context), heads, seq, self.sizes.head_dim(), factors);
        (context, SavedAttention::Products { qkv: [query, key, value], before_dropout, probabilities })
    }

    /// Returns the gradient of the projections, `[rows, 3 hidden]`, and its sum over the rows, `[3 hidden]`.
    fn attention_gradient(&self, saved: SavedAttention, gradient: CubeTensor) -> (CubeTensor, CubeTensor) {
        let (qkv, before_dropout, probabilities) = match saved {
            SavedAttention::OneKernel(kernel, saved) => return kernel.backward(saved, gradient),
            SavedAttention::Products { qkv, before_dropout, probabilities } => {
                (qkv, before_dropout, probabilities)
            }
        };
        let factors = factor_type(self.precision);
        let [query, key, value] = qkv;
        let Sizes { seq, heads, .. } = self.sizes;
        let gradient = exchange_axes(into_contiguous(gradient), seq, heads, self.sizes.head_dim(), factors);
        let gradient = self.sizes.heads(gradient, self.sizes.head_dim());
        let d_value = multiply(transposed(probabilities), gradient.clone(), factors);
        let d_probabilities = multiply(gradient, transposed(value), factors);
        let [d_scores, _] = self.softmax.backward(before_dropout, d_probabilities, [true, false]);
        let d_scores = self.sizes.heads(d_scores.expect("it is wanted"), seq);
        let d_query = multiply(d_scores.clone(), key, factors);
        let d_key = multiply(transposed(d_scores), query, factors);
        join_heads([d_query, d_key, d_value], self.sizes)
    }
}

impl Fused<8, Cube> for SelfAttention {
    type Saved = Saved;

    fn forward(&self, inputs: [CubeTensor; 8]) -> (CubeTensor, Saved) {
        let Sizes { batch, seq, hidden, .. } = self.sizes;
        let factors = factor_type(self.precision);
        let [x, wq, wk, wv, bq, bk, bv, bias] = inputs.map(into_contiguous);
        let x = rounded(self.precision, Cube::float_reshape(x, Shape::new([self.sizes.rows(), hidden])));
        let weights =
            Cube::float_reshape(join([wq, wk, wv], hidden, factors), Shape::new([hidden, 3 * hidden]));
        let projected = multiply(x.clone(), weights.clone(), factors);
        let biases = join([bq, bk, bv], hidden, DType::F32);
        let (context, attention) = self.attention([projected, biases, bias]);
        let context = Cube::float_reshape(context, Shape::new([batch, seq, hidden]));
        (context, Saved { x, weights, attention })
    }

    const ACCUMULATES: bool = true;

    fn backward_accumulate(
        self,
        saved: Saved,
        gradient: CubeTensor,
        wanted: [bool; 8],
        existing: Option<CubeTensor>,
    ) -> [Option<CubeTensor>; 8] {
        let Sizes { batch, seq, hidden, .. } = self.sizes;
        let Saved { x, weights, attention } = saved;
        let (joined, d_biases) = self.attention_gradient(attention, gradient);
        let joined = Cube::float_reshape(joined, Shape::new([self.sizes.rows(), 3 * hidden]));
        let d_x = wanted[0].then(|| {
            let d_x = multiply_add(joined.clone(), transposed(weights), existing);
            Cube::float_reshape(d_x, Shape::new([batch, seq, hidden]))
        });
        let d_weights = wanted[1..4].contains(&true).then(|| divide(multiply_transposed(x, joined), hidden));
        let d_biases = wanted[4..7].contains(&true).then(|| column_sums::parts(d_biases));
        let parts =
            |parts: Option<[CubeTensor; 3]>| parts.map_or([None, None, None], |parts| parts.map(Some));
        let [wq, wk, wv] = parts(d_weights);
        let [bq, bk, bv] = parts(d_biases);
        [d_x, wq, wk, wv, bq, bk, bv, None]
    }
}

/// Returns a flat tensor of this dtype with three f32 matrices of `width` columns side by side.
fn join([query, key, value]: [CubeTensor; 3], width: usize, dtype: DType) -> CubeTensor {
    let joined = empty_with(&query, 3 * len(&query), dtype);
    let vector = vector_size(width, &query);
    launch!(join_kernel, &joined.client, elementwise(len(&joined) / vector), vector;
        query, key, value, joined.clone(); width / vector, element(&joined));
    joined
}

/// Splits a matrix that consists of three f32 matrices of `width` columns side by side, and returns the
/// three.
fn divide(joined: CubeTensor, width: usize) -> [CubeTensor; 3] {
    let parts = [(); 3].map(|()| empty_like(&joined, len(&joined) / 3));
    let vector = vector_size(width, &joined);
    let [query, key, value] = parts.clone();
    launch!(divide_kernel, &joined.client, elementwise(len(&joined) / vector), vector;
        into_contiguous(joined.clone()), query, key, value; width / vector);
    parts.map(|part| Cube::float_reshape(part, Shape::new([width, width])))
}

/// Splits the projections `[rows, 3 hidden]` into queries, keys and values, and adds their biases. Returns
/// three flat tensors in the order `[batch, heads, seq, head_dim]`.
fn split_heads(projected: CubeTensor, bias: CubeTensor, sizes: Sizes) -> [CubeTensor; 3] {
    let parts = [(); 3].map(|()| empty_like(&projected, len(&projected) / 3));
    let vector = vector_size(sizes.head_dim(), &projected);
    let [query, key, value] = parts.clone();
    launch!(split_kernel, &bias.client, elementwise(len(&projected) / vector), vector;
        into_contiguous(projected), bias.clone(), query, key, value;
        sizes.seq, sizes.heads, element(&parts[0]));
    parts
}

/// Joins the gradients of queries, keys and values. Returns a flat tensor in the order `[rows, 3 hidden]`,
/// and its sum over the rows, `[3 hidden]`.
fn join_heads(gradients: [CubeTensor; 3], sizes: Sizes) -> (CubeTensor, CubeTensor) {
    let [query, key, value] = gradients.map(into_contiguous);
    let joined = empty_like(&query, 3 * len(&query));
    let width = 3 * sizes.hidden;
    let blocks = Blocks::new(sizes.rows());
    let sums = empty_with(&query, blocks.count * width, DType::F32);
    let vector = vector_size(sizes.head_dim(), &query);
    launch!(join_heads_kernel, &joined.client, blocks.launch_size(width / vector), vector;
        query, key, value, joined.clone(), sums.clone();
        sizes.hidden / vector, sizes.seq, sizes.heads, blocks.rows, element(&joined));
    (joined, column_sums(sums, blocks.count, width))
}

/// Reorders `[.., first, second, width]` to `[.., second, first, width]`. Returns a flat tensor of this
/// dtype.
fn exchange_axes(x: CubeTensor, first: usize, second: usize, width: usize, dtype: DType) -> CubeTensor {
    let y = empty_with(&x, len(&x), dtype);
    let vector = vector_size(width, &x);
    let types = [element(&x), element(&y)];
    launch!(exchange_kernel, &y.client, elementwise(len(&x) / vector), vector;
        x, y.clone(); first, second, width / vector, types);
    y
}

#[cube(launch)]
fn exchange_kernel<I: Float, O: Float, N: Size>(
    x: &[Vector<I, N>],
    y: &mut [Vector<O, N>],
    first: usize,
    second: usize,
    width: usize,
    #[define(I, O)] _elements: [ElemType; 2],
) {
    if ABSOLUTE_POS < y.len() {
        // The element is at (group, b, a, column) in y and at (group, a, b, column) in x.
        let row = ABSOLUTE_POS / width;
        let a = row % first;
        let b = row / first % second;
        let group = row / (first * second);
        let place = ((group * first + a) * second + b) * width + ABSOLUTE_POS % width;
        y[ABSOLUTE_POS] = Vector::cast_from(x[place]);
    }
}

#[cube(launch)]
fn join_kernel<E: Float, N: Size>(
    query: &[Vector<f32, N>],
    key: &[Vector<f32, N>],
    value: &[Vector<f32, N>],
    joined: &mut [Vector<E, N>],
    width: usize,
    #[define(E)] _element: ElemType,
) {
    if ABSOLUTE_POS < joined.len() {
        let row = ABSOLUTE_POS / (3 * width);
        let column = ABSOLUTE_POS % (3 * width);
        let place = row * width + column % width;
        let number = column / width;
        let mut element = value[place];
        if number == 0 {
            element = query[place];
        } else if number == 1 {
            element = key[place];
        }
        joined[ABSOLUTE_POS] = Vector::cast_from(element);
    }
}

#[cube(launch)]
fn divide_kernel<N: Size>(
    joined: &[Vector<f32, N>],
    query: &mut [Vector<f32, N>],
    key: &mut [Vector<f32, N>],
    value: &mut [Vector<f32, N>],
    width: usize,
) {
    if ABSOLUTE_POS < joined.len() {
        let row = ABSOLUTE_POS / (3 * width);
        let column = ABSOLUTE_POS % (3 * width);
        let place = row * width + column % width;
        let number = column / width;
        if number == 0 {
            query[place] = joined[ABSOLUTE_POS];
        } else if number == 1 {
            key[place] = joined[ABSOLUTE_POS];
        } else {
            value[place] = joined[ABSOLUTE_POS];
        }
    }
}

#[cube(launch)]
fn split_kernel<E: Float, N: Size>(
    projected: &[Vector<E, N>],
    bias: &[Vector<f32, N>],
    query: &mut [Vector<E, N>],
    key: &mut [Vector<E, N>],
    value: &mut [Vector<E, N>],
    seq: usize,
    heads: usize,
    #[define(E)] _element: ElemType,
) {
    if ABSOLUTE_POS < projected.len() {
        let width = bias.len() / 3;
        let row = ABSOLUTE_POS / bias.len();
        let column = ABSOLUTE_POS % bias.len();
        let place = place_in_heads(row, column % width, width, seq, heads);
        let sum =
            Vector::<E, N>::cast_from(Vector::<f32, N>::cast_from(projected[ABSOLUTE_POS]) + bias[column]);
        let number = column / width;
        if number == 0 {
            query[place] = sum;
        } else if number == 1 {
            key[place] = sum;
        } else {
            value[place] = sum;
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "three tensors in, two out, and their sizes")]
#[cube(launch)]
fn join_heads_kernel<E: Float, N: Size>(
    query: &[Vector<E, N>],
    key: &[Vector<E, N>],
    value: &[Vector<E, N>],
    joined: &mut [Vector<E, N>],
    sums: &mut [Vector<f32, N>],
    hidden: usize,
    seq: usize,
    heads: usize,
    block: usize,
    #[define(E)] _element: ElemType,
) {
    let width = 3 * hidden;
    let column = column_of_unit(joined.len(), width, block);
    let number = column.column / hidden;
    let mut sum = Vector::<f32, N>::new(0.0);
    let mut i = column.first;
    while i < column.end {
        let place = place_in_heads(i / width, column.column % hidden, hidden, seq, heads);
        let elements = if number == 0 {
            query[place]
        } else if number == 1 {
            key[place]
        } else {
            value[place]
        };
        joined[i] = elements;
        sum += Vector::cast_from(elements);
        i += column.step;
    }
    write_sum(sum, &column, sums, width);
}

/// Returns the index in `[batch, heads, seq, head_dim]` of the element at this row and column of `[batch *
/// seq, heads * head_dim]`.
#[cube]
fn place_in_heads(row: usize, column: usize, width: usize, seq: usize, heads: usize) -> usize {
    let head_dim = width / heads;
    let head = (row / seq) * heads + column / head_dim;
    (head * seq + row % seq) * head_dim + column % head_dim
}
