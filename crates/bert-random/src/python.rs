//! CPython 3's `random.Random`. With it the reference's algorithms give the reference's instances, draw by draw.
//!
//! Ports `random()`, `_randbelow`, `randint` and `shuffle`.

use crate::stream::Random;

const STATE: usize = 624;
const SHIFT: usize = 397;

/// CPython's `random.Random`: MT19937, seeded like `random.seed(int)`.
#[derive(Clone, Debug)]
pub struct PythonRandom {
    state: [u32; STATE],
    next: usize,
}

impl PythonRandom {
    /// Creates `random.Random(seed)`: `init_by_array` with the seed's little-endian 32-bit words.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let words = [seed as u32, (seed >> 32) as u32];
        let key = if words[1] == 0 { &words[..1] } else { &words[..] };
        let mut state = [0; STATE];
        state[0] = 19_650_218;
        for i in 1..STATE {
            let previous: u32 = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(previous ^ (previous >> 30)).wrapping_add(i as u32);
        }
        let mut i = 1;
        for step in 0..2 * STATE - 1 {
            let previous = state[i - 1] ^ (state[i - 1] >> 30);
            state[i] = if step < STATE {
                let j = step % key.len();
                (state[i] ^ previous.wrapping_mul(1_664_525)).wrapping_add(key[j]).wrapping_add(j as u32)
            } else {
                (state[i] ^ previous.wrapping_mul(1_566_083_941)).wrapping_sub(i as u32)
            };
            i += 1;
            if i == STATE {
                state[0] = state[STATE - 1];
                i = 1;
            }
        }
        state[0] = 0x8000_0000;
        Self { state, next: STATE }
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

    /// Returns the next 32 bits (`getrandbits(32)`).
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

    /// Returns `getrandbits(bits)` for 1 to 64 bits: the first word is the low one.
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

    // Expected values from CPython 3.11: `r = random.Random(12345)`, then in this order from this generator
    // `[r.random() for _ in range(5)]`, `[r.getrandbits(32) for _ in range(5)]`, ten `r.randint(0, 619)`, ten
    // `r.randint(2, 125)`, `r.shuffle(list(range(20)))`, `r.random()`; and `random.Random(seed).random()` for the seeds
    // 0 and 2**40. They must be exactly equal.
    #[test]
    fn draws_equal_cpython() {
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
}
