//! Streams of random draws. Each stream has an address, so that no draw depends on threads or on the order of work.

use std::convert::Infallible;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng, TryRng};

/// The purpose of a [`Stream`]. The number is part of the stream's address: never change or reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum Domain {
    /// Pairs of one document in one pass: `[pass, document]`.
    Pairs = 1,
    /// Masks of one document's instances in one pass: `[pass, document]`, and a [`Stream::branch`] for each instance.
    Masks = 2,
    /// Assignment of documents to the buckets of a pass: `[pass]`. (The numbers 3, 4 and 6 were used in the past.)
    Buckets = 7,
    /// The order of the rows of one bucket: `[pass, bucket]`.
    ShardOrder = 5,
    /// Whether a document is held out of the training data: `[hash of its text]`.
    HeldOutDocuments = 8,
    /// The order in which a loader visits shards: `[epoch]`.
    LoaderShards = 16,
    /// The order of rows in a loader: `[epoch, ..]`.
    LoaderRows = 17,
    /// Masks made in the loader: `[epoch, instance]`.
    LoaderMasks = 18,
    /// The order of documents in a loader that makes the instances: `[epoch]`.
    LoaderDocuments = 19,
    /// The first samples of each of several data sets: `[data set]`.
    LoaderMixture = 20,
    /// Dropout seeds: `[step, micro_batch, rank]`.
    Dropout = 33,
    /// The attention that drop-net keeps in a layer of a BERT-fused model: `[layer]`.
    DropNet = 35,
    /// The initial values and the draws of the fit to a text's bigram counts: `[purpose, ..]`.
    LogBilinear = 34,
    /// The order of examples in fine-tuning: `[epoch]`.
    FinetuneOrder = 48,
    /// The subset of the training examples that fine-tuning uses: `[]`.
    FinetuneSubset = 56,
    /// The training examples that are held out for model selection: `[]`.
    FinetuneHoldout = 57,
    /// The task of a step in multi-task fine-tuning: `[step]`.
    TaskOfStep = 59,
    /// Resamples of examples and runs: `[]`, and a [`Stream::branch`] for each.
    Bootstrap = 58,
    /// The words of the micro-batch that checks a device: `[]`.
    DeviceCheck = 60,
    /// Draws made by tests only.
    Test = 255,
}

/// A ChaCha stream (8 rounds) addressed by seed, domain and indices; equal addresses give equal draws.
/// The key is BLAKE3 of the address in derive-key mode, so that streams of neighbouring addresses are independent.
/// Streams are created where they are needed and never shared.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// Returns the stream at `(seed, domain, index)`.
    #[must_use]
    pub fn new(seed: u64, domain: Domain, index: &[u64]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("bert random stream v1");
        hasher.update(&seed.to_le_bytes());
        hasher.update(&(domain as u32).to_le_bytes());
        for part in index {
            hasher.update(&part.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()))
    }

    /// Returns stream `number` of the 2^64 streams of this address. These streams are as independent as streams of
    /// different addresses, and much cheaper to create, because only ChaCha's nonce differs. A branch does not depend
    /// on earlier draws from this stream; branch 0 repeats the draws of the address itself.
    #[must_use]
    pub fn branch(&self, number: u64) -> Self {
        let mut branch = self.0.clone();
        branch.set_word_pos(0);
        branch.set_stream(number);
        Self(branch)
    }

    /// Returns the next 64 bits, for seeding another generator.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

/// Makes a stream a source of the crate `rand`, so that any distribution can be drawn from it.
impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill_bytes(bytes);
        Ok(())
    }
}

impl Random for Stream {
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uses Lemire's multiplication method with rejection, with 32-bit words for `n` below 2^32 and 64-bit words for
    /// larger `n`.
    fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "below(0)");
        if let Ok(n) = u32::try_from(n) {
            let threshold = n.wrapping_neg() % n;
            loop {
                let product = u64::from(self.0.next_u32()) * u64::from(n);
                if product as u32 >= threshold {
                    return (product >> 32) as usize;
                }
            }
        }
        let n = n as u64;
        let threshold = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(n);
            if product as u64 >= threshold {
                return (product >> 64) as usize;
            }
        }
    }
}

/// A source of random draws. The provided methods draw in CPython's order.
pub trait Random {
    /// Returns a number in `[0, 1)` with 53 random bits.
    fn unit(&mut self) -> f64;

    /// Returns a number in `0..n`, each with equal probability.
    ///
    /// # Panics
    /// Panics if `n` is 0.
    fn below(&mut self, n: usize) -> usize;

    /// Returns true with probability `probability`; always draws [`Random::unit`] once.
    fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns a number in `low..=high` (`randint` of the reference).
    fn range_inclusive(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Shuffles `items`: Fisher-Yates from the end, as CPython does.
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_distributions_can_be_drawn() {
        use rand::RngExt as _;
        let draw = |index| Stream::new(1, Domain::Test, &[index]).random_range(0.0..10.0_f64);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn streams_depend_on_every_part_of_the_address() {
        let draw = |seed, domain, index: &[u64]| Stream::new(seed, domain, index).next_u64();
        let base = draw(1, Domain::Pairs, &[2, 3]);
        assert_eq!(base, draw(1, Domain::Pairs, &[2, 3]));
        for other in [
            draw(2, Domain::Pairs, &[2, 3]),
            draw(1, Domain::Masks, &[2, 3]),
            draw(1, Domain::Pairs, &[3, 3]),
            draw(1, Domain::Pairs, &[2, 4]),
            draw(1, Domain::Pairs, &[2]),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn branches_depend_on_their_number_alone() {
        let mut stem = Stream::new(1, Domain::Test, &[5]);
        let draw = |stem: &Stream, number| stem.branch(number).next_u64();
        let first = [0, 1, 2, u64::MAX].map(|number| draw(&stem, number));
        assert_eq!(first[0], stem.next_u64());
        stem.next_u64();
        assert_eq!(first, [0, 1, 2, u64::MAX].map(|number| draw(&stem, number)));
        let mut sorted = first.to_vec();
        sorted.extend([0, 1, 2].map(|number| draw(&Stream::new(1, Domain::Test, &[6]), number)));
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 7);
    }

    #[test]
    fn below_is_uniform_and_in_range() {
        let mut stream = Stream::new(7, Domain::Test, &[]);
        let mut seen = [0u32; 7];
        for _ in 0..70_000 {
            seen[stream.below(7)] += 1;
        }
        // 5 sigma of a binomial with n = 70,000 and p = 1/7.
        let bound = 5.0 * (70_000.0_f64 * (1.0 / 7.0) * (6.0 / 7.0)).sqrt();
        assert!(seen.iter().all(|&count| (f64::from(count) - 10_000.0).abs() < bound), "{seen:?}");
        let large = (1usize << 40) + 3;
        assert!((0..1000).all(|_| stream.below(large) < large));
    }
}
