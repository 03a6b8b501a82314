//! Detects the instructions that multiply bf16 numbers on this processor. A value of [`Unit`] proves that the
//! instructions exist.

use super::pack::{self, Layout};
use crate::matmul::bf16::amx;
use crate::matmul::matrix_view::Side;

/// The kind of a matrix unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `vdpbf16ps` on vector registers.
    Registers,
    /// `tdpbf16ps` on tile registers.
    Tiles,
}

/// A matrix unit of this processor. Only [`Unit::new`] creates a value, so a value proves that the instructions exist.
/// All units have AVX-512 BF16, which packing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit(Kind);

impl Unit {
    /// Returns the unit of this kind if the processor has it.
    pub(crate) fn new(kind: Kind) -> Option<Self> {
        let there = match kind {
            Kind::Registers => has_registers(),
            Kind::Tiles => has_registers() && amx::supported(),
        };
        there.then_some(Self(kind))
    }

    /// Returns the fastest available unit. Tiles multiply sixteen times as many numbers at once as registers do.
    pub(crate) fn best() -> Option<Self> {
        Self::new(Kind::Tiles).or_else(|| Self::new(Kind::Registers))
    }

    pub(crate) fn kind(self) -> Kind {
        self.0
    }

    /// Returns the maximum number of elements along k that one pass over c multiplies. With this length, on
    /// tiles, a panel of b takes 16 KiB of the L1 cache, and the rows of a take as much; tiles read both
    /// equally often. Registers use each number of b more often, so b may come from the L2 cache, and a long
    /// block makes them read and write c less often. The length does not change any bit of the result.
    pub(crate) fn depth(self) -> usize {
        match self.0 {
            Kind::Registers => 4096,
            Kind::Tiles => 256,
        }
    }

    /// Returns the length of the k-blocks of a product over `k`. All blocks have the same length, at most
    /// [`Self::depth`] before rounding up.
    pub(crate) fn block_depth(self, k: usize) -> usize {
        let blocks = k.div_ceil(self.depth()).max(1);
        k.div_ceil(blocks).max(1).next_multiple_of(2 * pack::PAIRS)
    }

    pub(crate) fn layout(self, side: Side) -> Layout {
        match (side, self.0) {
            (Side::Left, Kind::Registers) => Layout::Narrow,
            (Side::Left, Kind::Tiles) => Layout::Tiles,
            (Side::Right, _) => Layout::Wide,
        }
    }
}

/// Returns whether the processor has AVX-512 BF16, which packing needs too.
fn has_registers() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512bf16")
}
