//! Draws the initial values of parameters, as a pure function of the seed and the parameter's published name.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

/// Number of values drawn from one ChaCha stream; each chunk has its own stream.
const CHUNK: usize = 1 << 16;

/// Returns `len` draws from a normal distribution with standard deviation `std`.
#[must_use]
pub fn normal(name: &str, len: usize, std: f64, seed: u64) -> Vec<f32> {
    normal_within(name, len, std, f64::INFINITY, seed)
}

/// Returns draws as [`normal`] does, but repeats a draw beyond `limit` standard deviations.
#[must_use]
pub fn normal_within(name: &str, len: usize, std: f64, limit: f64, seed: u64) -> Vec<f32> {
    draw(name, len, seed, |rng, values| {
        let mut filled = 0;
        while filled < values.len() {
            // The Box-Muller transform. `u` is in (0, 1], so that its logarithm is finite.
            let u = (f64::from(rng.next_u32()) + 1.0) / 4_294_967_296.0;
            let v = f64::from(rng.next_u32()) / 4_294_967_296.0;
            let radius = (-2.0 * u.ln()).sqrt();
            let (sin, cos) = (std::f64::consts::TAU * v).sin_cos();
            for z in [radius * cos, radius * sin] {
                if z.abs() <= limit && filled < values.len() {
                    values[filled] = (z * std) as f32;
                    filled += 1;
                }
            }
        }
    })
}

/// Returns `len` draws from `[-bound, bound)`.
#[must_use]
pub fn uniform(name: &str, len: usize, bound: f64, seed: u64) -> Vec<f32> {
    draw(name, len, seed, |rng, values| {
        for value in values {
            let unit = f64::from(rng.next_u32()) / 4_294_967_296.0;
            *value = ((2.0 * unit - 1.0) * bound) as f32;
        }
    })
}

fn draw(name: &str, len: usize, seed: u64, fill: impl Fn(&mut ChaCha8Rng, &mut [f32]) + Sync) -> Vec<f32> {
    let mut key = [0u8; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&fnv1a(name).to_le_bytes());
    // Keeps these streams apart from any other use of the same seed.
    key[16..].copy_from_slice(b"bert-model::init");
    let mut values = vec![0f32; len];
    values.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, values)| {
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(chunk as u64);
        fill(&mut rng, values);
    });
    values
}

/// Returns the 64-bit FNV-1a hash, which only has to tell names apart.
fn fnv1a(name: &str) -> u64 {
    name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}
