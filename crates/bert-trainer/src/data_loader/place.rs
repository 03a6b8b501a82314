//! Records where a run is in its data, so that a checkpoint can store it.

use serde::{Deserialize, Serialize};

/// Where in an epoch a sample lies, as far as that cannot be told from its number alone: with documents on disk the
/// number of samples in a block is known when its pairs are made. A checkpoint holds the place that its run had
/// reached, and a resumed run makes one block instead of counting through all before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The block of documents in the epoch, from 0.
    pub block: u64,
    /// The number of the block's first sample in the run.
    pub first_sample: u64,
}
