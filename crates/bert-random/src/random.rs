//! The trait of all sources of random draws.

/// A source of random draws. The provided methods draw in CPython's order.
pub trait Random {
    /// Returns a number in `[0, 1)` with 53 random bits.
    fn unit(&mut self) -> f64;

    /// Returns a number in `0..n`, each with equal probability.
    ///
    /// # Panics
    /// When `n` is 0.
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
