//! Blocks of queries, keys, values and scores in the memory of a cube.

use cubecl::prelude::*;

use super::plan::{HEAD, Plan};
use super::sums::Sums;

/// Bias of the keys after the last, whose probabilities are 0.
const NO_KEY: f32 = -1e30;
/// Alignment of a block in bytes, for matrix units.
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

/// Rows of a head in a matrix.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Rows {
    /// The first vector of the first row.
    pub(super) first: usize,
    /// Vectors from one row to the next.
    pub(super) step: usize,
    /// Rows up to the last position.
    pub(super) count: usize,
    /// The first vector of the head in a row.
    column: usize,
    /// Rows of a block.
    #[cube(comptime)]
    height: usize,
    /// Whether the matrix has queries, keys and values.
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

    /// Returns the number of a row of scores.
    pub(super) fn row(&self, query: usize) -> usize {
        (self.batch * self.heads + self.number) * self.seq + query
    }

    /// Returns the rows from a position on in the context or its gradient.
    pub(super) fn context(&self, position: usize) -> Rows {
        self.rows(1usize, 0usize, position, comptime!(self.plan.blocks.queries))
    }

    /// Returns the rows from a position on in queries (part 0), keys or values.
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
    /// Returns the row and the column of a vector of this unit in the block.
    fn place(&self, #[comptime] number: usize) -> (usize, usize) {
        let columns = comptime!(HEAD / self.plan.vector);
        let i = UNIT_POS as usize + comptime!(number * self.plan.blocks.units);
        (i / columns, i % columns)
    }

    /// Returns the number of vectors of a unit.
    fn vectors(&self) -> comptime_type!(usize) {
        comptime!(self.height * HEAD / self.plan.vector / self.plan.blocks.units)
    }

    /// Copies the rows to the memory of the cube, with their biases; rows after the last position are zero.
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

    /// Writes the rows from the memory of the cube.
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

    /// Adds the sums of the blocks of keys before to the rows in the memory of the cube, and saves the new sums.
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

/// Returns memory of the cube for `rows` of factors.
#[cube]
pub(super) fn factors_block<F: Float, N: Size>(
    #[comptime] rows: usize,
    #[comptime] columns: usize,
    #[comptime] plan: Plan,
) -> Shared<[Vector<F, N>]> {
    Shared::new_aligned_slice(comptime!(rows * plan.stride(columns) / plan.vector), ALIGNMENT)
}

/// Returns memory of the cube for a block of scores.
#[cube]
pub(super) fn scores_block<N: Size>(#[comptime] plan: Plan) -> Shared<[Vector<f32, N>]> {
    Shared::new_aligned_slice(comptime!(plan.blocks.queries * plan.row() / plan.vector), ALIGNMENT)
}

/// Copies the biases of the keys from `first` on to the memory of the cube.
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

/// Writes `a b'` of a block of queries and one of keys to the memory of the cube.
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

/// Returns the number of a lane's vector in its row.
#[cube]
pub(super) fn lane_vector(#[comptime] number: usize, #[comptime] plan: Plan) -> usize {
    UNIT_POS_X as usize + comptime!(number * plan.lanes.count as usize)
}

/// Returns a vector of a lane's scores, scaled and with the biases of the keys.
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

/// Returns the sum of a column of a block of rows, in the units of the columns.
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
