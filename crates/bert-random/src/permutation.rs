//! A random order of `0..n` that is computed, not stored.
//!
//! Up to 65,536 numbers are shuffled in a table. For a longer order, a Feistel network with random keys computes the
//! number at each position. It permutes `0..m`, where `m` is the smallest power of four that is at least `n`; a result
//! that is not below `n` goes through the network again. So memory does not grow with `n`.

use crate::random::Random;
use crate::stream::Stream;

/// Maximum length of an order that is shuffled in a table.
const TABLE: u64 = 1 << 16;
/// Rounds of the network; four make a pseudo-random permutation of a pseudo-random function (Luby and Rackoff 1988).
const ROUNDS: usize = 6;

/// A random order of `0..n`.
#[derive(Clone, Debug)]
pub struct Permutation(Form);

#[derive(Clone, Debug)]
enum Form {
    Table(Vec<u32>),
    Computed { n: u64, half: u32, keys: [u64; ROUNDS] },
}

impl Permutation {
    /// Creates a random order of `0..n`.
    #[must_use]
    pub fn new(n: u64, random: &mut Stream) -> Self {
        Self::with_table(n, TABLE, random)
    }

    fn with_table(n: u64, table: u64, random: &mut Stream) -> Self {
        if n <= table {
            let mut all: Vec<u32> = (0..n as u32).collect();
            random.shuffle(&mut all);
            return Self(Form::Table(all));
        }
        let half = (u64::BITS - (n - 1).leading_zeros()).div_ceil(2);
        Self(Form::Computed { n, half, keys: std::array::from_fn(|_| random.next_u64()) })
    }

    /// Returns the number at a position.
    ///
    /// # Panics
    /// When the position is not below `n`.
    #[must_use]
    pub fn at(&self, place: u64) -> u64 {
        let (n, half, keys) = match &self.0 {
            Form::Table(table) => return u64::from(table[place as usize]),
            Form::Computed { n, half, keys } => (*n, *half, keys),
        };
        assert!(place < n, "place {place} of {n}");
        let mut number = place;
        loop {
            let mask = (1u64 << half) - 1;
            let (mut left, mut right) = (number >> half, number & mask);
            for key in keys {
                (left, right) = (right, left ^ (mixed(right ^ key) & mask));
            }
            number = left << half | right;
            if number < n {
                return number;
            }
        }
    }
}

/// Mixes 64 bits: the finalizer of SplitMix64 (Steele et al. 2014).
fn mixed(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Domain;

    fn of(n: u64, table: u64, seed: u64) -> Permutation {
        Permutation::with_table(n, table, &mut Stream::new(seed, Domain::Test, &[]))
    }

    #[test]
    fn every_number_stands_at_one_place() {
        for table in [0, TABLE] {
            for n in [1, 2, 3, 10, 1000, 1 << 12, (1 << 12) + 1] {
                let order = of(n, table, 3);
                let mut all: Vec<u64> = (0..n).map(|place| order.at(place)).collect();
                assert_eq!(all, (0..n).map(|place| of(n, table, 3).at(place)).collect::<Vec<_>>());
                all.sort_unstable();
                assert!(all.into_iter().eq(0..n), "{n}");
            }
        }
        assert!((0..1_000).all(|place| of(1 << 40, TABLE, 1).at(place) < 1 << 40));
    }

    /// Each number is equally likely at each position: chi-square over 16 seeds' worth of a grid, 5 sigma of its 225
    /// degrees of freedom.
    #[test]
    fn places_are_uniform() {
        let (n, seeds, cells) = (4_000u64, 40, 16usize);
        let mut counts = vec![0f64; cells * cells];
        for seed in 0..seeds {
            let order = of(n, 0, seed);
            for place in 0..n {
                let cell = |x: u64| (x as usize * cells) / n as usize;
                counts[cell(place) * cells + cell(order.at(place))] += 1.0;
            }
        }
        let expected = (n * seeds) as f64 / (cells * cells) as f64;
        let chi: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
        let degrees = ((cells - 1) * (cells - 1)) as f64;
        assert!((chi - degrees).abs() < 5.0 * (2.0 * degrees).sqrt(), "{chi} of {degrees}");
    }

    /// Neighbours end up far from each other: their mean distance is the one of two random positions, a third of the
    /// length.
    #[test]
    fn neighbours_part() {
        let n = 100_000;
        let order = of(n, 0, 9);
        let apart: f64 = (1..n).map(|place| order.at(place).abs_diff(order.at(place - 1)) as f64).sum();
        let mean = apart / (n - 1) as f64 / n as f64;
        // The standard deviation of one distance is .236 of the length.
        assert!((mean - 1.0 / 3.0).abs() < 5.0 * 0.236 / (n as f64).sqrt() * 1.5, "{mean}");
    }
}
