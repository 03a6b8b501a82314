//! Dropout from a counter: `y_i = x_i m_i`, `m_i = [bits_i >= threshold] / (1 - p)`; `dx_i = dy_i m_i`.
//!
//! A mask is a pure function of its key: sixteen bits of SplitMix64's word `i / 4` (Steele, Lea and Flood, "Fast
//! splittable pseudorandom number generators") determine whether element i is kept. A kernel computes the part of the
//! mask that it needs, in the forward pass and again in the backward pass, and never stores it.

use rayon::prelude::*;

use crate::cpu::math::vectorized;

/// Dropout at one site of the network in one forward pass: the key of its mask, and its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    key: u64,
    /// Number of lanes of the first word that precede the mask: 0 to 3.
    skip: u8,
    threshold: u16,
    scale: f32,
}

// A word's four 16-bit lanes are read in place, lowest first, so the processor must be little-endian.
const _: () = assert!(cfg!(target_endian = "little"));

/// Increment of SplitMix64's counter.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// Number of elements per 64-bit word.
const PER_WORD: usize = 4;
/// Number of elements per task; a multiple of [`PER_WORD`].
const CHUNK: usize = 1 << 14;

impl Dropout {
    /// Creates dropout with `prob` rounded to a multiple of 2^-16; returns `None` if the rounded probability is 0. The
    /// scale uses the rounded probability, so that the expectation is exact.
    pub fn new(key: u64, prob: f64) -> Option<Self> {
        // The threshold stays below 65536: with a probability of 1, the scale would be infinite.
        let threshold = (prob * 65536.0).round().clamp(0.0, 65535.0) as u16;
        let scale = (1.0 / (1.0 - f64::from(threshold) / 65536.0)) as f32;
        (threshold > 0).then_some(Self { key, skip: 0, threshold, scale })
    }

    /// Returns the dropout whose mask begins after the first `elements` elements of this mask.
    #[must_use]
    pub fn after(self, elements: u64) -> Self {
        let elements = elements.wrapping_add(u64::from(self.skip));
        let words = elements / PER_WORD as u64;
        let skip = (elements % PER_WORD as u64) as u8;
        Self { key: self.key.wrapping_add(words.wrapping_mul(GOLDEN)), skip, ..self }
    }

    /// Returns the key, the number of skipped elements, the threshold and the scale.
    #[cfg(feature = "cubecl")]
    pub(crate) fn parts(self) -> (u64, u8, u16, f32) {
        (self.key, self.skip, self.threshold, self.scale)
    }

    /// Returns the mask of elements `0 .. len`: the scale for each kept element, 0 for each dropped one.
    pub fn mask(self, len: usize) -> Vec<f32> {
        let mut mask = vec![1.0; len];
        mask.par_chunks_mut(CHUNK)
            .enumerate()
            .for_each(|(chunk, elements)| self.apply(elements, chunk * CHUNK, &mut Vec::new()));
        mask
    }

    /// Multiplies elements by the mask; the first of them is element `first` of the mask. `words` is scratch
    /// memory.
    pub(crate) fn apply(self, elements: &mut [f32], first: usize, words: &mut Vec<u64>) {
        let first_of_words = first + usize::from(self.skip);
        let count = (first_of_words % PER_WORD + elements.len()).div_ceil(PER_WORD);
        words.resize(count, 0);
        fill_words(self.key, (first_of_words / PER_WORD) as u64, words);
        self.apply_words(elements, first, words);
    }

    /// Repeats [`Self::apply`] for an equal number of elements from the same `first`, with the `words` that the earlier
    /// call wrote.
    pub(crate) fn apply_words(self, elements: &mut [f32], first: usize, words: &[u64]) {
        let skip = (first + usize::from(self.skip)) % PER_WORD;
        let lanes: &[u16] = bytemuck::cast_slice(words);
        scale(elements, &lanes[skip..], self.threshold, self.scale);
    }
}

vectorized! {
    /// Fills `words` with SplitMix64's outputs: the counter, hashed by [`mix`].
    fn fill_words(key: u64, first: u64, words: &mut [u64]) {
        for (i, word) in words.iter_mut().enumerate() {
            let index = first.wrapping_add(i as u64);
            *word = mix(key.wrapping_add(index.wrapping_mul(GOLDEN)));
        }
    }
}

vectorized! {
    fn scale(elements: &mut [f32], lanes: &[u16], threshold: u16, scale: f32) {
        for (element, lane) in elements.iter_mut().zip(lanes) {
            *element *= if *lane >= threshold { scale } else { 0.0 };
        }
    }
}

/// Returns SplitMix64's output for the counter `z`: adds the increment, then applies the finalizer.
#[inline(always)]
pub fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(GOLDEN);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The first outputs of SplitMix64 for the seed 1234567, as published on Rosetta Code ("Pseudo-random
    // numbers/Splitmix64").
    #[test]
    fn mask_words_match_splitmix64() {
        let mut words = [0; 5];
        fill_words(1_234_567, 0, &mut words);
        assert_eq!(
            words,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
        let mask = Dropout::new(1_234_567, 0.5).unwrap().mask(20);
        for (i, factor) in mask.into_iter().enumerate() {
            let lane = (words[i / 4] >> (16 * (i % 4))) as u16;
            assert_eq!(factor, if lane >= 32_768 { 2.0 } else { 0.0 });
        }
    }

    #[test]
    fn mask_parts_equal_the_whole_mask() {
        let dropout = Dropout::new(77, 0.3).unwrap();
        let whole = dropout.mask(40_000);
        for (first, len) in [(0, 1), (1, 1), (3, 17), (127, 129), (16_383, 3), (39_000, 1000)] {
            let mut part = vec![1.0; len];
            dropout.apply(&mut part, first, &mut Vec::new());
            assert_eq!(part, whole[first..first + len]);
            assert_eq!(dropout.after(first as u64).mask(len), whole[first..first + len]);
            let half = first as u64 / 2;
            assert_eq!(dropout.after(half).after(first as u64 - half), dropout.after(first as u64));
        }
    }

    #[test]
    fn dropout_rate_is_within_five_sigma() {
        let n = 1_000_000;
        for prob in [0.1, 0.5] {
            let mask = Dropout::new(3, prob).unwrap().mask(n);
            let dropped = mask.iter().filter(|m| **m == 0.0).count() as f64;
            assert!((dropped - n as f64 * prob).abs() < 5.0 * (n as f64 * prob * (1.0 - prob)).sqrt());
        }
        assert!(Dropout::new(3, 0.0).is_none());
    }
}
