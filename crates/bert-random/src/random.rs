//! What every source of random draws can do.

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
