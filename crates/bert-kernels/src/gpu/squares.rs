//! Sums of the squares of the chunks of many tensors. A cube computes the sum of one chunk, several tensors
//! share a launch, and all sums are in one buffer.

use burn::backend::Cube;
use burn::tensor::{DType, Tensor};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::lanes::{cube_sum, vector_sum};
use super::{
    Input, UNITS, buffers_per_launch, empty_like, input, into_contiguous, len, one_cube_per_row, vector_size,
};
use crate::arguments::{CHUNK, Kernels};

/// Returns the sums of the squares of all chunks of all tensors, one after another; `None` if a tensor is not
/// on a GPU.
pub(crate) fn chunk_squares(kernels: Kernels, tensors: &[Tensor<1>]) -> Option<Tensor<1>> {
    if kernels == Kernels::Plain {
        return None;
    }
    let plain = |x: &Tensor<1>| match input(x.clone())? {
        Input::Plain(x) if x.dtype == DType::F32 => Some(into_contiguous(x)),
        _ => None,
    };
    let tensors = tensors.iter().map(plain).collect::<Option<Vec<_>>>()?;
    let first = tensors.first()?;
    let sums = empty_like(first, tensors.iter().map(chunks).sum());
    let mut offset = 0;
    let vector = |x: &CubeTensor| vector_size(len(x), x);
    let most = buffers_per_launch(&first.client);
    for group in tensors.chunk_by(|a, b| vector(a) == vector(b)).flat_map(|group| group.chunks(most)) {
        let cubes = group.iter().map(chunks).sum();
        let (count, dim) = one_cube_per_row(cubes);
        let buffers = group.iter().map(|x| x.clone().into_buffer_arg()).collect();
        let sums = sums.clone();
        kernel::launch(
            &sums.client,
            count,
            dim,
            vector(&group[0]),
            buffers,
            sums.clone().into_buffer_arg(),
            offset,
        );
        offset += cubes;
    }
    Some(Tensor::from_primitive::<Cube>(sums))
}

/// Returns the number of chunks of a tensor; an empty tensor has one.
fn chunks(x: &CubeTensor) -> usize {
    len(x).div_ceil(CHUNK).max(1)
}

#[cube(launch)]
fn kernel<N: Size>(tensors: &Sequence<Box<[Vector<f32, N>]>>, sums: &mut [f32], offset: usize) {
    let size = N::value();
    let chunk = comptime!(CHUNK / size);
    let mut sum = Vector::<f32, N>::new(0.0);
    // Number of cubes that work on the tensors before this one.
    let mut before = 0usize.runtime();
    #[unroll]
    for number in 0..tensors.len() {
        let x = tensors.index(number);
        let cubes = max(x.len().div_ceil(chunk), 1);
        if CUBE_POS >= before && CUBE_POS < before + cubes {
            let start = (CUBE_POS - before) * chunk;
            let end = min(start + chunk, x.len());
            let mut i = start + UNIT_POS as usize;
            while i < end {
                sum += x[i] * x[i];
                i += UNITS as usize;
            }
        }
        before += cubes;
    }
    let total = cube_sum(vector_sum(sum));
    if UNIT_POS == 0 && CUBE_POS < before {
        sums[offset + CUBE_POS] = total;
    }
}
