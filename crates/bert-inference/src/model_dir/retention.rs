//! Selects the checkpoints to keep.

/// A policy that selects the checkpoints to keep when a new one is written.
#[derive(Clone, Copy, Debug)]
pub struct RetentionPolicy {
    /// Number of most recent checkpoints to keep; at least one is always kept.
    pub newest: usize,
    /// Distance in steps of the checkpoints that are averaged.
    pub averaged_interval: u64,
    /// Number of most recent checkpoints at multiples of `averaged_interval` to keep.
    pub averaged_count: usize,
}

impl RetentionPolicy {
    /// Returns the policy that keeps only the `newest` most recent checkpoints.
    pub fn newest(newest: usize) -> Self {
        Self { newest, averaged_interval: 1, averaged_count: 0 }
    }

    /// Returns the checkpoint steps to delete; `steps` must be sorted.
    pub(crate) fn expired(self, steps: &[u64]) -> Vec<u64> {
        let old = &steps[..steps.len().saturating_sub(self.newest.max(1))];
        let regular: Vec<u64> =
            steps.iter().copied().filter(|step| step.is_multiple_of(self.averaged_interval)).collect();
        let averaged = &regular[regular.len().saturating_sub(self.averaged_count)..];
        old.iter().copied().filter(|step| !averaged.contains(step)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averaged_checkpoints_are_kept() {
        let steps = [10, 20, 30, 34, 40, 41, 42];
        assert_eq!(RetentionPolicy::newest(2).expired(&steps), [10, 20, 30, 34, 40]);
        assert_eq!(
            RetentionPolicy { newest: 2, averaged_interval: 10, averaged_count: 3 }.expired(&steps),
            [10, 34]
        );
        assert_eq!(
            RetentionPolicy { newest: 0, averaged_interval: 10, averaged_count: 9 }.expired(&steps),
            [34, 41]
        );
        assert!(RetentionPolicy::newest(9).expired(&steps).is_empty());
    }
}
