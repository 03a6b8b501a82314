//! Sums of squares of the chunks of many tensors: one cube adds one chunk, and all sums go into one buffer.

use burn::backend::Cube;
use burn::tensor::Tensor;
use cubecl::prelude::*;

use super::{Inputs, UNITS, cube_sum, empty_like, inputs, into_contiguous, len, one_cube_per_row};
use crate::arguments::{CHUNK, Kernels};

/// Returns the sum of the squares of each chunk of each tensor, one after the other, if all tensors are on a GPU.
pub(crate) fn chunk_squares(kernels: Kernels, tensors: &[Tensor<1>]) -> Option<Tensor<1>> {
    let plain = |x: &Tensor<1>| match inputs(kernels, [x.clone()])? {
        Inputs::Plain([x]) => Some(into_contiguous(x)),
        Inputs::Graph(_) => None,
    };
    let tensors = tensors.iter().map(plain).collect::<Option<Vec<_>>>()?;
    let chunks = tensors.iter().map(|x| len(x).div_ceil(CHUNK).max(1)).sum();
    let sums = empty_like(tensors.first()?, chunks);
    let mut offset = 0;
    for x in tensors {
        let chunks = len(&x).div_ceil(CHUNK).max(1);
        let (count, dim) = one_cube_per_row(chunks);
        kernel::launch(&sums.client, count, dim, x.into_buffer_arg(), sums.clone().into_buffer_arg(), offset);
        offset += chunks;
    }
    Some(Tensor::from_primitive::<Cube>(sums))
}

#[cube(launch)]
fn kernel(x: &[f32], sums: &mut [f32], offset: usize) {
    let start = CUBE_POS * CHUNK;
    if start >= x.len() {
        terminate!();
    }
    let end = min(start + CHUNK, x.len());
    let mut sum = 0.0f32;
    let mut i = start + UNIT_POS as usize;
    while i < end {
        sum += x[i] * x[i];
        i += UNITS as usize;
    }
    let total = cube_sum(sum);
    if UNIT_POS == 0 {
        sums[offset + CUBE_POS] = total;
    }
}
