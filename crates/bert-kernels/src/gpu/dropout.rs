//! Dropout on a GPU: multiplies a flat tensor by a mask of [`mod@crate::cpu::dropout_mask`], the same as on the CPU bit
//! for bit.
//!
//! Each unit computes the factor of one element where it is used, and again in the backward pass. SplitMix64 is
//! computed in pairs of 32-bit words, because not every runtime has 64-bit integers.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{apply, elementwise, empty_like, into_contiguous, len};
use crate::arguments::Kernels;
use crate::cpu::dropout_mask::Dropout;
use crate::fused_op::Fused;

/// Multiplies a flat x by its mask, if x is on a GPU; else returns `None`.
pub(crate) fn dropout(x: Tensor<1>, dropout: Dropout) -> Option<Tensor<1>> {
    apply(Kernels::Fused, Masked(dropout), [x])
}

#[derive(Clone, Copy, Debug)]
struct Masked(Dropout);

impl Masked {
    fn apply(self, x: CubeTensor) -> CubeTensor {
        let x = into_contiguous(x);
        let y = empty_like(&x, len(&x));
        let (count, dim) = elementwise(len(&x));
        let [key_low, key_high, threshold, skip] = arguments(Some(self.0));
        kernel::launch(
            &y.client,
            count,
            dim,
            x.into_buffer_arg(),
            y.clone().into_buffer_arg(),
            key_low,
            key_high,
            threshold,
            self.0.parts().3,
            skip,
        );
        y
    }
}

/// Returns a kernel's arguments: the key's two words, low first, the threshold (0 without dropout), and the number of
/// elements of the key's first word that come before the mask.
pub(crate) fn arguments(dropout: Option<Dropout>) -> [u32; 4] {
    let (key, skip, threshold, _) = dropout.map_or((0, 0, 0, 1.0), Dropout::parts);
    [key as u32, (key >> 32) as u32, u32::from(threshold), u32::from(skip)]
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
fn kernel(x: &[f32], y: &mut [f32], key_low: u32, key_high: u32, threshold: u32, scale: f32, skip: u32) {
    if ABSOLUTE_POS < y.len() {
        y[ABSOLUTE_POS] =
            x[ABSOLUTE_POS] * factor(key_low, key_high, threshold, scale, ABSOLUTE_POS + skip as usize);
    }
}

/// Returns the factor of an element.
#[cube]
pub(crate) fn factor(key_low: u32, key_high: u32, threshold: u32, scale: f32, index: usize) -> f32 {
    let mut factor = scale;
    if lane(key_low, key_high, index as u32) < threshold {
        factor = 0.0f32;
    }
    factor
}

/// Returns the sixteen bits that decide about an element: a quarter of SplitMix64's word `index / 4` for the key. The
/// first element of a word has the lowest bits.
#[cube]
fn lane(key_low: u32, key_high: u32, index: u32) -> u32 {
    // key + (word + 1) golden, where golden = 0x9E3779B97F4A7C15: the counter, followed by the first step of `mix`.
    let word = index / 4 + 1;
    let low = word * 0x7F4A_7C15u32;
    let high = word.mul_hi(0x7F4A_7C15u32) + word * 0x9E37_79B9u32;
    let (low, high) = add(low, high, key_low, key_high);
    let (low, high) = xor_shift(low, high, 30u32);
    let (low, high) = multiply(low, high, 0x1CE4_E5B9u32, 0xBF58_476Du32);
    let (low, high) = xor_shift(low, high, 27u32);
    let (low, high) = multiply(low, high, 0x1331_11EBu32, 0x94D0_49BBu32);
    let (low, high) = xor_shift(low, high, 31u32);
    let mut half = low;
    if index % 4 >= 2 {
        half = high;
    }
    if index % 2 == 1 {
        half >>= 16;
    }
    half & 0xFFFFu32
}

/// Returns a 64-bit sum, low word first.
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

/// Returns a 64-bit product.
#[cube]
fn multiply(a_low: u32, a_high: u32, b_low: u32, b_high: u32) -> (u32, u32) {
    (a_low * b_low, a_low.mul_hi(b_low) + a_low * b_high + a_high * b_low)
}
