//! The bf16 kernel of the feed-forward network: a block of rows goes through all three operations on one thread.

use std::ops::Range;

use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::arguments::{Gelu, Projection};
use crate::cpu::buffer_pool::scratch;
use crate::cpu::flex_slices::{buffer, contiguous, slice, tensor, width};
use crate::cpu::row_blocks::add_blocks;
use crate::fused_op::{Fused, TensorBackend, apply_or};
use crate::matmul::bf16::{Operand, Packed, PackedBlock};
use crate::matmul::matrix_view::{Gemm, Matrix, MatrixMut, Side, Threads};
use crate::matmul::packed_weights::{PackedWeights, packed};
use crate::matmul::{MatmulContext, multiply, run_both};
use crate::ops::gelu::{forward_rows, value_and_gradient_rows};
use crate::ops::saves_projections;

/// Number of rows per task of the backward pass.
const ROWS: usize = 128;
/// Maximum number of rows per task of the forward pass. Each task reads all weights, so larger tasks read less in
/// total.
const MAX_ROWS: usize = 256;
/// Number of intermediate features that a task computes at a time: 1 KiB of f32 per row, or 2 KiB in the backward pass.
const FEATURES: usize = 256;

pub(crate) fn feed_forward<const D: usize>(
    (path, cache): (TensorBackend, Option<&PackedWeights>),
    x: Tensor<D>,
    Projection { weight, bias }: Projection,
    second: Tensor<2>,
    form: Gelu,
) -> Tensor<D> {
    let inputs = [x.into(), weight.into(), bias.into(), second.into()];
    apply_or(FeedForward(form), path, inputs, |operation, inputs| {
        operation.output(inputs.map(contiguous).each_ref(), cache, false).0
    })
}

#[derive(Clone, Copy, Debug)]
struct FeedForward(Gelu);

/// Sizes and weights of one call.
struct Layer<'a> {
    input: usize,
    wide: usize,
    output: usize,
    first: &'a [f32],
    bias: &'a [f32],
    second: &'a [f32],
}

impl<'a> Layer<'a> {
    fn new([x, first, bias, second]: [&'a FlexTensor; 4]) -> Self {
        Self {
            input: width(x),
            wide: width(first),
            output: width(second),
            first: slice(first),
            bias: slice(bias),
            second: slice(second),
        }
    }

    /// Returns the ranges of intermediate features, [`FEATURES`] long except the last.
    fn parts(&self) -> Vec<Range<usize>> {
        let starts = (0..self.wide).step_by(FEATURES);
        starts.map(|start| start..self.wide.min(start + FEATURES)).collect()
    }

    /// Returns the columns of W1 that belong to a part, `[input, features]`.
    fn first(&self, part: &Range<usize>) -> Matrix<'a> {
        Matrix::rows(&self.first[part.start..], self.wide)
    }

    /// Returns the rows of W2 that belong to a part, `[features, output]`.
    fn second(&self, part: &Range<usize>) -> Matrix<'a> {
        Matrix::rows(&self.second[part.start * self.output..], self.output)
    }

    /// Packs a part's columns of W1 as a right operand.
    fn pack_first(&self, part: &Range<usize>) -> Packed {
        right(self.first(part), (self.input, part.len()))
    }

    /// Packs a part's rows of W1' and columns of W2' as right operands.
    fn pack_transposed(&self, part: &Range<usize>) -> [Packed; 2] {
        [
            right(self.first(part).transposed(), (part.len(), self.input)),
            right(self.second(part).transposed(), (self.output, part.len())),
        ]
    }
}

/// The products `x W1` of a forward pass. The tasks follow one another, and so do the parts of a task, `[rows,
/// features]` each.
#[derive(Clone, Debug)]
struct SavedProducts {
    values: FlexTensor,
    /// Number of rows per task of the forward pass, a multiple of [`ROWS`].
    task_rows: usize,
}

impl SavedProducts {
    /// Returns the products of a part for some rows of one task, `[rows, features]`.
    fn part(&self, rows: Range<usize>, part: &Range<usize>, wide: usize) -> &[f32] {
        let values = slice(&self.values);
        let task = rows.start / self.task_rows * self.task_rows;
        let rows_of_task = self.task_rows.min(values.len() / wide - task);
        let start = task * wide + rows_of_task * part.start + (rows.start - task) * part.len();
        &values[start..start + rows.len() * part.len()]
    }
}

fn right(matrix: Matrix, (k, n): (usize, usize)) -> Packed {
    Packed::whole(Threads::All, Side::Right, matrix, n, k)
}

/// Computes the product of one task, on one thread.
fn product<'a>(sizes: Gemm, c: &mut [f32], add: bool, a: impl Into<Operand<'a>>, b: &'a Packed) {
    multiply(MatmulContext::bf16(Threads::One).adding(add), sizes, MatrixMut::new(c, sizes.n), a, b);
}

/// Computes the gradient of a weight, a sum over all rows, if it is wanted.
fn sum_over_rows(threads: Threads, sizes: Gemm, c: &mut Option<Vec<f32>>, a: &Packed, b: &Packed) {
    if let Some(c) = c {
        multiply(MatmulContext::bf16(threads), sizes, MatrixMut::new(c, sizes.n), a, b);
    }
}

impl FeedForward {
    /// Returns y, and the products `x W1` if they are to be saved.
    fn output(
        self,
        inputs: [&FlexTensor; 4],
        cache: Option<&PackedWeights>,
        save: bool,
    ) -> (FlexTensor, Option<SavedProducts>) {
        let layer = Layer::new(inputs);
        let Layer { input, wide, output, .. } = layer;
        let parts = layer.parts();
        // All parts of W1 and W2, packed as right operands.
        let firsts = packed(cache, inputs[1], || parts.iter().map(|part| layer.pack_first(part)).collect());
        let seconds = packed(cache, inputs[3], || {
            parts.iter().map(|part| right(layer.second(part), (part.len(), output))).collect()
        });
        let x = slice(inputs[0]);
        let all_rows = x.len() / input;
        let mut y = buffer(all_rows * output);
        let task_rows =
            (all_rows / (2 * rayon::current_num_threads())).clamp(ROWS, MAX_ROWS).next_multiple_of(ROWS);
        let mut saved = save.then(|| buffer(all_rows * wide));
        let saved_of_tasks: Vec<Option<&mut [f32]>> = match &mut saved {
            Some(saved) => saved.chunks_mut(task_rows * wide).map(Some).collect(),
            None => (0..all_rows.div_ceil(task_rows)).map(|_| None).collect(),
        };
        y.par_chunks_mut(task_rows * output)
            .zip(x.par_chunks(task_rows * input))
            .zip(saved_of_tasks)
            .for_each(|((y, x), mut saved)| {
                let rows = x.len() / input;
                let x = Packed::whole(Threads::One, Side::Left, Matrix::rows(x, input), rows, input);
                let mut z = scratch(rows * FEATURES);
                for (i, ((part, first), second)) in parts.iter().zip(&*firsts).zip(&*seconds).enumerate() {
                    let features = part.len();
                    let z = &mut z[..rows * features];
                    product(Gemm { m: rows, n: features, k: input }, z, false, &x, first);
                    if let Some(saved) = &mut saved {
                        saved[rows * part.start..rows * part.end].copy_from_slice(z);
                    }
                    forward_rows(self.0, &layer.bias[part.clone()], z);
                    let sizes = Gemm { m: rows, n: output, k: features };
                    product(sizes, y, i > 0, Matrix::rows(z, features), second);
                }
            });
        let mut shape = inputs[0].layout().shape().clone();
        let last = shape.num_dims() - 1;
        shape[last] = output;
        let saved = saved.map(|values| SavedProducts { values: tensor(values, [all_rows, wide]), task_rows });
        (tensor(y, shape), saved)
    }
}

impl Fused<4> for FeedForward {
    /// The inputs, and the products `x W1` unless the backward pass computes them again.
    type Saved = ([FlexTensor; 4], Option<SavedProducts>);

    fn forward(&self, inputs: [FlexTensor; 4]) -> (FlexTensor, Self::Saved) {
        let inputs = inputs.map(contiguous);
        let input = width(&inputs[0]);
        let save = saves_projections(slice(&inputs[0]).len() / input, input);
        let (y, products) = self.output(inputs.each_ref(), None, save);
        (y, (inputs, products))
    }

    fn backward(
        self,
        (inputs, saved): Self::Saved,
        gradient: FlexTensor,
        wanted: [bool; 4],
    ) -> [Option<FlexTensor>; 4] {
        let gradient = contiguous(gradient);
        let layer = Layer::new(inputs.each_ref());
        let Layer { input, wide, output, .. } = layer;
        let parts = layer.parts();
        let unsaved = if saved.is_some() { &[] } else { &parts[..] };
        let firsts = unsaved.iter().map(|part| layer.pack_first(part)).collect();
        let pass = BackwardPass {
            form: self.0,
            transposed: parts.iter().map(|part| layer.pack_transposed(part)).collect(),
            parts,
            saved,
            firsts,
            x_wanted: wanted[0],
            weights_wanted: wanted[1] || wanted[3],
            layer,
        };
        let x = slice(&inputs[0]);
        let dy = slice(&gradient);
        let rows = x.len() / input;
        let mut dx = buffer(x.len());
        let mut sums = vec![0.0; rows.div_ceil(ROWS) * wide];
        // The packed operands of the weights' gradients, which are sums over all rows.
        let mut left_x = Packed::new(Side::Left, input, rows, ROWS);
        let mut left_activated = Packed::new(Side::Left, wide, rows, ROWS);
        let mut right_dz = Packed::new(Side::Right, wide, rows, ROWS);
        let mut right_dy = Packed::new(Side::Right, output, rows, ROWS);
        let [all_x, all_activated, all_dz, all_dy] =
            [&mut left_x, &mut left_activated, &mut right_dz, &mut right_dy].map(Packed::k_blocks_mut);
        dx.par_chunks_mut(ROWS * input)
            .zip(x.par_chunks(ROWS * input))
            .zip(dy.par_chunks(ROWS * output))
            .zip(sums.par_chunks_mut(wide))
            .zip(all_x.zip(all_activated))
            .zip(all_dz.zip(all_dy))
            .enumerate()
            .for_each(|(index, (((((dx, x), dy), sums), (packed_x, activated)), (dz, packed_dy)))| {
                let outputs = BlockOutputs { dx, sums, x: packed_x, activated, dz, dy: packed_dy };
                pass.block(index * ROWS, x, dy, outputs);
            });
        let mut d_first = wanted[1].then(|| buffer(input * wide));
        let mut d_second = wanted[3].then(|| buffer(wide * output));
        let first_sizes = Gemm { m: input, n: wide, k: rows };
        let second_sizes = Gemm { m: wide, n: output, k: rows };
        run_both(
            |threads| sum_over_rows(threads, first_sizes, &mut d_first, &left_x, &right_dz),
            |threads| sum_over_rows(threads, second_sizes, &mut d_second, &left_activated, &right_dy),
        );
        [
            wanted[0].then(|| tensor(dx, inputs[0].layout().shape().clone())),
            d_first.map(|values| tensor(values, [input, wide])),
            wanted[2].then(|| tensor(add_blocks(&sums, wide), [wide])),
            d_second.map(|values| tensor(values, [wide, output])),
        ]
    }
}

/// The inputs that all blocks of the backward pass share.
struct BackwardPass<'a> {
    form: Gelu,
    layer: Layer<'a>,
    parts: Vec<Range<usize>>,
    saved: Option<SavedProducts>,
    /// The columns of W1 of each part, if their products with x were not saved.
    firsts: Vec<Packed>,
    /// The rows of W1' and the columns of W2' of each part.
    transposed: Vec<[Packed; 2]>,
    x_wanted: bool,
    weights_wanted: bool,
}

/// The results of a block of rows.
struct BlockOutputs<'a> {
    dx: &'a mut [f32],
    /// The sum of dz over the rows.
    sums: &'a mut [f32],
    /// Operands of the weights' gradients.
    x: PackedBlock<'a>,
    activated: PackedBlock<'a>,
    dz: PackedBlock<'a>,
    dy: PackedBlock<'a>,
}

impl BackwardPass<'_> {
    /// Computes the results of a block of rows. `first_row` is the index of the block's first row.
    fn block(&self, first_row: usize, x: &[f32], dy: &[f32], mut outputs: BlockOutputs) {
        let Layer { input, wide, output, bias, .. } = self.layer;
        let rows = x.len() / input;
        let x = Matrix::rows(x, input);
        let dy = Matrix::rows(dy, output);
        if self.weights_wanted {
            outputs.x.fill(x.transposed(), 0..input, rows);
            outputs.dy.fill(dy, 0..output, rows);
        }
        let packed_x = self.saved.is_none().then(|| Packed::whole(Threads::One, Side::Left, x, rows, input));
        let dy = Packed::whole(Threads::One, Side::Left, dy, rows, output);
        let mut z = scratch(rows * FEATURES);
        let mut dz = scratch(rows * FEATURES);
        for (i, (part, transposed)) in self.parts.iter().zip(&self.transposed).enumerate() {
            let [first_transposed, second_transposed] = transposed;
            let features = part.len();
            let z = &mut z[..rows * features];
            let dz = &mut dz[..rows * features];
            if let Some(saved) = &self.saved {
                z.copy_from_slice(saved.part(first_row..first_row + rows, part, wide));
            }
            if let Some(x) = &packed_x {
                product(Gemm { m: rows, n: features, k: input }, z, false, x, &self.firsts[i]);
            }
            product(Gemm { m: rows, n: features, k: output }, dz, false, &dy, second_transposed);
            value_and_gradient_rows(self.form, &bias[part.clone()], z, dz, &mut outputs.sums[part.clone()]);
            let z = Matrix::rows(z, features);
            let dz = Matrix::rows(dz, features);
            if self.x_wanted {
                product(Gemm { m: rows, n: input, k: features }, outputs.dx, i > 0, dz, first_transposed);
            }
            if self.weights_wanted {
                outputs.activated.fill(z.transposed(), part.clone(), rows);
                outputs.dz.fill(dz, part.clone(), rows);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, Tensor};

    use super::*;
    use crate::fused_op::fused_path;
    use crate::ops::dense;
    use crate::ops::gelu::bias_gelu;
    use crate::{Compute, Precision};

    #[test]
    #[ignore = "needs AVX-512 BF16"]
    fn bf16_bits_equal_the_three_operations() {
        assert!(crate::has_bf16_instructions(), "this test needs a processor with AVX-512 BF16");
        let compute = Compute { precision: Precision::Bf16, ..Compute::default() };
        let device = Device::flex().autodiff();
        for (rows, input, wide, output) in
            [(1, 1, 1, 1), (3, 8, 40, 5), (130, 33, 70, 32), (300, 64, 1100, 48), (600, 400, 300, 16)]
        {
            for form in [Gelu::Erf, Gelu::Tanh] {
                let normal = Distribution::Normal(0.0, 0.3);
                let matrix = |shape: [usize; 2]| Tensor::<2>::random(shape, normal, &device).require_grad();
                let x = matrix([rows, input]);
                let first = matrix([input, wide]);
                let second = matrix([wide, output]);
                let bias = Tensor::<1>::random([wide], normal, &device).require_grad();
                let weights = matrix([rows, output]).detach();
                let path = fused_path(compute, &[&x]).expect("a fused path");
                let projection = Projection { weight: first.clone(), bias: bias.clone() };
                let at_once = feed_forward((path, None), x.clone(), projection, second.clone(), form);
                let wide = dense::product(compute, x.clone(), first.clone());
                let apart =
                    dense::product(compute, bias_gelu(compute, wide, bias.clone(), form), second.clone());
                at_once.clone().into_data().assert_eq(&apart.clone().into_data(), true);
                let slopes = [at_once, apart].map(|y| {
                    let gradients = (y * weights.clone()).sum().backward();
                    let slope = |x: &Tensor<2>| x.grad(&gradients).expect("a gradient").into_data();
                    let bias = bias.grad(&gradients).expect("a gradient").into_data();
                    ([&x, &first, &second].map(slope), bias)
                });
                for (at_once, apart) in slopes[0].0.iter().zip(&slopes[1].0) {
                    at_once.assert_eq(apart, true);
                }
                let tolerance = burn::tensor::Tolerance::<f32>::relative(1e-4).set_absolute(1e-4);
                slopes[0].1.assert_approx_eq(&slopes[1].1, tolerance);
            }
        }
    }
}
