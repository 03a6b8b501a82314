//! The loss of the masked-LM head on a GPU as one autodiff operation: `nll = log(sum(exp(z))) - z[label]`, `z
//! = x T' + b`, with the equations of [`mod@crate::ops::masked_lm_loss`]; backward, `dz = dnll (exp(z - l) -
//! [label])`, where l is the log-sum-exp of the row.
//!
//! The products `x T'` are stored in f32, and dz in the operand dtype ([`factor_type`]). Rows with one
//! element per class are padded to a multiple of [`PADDING`], because the kernels of products need aligned
//! rows. One cube computes one row.

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Int, Shape, Tensor};
use burn_cubecl::tensor::CubeTensor;
use burn_std::{Metadata, strides};
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::column_sums::column_sums;
use super::gather::indices;
use super::lanes::{cube_max, cube_sum};
use super::product::{factor_type, multiply, multiply_into_rows, multiply_transposed, rounded, transposed};
use super::{UNITS, apply_inputs, element, empty_with, input, into_contiguous, len, one_cube_per_row};
use crate::arguments::{Compute, Kernels, Precision};
use crate::fused_op::Fused;

/// Number of elements to a multiple of which the rows are padded.
const PADDING: usize = 64;

/// Returns the negative log-likelihood of each label; `None` if a tensor is not on a GPU.
///
/// # Shapes
/// - transformed: `[n, hidden]`; table: `[classes, hidden]`; bias: `[classes]`; labels: `[n]`
/// - output: `[n]`
pub(crate) fn masked_lm_nll(
    compute: Compute,
    transformed: &Tensor<2>,
    table: &Tensor<2>,
    bias: &Tensor<1>,
    labels: &Tensor<1, Int>,
) -> Option<Tensor<1>> {
    if compute.kernels == Kernels::Plain {
        return None;
    }
    let inputs = [input(transformed.clone()), input(table.clone()), input(bias.clone())];
    let operation = MaskedLm { labels: indices(labels.clone())?, precision: compute.precision };
    apply_inputs(compute.kernels, operation, inputs)
}

#[derive(Clone, Debug)]
struct MaskedLm {
    labels: CubeTensor,
    precision: Precision,
}

/// Values that the backward pass needs.
#[derive(Clone, Debug)]
struct Saved {
    /// `[n, hidden]`, rounded to the precision
    transformed: CubeTensor,
    /// `[classes, hidden]`, rounded to the precision
    table: CubeTensor,
    /// `[classes]`
    bias: CubeTensor,
    /// `x T'`: `[n, classes]`, in padded rows
    products: CubeTensor,
    /// The log-sum-exp of each row: `[n]`
    log_sums: CubeTensor,
}

impl Fused<3, Cube> for MaskedLm {
    type Saved = Saved;

    fn forward(&self, inputs: [CubeTensor; 3]) -> (CubeTensor, Saved) {
        let [transformed, table, bias] = inputs.map(into_contiguous);
        let [transformed, table] = [transformed, table].map(|factor| rounded(self.precision, factor));
        let padded = len(&bias).next_multiple_of(PADDING);
        let products = multiply_into_rows(transformed.clone(), transposed(table.clone()), padded);
        let rows = transformed.meta.shape()[0];
        let nll = empty_with(&bias, rows, DType::F32);
        let log_sums = empty_with(&bias, rows, DType::F32);
        launch!(forward_kernel, &bias.client, one_cube_per_row(rows);
            products.clone(), bias.clone(), self.labels.clone(), nll.clone(), log_sums.clone(); padded);
        (nll, Saved { transformed, table, bias, products, log_sums })
    }

    fn backward(
        self,
        Saved { transformed, table, bias, products, log_sums }: Saved,
        gradient: CubeTensor,
        [transformed_wanted, table_wanted, bias_wanted]: [bool; 3],
    ) -> [Option<CubeTensor>; 3] {
        let rows = transformed.meta.shape()[0];
        let classes = len(&bias);
        let padded = classes.next_multiple_of(PADDING);
        let flat = empty_with(&bias, rows * padded, factor_type(self.precision));
        launch!(backward_kernel, &flat.client, one_cube_per_row(rows);
            products, bias, self.labels, log_sums, into_contiguous(gradient), flat.clone();
            padded, element(&flat));
        let mut d_products = flat.clone();
        *d_products.meta = Metadata::new(Shape::new([rows, classes]), strides![padded, 1]);
        [
            transformed_wanted.then(|| multiply(d_products.clone(), table, DType::F32)),
            table_wanted.then(|| multiply_transposed(d_products, transformed)),
            bias_wanted.then(|| {
                let sums = column_sums(flat, rows, padded);
                Cube::float_slice(sums, &[(0..classes).into()])
            }),
        ]
    }
}

#[cube(launch)]
fn forward_kernel(
    products: &[f32],
    bias: &[f32],
    labels: &[i32],
    nll: &mut [f32],
    log_sums: &mut [f32],
    padded: usize,
) {
    if CUBE_POS >= nll.len() {
        terminate!();
    }
    let start = CUBE_POS * padded;
    // One pass over the row: a new maximum rescales the sum so far. The maximum starts at about the smallest
    // finite f32.
    let mut largest = f32::new(-3.4e38);
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < bias.len() {
        let z = products[start + i] + bias[i];
        if z > largest {
            sum *= (largest - z).exp();
            largest = z;
        }
        sum += (z - largest).exp();
        i += UNITS as usize;
    }
    let own = largest;
    let largest = cube_max(own);
    let total = cube_sum(sum * (own - largest).exp());
    if UNIT_POS == 0 {
        let log_sum = largest + total.ln();
        let label = labels[CUBE_POS] as usize;
        log_sums[CUBE_POS] = log_sum;
        nll[CUBE_POS] = log_sum - (products[start + label] + bias[label]);
    }
}

#[expect(clippy::too_many_arguments, reason = "five tensors in, one out")]
#[cube(launch)]
fn backward_kernel<E: Float>(
    products: &[f32],
    bias: &[f32],
    labels: &[i32],
    log_sums: &[f32],
    gradient: &[f32],
    d_products: &mut [E],
    padded: usize,
    #[define(E)] _element: ElemType,
) {
    if CUBE_POS >= gradient.len() {
        terminate!();
    }
    let start = CUBE_POS * padded;
    let label = labels[CUBE_POS] as usize;
    let mut i = UNIT_POS as usize;
    while i < padded {
        let mut value = 0.0f32;
        if i < bias.len() {
            value = (products[start + i] + bias[i] - log_sums[CUBE_POS]).exp();
            if i == label {
                value -= 1.0;
            }
        }
        d_products[start + i] = E::cast_from(value * gradient[CUBE_POS]);
        i += UNITS as usize;
    }
}
