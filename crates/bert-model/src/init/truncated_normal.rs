//! The reference's initialization: truncated normal for tables and matrices, zeros for biases, 1 and 0 for LayerNorm.
//!
//! Each parameter is a pure function of (seed, its published name). Ports `create_initializer` of the reference's
//! `modeling.py` (`truncated_normal_initializer(0.02)`); the draws themselves are not TensorFlow's.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

/// Values drawn from one ChaCha stream; the next chunk has the next stream.
const CHUNK: usize = 1 << 16;

/// The values of the parameter with this canonical name, in the layout of published checkpoints.
pub(super) fn values(name: &str, shape: &[usize], std: f64, seed: u64) -> Vec<f32> {
    let len = shape.iter().product();
    if shape.len() >= 2 {
        truncated_normal(name, len, std, seed)
    } else if name.ends_with("LayerNorm.weight") {
        vec![1.0; len]
    } else {
        vec![0.0; len]
    }
}

/// `len` draws of standard deviation `std` before they are cut at two of them.
pub(super) fn truncated_normal(name: &str, len: usize, std: f64, seed: u64) -> Vec<f32> {
    let mut key = [0u8; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&fnv1a(name).to_le_bytes());
    // Keeps these streams apart from any other use of the same seed.
    key[16..].copy_from_slice(b"bert-model::init");
    let mut values = vec![0f32; len];
    values.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, values)| {
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(chunk as u64);
        fill_truncated_normal(&mut rng, values, std);
    });
    values
}

/// Box-Muller; a draw beyond two standard deviations is drawn again.
fn fill_truncated_normal(rng: &mut ChaCha8Rng, values: &mut [f32], std: f64) {
    let mut filled = 0;
    while filled < values.len() {
        // (0, 1], so that the logarithm is finite.
        let u = (f64::from(rng.next_u32()) + 1.0) / 4_294_967_296.0;
        let v = f64::from(rng.next_u32()) / 4_294_967_296.0;
        let radius = (-2.0 * u.ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * v).sin_cos();
        for z in [radius * cos, radius * sin] {
            if z.abs() <= 2.0 && filled < values.len() {
                values[filled] = (z * std) as f32;
                filled += 1;
            }
        }
    }
}

/// FNV-1a, 64 bits: only to tell names apart.
fn fnv1a(name: &str) -> u64 {
    name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_normal_has_the_reference_moments_within_five_sigma() {
        let n = 1_000_000;
        let values = values("a.weight", &[1000, 1000], 0.02, 3);
        assert!(values.iter().all(|v| v.abs() <= 0.04));
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n as f64;
        let variance = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / n as f64;
        // Variance of a standard normal cut at +-2: 1 - 4 phi(2) / (2 Phi(2) - 1) = 0.7737413.
        let expected = 0.02 * 0.773_741_3_f64.sqrt();
        assert!(mean.abs() < 5.0 * expected / (n as f64).sqrt(), "{mean}");
        let relative = (variance.sqrt() / expected - 1.0).abs();
        assert!(relative < 5.0 / (2.0 * n as f64).sqrt(), "{}", variance.sqrt());
        assert!((expected - 0.0176).abs() < 1e-4);
    }

    #[test]
    fn values_depend_on_seed_and_name_only() {
        let draw = |name, seed| values(name, &[300, 300], 0.02, seed);
        let a = draw("bert.pooler.dense.weight", 1);
        assert_eq!(a, draw("bert.pooler.dense.weight", 1));
        assert_ne!(a, draw("bert.pooler.dense.weight", 2));
        assert_ne!(a, draw("bert.other.dense.weight", 1));
        // The second chunk is not the first again.
        assert_ne!(a[..100], a[CHUNK..CHUNK + 100]);
    }

    #[test]
    fn layer_norm_is_one_and_biases_are_zero() {
        let draw = |name| values(name, &[3], 0.02, 1);
        assert_eq!(draw("x.LayerNorm.weight"), [1.0; 3]);
        assert_eq!(draw("x.LayerNorm.bias"), [0.0; 3]);
        assert_eq!(draw("x.dense.bias"), [0.0; 3]);
    }
}
