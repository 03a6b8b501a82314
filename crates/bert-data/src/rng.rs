//! Every random number of the workspace comes from here.
//!
//! In goes a seed and an address, out come draws. Two generators share one trait: [`Stream`] (ChaCha, addressed by
//! seed, [`Domain`] and indices, so that nothing depends on threads or order) and [`PythonRandom`] (CPython's
//! Mersenne Twister, so that the same algorithms reproduce the reference's instances draw by draw).
//!
//! Not for secrets, and not for tensors: the backend's own generator makes dropout masks. Ports CPython 3's
//! `random.Random`: `random()`, `_randbelow`, `randint`, `shuffle`.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The version of everything that is drawn for a data set, and of what a half-finished build keeps of it.
///
/// Raise it with every change by which the same options and text give other rows (another order of draws, another rule
/// for pairs or masks), or by which a work folder holds something else. A build goes on only under the version that it
/// was begun with. 2: sentences longer than an instance are used in pieces. 3: rows are made bucket by bucket.
pub const STREAMS_VERSION: u32 = 3;

/// A source of random draws. The provided methods draw in CPython's order.
pub trait Random {
    /// A number in `[0, 1)` with 53 random bits.
    fn unit(&mut self) -> f64;

    /// A number in `0..n`, every one equally likely.
    ///
    /// # Panics
    /// When `n` is 0.
    fn below(&mut self, n: usize) -> usize;

    /// True with probability `probability`; always one draw of [`Random::unit`].
    fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number in `low..=high` (`randint` of the reference).
    fn range_inclusive(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Puts `items` in random order: Fisher and Yates from the end, as CPython does.
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// What a [`Stream`] is for. The number is part of the stream's address: never change or reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum Domain {
    /// Pairs of one document in one pass: `[pass, document]`.
    Pairs = 1,
    /// Masks of one document's instances in one pass: `[pass, document]`, and a [`Stream::branch`] for each instance.
    Masks = 2,
    /// Which documents are in which bucket of a pass: `[pass]`. (3, 4 and 6 are spent.)
    Buckets = 7,
    /// The order of the rows of one bucket: `[pass, bucket]`.
    ShardOrder = 5,
    /// The order in which a loader visits shards: `[epoch]`.
    LoaderShards = 16,
    /// The order of rows in a loader: `[epoch, ..]`.
    LoaderRows = 17,
    /// Masks made in the loader: `[epoch, instance]`.
    LoaderMasks = 18,
    /// The order of documents in a loader that makes the instances: `[epoch]`.
    LoaderDocuments = 19,
    /// Initial weights: `[parameter]`.
    Initialization = 32,
    /// Dropout seeds: `[step, micro_batch, rank]`.
    Dropout = 33,
    /// The start and the draws of the fit to a text's counts: `[what, ..]`.
    LogBilinear = 34,
    /// The order of examples in fine-tuning: `[epoch]`.
    FinetuneOrder = 48,
    /// Draws made while evaluating.
    Evaluation = 49,
    /// Which training examples a fine-tuning uses: `[]`.
    FinetuneSubset = 56,
    /// Which training examples are held out to choose by: `[]`.
    FinetuneHoldout = 57,
    /// Which of several tasks a step of fine-tuning has: `[step]`.
    TaskOfStep = 59,
    /// Resamples of examples and runs: `[]`, and a [`Stream::branch`] for each.
    Bootstrap = 58,
    /// Draws made by tests only.
    Test = 255,
}

/// A ChaCha stream (8 rounds) addressed by seed, domain and indices; the same address gives the same draws.
///
/// The key is BLAKE3 of the address in derive-key mode, so that streams of neighbouring addresses have nothing
/// in common. Streams are made where they are needed and never shared.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream at `(seed, domain, index)`.
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

    /// Stream `number` of this address's 2^64: as independent of the others as streams of other addresses, and much
    /// cheaper than a new address, because only ChaCha's nonce differs. Branch before drawing; what is drawn from the
    /// address itself is branch 0.
    #[must_use]
    pub fn branch(&self, number: u64) -> Self {
        let mut branch = self.0.clone();
        branch.set_word_pos(0);
        branch.set_stream(number);
        Self(branch)
    }

    /// The next 64 bits, for seeding another generator.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

impl Stream {
    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}

impl Random for Stream {
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Lemire's multiplication method with rejection: one 32-bit word for `n` up to 2^32, one 64-bit word above.
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

const STATE: usize = 624;
const SHIFT: usize = 397;

/// CPython's `random.Random`: MT19937 seeded as `random.seed(int)` does.
#[derive(Clone)]
pub struct PythonRandom {
    state: [u32; STATE],
    next: usize,
}

impl std::fmt::Debug for PythonRandom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PythonRandom").field("next", &self.next).finish_non_exhaustive()
    }
}

impl PythonRandom {
    /// `random.Random(seed)`: `init_by_array` with the seed's little-endian 32-bit words.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let words = [seed as u32, (seed >> 32) as u32];
        let key = if words[1] == 0 { &words[..1] } else { &words[..] };
        let mut random = Self { state: [0; STATE], next: STATE };
        random.seed_by_array(key);
        random
    }

    fn seed_by_array(&mut self, key: &[u32]) {
        let state = &mut self.state;
        state[0] = 19_650_218;
        for i in 1..STATE {
            let previous = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(previous ^ (previous >> 30)).wrapping_add(i as u32);
        }
        let mix = |state: &[u32; STATE], i: usize, factor: u32| {
            let previous = state[i - 1];
            state[i] ^ (previous ^ (previous >> 30)).wrapping_mul(factor)
        };
        let (mut i, mut j) = (1, 0);
        for _ in 0..STATE.max(key.len()) {
            state[i] = mix(state, i, 1_664_525).wrapping_add(key[j]).wrapping_add(j as u32);
            i += 1;
            j = (j + 1) % key.len();
            if i == STATE {
                state[0] = state[STATE - 1];
                i = 1;
            }
        }
        for _ in 0..STATE - 1 {
            state[i] = mix(state, i, 1_566_083_941).wrapping_sub(i as u32);
            i += 1;
            if i == STATE {
                state[0] = state[STATE - 1];
                i = 1;
            }
        }
        state[0] = 0x8000_0000;
    }

    fn twist(&mut self) {
        let state = &mut self.state;
        for i in 0..STATE {
            let y = (state[i] & 0x8000_0000) | (state[(i + 1) % STATE] & 0x7fff_ffff);
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            state[i] = state[(i + SHIFT) % STATE] ^ (y >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// The next 32 bits (`getrandbits(32)`).
    pub fn next_u32(&mut self) -> u32 {
        if self.next == STATE {
            self.twist();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// `getrandbits(bits)` for 1 to 64 bits: the first word is the low one.
    fn bits(&mut self, bits: u32) -> u64 {
        if bits <= 32 {
            return u64::from(self.next_u32() >> (32 - bits));
        }
        let low = u64::from(self.next_u32());
        low | (u64::from(self.next_u32() >> (64 - bits)) << 32)
    }
}

impl Random for PythonRandom {
    fn unit(&mut self) -> f64 {
        let high = f64::from(self.next_u32() >> 5);
        let low = f64::from(self.next_u32() >> 6);
        (high * 67_108_864.0 + low) * (1.0 / 9_007_199_254_740_992.0)
    }

    fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "below(0)");
        let bits = usize::BITS - n.leading_zeros();
        loop {
            let draw = self.bits(bits) as usize;
            if draw < n {
                return draw;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Birth certificate: CPython 3.11, `r = random.Random(12345)`, then in this order from the one generator
    // `[r.random() for _ in range(5)]`, `[r.getrandbits(32) for _ in range(5)]`, ten `r.randint(0, 619)`, ten
    // `r.randint(2, 125)`, `r.shuffle(list(range(20)))`, `r.random()`; and `random.Random(seed).random()` for the
    // seeds 0 and 2**40. Exact equality.
    #[test]
    fn python_random_draws_what_cpython_draws() {
        let mut random = PythonRandom::new(12345);
        let units = [
            0.41661987254534116,
            0.010169169457068361,
            0.8252065092537432,
            0.2986398551995928,
            0.3684116894884757,
        ];
        assert_eq!(std::array::from_fn(|_| random.unit()), units);
        let words = [831769172, 1160692746, 2430986565, 1873586768, 694443915];
        assert_eq!(std::array::from_fn(|_| random.next_u32()), words);
        let small = [382, 127, 443, 267, 575, 178, 566, 191, 363, 93];
        assert_eq!(std::array::from_fn(|_| random.range_inclusive(0, 619)), small);
        let targets = [69, 96, 54, 76, 66, 23, 20, 28, 94, 11];
        assert_eq!(std::array::from_fn(|_| random.range_inclusive(2, 125)), targets);
        let mut items: [u32; 20] = std::array::from_fn(|i| i as u32);
        random.shuffle(&mut items);
        assert_eq!(items, [3, 15, 12, 7, 1, 4, 17, 2, 9, 13, 19, 11, 8, 16, 5, 14, 0, 18, 10, 6]);
        assert_eq!(random.unit(), 0.10589310441565858);
        assert_eq!(PythonRandom::new(0).unit(), 0.8444218515250481);
        assert_eq!(PythonRandom::new(1 << 40).unit(), 0.1036394562812375);
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
