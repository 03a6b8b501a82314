//! The order of the training examples in each epoch.

use bert_random::{Domain, Random, Stream};

/// The order of training examples: every epoch is a permutation keyed by (seed, epoch).
pub(crate) struct SampleOrder {
    seed: u64,
    examples: usize,
    current: Option<(u64, Vec<usize>)>,
}

impl SampleOrder {
    /// Creates the order for a run over `examples` examples.
    pub(crate) fn new(seed: u64, examples: usize) -> Self {
        Self { seed, examples, current: None }
    }

    /// Returns the examples at positions `start..start + size` of the run; a batch may cross into the next epoch.
    pub(crate) fn batch(&mut self, start: u64, size: usize) -> Vec<usize> {
        (start..start + size as u64).map(|index| self.at(index)).collect()
    }

    fn at(&mut self, index: u64) -> usize {
        let epoch = index / self.examples as u64;
        let position = index % self.examples as u64;
        if self.current.as_ref().is_none_or(|(of, _)| *of != epoch) {
            let mut order: Vec<usize> = (0..self.examples).collect();
            Stream::new(self.seed, Domain::FinetuneOrder, &[epoch]).shuffle(&mut order);
            self.current = Some((epoch, order));
        }
        self.current.as_ref().expect("set above").1[position as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_has_every_example_once() {
        let mut order = SampleOrder::new(3, 10);
        let all = order.batch(0, 30);
        for epoch in all.chunks(10) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        }
        assert_ne!(all[..10], all[10..20]);
        let mut again = SampleOrder::new(3, 10);
        assert_eq!(again.batch(8, 5), all[8..13]);
    }
}
