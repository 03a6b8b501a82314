//! [`Mixture`]: assigns the samples of a run to several data sets by weight.
//!
//! With share `s`, the first data set has `floor(n s + o)` of the first `n` samples, where the offset `o` in
//! `[0, 1)` is drawn from the seed. The share of the second data set in the remaining samples equals the
//! share of its weight in the remaining weights, and so on. Therefore, any `n` consecutive samples have the
//! shares of the mixture to within one sample per data set, and the number of a sample alone determines its
//! data set and its number there. If each worker drew its own samples, the mixture would depend on the number
//! of workers.

use bert_random::{Domain, Stream};

/// The number 1 in fixed point.
const ONE: u128 = 1 << 32;

/// The place of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Index of the data set.
    pub(super) set: usize,
    /// Number of the sample in the order of that data set.
    pub(super) sample: u64,
}

/// The assignment of samples to data sets.
#[derive(Clone, Debug)]
pub(super) struct Mixture {
    /// For each data set but the last: its share of the samples that no earlier data set takes, and its offset, both in
    /// units of 1 / [`ONE`].
    shares: Vec<(u64, u64)>,
}

impl Mixture {
    /// Creates the mixture for positive weights, whose sum may be any number.
    pub(super) fn new(weights: &[f64], seed: u64) -> Self {
        let last = weights.len().saturating_sub(1);
        let share = |set: usize| {
            let share = weights[set] / weights[set..].iter().sum::<f64>();
            let mut random = Stream::new(seed, Domain::LoaderMixture, &[set as u64]);
            // The share is below one, so that a sample adds at most one to a count.
            (((share * ONE as f64) as u64).min(ONE as u64 - 1), random.next_u64() >> 32)
        };
        Self { shares: (0..last).map(share).collect() }
    }

    /// Returns the place of a sample of the run.
    pub(super) fn place(&self, sample: u64) -> Place {
        let mut left = sample;
        for (set, (share, offset)) in self.shares.iter().enumerate() {
            let count = |n: u64| ((u128::from(n) * u128::from(*share) + u128::from(*offset)) / ONE) as u64;
            let before = count(left);
            if count(left + 1) > before {
                return Place { set, sample: before };
            }
            left -= before;
        }
        Place { set: self.shares.len(), sample: left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_data_set_is_read_in_order() {
        for weights in [&[1.0][..], &[0.8, 0.2], &[1.0, 2.0, 3.5], &[1e-6, 1.0, 1e-6]] {
            for seed in 0..5 {
                let mixture = Mixture::new(weights, seed);
                let mut next = vec![0; weights.len()];
                for sample in 0..10_000 {
                    let place = mixture.place(sample);
                    assert_eq!(place.sample, next[place.set], "sample {sample} of {weights:?}");
                    next[place.set] += 1;
                }
            }
        }
    }

    #[test]
    fn any_range_of_samples_has_the_shares() {
        let weights = [0.7, 0.2, 0.1];
        for seed in 0..20 {
            let mixture = Mixture::new(&weights, seed);
            for (start, size) in [(0, 10), (3, 100), (1_000_000_007, 1000)] {
                let mut counts = [0usize; 3];
                (start..start + size).for_each(|sample| counts[mixture.place(sample).set] += 1);
                for (count, weight) in counts.iter().zip(weights) {
                    assert!((*count as f64 - weight * size as f64).abs() < 2.0, "{counts:?} of {size}");
                }
            }
        }
    }

    #[test]
    fn seeds_shift_the_mixture() {
        let first = |seed| {
            (0..10).map(|sample| Mixture::new(&[0.5, 0.5], seed).place(sample).set).collect::<Vec<_>>()
        };
        let patterns: std::collections::BTreeSet<Vec<usize>> = (0..10).map(first).collect();
        assert_eq!(patterns.len(), 2);
    }
}
