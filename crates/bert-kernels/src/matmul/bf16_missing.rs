//! Replaces `bf16` on targets other than x86-64: [`supported`] and [`on_tiles`] return false, and no other
//! function may be called.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::ops::Range;

use crate::matmul::matrix_view::{Gemm, MatmulContext, Matrix, MatrixMut, Side, Threads};

const MISSING: &str = "bf16 products need an x86-64 processor with AVX-512 BF16";

/// A packed operand; there are none on this target.
pub(crate) struct Packed(Infallible);

impl Packed {
    pub(crate) fn new(_: Side, _: usize, _: usize, _: usize) -> Self {
        unreachable!("{MISSING}")
    }

    pub(crate) fn whole(_: Threads, _: Side, _: Matrix, _: usize, _: usize) -> Self {
        unreachable!("{MISSING}")
    }

    pub(crate) fn k_blocks_mut(&mut self) -> rayon::iter::Empty<PackedBlock<'_>> {
        match self.0 {}
    }
}

/// One k-block of a [`Packed`] operand.
pub(crate) struct PackedBlock<'a>(Infallible, PhantomData<&'a mut [f32]>);

impl PackedBlock<'_> {
    pub(crate) fn fill(&mut self, _: Matrix, _: Range<usize>, _: usize) {
        match self.0 {}
    }
}

/// One operand of a product.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'a> {
    /// A matrix.
    Plain(Matrix<'a>),
    /// A packed operand.
    #[expect(dead_code, reason = "nothing is packed on this target")]
    Packed(&'a Packed),
}

/// Returns false.
pub(crate) fn supported() -> bool {
    false
}

/// Returns false.
pub(crate) fn on_tiles() -> bool {
    false
}

pub(crate) fn multiply(_: MatmulContext, _: Gemm, _: MatrixMut, _: Operand, _: Operand) {
    panic!("{MISSING}")
}
