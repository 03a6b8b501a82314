//! Blocks of queries, keys, values and scores in shared memory.

use cubecl::prelude::*;

use super::plan::{HEAD, Plan};
use super::sums::Sums;

/// Bias of the positions after the last key; it makes their probabilities 0.
const NO_KEY: f32 = -1e30;
/// Alignment of a block in bytes, which matrix units need.
const ALIGNMENT: usize = 32;

/// The head that a cube computes.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Head {
    pub(super) batch: usize,
    pub(super) number: usize,
    pub(super) heads: usize,
    pub(super) seq: usize,
    #[cube(comptime)]
    plan: Plan,
}

/// The rows of one block and the columns of one head, in a matrix of all heads.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Rows {
    /// Index of the first vector of the first row.
    pub(super) first: usize,
    /// Distance from one row to the next, in vectors.
    pub(super) step: usize,
    /// Number of rows up to the last position.
    pub(super) count: usize,
    /// Index of the head's first vector in a row.
    column: usize,
    /// Number of rows of a block.
    #[cube(comptime)]
    height: usize,
    /// Whether the matrix contains projections (queries, keys or values), to which biases are added.
    #[cube(comptime)]
    has_biases: bool,
    #[cube(comptime)]
    plan: Plan,
}

#[cube]
impl Head {
    pub(super) fn new(key_bias: &[f32], #[comptime] plan: Plan) -> Head {
        Head {
            batch: CUBE_POS_Z as usize,
            number: CUBE_POS_Y as usize,
            heads: CUBE_COUNT_Y as usize,
            seq: key_bias.len() / CUBE_COUNT_Z as usize,
            plan,
        }
    }

    /// Returns the index of a query's row among the score rows of all heads and sequences.
    pub(super) fn row(&self, query: usize) -> usize {
        (self.batch * self.heads + self.number) * self.seq + query
    }

    /// Returns the rows of the context, or of its gradient, that begin at a position.
    pub(super) fn context(&self, position: usize) -> Rows {
        self.rows(1usize, 0usize, position, comptime!(self.plan.blocks.queries))
    }

    /// Returns the rows of the queries (part 0), keys (1) or values (2) that begin at a position.
    pub(super) fn projected(
        &self,
        #[comptime] part: usize,
        position: usize,
        #[comptime] height: usize,
    ) -> Rows {
        self.rows(3usize, part, position, height)
    }

    fn rows(
        &self,
        #[comptime] parts: usize,
        #[comptime] part: usize,
        position: usize,
        #[comptime] height: usize,
    ) -> Rows {
        let columns = comptime!(HEAD / self.plan.vector);
        let width = self.heads * columns;
        let column = part * width + self.number * columns;
        let step = parts * width;
        Rows {
            first: (self.batch * self.seq + position) * step + column,
            step,
            count: self.seq - min(position, self.seq),
            column,
            height,
            has_biases: comptime!(parts == 3),
            plan: comptime!(self.plan),
        }
    }
}

#[cube]
impl Rows {
    /// Returns the row and the column in the block of vector `number` of this unit.
    fn place(&self, #[comptime] number: usize) -> (usize, usize) {
        let columns = comptime!(HEAD / self.plan.vector);
        let i = UNIT_POS as usize + comptime!(number * self.plan.blocks.units);
        (i / columns, i % columns)
    }

    /// Returns the number of vectors of the block that each unit copies.
    fn vectors(&self) -> comptime_type!(usize) {
        comptime!(self.height * HEAD / self.plan.vector / self.plan.blocks.units)
    }

    /// Copies the rows to shared memory and adds the biases, if any; rows after the last position become
    /// zero.
    pub(super) fn load<F: Float, N: Size>(
        &self,
        from: &[Vector<F, N>],
        biases: &[Vector<f32, N>],
        to: &mut [Vector<F, N>],
    ) {
        #[unroll]
        for number in 0..self.vectors() {
            let (row, column) = self.place(number);
            let mut elements = Vector::<F, N>::new(F::new(0.0));
            if row < self.count {
                elements = from[self.first + row * self.step + column];
                if comptime!(self.has_biases) {
                    let sum = Vector::<f32, N>::cast_from(elements) + biases[self.column + column];
                    elements = Vector::cast_from(sum);
                }
            }
            to[row * comptime!(self.plan.stride(HEAD) / self.plan.vector) + column] = elements;
        }
    }

    /// Writes the rows from shared memory to the matrix.
    pub(super) fn write<F: Float, N: Size>(&self, from: &[Vector<f32, N>], to: &mut [Vector<F, N>]) {
        #[unroll]
        for number in 0..self.vectors() {
            let (row, column) = self.place(number);
            if row < self.count {
                to[self.first + row * self.step + column] =
                    Vector::cast_from(from[row * comptime!(self.plan.row() / self.plan.vector) + column]);
            }
        }
    }

    /// Adds the partial sums over earlier blocks of keys to the rows in shared memory, and saves the new
    /// partial sums.
    pub(super) fn add_part<N: Size>(
        &self,
        rows: &mut [Vector<f32, N>],
        parts: &mut [Vector<f32, N>],
        is_first: bool,
    ) {
        #[unroll]
        for number in 0..self.vectors() {
            let (row, column) = self.place(number);
            if row < self.count {
                let i = row * comptime!(self.plan.row() / self.plan.vector) + column;
                let part = self.first + row * self.step + column;
                if !is_first {
                    rows[i] += parts[part];
                }
                parts[part] = rows[i];
            }
        }
        sync_cube();
    }
}

/// Returns shared memory for `rows` rows of a product's operand.
#[cube]
pub(super) fn factors_block<F: Float, N: Size>(
    #[comptime] rows: usize,
    #[comptime] columns: usize,
    #[comptime] plan: Plan,
) -> Shared<[Vector<F, N>]> {
    Shared::new_aligned_slice(comptime!(rows * plan.stride(columns) / plan.vector), ALIGNMENT)
}

/// Returns shared memory for a block of scores.
#[cube]
pub(super) fn scores_block<N: Size>(#[comptime] plan: Plan) -> Shared<[Vector<f32, N>]> {
    Shared::new_aligned_slice(comptime!(plan.blocks.queries * plan.row() / plan.vector), ALIGNMENT)
}

/// Copies the biases of a block of keys, beginning with key `first`, to shared memory.
#[cube]
pub(super) fn load_key_bias<N: Size>(key_bias: &[f32], to: &mut [Vector<f32, N>], head: &Head, first: usize) {
    let unit = UNIT_POS as usize;
    if unit < comptime!(head.plan.blocks.keys / head.plan.vector) {
        let mut elements = Vector::<f32, N>::new(NO_KEY);
        #[unroll]
        for j in 0..N::value() {
            let key = first + unit * N::value() + j;
            if key < head.seq {
                elements.insert(j, key_bias[head.batch * head.seq + key]);
            }
        }
        to[unit] = elements;
    }
}

/// Writes `a b'` to shared memory. The rows of a belong to a block of queries, and the rows of b to a block
/// of keys.
#[cube]
pub(super) fn multiply_rows<F: Float, N: Size>(
    a: &[Vector<F, N>],
    b: &[Vector<F, N>],
    to: &mut [Vector<f32, N>],
    #[comptime] plan: Plan,
) {
    let shape = comptime!([plan.blocks.queries, plan.blocks.keys]);
    let mut sums = Sums::new(plan.workers, shape, plan.blocks.units);
    sums.add::<F, N>(a, b, comptime!(plan.for_scores()));
    sums.store::<N>(to, 0usize.runtime(), plan.blocks.queries, comptime!(plan.row()));
    sync_cube();
}

/// Returns the index in its row of vector `number` of this lane.
#[cube]
pub(super) fn lane_vector(#[comptime] number: usize, #[comptime] plan: Plan) -> usize {
    UNIT_POS_X as usize + comptime!(number * plan.lanes.count as usize)
}

/// Returns vector `number` of this lane's scores, multiplied by the scale and with the keys' biases added.
#[cube]
pub(super) fn logits<N: Size>(
    scores: &[Vector<f32, N>],
    row_bias: &[Vector<f32, N>],
    scale: f32,
    #[comptime] number: usize,
    #[comptime] plan: Plan,
) -> Vector<f32, N> {
    let i = lane_vector(number, plan);
    scores[UNIT_POS_Y as usize * comptime!(plan.row() / plan.vector) + i] * Vector::new(scale) + row_bias[i]
}

/// Returns the sum over a block of rows. Each of the first units sums one column of vectors; other units
/// return zeros.
#[cube]
pub(super) fn column_sum<N: Size>(rows: &[Vector<f32, N>], #[comptime] plan: Plan) -> Vector<f32, N> {
    let mut sum = Vector::<f32, N>::new(0.0);
    if (UNIT_POS as usize) < comptime!(HEAD / plan.vector) {
        for row in 0..plan.blocks.queries {
            sum += rows[row * comptime!(plan.row() / plan.vector) + UNIT_POS as usize];
        }
    }
    sum
}
