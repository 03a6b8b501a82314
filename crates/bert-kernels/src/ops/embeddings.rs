//! Embeddings: `y = dropout(LayerNorm(word[id] + token_type[segment] + position[place]))`.
//!
//! Ports `embedding_lookup` and `embedding_postprocessor` of the reference's `modeling.py`. The backward pass replaces
//! the gradient of the output in place by the gradient of the sum, `dh` of [`mod@super::layer_norm`]. It then adds the
//! rows of `dh` to the gradients of the tables in the order of the tokens: `dword[v] = sum of dh_t over the tokens t
//! with id_t = v`, and so on. The masked-LM head uses the word table too; the backward pass adds to the table's
//! gradient in place, without a copy.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Int, Tensor, assert_shape};
use rayon::prelude::*;

use crate::arguments::Compute;
use crate::cpu::dropout_mask::Dropout;
use crate::cpu::flex_slices::{buffer, contiguous, indices, slice, slice_mut, tensor, width};
use crate::cpu::row_blocks::{add, rows_per_block};
use crate::fused_op::{Fused, Input, apply, fused_path};
use crate::ops::layer_norm;
use crate::ops::layer_norm::{LayerNormParameters, Statistics, normalize, normalized_backward};

/// The embedding tables: `[vocabulary, hidden]`, `[types, hidden]` and `[positions, hidden]`.
#[derive(Clone, Debug)]
pub struct Tables {
    /// Word embeddings, by token id.
    pub word: Tensor<2>,
    /// Token type embeddings, by segment.
    pub token_type: Tensor<2>,
    /// Position embeddings, by position in the sequence.
    pub position: Tensor<2>,
}

/// Computes the sum of three embeddings, LayerNorm and dropout.
///
/// # Shapes
/// - input_ids, segment_ids: `[batch, seq]`, `seq <= positions`
/// - output: `[batch, seq, hidden]`
pub fn embeddings(
    compute: Compute,
    tables: Tables,
    [input_ids, segment_ids]: [Tensor<2, Int>; 2],
    parameters: LayerNormParameters,
    dropout: Option<Dropout>,
) -> Tensor<3> {
    let LayerNormParameters { gamma, beta, epsilon } = parameters;
    let [batch, seq] = input_ids.dims();
    assert_shape!(segment_ids, [batch, seq]);
    let [positions, hidden] = tables.position.dims();
    assert!(seq <= positions, "a sequence of {seq} tokens, but the model has {positions} positions");
    let Tables { word, token_type, position } = &tables;
    assert_shape!(word, [_, hidden]);
    assert_shape!(token_type, [_, hidden]);
    assert_shape!(gamma, [hidden]);
    assert_shape!(beta, [hidden]);
    match fused_path(compute, &[word, token_type, position, &gamma, &beta]) {
        Some(path) => {
            let ids = indices(input_ids);
            let segments = indices(segment_ids);
            let operation = Embeddings { ids, segments, seq, epsilon: epsilon as f32, dropout };
            let Tables { word, token_type, position } = tables;
            let inputs: [Input; 5] =
                [word.into(), token_type.into(), position.into(), gamma.into(), beta.into()];
            apply(operation, path, inputs)
        }
        None => {
            let parameters = LayerNormParameters { gamma, beta, epsilon };
            #[cfg(feature = "cubecl")]
            if let Some(h) = crate::gpu::embeddings::sum(
                compute.kernels,
                [word, token_type, position],
                [&input_ids, &segment_ids],
            ) {
                let y = layer_norm::layer_norm(compute, h, parameters); // [batch, seq, hidden]
                return crate::ops::dropout::plain(y, dropout);
            }
            plain(tables, [input_ids, segment_ids], parameters, dropout)
        }
    }
}

/// Returns the rows of a table with these indices. The gradient of the table is the sum of the gradients of its rows in
/// the order of the indices, and has the same bits on any number of threads.
///
/// # Shapes
/// - table: `[rows, width]`; ids: `[n]`, each less than `rows`
/// - output: `[n, width]`
pub fn gather(compute: Compute, table: Tensor<2>, ids: Tensor<1, Int>) -> Tensor<2> {
    match fused_path(compute, &[&table]) {
        Some(path) => apply(Gather { ids: indices(ids) }, path, [table.into()]),
        #[cfg(feature = "cubecl")]
        None => crate::gpu::gather::gather(compute.kernels, table.clone(), ids.clone())
            .unwrap_or_else(|| table.select(0, ids)),
        #[cfg(not(feature = "cubecl"))]
        None => table.select(0, ids),
    }
}

/// The operation of [`gather`].
#[derive(Clone, Debug)]
struct Gather {
    ids: Vec<usize>,
}

impl Fused<1> for Gather {
    /// The shape of the table.
    type Saved = [usize; 2];

    const ACCUMULATES: bool = true;

    fn forward(&self, [table]: [FlexTensor; 1]) -> (FlexTensor, [usize; 2]) {
        let table = contiguous(table);
        let width = width(&table);
        let rows = table.layout().shape()[0];
        let mut out = buffer(self.ids.len() * width);
        let block = rows_per_block(self.ids.len(), width);
        out.par_chunks_mut(block * width).zip(self.ids.par_chunks(block)).for_each(|(out, ids)| {
            for (out, id) in out.chunks_exact_mut(width).zip(ids) {
                out.copy_from_slice(&slice(&table)[id * width..(id + 1) * width]);
            }
        });
        (tensor(out, [self.ids.len(), width]), [rows, width])
    }

    fn backward_accumulate(
        self,
        shape: [usize; 2],
        gradient: FlexTensor,
        [wanted]: [bool; 1],
        existing: Option<FlexTensor>,
    ) -> [Option<FlexTensor>; 1] {
        [wanted.then(|| add_to_rows(existing, shape, slice(&contiguous(gradient)), &self.ids))]
    }
}

/// Computes [`embeddings()`] with burn's own operations.
///
/// # Shapes
/// - same as [`embeddings()`]
pub fn plain(
    tables: Tables,
    [input_ids, segment_ids]: [Tensor<2, Int>; 2],
    parameters: LayerNormParameters,
    dropout: Option<Dropout>,
) -> Tensor<3> {
    let [_, seq] = input_ids.dims();
    let positions = tables.position.narrow(0, 0, seq).unsqueeze::<3>(); // [1, seq, hidden]
    let x = burn::tensor::module::embedding(tables.word, input_ids)
        + burn::tensor::module::embedding(tables.token_type, segment_ids)
        + positions; // [batch, seq, hidden]
    crate::ops::dropout::plain(layer_norm::plain(x, parameters), dropout)
}

#[derive(Clone, Debug)]
struct Embeddings {
    ids: Vec<usize>,
    segments: Vec<usize>,
    seq: usize,
    epsilon: f32,
    dropout: Option<Dropout>,
}

/// Saved values of LayerNorm, and the numbers of rows of the three tables.
type Saved = (Statistics, [usize; 3]);

impl Fused<5> for Embeddings {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; 5]) -> (FlexTensor, Saved) {
        let [word, token_type, position, gamma, beta] = inputs.map(contiguous);
        let hidden = width(&word);
        let table_rows = [&word, &token_type, &position].map(|table| table.layout().shape()[0]);
        let tokens = self.ids.len();
        let mut h = buffer(tokens * hidden);
        let mut y = buffer(tokens * hidden);
        let mut rows = vec![[0.0; 2]; tokens];
        let block = rows_per_block(tokens, hidden);
        let row = |table, row: usize| &slice(table)[row * hidden..(row + 1) * hidden];
        y.par_chunks_mut(block * hidden)
            .zip(h.par_chunks_mut(block * hidden))
            .zip(rows.par_chunks_mut(block))
            .enumerate()
            .for_each_init(Vec::new, |words, (index, ((y, h), rows))| {
                for (i, h) in h.chunks_exact_mut(hidden).enumerate() {
                    let token = index * block + i;
                    h.copy_from_slice(row(&word, self.ids[token]));
                    add(h, row(&token_type, self.segments[token]));
                    add(h, row(&position, token % self.seq));
                }
                normalize(h, [slice(&gamma), slice(&beta)], self.epsilon, y, rows);
                if let Some(dropout) = self.dropout {
                    dropout.apply(y, index * block * hidden, words);
                }
            });
        let shape = [tokens / self.seq, self.seq, hidden];
        (tensor(y, shape), (Statistics { h: tensor(h, shape), gamma, rows }, table_rows))
    }

    const ACCUMULATES: bool = true;

    fn backward_accumulate(
        self,
        (saved, [words, types, positions]): Saved,
        gradient: FlexTensor,
        wanted: [bool; 5],
        existing: Option<FlexTensor>,
    ) -> [Option<FlexTensor>; 5] {
        let hidden = width(&saved.h);
        let mut gradient = contiguous(gradient);
        let [gamma, beta] =
            normalized_backward(&saved, slice_mut(&mut gradient), hidden, |gradient, first| {
                if let Some(dropout) = self.dropout {
                    dropout.apply(gradient, first, &mut Vec::new());
                }
            });
        let gradient = slice(&gradient);
        let positions_of_tokens = || (0..self.ids.len()).map(|token| token % self.seq).collect::<Vec<_>>();
        let scatter = |wanted: bool, table: Option<FlexTensor>, rows: usize, row_of: &[usize]| {
            wanted.then(|| add_to_rows(table, [rows, hidden], gradient, row_of))
        };
        let (word, (token_type, position)) = rayon::join(
            || scatter(wanted[0], existing, words, &self.ids),
            || {
                (
                    scatter(wanted[1], None, types, &self.segments),
                    scatter(wanted[2], None, positions, &positions_of_tokens()),
                )
            },
        );
        let vector = |wanted: bool, values| wanted.then(|| tensor(values, [hidden]));
        [word, token_type, position, vector(wanted[3], gamma), vector(wanted[4], beta)]
    }
}

/// Adds row i of `gradient` to row `row_of[i]` of the table, or of zeros. The rows are added in the order of i for any
/// number of threads, because each row of the table belongs to one thread.
fn add_to_rows(
    table: Option<FlexTensor>,
    [rows, hidden]: [usize; 2],
    gradient: &[f32],
    row_of: &[usize],
) -> FlexTensor {
    let fresh = table.is_none();
    let mut table = table.map_or_else(|| tensor(buffer(rows * hidden), [rows, hidden]), contiguous);
    let mut order: Vec<usize> = (0..row_of.len()).collect();
    order.sort_by_key(|&i| row_of[i]);
    let block = rows_per_block(rows, hidden);
    slice_mut(&mut table).par_chunks_mut(block * hidden).enumerate().for_each(|(index, table)| {
        if fresh {
            table.fill(0.0);
        }
        let first = index * block;
        let start = order.partition_point(|&i| row_of[i] < first);
        for &i in order[start..].iter().take_while(|&&i| row_of[i] < first + block) {
            let row = (row_of[i] - first) * hidden;
            add(&mut table[row..row + hidden], &gradient[i * hidden..(i + 1) * hidden]);
        }
    });
    table
}
