//! Which checkpoints a run keeps.

/// Retention policy: which checkpoints to keep when a new one is written.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Number of most recent checkpoints to keep; at least one is always kept.
    pub newest: usize,
    /// Distance in steps of the checkpoints that are averaged.
    pub every: u64,
    /// Number of most recent checkpoints at multiples of `every` to keep.
    pub of_every: usize,
}

impl Keep {
    /// Keeps only the `newest` most recent checkpoints.
    pub fn newest(newest: usize) -> Self {
        Self { newest, every: 1, of_every: 0 }
    }

    /// Returns the checkpoint steps to delete; `steps` must be sorted.
    pub(super) fn gone(self, steps: &[u64]) -> Vec<u64> {
        let old = &steps[..steps.len().saturating_sub(self.newest.max(1))];
        let regular: Vec<u64> =
            steps.iter().copied().filter(|step| step.is_multiple_of(self.every)).collect();
        let averaged = &regular[regular.len().saturating_sub(self.of_every)..];
        old.iter().copied().filter(|step| !averaged.contains(step)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_that_are_averaged_stay_beside_the_newest() {
        let steps = [10, 20, 30, 34, 40, 41, 42];
        assert_eq!(Keep::newest(2).gone(&steps), [10, 20, 30, 34, 40]);
        assert_eq!(Keep { newest: 2, every: 10, of_every: 3 }.gone(&steps), [10, 34]);
        assert_eq!(Keep { newest: 0, every: 10, of_every: 9 }.gone(&steps), [34, 41]);
        assert!(Keep::newest(9).gone(&steps).is_empty());
    }
}
