//! Lanes, the units of a cube that compute one row together, and sums and maxima over them.
//!
//! If the planes (warps) of a device have a fixed size, the lanes of a row exchange values without shared
//! memory.

use cubecl::features::Plane;
use cubecl::prelude::*;

use super::{UNITS, cubes};

/// The number and the work of the lanes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lanes {
    /// Number of lanes of a row; a power of two.
    pub(super) count: u32,
    /// Number of vectors of a row that each lane computes.
    pub(super) vectors: usize,
    /// Number of units of the cube.
    units: u32,
    /// Whether the lanes of a row exchange values within their plane, without shared memory.
    planes: bool,
}

impl Lanes {
    /// The lanes of a one-dimensional cube whose units all compute one row.
    pub(super) const CUBE: Self = Self { count: UNITS, vectors: 1, units: UNITS, planes: false };

    /// Returns the lanes for rows of `vectors` vectors, in a cube of [`UNITS`] units.
    pub(super) fn new(client: &super::Client, vectors: usize) -> Self {
        Self::for_cube(client, vectors, [vectors.next_power_of_two().min(32) as u32, UNITS])
    }

    /// Returns `count` lanes for rows of `vectors` vectors, in a cube of `units` units.
    pub(super) fn for_cube(client: &super::Client, vectors: usize, [count, units]: [u32; 2]) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let planes = properties.features.plane.contains(Plane::Ops)
            && hardware.plane_size_min == hardware.plane_size_max
            && hardware.plane_size_max >= count;
        Self { count, vectors: vectors.div_ceil(count as usize), units, planes }
    }

    /// Returns the number of rows that a cube computes at once.
    pub(super) fn rows(self) -> u32 {
        self.units / self.count
    }

    /// Returns the launch size for `rows` rows, if each cube computes `times * self.rows()` of them.
    pub(super) fn launch_size(self, rows: usize, times: usize) -> (CubeCount, CubeDim) {
        let rows_of_cube = self.rows() as usize * times;
        (cubes(rows.div_ceil(rows_of_cube)), CubeDim::new_2d(self.count, self.rows()))
    }
}

/// Returns the sum or the maximum over the lanes of a row, in an order that depends only on their number.
#[cube]
pub(super) fn over_lanes(value: f32, #[comptime] maximum: bool, #[comptime] lanes: Lanes) -> f32 {
    let mut result = value;
    if comptime!(lanes.planes) {
        let mut step = comptime!(lanes.count / 2);
        #[unroll]
        for _ in 0..comptime!(lanes.count.trailing_zeros()) {
            let other = plane_shuffle_xor(result, step);
            if maximum {
                result = max(result, other);
            } else {
                result += other;
            }
            comptime!(step /= 2);
        }
    } else {
        let mut shared = Shared::<[f32]>::new_slice(comptime!(lanes.units as usize));
        let unit = UNIT_POS as usize;
        shared[unit] = value;
        sync_cube();
        let mut half = comptime!(lanes.count as usize / 2).runtime();
        while half > 0 {
            if (UNIT_POS_X as usize) < half {
                let other = shared[unit + half];
                if maximum {
                    shared[unit] = max(shared[unit], other);
                } else {
                    shared[unit] += other;
                }
            }
            sync_cube();
            half /= 2;
        }
        result = shared[unit - UNIT_POS_X as usize];
        // The next call writes to the same memory, so all units must have read it.
        sync_cube();
    }
    result
}

/// Returns the sum over the units of a cube, added in the same order on every device.
#[cube]
pub(super) fn cube_sum(value: f32) -> f32 {
    over_lanes(value, false, comptime!(Lanes::CUBE))
}

/// Returns the maximum over the units of a cube.
#[cube]
pub(super) fn cube_max(value: f32) -> f32 {
    over_lanes(value, true, comptime!(Lanes::CUBE))
}

/// Returns the sum of the elements of a vector.
#[cube]
pub(super) fn vector_sum<N: Size>(x: Vector<f32, N>) -> f32 {
    let mut sum = 0.0f32;
    #[unroll]
    for i in 0..N::value() {
        sum += x.extract(i);
    }
    sum
}
