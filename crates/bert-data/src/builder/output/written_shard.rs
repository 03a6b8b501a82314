//! A finished shard, and the counts of the documents in it.

use serde::{Deserialize, Serialize};

use crate::dataset::invariants::BuildTally;
use crate::dataset::manifest::ShardEntry;
use crate::documents::id_width::Tally;
use crate::instance::coverage::Counters;
use crate::instance::coverage::{Coverage, CoveredRanges, Uncovered};

/// The counts from building the instances of some documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PieceStats {
    pub(crate) tally: BuildTally,
    pub(crate) counters: Counters,
    /// Covered tokens, if the shards hold instances.
    #[serde(rename = "shown")]
    pub(crate) covered: CoveredRanges,
    /// Uncovered tokens, if the shards hold documents.
    #[serde(rename = "unseen")]
    pub(crate) uncovered: Uncovered,
}

impl PieceStats {
    /// Returns empty counts for instances of at most `max_seq_length` tokens.
    pub(crate) fn new(max_seq_length: usize) -> Self {
        Self { counters: Counters::new(max_seq_length), ..Self::default() }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        self.counters.add(&other.counters);
        self.covered.add(&other.covered);
        self.uncovered.add(other.uncovered);
    }
}

/// The sum of the counts of several shards; covered tokens are stored as a bit set to limit memory.
pub(crate) struct PartStats {
    pub(crate) tally: BuildTally,
    pub(crate) counters: Counters,
    pub(crate) coverage: Coverage,
    pub(crate) uncovered: Uncovered,
}

impl PartStats {
    /// Returns an empty sum for a text of `tokens` tokens and instances of at most `max_seq_length` tokens.
    pub(crate) fn new(max_seq_length: usize, tokens: u64) -> Self {
        let tally = BuildTally::default();
        let coverage = Coverage::new(tokens);
        Self { tally, counters: Counters::new(max_seq_length), coverage, uncovered: Uncovered::default() }
    }

    pub(crate) fn add(&mut self, stats: &PieceStats) {
        self.tally.add(&stats.tally);
        self.counters.add(&stats.counters);
        self.coverage.add(&stats.covered);
        self.uncovered.add(stats.uncovered);
    }

    pub(crate) fn finish(self) -> PieceStats {
        let Self { tally, counters, coverage, uncovered } = self;
        PieceStats { tally, counters, covered: coverage.covered(), uncovered }
    }
}

/// A finished shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenShard {
    /// Index of the shard.
    pub(crate) shard: u64,
    /// Tally of the rows as they were written.
    pub(crate) rows: Tally,
    pub(crate) entry: ShardEntry,
}
