//! Dropout on a GPU: multiplies a flat tensor by a mask of [`mod@crate::cpu::dropout_mask`]. The mask is
//! bit-identical to the CPU's.
//!
//! Each unit computes the mask of a few elements where it is used, and computes it again in the backward
//! pass. SplitMix64 is computed with pairs of 32-bit words, because not every runtime has 64-bit integers.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{apply, elementwise, empty_like, into_contiguous, len, vector_size};
use crate::arguments::Kernels;
use crate::cpu::dropout_mask::Dropout;
use crate::fused_op::Fused;

/// Returns a flat x multiplied by its mask; `None` if x is not on a GPU.
pub(crate) fn dropout(x: Tensor<1>, dropout: Dropout) -> Option<Tensor<1>> {
    apply(Kernels::Fused, Masked(dropout), [x])
}

#[derive(Clone, Copy, Debug)]
struct Masked(Dropout);

impl Masked {
    fn apply(self, x: CubeTensor) -> CubeTensor {
        let x = into_contiguous(x);
        let y = empty_like(&x, len(&x));
        let vector = vector_size(len(&x), &x);
        launch!(kernel, &y.client, elementwise(len(&x) / vector), vector; x, y.clone(); mask(Some(self.0)));
        y
    }
}

/// A mask as a kernel's argument.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct Mask {
    key_low: u32,
    key_high: u32,
    /// Elements whose 16 bits are below it are dropped; 0 without dropout.
    threshold: u32,
    /// The factor by which the kept elements are multiplied.
    scale: f32,
    /// Number of elements of the key's first word that come before the mask.
    skip: u32,
}

/// Returns a mask as a kernel's argument.
pub(super) fn mask(dropout: Option<Dropout>) -> MaskLaunch {
    let (key, skip, threshold, scale) = dropout.map_or((0, 0, 0, 1.0), Dropout::parts);
    MaskLaunch::new(key as u32, (key >> 32) as u32, u32::from(threshold), scale, u32::from(skip))
}

impl Fused<1, Cube> for Masked {
    type Saved = ();

    fn forward(&self, [x]: [CubeTensor; 1]) -> (CubeTensor, ()) {
        (self.apply(x), ())
    }

    fn backward(self, (): (), gradient: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        [Some(self.apply(gradient))]
    }
}

#[cube(launch)]
fn kernel<N: Size>(x: &[Vector<f32, N>], y: &mut [Vector<f32, N>], mask: Mask) {
    if ABSOLUTE_POS < y.len() {
        y[ABSOLUTE_POS] = x[ABSOLUTE_POS] * factors::<N>(&mask, ABSOLUTE_POS * N::value());
    }
}

/// Number of elements per 64-bit word.
const PER_WORD: usize = 4;

/// Returns the mask of `N` elements that begin at `first`.
#[cube]
pub(super) fn factors<N: Size>(mask: &Mask, first: usize) -> Vector<f32, N> {
    let mut factors = Vector::<f32, N>::empty();
    let size = N::value();
    if comptime!(size.is_multiple_of(PER_WORD)) {
        let start = first + mask.skip as usize;
        if start.is_multiple_of(PER_WORD) {
            #[unroll]
            for word in 0..comptime!(size / PER_WORD) {
                let (low, high) = random_word(mask, (start / PER_WORD + word) as u32);
                factors.insert(word * PER_WORD, factor(mask, low & 0xFFFFu32));
                factors.insert(word * PER_WORD + 1, factor(mask, low >> 16));
                factors.insert(word * PER_WORD + 2, factor(mask, high & 0xFFFFu32));
                factors.insert(word * PER_WORD + 3, factor(mask, high >> 16));
            }
        } else {
            #[unroll]
            for i in 0..N::value() {
                factors.insert(i, factor_alone(mask, first + i));
            }
        }
    } else {
        #[unroll]
        for i in 0..N::value() {
            factors.insert(i, factor_alone(mask, first + i));
        }
    }
    factors
}

/// Returns the mask of a single element.
#[cube]
fn factor_alone(mask: &Mask, element: usize) -> f32 {
    let index = element as u32 + mask.skip;
    let (low, high) = random_word(mask, index / PER_WORD as u32);
    let mut half = low;
    if index % 4 >= 2 {
        half = high;
    }
    if index % 2 == 1 {
        half >>= 16;
    }
    factor(mask, half & 0xFFFFu32)
}

/// Returns the mask of an element from its 16 random bits.
#[cube]
fn factor(mask: &Mask, bits: u32) -> f32 {
    let mut factor = mask.scale;
    if bits < mask.threshold {
        factor = 0.0f32;
    }
    factor
}

/// Returns word `number` of SplitMix64 for the key of the mask, as its low and its high half. The lowest bits
/// belong to the first element.
#[cube]
fn random_word(mask: &Mask, number: u32) -> (u32, u32) {
    // key + (number + 1) golden, where golden = 0x9E3779B97F4A7C15: the counter, and the addition at the
    // start of `mix`.
    let word = number + 1;
    let low = word * 0x7F4A_7C15u32;
    let high = word.mul_hi(0x7F4A_7C15u32) + word * 0x9E37_79B9u32;
    let (low, high) = add(low, high, mask.key_low, mask.key_high);
    let (low, high) = xor_shift(low, high, 30u32);
    let (low, high) = multiply(low, high, 0x1CE4_E5B9u32, 0xBF58_476Du32);
    let (low, high) = xor_shift(low, high, 27u32);
    let (low, high) = multiply(low, high, 0x1331_11EBu32, 0x94D0_49BBu32);
    xor_shift(low, high, 31u32)
}

/// Returns a 64-bit sum as its low and its high word.
#[cube]
fn add(a_low: u32, a_high: u32, b_low: u32, b_high: u32) -> (u32, u32) {
    let low = a_low + b_low;
    let mut high = a_high + b_high;
    if low < a_low {
        high += 1;
    }
    (low, high)
}

/// Computes `z ^ (z >> by)` for `0 < by < 32`.
#[cube]
fn xor_shift(low: u32, high: u32, by: u32) -> (u32, u32) {
    (low ^ ((low >> by) | (high << (32 - by))), high ^ (high >> by))
}

/// Returns the low 64 bits of a product as a low and a high word.
#[cube]
fn multiply(a_low: u32, a_high: u32, b_low: u32, b_high: u32) -> (u32, u32) {
    (a_low * b_low, a_low.mul_hi(b_low) + a_low * b_high + a_high * b_low)
}
