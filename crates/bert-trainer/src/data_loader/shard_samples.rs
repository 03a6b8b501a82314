//! Samples of a run from shards of instances.
//!
//! In: a data folder with instances and the number of a sample. Out: its row, masked. Sample number `index` is
//!
//! ```text
//! epoch    = index / rows
//! position = index % rows
//! the shards in the order of a permutation keyed by (seed, epoch)
//! within each shard, the rows in the order of a permutation keyed by (seed, epoch, shard)
//! ```
//!
//! Data made with `--masking dynamic` holds instances without masks; instance `instance` (counted over the shards in
//! stored order) is masked in epoch `epoch` by draws keyed by (seed, epoch, instance). In memory is one shard at a
//! time. Not for pairing, which the data builder has done.

use std::path::{Path, PathBuf};

use bert_data::dynamic::masked;
use bert_data::rng::{Domain, Random, Stream};
use bert_data::{Manifest, Row, RowMasker, ShardRows, Vocabulary};

use super::length_buckets::LengthBuckets;
use crate::error::Error;

/// The rows of a data folder in the order of a seed.
pub(super) struct ShardSamples {
    folder: PathBuf,
    manifest: Manifest,
    seed: u64,
    /// The number of each shard's first row.
    first_rows: Vec<u64>,
    /// Makes the masks where the data set has none.
    masks: Option<RowMasker>,
    /// An epoch and its order of the shards.
    order: Option<(u64, Vec<usize>)>,
    loaded: Option<LoadedShard>,
}

struct LoadedShard {
    epoch: u64,
    shard: usize,
    rows: ShardRows,
    order: Vec<u32>,
}

impl ShardSamples {
    pub(super) fn new(folder: &Path, manifest: &Manifest, vocabulary: &Vocabulary, seed: u64) -> Self {
        let mut rows = 0;
        let first = |shard: &bert_data::manifest::ShardEntry| {
            rows += shard.rows;
            rows - shard.rows
        };
        Self {
            folder: folder.to_path_buf(),
            seed,
            first_rows: manifest.shards.iter().map(first).collect(),
            masks: RowMasker::new(manifest, vocabulary, seed),
            manifest: manifest.clone(),
            order: None,
            loaded: None,
        }
    }

    /// Forgets what is in memory.
    pub(super) fn forget(&mut self) {
        self.loaded = None;
    }

    /// Sample number `index` of the run.
    pub(super) fn row(&mut self, index: u64, buckets: Option<&LengthBuckets>) -> Result<Row<'_>, Error> {
        let (epoch, position) = (index / self.manifest.instances, index % self.manifest.instances);
        let (shard, at) = self.find(epoch, position);
        self.load(epoch, shard, index - at, buckets)?;
        let loaded = self.loaded.as_ref().expect("loaded above");
        let row = loaded.order[at as usize];
        let instance = self.first_rows[shard] + u64::from(row);
        Ok(masked(&mut self.masks, loaded.rows.row(row as usize), epoch, instance))
    }

    /// The shard of a position in an epoch, and the position in the shard's order.
    fn find(&mut self, epoch: u64, position: u64) -> (usize, u64) {
        if self.order.as_ref().is_none_or(|(of, _)| *of != epoch) {
            let mut order: Vec<usize> = (0..self.manifest.shards.len()).collect();
            Stream::new(self.seed, Domain::LoaderShards, &[epoch]).shuffle(&mut order);
            self.order = Some((epoch, order));
        }
        let (_, order) = self.order.as_ref().expect("set above");
        let (mut at, mut row) = (0, position);
        while row >= self.manifest.shards[order[at]].rows {
            row -= self.manifest.shards[order[at]].rows;
            at += 1;
        }
        (order[at], row)
    }

    /// Has a shard in memory, with its order in an epoch; `first` is the number of its first sample
    /// in the run.
    fn load(
        &mut self,
        epoch: u64,
        shard: usize,
        first: u64,
        buckets: Option<&LengthBuckets>,
    ) -> Result<(), Error> {
        if self.loaded.as_ref().is_some_and(|loaded| (loaded.epoch, loaded.shard) == (epoch, shard)) {
            return Ok(());
        }
        let rows = match self.loaded.take() {
            Some(loaded) if loaded.shard == shard => loaded.rows,
            _ => {
                self.manifest.verify_shard(&self.folder, shard, false)?;
                self.manifest.read_verified(&self.folder, shard)?
            }
        };
        let mut random = Stream::new(self.seed, Domain::LoaderRows, &[epoch, shard as u64]);
        let order = shuffled(&rows, first, &mut random, buckets);
        self.loaded = Some(LoadedShard { epoch, shard, rows, order });
        Ok(())
    }
}

/// A random order of rows; in length buckets, if there are. `first` is the number of the first sample in the run.
pub(super) fn shuffled(
    rows: &ShardRows,
    first: u64,
    random: &mut Stream,
    buckets: Option<&LengthBuckets>,
) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    random.shuffle(&mut order);
    match buckets {
        None => order,
        Some(buckets) => {
            let length = |row: u32| rows.row(row as usize).input_ids.len();
            buckets.order(order, length, first, random)
        }
    }
}
