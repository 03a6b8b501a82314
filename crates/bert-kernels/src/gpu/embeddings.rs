//! The sum of three embeddings on a GPU as one autodiff operation: `h = word[id] + token_type[segment] +
//! position[place]`.
//!
//! The gradient of the position table is a sum over the sequences of the batch. The gradients of the other
//! tables are sums by index ([`super::gather`]).

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Int, Shape, Tensor};
use burn_cubecl::ops::numeric::zeros_client;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::column_sums::column_sums;
use super::gather::{indices, sums_by_index};
use super::{apply_inputs, elementwise, empty_like, input, into_contiguous, len, vector_size};
use crate::arguments::Kernels;
use crate::fused_op::Fused;

/// Returns the sum of the embeddings of each token; `None` if the tables are not on a GPU.
///
/// # Shapes
/// - tables: `[rows, hidden]`, of words, token types and positions; ids and segments: `[batch, seq]`
/// - output: `[batch, seq, hidden]`
pub(crate) fn sum(
    kernels: Kernels,
    tables: [&Tensor<2>; 3],
    [ids, segments]: [&Tensor<2, Int>; 2],
) -> Option<Tensor<3>> {
    if kernels == Kernels::Plain || tables.iter().any(|table| table.dtype() != DType::F32) {
        return None;
    }
    let [_, seq] = ids.dims();
    let operation = EmbeddingSum { ids: indices(ids.clone())?, segments: indices(segments.clone())?, seq };
    apply_inputs(kernels, operation, tables.map(|table| input(table.clone())))
}

#[derive(Clone, Debug)]
struct EmbeddingSum {
    ids: CubeTensor,
    segments: CubeTensor,
    seq: usize,
}

impl Fused<3, Cube> for EmbeddingSum {
    /// The number of rows of each table, and their width.
    type Saved = ([usize; 3], usize);

    const ACCUMULATES: bool = true;

    fn forward(&self, tables: [CubeTensor; 3]) -> (CubeTensor, Self::Saved) {
        let rows = tables.each_ref().map(|table| table.meta.shape()[0]);
        let hidden = tables[0].meta.shape()[1];
        let [word, token_type, position] = tables.map(into_contiguous);
        let h = empty_like(&word, len(&self.ids) * hidden);
        let vector = vector_size(hidden, &h);
        launch!(kernel, &h.client, elementwise(len(&h) / vector), vector;
            word, token_type, position, self.ids.clone(), self.segments.clone(), h.clone(); self.seq);
        let shape = Shape::new([len(&self.ids) / self.seq, self.seq, hidden]);
        (Cube::float_reshape(h, shape), (rows, hidden))
    }

    fn backward_accumulate(
        self,
        ([words, types, positions], hidden): Self::Saved,
        gradient: CubeTensor,
        [word_wanted, type_wanted, position_wanted]: [bool; 3],
        existing: Option<CubeTensor>,
    ) -> [Option<CubeTensor>; 3] {
        let Self { ids, segments, seq } = self;
        let gradient = into_contiguous(gradient);
        let position = position_wanted.then(|| {
            let batch = len(&ids) / seq;
            let sums = column_sums(gradient.clone(), batch, seq * hidden);
            let sums = Cube::float_reshape(sums, Shape::new([seq, hidden]));
            if seq == positions {
                return sums;
            }
            let shape = Shape::new([positions, hidden]);
            let table = zeros_client(gradient.client.clone(), gradient.device.clone(), shape, DType::F32);
            Cube::float_slice_assign(table, &[(0..seq).into(), (0..hidden).into()], sums)
        });
        [
            word_wanted.then(|| sums_by_index(&gradient, ids, [words, hidden], existing)),
            type_wanted.then(|| sums_by_index(&gradient, segments, [types, hidden], None)),
            position,
        ]
    }
}

#[cube(launch)]
fn kernel<N: Size>(
    word: &[Vector<f32, N>],
    token_type: &[Vector<f32, N>],
    position: &[Vector<f32, N>],
    ids: &[i32],
    segments: &[i32],
    h: &mut [Vector<f32, N>],
    seq: usize,
) {
    if ABSOLUTE_POS < h.len() {
        let width = h.len() / ids.len();
        let token = ABSOLUTE_POS / width;
        let column = ABSOLUTE_POS % width;
        h[ABSOLUTE_POS] = word[ids[token] as usize * width + column]
            + token_type[segments[token] as usize * width + column]
            + position[token % seq * width + column];
    }
}
