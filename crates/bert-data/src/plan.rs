//! How many shards and row groups there will be: what is decided from the size of the text before rows are made.
//!
//! In go the options and the number of documents and tokens, out comes a [`Plan`]. It depends on nothing else, not on
//! memory or threads. Not for which row goes where (`slots`). The reference is told its number of files.

use crate::config::{BuildConfig, Layout, Nsp, RandomMode};
use crate::document_shard::TOKENS_PER_SHARD;
use crate::packed::Width;

/// How many instances a shard holds where `--num-shards` is not given.
const ROWS_PER_SHARD: f64 = 65_536.0;
/// How large the packed rows of a row group are, roughly.
const GROUP_BYTES: f64 = 2e6;
/// The most row groups of one shard: the format counts them in 15 bits.
const MOST_GROUPS: f64 = 32_000.0;

/// The layout of the data set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) shards: usize,
    /// Row groups of each shard; a random bucket of its rows each.
    pub(crate) buckets: usize,
    pub(crate) width: Width,
    /// Bytes of all rows when packed, estimated from above.
    pub(crate) bytes: f64,
}

impl Plan {
    pub(crate) fn new(config: &BuildConfig, documents: u64, tokens: u64, vocabulary: usize) -> Self {
        let width = Width::of(vocabulary);
        let passes = config.passes() as f64;
        // Random next sentences add about 27 % to the text; rows are about 92 % full.
        let extra = if config.nsp == Nsp::On { 1.27 } else { 1.0 };
        let by_tokens = passes * tokens as f64 * extra / (0.92 * config.max_seq_length as f64);
        let rows = by_tokens.max(passes * documents as f64);
        let bytes = rows * width.bytes() as f64 * config.max_seq_length as f64 * 1.3;
        let shards = match (config.random, config.num_shards) {
            (RandomMode::Reference, _) => 1,
            (RandomMode::Keyed, Some(shards)) => shards,
            (RandomMode::Keyed, None) if config.layout == Layout::Documents => {
                tokens.div_ceil(TOKENS_PER_SHARD).clamp(1, 99_999) as usize
            }
            (RandomMode::Keyed, None) => (rows / ROWS_PER_SHARD).ceil().clamp(1.0, 99_999.0) as usize,
        };
        let buckets = (bytes / shards as f64 / GROUP_BYTES).ceil().clamp(1.0, MOST_GROUPS) as usize;
        Self { shards, buckets, width, bytes }
    }

    pub(crate) fn slots(&self) -> usize {
        self.shards * self.buckets
    }

    /// Bytes of the packed rows of one row group.
    pub(crate) fn group_bytes(&self) -> f64 {
        self.bytes / self.slots() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_groups_have_about_two_megabytes() {
        for (tokens, shards) in [(1_000, 3), (3_000_000, 3), (2_000_000_000, 64)] {
            let config = BuildConfig { num_shards: Some(shards), ..BuildConfig::default() };
            let plan = Plan::new(&config, 10, tokens, 30_000);
            assert_eq!(plan.shards, shards);
            assert_eq!(plan.slots(), shards * plan.buckets);
            assert!((plan.group_bytes() * plan.slots() as f64 / plan.bytes - 1.0).abs() < 1e-9);
            assert!(
                plan.group_bytes() <= GROUP_BYTES
                    && (plan.buckets == 1 || plan.group_bytes() > GROUP_BYTES / 2.0)
            );
        }
    }
}
