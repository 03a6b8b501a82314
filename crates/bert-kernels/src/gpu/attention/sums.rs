//! Matrix products that a cube computes from shared memory, with sums in f32 in registers.
//!
//! The result consists of square tiles, and each worker computes a few adjacent ones. If the device has
//! matrix units for the operands' dtype, a worker is a plane (a warp); otherwise it is a single unit.

use cubecl::cmma::{self, Matrix, MatrixIdent, MatrixLayout};
use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;

use crate::gpu::Client;

/// Number of terms of a sum that a unit adds in one iteration.
const STEP: usize = 8;

/// The workers that share a product: planes with matrix units, or single units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Workers {
    /// Number of units of a worker.
    units: usize,
    /// Number of rows, and of columns, of a tile.
    tile: usize,
    /// Number of terms of a sum that a matrix unit adds at once; 0 without matrix units.
    depth: usize,
}

impl Workers {
    /// Returns the workers for operands of this dtype.
    pub(super) fn new(client: &Client, factors: ElemType) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let sums = ElemType::Float(FloatKind::F32);
        let mut units = properties.features.matmul.cmma.iter().filter(|unit| {
            unit.a_type == factors && unit.b_type == factors && unit.cd_type == sums && unit.m == unit.n
        });
        match units.next() {
            Some(unit) if hardware.plane_size_min == hardware.plane_size_max => Self {
                units: hardware.plane_size_max as usize,
                tile: unit.m as usize,
                depth: unit.k as usize,
            },
            _ => Self { units: 1, tile: 2, depth: 0 },
        }
    }

    /// Returns whether the workers are planes with matrix units.
    pub(super) fn has_matrix_units(self) -> bool {
        self.depth > 0
    }

    /// Returns the number of tiles of each worker in a cube of `units` units. Returns `None` unless all
    /// workers have equally many tiles, and each worker's tiles are in one row of tiles.
    pub(super) fn tiles(self, [rows, columns]: [usize; 2], units: usize) -> Option<usize> {
        let workers = units / self.units;
        let cells = workers * self.tile * self.tile;
        let tiles = rows * columns / cells.max(1);
        let fits = cells > 0
            && (rows * columns).is_multiple_of(cells)
            && rows.is_multiple_of(self.tile)
            && columns.is_multiple_of(tiles.max(1) * self.tile);
        (fits && tiles > 0).then_some(tiles)
    }
}

/// The layouts of a product of an `[m, depth]` and a `[depth, n]` matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Product {
    pub(super) left: Layout,
    pub(super) right: Layout,
    pub(super) depth: usize,
}

/// The order of an operand's elements in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    /// Distance from one row to the next in elements; from one column to the next if transposed.
    pub(super) stride: usize,
    /// Whether the elements of a column are adjacent, instead of the elements of a row.
    pub(super) transposed: bool,
}

impl Layout {
    fn order(self) -> MatrixLayout {
        if self.transposed { MatrixLayout::ColMajor } else { MatrixLayout::RowMajor }
    }
}

/// A matrix of sums in the registers of a cube.
#[derive(CubeType)]
pub(super) struct Sums {
    /// The tiles of a plane; empty without matrix units.
    fragments: Sequence<Matrix<f32>>,
    /// The elements of a unit's tiles, one tile after another; unused with matrix units.
    cells: Array<f32>,
    #[cube(comptime)]
    workers: Workers,
    /// Number of tiles of each worker.
    #[cube(comptime)]
    tiles: usize,
    #[cube(comptime)]
    columns: usize,
}

#[cube]
impl Sums {
    /// Returns a zero matrix of shape `[rows, columns]` for a cube of `units` units.
    pub(super) fn new(
        #[comptime] workers: Workers,
        #[comptime] shape: [usize; 2],
        #[comptime] units: usize,
    ) -> Sums {
        let tiles = comptime!(workers.tiles(shape, units).expect("the caller has checked it"));
        let count =
            comptime!(tiles * if workers.has_matrix_units() { 0 } else { workers.tile * workers.tile });
        let mut cells = Array::<f32>::new(comptime!(count.max(1)));
        let mut fragments = Sequence::<Matrix<f32>>::new();
        #[unroll]
        for cell in 0..count {
            cells[cell] = 0.0;
        }
        if comptime!(workers.has_matrix_units()) {
            #[unroll]
            for _ in 0..tiles {
                fragments.push(Matrix::<f32>::from_value(
                    MatrixIdent::Accumulator,
                    workers.tile,
                    workers.tile,
                    workers.depth,
                    MatrixLayout::Undefined,
                    0.0,
                ));
            }
        }
        Sums { fragments, cells, workers, tiles, columns: comptime!(shape[1]) }
    }

    /// Adds the product of two operands in shared memory.
    pub(super) fn add<F: Float, N: Size>(
        &mut self,
        left: &[Vector<F, N>],
        right: &[Vector<F, N>],
        #[comptime] product: Product,
    ) {
        if comptime!(self.workers.has_matrix_units()) {
            let (row, column) = self.place();
            let tile = comptime!(self.workers.tile);
            let depth = comptime!(self.workers.depth);
            #[unroll]
            for step in 0..comptime!(product.depth / depth) {
                let k = comptime!(step * depth).runtime();
                let a = self.fragment::<F, N>(left, at(row, k, product.left), product.left, MatrixIdent::A);
                #[unroll]
                for number in 0..self.tiles {
                    let place = at(k, column + number * tile, product.right);
                    let b = self.fragment::<F, N>(right, place, product.right, MatrixIdent::B);
                    let sums = self.fragments.index(number);
                    cmma::execute(&a, &b, sums, sums);
                }
            }
        } else {
            // The inner loop is unrolled, because Mesa's llvmpipe ends all loops of a unit after 65,535
            // iterations.
            for step in 0..comptime!(product.depth / STEP) {
                #[unroll]
                for k in 0..STEP {
                    self.add_term::<F, N>(left, right, step * STEP + k, product);
                }
            }
        }
    }

    /// Returns the operand tile of a matrix unit that begins at element `place`.
    fn fragment<F: Float, N: Size>(
        &self,
        from: &[Vector<F, N>],
        place: usize,
        #[comptime] layout: Layout,
        #[comptime] ident: MatrixIdent,
    ) -> Matrix<Vector<F, N>> {
        Matrix::<Vector<F, N>>::from_slice(
            ident,
            self.workers.tile,
            self.workers.tile,
            self.workers.depth,
            comptime!(layout.order()),
            &from[place / N::value()..from.len()],
            comptime!(layout.stride as u32),
        )
    }

    /// Adds one term of the product to every sum of this unit; used without matrix units.
    fn add_term<F: Float, N: Size>(
        &mut self,
        left: &[Vector<F, N>],
        right: &[Vector<F, N>],
        k: usize,
        #[comptime] product: Product,
    ) {
        let (row, column) = self.place();
        let tile = comptime!(self.workers.tile);
        #[unroll]
        for number in 0..self.tiles {
            #[unroll]
            for i in 0..tile {
                let a = f32::cast_from(left[at(row + i, k, product.left)].extract(0usize));
                #[unroll]
                for j in 0..tile {
                    let place = at(k, column + number * tile + j, product.right);
                    let b = f32::cast_from(right[place].extract(0usize));
                    self.cells[comptime!((number * tile + i) * tile + j)] += a * b;
                }
            }
        }
    }

    /// Writes `rows` rows of the sums, beginning with row `first`, to shared memory, where rows are `stride`
    /// elements apart.
    pub(super) fn store<N: Size>(
        &self,
        to: &mut [Vector<f32, N>],
        first: usize,
        #[comptime] rows: usize,
        #[comptime] stride: usize,
    ) {
        let (row, column) = self.place();
        let tile = comptime!(self.workers.tile);
        if row >= first && row < first + rows {
            let start = (row - first) * stride + column;
            #[unroll]
            for number in 0..self.tiles {
                if comptime!(self.workers.has_matrix_units()) {
                    let end = to.len();
                    cmma::store(
                        &mut to[(start + number * tile) / N::value()..end],
                        self.fragments.index(number),
                        comptime!(stride as u32),
                        MatrixLayout::RowMajor,
                    );
                } else {
                    #[unroll]
                    for i in 0..tile {
                        #[unroll]
                        for j in 0..tile {
                            to[start + i * stride + number * tile + j] =
                                Vector::new(self.cells[comptime!((number * tile + i) * tile + j)]);
                        }
                    }
                }
            }
        }
    }

    /// Returns the row and the column of the first element of this worker's tiles.
    fn place(&self) -> (usize, usize) {
        let first = UNIT_POS as usize / self.workers.units * self.tiles;
        let in_a_row = comptime!(self.columns / self.workers.tile);
        (first / in_a_row * self.workers.tile, first % in_a_row * self.workers.tile)
    }
}

/// Returns the index of an element in shared memory.
#[cube]
fn at(row: usize, column: usize, #[comptime] layout: Layout) -> usize {
    if comptime!(layout.transposed) { column * layout.stride + row } else { row * layout.stride + column }
}
