//! Finds a sample of a run, by its number, in shards of instances, and masks it where the data has no masks.
//!
//! Sample number `index` is
//!
//! ```text
//! epoch    = index / rows
//! position = index % rows
//! the shards in the order of a permutation keyed by (seed, epoch)
//! within each shard, its row groups in the order of a permutation keyed by (seed, epoch, shard), cut into blocks
//! within each block, the rows in the order of a permutation keyed by (seed, epoch, shard, block)
//! ```
//!
//! A shard of the usual size is one block, and memory holds one block at a time. Data made with `--masking dynamic` has
//! instances without masks; instance number `instance` (counted over the shards in stored order) is masked in epoch
//! `epoch` by draws keyed by (seed, epoch, instance). The sentence pairs come from the data builder.

use bert_data::{DataSet, Row, RowMasker, ShardFile, ShardRows};
use bert_random::{Domain, Random, Stream};

use crate::data_loader::length_buckets::LengthBuckets;
use crate::error::Error;

/// Maximum number of tokens in a block, padding included, unless one row group has more. 128 Ki rows of 128 tokens take
/// about 100 MB.
pub(crate) const BLOCK_TOKENS: u64 = 1 << 24;

/// The rows of a data folder, in an order that depends on a seed.
pub(super) struct ShardSamples {
    data: DataSet,
    seed: u64,
    /// The number of each shard's first row.
    first_rows: Vec<u64>,
    /// Maximum number of rows in a block.
    block_rows: u64,
    buckets: Option<LengthBuckets>,
    /// Generates the masks if the data set has none.
    masks: Option<RowMasker>,
    /// An epoch and the order of its shards.
    order: Option<(u64, ShardOrder)>,
    /// Whether each shard's digest has been verified.
    verified: Vec<bool>,
    /// The shard in memory.
    open: Option<OpenShard>,
}

/// A shard in the order of an epoch.
struct OpenShard {
    epoch: u64,
    shard: usize,
    reader: ShardFile,
    /// The row groups of each block.
    blocks: Vec<Vec<usize>>,
    /// The first position of each block, and the end of the last block.
    starts: Vec<u64>,
    loaded: Option<LoadedBlock>,
}

/// The rows of a block.
struct LoadedBlock {
    block: usize,
    rows: ShardRows,
    /// The index of each row in the shard.
    stored: Vec<u64>,
    order: Vec<u32>,
}

impl ShardSamples {
    pub(super) fn new(data: &DataSet, seed: u64, buckets: Option<LengthBuckets>) -> Self {
        let manifest = data.manifest();
        Self {
            data: data.clone(),
            seed,
            buckets,
            first_rows: manifest.first_rows(),
            block_rows: BLOCK_TOKENS / manifest.config.max_seq_length as u64,
            masks: RowMasker::new(manifest, data.vocabulary(), seed),
            verified: vec![false; manifest.shards.len()],
            order: None,
            open: None,
        }
    }

    /// Returns sample number `index` of the run.
    pub(super) fn row(&mut self, index: u64) -> Result<Row<'_>, Error> {
        let epoch = index / self.data.manifest().instances;
        let position = index % self.data.manifest().instances;
        if self.order.as_ref().is_none_or(|(known, _)| *known != epoch) {
            let rows = self.data.manifest().shards.iter().map(|shard| shard.rows);
            self.order = Some((epoch, ShardOrder::new(rows, self.seed, epoch)));
        }
        let (_, order) = self.order.as_ref().expect("set above");
        let (shard, at) = order.find(position);
        self.open(epoch, shard)?;
        let open = self.open.as_mut().expect("opened above");
        let (block, at) = open.load(&self.data, self.seed, (at, index), self.buckets.as_ref())?;
        let row = block.order[at] as usize;
        let instance = self.first_rows[shard] + block.stored[row];
        let row = block.rows.row(row);
        Ok(match &mut self.masks {
            Some(masks) => masks.mask(row, epoch, instance),
            None => row,
        })
    }

    /// Opens a shard, with the order of its row groups in an epoch.
    fn open(&mut self, epoch: u64, shard: usize) -> Result<(), Error> {
        if self.open.as_ref().is_some_and(|open| (open.epoch, open.shard) == (epoch, shard)) {
            return Ok(());
        }
        // Free the previous block before reading more.
        let reader = match self.open.take() {
            Some(open) if open.shard == shard => open.reader,
            _ => {
                if !self.verified[shard] {
                    self.data.check_shard(shard)?;
                    self.verified[shard] = true;
                }
                self.data.open_rows(shard)?
            }
        };
        let mut random = Stream::new(self.seed, Domain::LoaderRows, &[epoch, shard as u64]);
        let (blocks, starts) = blocks(&reader, self.block_rows, &mut random);
        self.open = Some(OpenShard { epoch, shard, reader, blocks, starts, loaded: None });
        Ok(())
    }
}

/// Returns the row groups of a shard in random order, divided into blocks of at most `most` rows, and the start of each
/// block. A shard with only one block keeps its groups in stored order.
fn blocks(reader: &ShardFile, most: u64, random: &mut Stream) -> (Vec<Vec<usize>>, Vec<u64>) {
    let mut groups: Vec<usize> = (0..reader.groups()).collect();
    let rows = |group: usize| reader.rows_of(group).end - reader.rows_of(group).start;
    if groups.iter().map(|&group| rows(group)).sum::<u64>() > most {
        random.shuffle(&mut groups);
    }
    let (mut blocks, mut starts): (Vec<Vec<usize>>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut before = 0;
    let mut in_block = 0;
    for group in groups {
        match blocks.last_mut() {
            Some(block) if in_block + rows(group) <= most => block.push(group),
            _ => {
                blocks.push(vec![group]);
                starts.push(before);
                in_block = 0;
            }
        }
        in_block += rows(group);
        before += rows(group);
    }
    starts.push(before);
    (blocks, starts)
}

impl OpenShard {
    /// Loads the block of a position into memory; returns it and the position in it. `index` is the number of the
    /// sample.
    fn load(
        &mut self,
        data: &DataSet,
        seed: u64,
        (at, index): (u64, u64),
        buckets: Option<&LengthBuckets>,
    ) -> Result<(&LoadedBlock, usize), Error> {
        let block = self.starts.partition_point(|&start| start <= at) - 1;
        let at = at - self.starts[block];
        if self.loaded.as_ref().is_none_or(|loaded| loaded.block != block) {
            self.loaded = None;
            let groups = &self.blocks[block];
            let rows = data.read_groups(&self.reader, groups)?;
            let stored = groups.iter().flat_map(|&group| self.reader.rows_of(group)).collect();
            // For a shard with only one block, the address of the random stream has no block number.
            let address = [self.epoch, self.shard as u64, block as u64];
            let address = if self.blocks.len() == 1 { &address[..2] } else { &address[..] };
            let mut random = Stream::new(seed, Domain::LoaderRows, address);
            let order = shuffled(&rows, index - at, &mut random, buckets);
            self.loaded = Some(LoadedBlock { block, rows, stored, order });
        }
        Ok((self.loaded.as_ref().expect("loaded above"), at as usize))
    }
}

/// Returns a random order of rows, by length buckets if any. `first` is the number that the first of these samples has
/// in the run.
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

/// The shards of one epoch in order; a binary search over the cumulative row counts finds a position.
#[derive(Clone, Debug)]
pub struct ShardOrder {
    /// The shards.
    shards: Vec<usize>,
    /// Number of rows in the epoch before each shard.
    starts: Vec<u64>,
}

impl ShardOrder {
    /// Returns the order of an epoch over shards with these numbers of rows.
    pub fn new(rows: impl Iterator<Item = u64>, seed: u64, epoch: u64) -> Self {
        let rows: Vec<u64> = rows.collect();
        let mut shards: Vec<usize> = (0..rows.len()).collect();
        Stream::new(seed, Domain::LoaderShards, &[epoch]).shuffle(&mut shards);
        let mut before = 0;
        let start = |&shard: &usize| {
            before += rows[shard];
            before - rows[shard]
        };
        Self { starts: shards.iter().map(start).collect(), shards }
    }

    /// Returns the shard of a position in the epoch, and the position in the shard's own order.
    ///
    /// # Panics
    /// Panics if there are no shards.
    pub fn find(&self, position: u64) -> (usize, u64) {
        // A shard without rows starts at the position of the next shard; this expression takes the last shard at the
        // position.
        let at = self.starts.partition_point(|&start| start <= position) - 1;
        (self.shards[at], position - self.starts[at])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use bert_data::{BuildConfig, build};

    use super::*;

    #[test]
    fn every_row_has_one_position() {
        let rows = [3u64, 0, 5, 1, 0, 7];
        let order = ShardOrder::new(rows.iter().copied(), 7, 2);
        let mut seen: Vec<(usize, u64)> = (0..16).map(|position| order.find(position)).collect();
        let shards: Vec<usize> = seen.chunk_by(|a, b| a.0 == b.0).map(|rows| rows[0].0).collect();
        assert_eq!(shards.len(), 4, "shard after shard: {shards:?}");
        seen.sort_unstable();
        let all = rows.iter().enumerate().flat_map(|(shard, &rows)| (0..rows).map(move |row| (shard, row)));
        assert!(seen.into_iter().eq(all));
        assert_ne!(
            ShardOrder::new([1; 50].into_iter(), 7, 0).shards,
            ShardOrder::new([1; 50].into_iter(), 7, 1).shards
        );
    }

    /// Builds one shard of 120 passes over 300 documents, which has several row groups.
    fn shard_of_many_rows(folder: &Path) -> DataSet {
        let at = |name: &str| folder.join(name);
        let words: Vec<String> = (0..60).map(|word| format!("w{word}")).collect();
        std::fs::write(
            at("vocab.txt"),
            format!("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nw\n{}", words.join("\n")),
        )
        .unwrap();
        let line =
            |at: usize| words.iter().cycle().skip(at % 60).take(9).cloned().collect::<Vec<_>>().join(" ");
        let document = |at: usize| (0..5).map(|n| line(at * 7 + n) + "\n").collect::<String>() + "\n";
        std::fs::write(at("text.txt"), (0..300).map(document).collect::<String>()).unwrap();
        let config = BuildConfig {
            input: vec![at("text.txt")],
            output: Some(at("data")),
            vocab: Some(at("vocab.txt")),
            max_seq_length: 24,
            dupe_factor: 120,
            num_shards: Some(1),
            ..BuildConfig::default()
        };
        build(&config, &mut |_| {}).unwrap().data_set().unwrap()
    }

    /// Reads a shard with several row groups in blocks of one or two.
    #[test]
    fn an_epoch_has_every_row_once() {
        let folder = tempfile::tempdir().unwrap();
        let data = shard_of_many_rows(folder.path());
        let samples = |block_rows| {
            let mut samples = ShardSamples::new(&data, 7, None);
            samples.block_rows = block_rows;
            samples
        };
        let rows = data.manifest().instances;
        let row = |samples: &mut ShardSamples, index| -> Vec<u32> {
            let row = samples.row(index).unwrap();
            [row.input_ids, row.masked_lm_positions, row.masked_lm_ids].concat()
        };
        let epoch = |samples: &mut ShardSamples, epoch: u64| -> Vec<Vec<u32>> {
            (epoch * rows..(epoch + 1) * rows).map(|index| row(samples, index)).collect()
        };
        let count = |rows: &[Vec<u32>]| -> BTreeMap<Vec<u32>, u32> {
            let mut counts = BTreeMap::new();
            rows.iter().for_each(|row| *counts.entry(row.clone()).or_default() += 1);
            counts
        };
        let mut small = samples(30_000);
        let mut whole = samples(u64::MAX);
        let first = epoch(&mut small, 0);
        let second = epoch(&mut small, 1);
        let at_once = epoch(&mut whole, 0);
        let open = small.open.as_ref().unwrap();
        assert!(open.reader.groups() > 2 && open.blocks.len() > 1, "{:?}", open.blocks);
        assert_eq!(whole.open.as_ref().unwrap().blocks.len(), 1);
        assert_eq!(count(&first), count(&at_once));
        assert_eq!(count(&second), count(&first));
        assert_ne!(first, second);
        assert_ne!(first, at_once);
        // A run that starts at any sample sees the same rows.
        for index in [0, 1, 29_999, 60_000, rows - 1] {
            assert_eq!(row(&mut samples(30_000), index), first[index as usize]);
        }
    }
}
