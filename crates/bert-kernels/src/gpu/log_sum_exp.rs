//! The logarithm of the sum of exponentials of each row on a GPU: `l = log(sum(exp(z)))` and `dz = dl exp(z - l)`.
//!
//! One cube computes one row. Only the logits and l are saved for the backward pass.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{UNITS, apply, cube_max, cube_sum, empty_like, into_contiguous, len, one_cube_per_row};
use crate::arguments::Kernels;
use crate::fused_op::Fused;

/// Returns `log(sum(exp(logits)))` of each row, if the logits are on a GPU.
///
/// # Shapes
/// - logits: `[rows, classes]`
/// - output: `[rows]`
pub(crate) fn log_sum_exp(kernels: Kernels, logits: Tensor<2>) -> Option<Tensor<1>> {
    let [rows, classes] = logits.dims();
    apply(kernels, LogSumExp { rows, classes }, [logits.reshape([rows * classes])])
}

#[derive(Clone, Copy, Debug)]
struct LogSumExp {
    rows: usize,
    classes: usize,
}

impl Fused<1, Cube> for LogSumExp {
    /// The logits and the outputs.
    type Saved = [CubeTensor; 2];

    fn forward(&self, [logits]: [CubeTensor; 1]) -> (CubeTensor, Self::Saved) {
        let logits = into_contiguous(logits);
        let output = empty_like(&logits, self.rows);
        let (count, dim) = one_cube_per_row(self.rows);
        forward_kernel::launch(
            &output.client,
            count,
            dim,
            logits.clone().into_buffer_arg(),
            output.clone().into_buffer_arg(),
            self.classes,
        );
        (output.clone(), [logits, output])
    }

    fn backward(
        self,
        [logits, output]: Self::Saved,
        gradient: CubeTensor,
        _: [bool; 1],
    ) -> [Option<CubeTensor>; 1] {
        let d_logits = empty_like(&logits, len(&logits));
        let (count, dim) = one_cube_per_row(self.rows);
        backward_kernel::launch(
            &d_logits.client,
            count,
            dim,
            logits.into_buffer_arg(),
            output.into_buffer_arg(),
            into_contiguous(gradient).into_buffer_arg(),
            d_logits.clone().into_buffer_arg(),
            self.classes,
        );
        [Some(d_logits)]
    }
}

#[cube(launch)]
fn forward_kernel(logits: &[f32], output: &mut [f32], classes: usize) {
    let start = CUBE_POS * classes;
    if start >= logits.len() {
        terminate!();
    }
    // The minimum f32, rounded up.
    let mut largest = f32::new(-3.4e38);
    let mut i = UNIT_POS as usize;
    while i < classes {
        largest = max(largest, logits[start + i]);
        i += UNITS as usize;
    }
    let largest = cube_max(largest);
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < classes {
        sum += (logits[start + i] - largest).exp();
        i += UNITS as usize;
    }
    let total = cube_sum(sum);
    if UNIT_POS == 0 {
        output[CUBE_POS] = largest + total.ln();
    }
}

#[cube(launch)]
fn backward_kernel(logits: &[f32], output: &[f32], gradient: &[f32], d_logits: &mut [f32], classes: usize) {
    let start = CUBE_POS * classes;
    if start >= logits.len() {
        terminate!();
    }
    let mut i = UNIT_POS as usize;
    while i < classes {
        d_logits[start + i] = gradient[CUBE_POS] * (logits[start + i] - output[CUBE_POS]).exp();
        i += UNITS as usize;
    }
}
