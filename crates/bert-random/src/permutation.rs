//! A random order of `0..n`, which is computed and not stored if it is long.
//!
//! Up to 65,536 numbers are shuffled in a table. For a longer order, a Feistel network with random keys computes the
//! number at each position. It permutes `0..m`, where `m` is the smallest power of four that is at least `n`; a result
//! that is not below `n` goes through the network again. So memory does not grow with `n`.

use crate::stream::{Random, Stream};

/// Maximum length of an order that is shuffled in a table.
const MAX_TABLE: u64 = 1 << 16;
/// Number of rounds of the network. Four rounds already turn a pseudo-random function into a pseudo-random permutation
/// (Luby and Rackoff 1988).
const ROUNDS: usize = 6;

/// A random order of `0..n`.
#[derive(Clone, Debug)]
pub struct Permutation(Representation);

#[derive(Clone, Debug)]
enum Representation {
    Table(Vec<u32>),
    Computed { n: u64, half: u32, keys: [u64; ROUNDS] },
}

impl Permutation {
    /// Creates a random order of `0..n`.
    #[must_use]
    pub fn new(n: u64, random: &mut Stream) -> Self {
        Self::with_table(n, MAX_TABLE, random)
    }

    fn with_table(n: u64, max_table: u64, random: &mut Stream) -> Self {
        if n <= max_table {
            let mut all: Vec<u32> = (0..n as u32).collect();
            random.shuffle(&mut all);
            return Self(Representation::Table(all));
        }
        let half = (u64::BITS - (n - 1).leading_zeros()).div_ceil(2);
        Self(Representation::Computed { n, half, keys: std::array::from_fn(|_| random.next_u64()) })
    }

    /// Returns the number at a position.
    ///
    /// # Panics
    /// Panics if the position is not below `n`.
    #[must_use]
    pub fn get(&self, position: u64) -> u64 {
        let (n, half, keys) = match &self.0 {
            Representation::Table(table) => return u64::from(table[position as usize]),
            Representation::Computed { n, half, keys } => (*n, *half, keys),
        };
        assert!(position < n, "position {position} is not below {n}");
        let mut number = position;
        loop {
            let mask = (1u64 << half) - 1;
            let mut left = number >> half;
            let mut right = number & mask;
            for key in keys {
                (left, right) = (right, left ^ (mix64(right ^ key) & mask));
            }
            number = left << half | right;
            if number < n {
                return number;
            }
        }
    }
}

/// Mixes 64 bits: the finalizer of SplitMix64 (Steele et al. 2014).
fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Domain;

    fn permutation(n: u64, max_table: u64, seed: u64) -> Permutation {
        Permutation::with_table(n, max_table, &mut Stream::new(seed, Domain::Test, &[]))
    }

    #[test]
    fn every_number_has_one_position() {
        for max_table in [0, MAX_TABLE] {
            for n in [1, 2, 3, 10, 1000, 1 << 12, (1 << 12) + 1] {
                let order = permutation(n, max_table, 3);
                let mut all: Vec<u64> = (0..n).map(|position| order.get(position)).collect();
                assert_eq!(
                    all,
                    (0..n).map(|position| permutation(n, max_table, 3).get(position)).collect::<Vec<_>>()
                );
                all.sort_unstable();
                assert!(all.into_iter().eq(0..n), "{n}");
            }
        }
        assert!((0..1_000).all(|position| permutation(1 << 40, MAX_TABLE, 1).get(position) < 1 << 40));
    }

    /// Each number is equally likely at each position: chi-square on a grid of 16 by 16 cells, over 40 seeds, is within
    /// 5 sigma of its 225 degrees of freedom.
    #[test]
    fn positions_are_uniform() {
        let n = 4_000u64;
        let seeds = 40;
        let cells = 16usize;
        let mut counts = vec![0f64; cells * cells];
        for seed in 0..seeds {
            let order = permutation(n, 0, seed);
            for position in 0..n {
                let cell = |x: u64| (x as usize * cells) / n as usize;
                counts[cell(position) * cells + cell(order.get(position))] += 1.0;
            }
        }
        let expected = (n * seeds) as f64 / (cells * cells) as f64;
        let chi: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
        let degrees = ((cells - 1) * (cells - 1)) as f64;
        assert!((chi - degrees).abs() < 5.0 * (2.0 * degrees).sqrt(), "{chi} of {degrees}");
    }

    /// Neighbours end up far from each other: their mean distance equals the mean distance of two random positions, a
    /// third of the length.
    #[test]
    fn neighbours_end_up_far_apart() {
        let n = 100_000;
        let order = permutation(n, 0, 9);
        let apart: f64 =
            (1..n).map(|position| order.get(position).abs_diff(order.get(position - 1)) as f64).sum();
        let mean = apart / (n - 1) as f64 / n as f64;
        // The standard deviation of one distance is .236 of the length.
        assert!((mean - 1.0 / 3.0).abs() < 5.0 * 0.236 / (n as f64).sqrt() * 1.5, "{mean}");
    }
}
