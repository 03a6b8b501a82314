//! Finds a sample of a run, by its number, in shards of documents, and masks it.
//!
//! The samples of a run are
//!
//! ```text
//! epoch after epoch
//! the row groups of documents in the order of a permutation keyed by (seed, epoch), a few of them a block
//! block after block, each with the instances of its documents: pairs keyed by (seed, epoch, document)
//! within each block, the instances in the order of a permutation keyed by (seed, epoch, block)
//! each masked when it is used, keyed by (seed, epoch, document, number in the document)
//! ```
//!
//! Every epoch is therefore one pass over the text with new pairs and masks, generated as the data builder does for a
//! bucket. The documents are stored in random order, so any row groups are a random sample of the text.
//!
//! The number of instances in a block is known only after its pairs are generated. A [`LoaderPosition`] gives a position where
//! counting may start; without one it starts at sample 0. Memory holds the documents and the pairs of one block (about
//! 160,000 instances of 128 tokens), whatever the size of the data, and nothing is read before it is needed.

use std::path::PathBuf;

use bert_data::{DataSet, DocumentGroups, DocumentPasses, Row, ShardRows};
use bert_random::{Domain, Permutation, Stream};
use bert_storage::Locate;
use serde::{Deserialize, Serialize};

use super::length_buckets::LengthBuckets;
use super::shard_samples::shuffled;
use crate::error::{Error, FolderProblem};

/// Approximate number of tokens in a block of documents. Changing it changes the results of a run.
const BLOCK_TOKENS: u64 = 1 << 24;

/// Position of a sample, for layouts in which its number alone does not determine it: with documents on disk, the
/// number of samples in a block is known only after its pairs are generated. A checkpoint stores the position that its
/// run had reached, so a resumed run generates one block instead of counting through all previous blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderPosition {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The block of documents in the epoch, from 0.
    pub block: u64,
    /// The number of the block's first sample in the run.
    pub first_sample: u64,
}

/// The instances of a folder's documents, in an order that depends on a seed.
pub(super) struct DocumentSamples {
    folder: PathBuf,
    groups: DocumentGroups,
    seed: u64,
    passes: DocumentPasses,
    pub(super) blocks: Blocks,
    /// The position where counting may start.
    pub(super) start: LoaderPosition,
    /// The order of the row groups in an epoch.
    order: Option<(u64, Permutation)>,
    /// The block in memory.
    pub(super) block: Option<Block>,
}

/// How the row groups of an epoch are divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    pub(super) groups: u64,
    pub(super) blocks: u64,
}

impl Blocks {
    fn new(groups: u64, tokens: u64) -> Self {
        let of_block = (BLOCK_TOKENS as u128 * u128::from(groups) / u128::from(tokens.max(1))).max(1);
        Self { groups, blocks: groups.div_ceil(of_block.min(u128::from(groups.max(1))) as u64) }
    }

    /// Returns the positions of a block's row groups in the order of an epoch; `None` after the last block.
    pub(super) fn range(&self, block: u64) -> Option<std::ops::Range<u64>> {
        let at = |block: u64| (u128::from(self.groups) * u128::from(block) / u128::from(self.blocks)) as u64;
        (block < self.blocks).then(|| at(block)..at(block + 1))
    }
}

/// The instances of a block, without masks.
pub(super) struct Block {
    position: LoaderPosition,
    pairs: ShardRows,
    /// The document of each instance, and the instance's index in the document.
    sources: Vec<(u64, u32)>,
    order: Vec<u32>,
}

impl Block {
    /// Returns the number of the first sample after the block.
    fn end(&self) -> u64 {
        self.position.first_sample + self.order.len() as u64
    }
}

impl DocumentSamples {
    pub(super) fn new(data: &DataSet, passes: DocumentPasses, seed: u64) -> Self {
        let groups = DocumentGroups::new(data);
        Self {
            folder: data.folder().to_path_buf(),
            seed,
            passes,
            blocks: Blocks::new(groups.len(), data.manifest().report.tokens),
            groups,
            start: LoaderPosition::default(),
            order: None,
            block: None,
        }
    }

    pub(super) fn position(&self) -> Option<LoaderPosition> {
        self.block.as_ref().map(|block| block.position)
    }

    /// Returns sample number `index` of the run.
    pub(super) fn row(&mut self, index: u64, buckets: Option<&LengthBuckets>) -> Result<Row<'_>, Error> {
        self.seek(index, buckets)?;
        let block = self.block.as_ref().expect("made by seek");
        let row = block.order[(index - block.position.first_sample) as usize] as usize;
        let (document, number) = block.sources[row];
        Ok(self.passes.mask(block.pairs.row(row), block.position.epoch, document, u64::from(number)))
    }

    /// Loads the block of a sample into memory.
    fn seek(&mut self, index: u64, buckets: Option<&LengthBuckets>) -> Result<(), Error> {
        let mut position = match self.block.take() {
            Some(block) if (block.position.first_sample..block.end()).contains(&index) => {
                self.block = Some(block);
                return Ok(());
            }
            Some(block) if index >= block.end() => {
                LoaderPosition { block: block.position.block + 1, first_sample: block.end(), ..block.position }
            }
            _ if index >= self.start.first_sample => self.start,
            _ => LoaderPosition::default(),
        };
        let mut epoch_began_at = None;
        loop {
            match self.make(position, buckets)? {
                Some(block) if index < block.end() => {
                    self.block = Some(block);
                    return Ok(());
                }
                Some(block) => {
                    position = LoaderPosition { block: position.block + 1, first_sample: block.end(), ..position };
                }
                // Without this check, an epoch without instances would loop forever.
                None if epoch_began_at == Some(position.first_sample) => {
                    return Err(FolderProblem::NoInstances.located(&self.folder).into());
                }
                None => {
                    epoch_began_at = Some(position.first_sample);
                    position = LoaderPosition { epoch: position.epoch + 1, block: 0, ..position };
                }
            }
        }
    }

    /// Generates the pairs of a block and their order; returns `None` after the last block of the epoch.
    fn make(&mut self, position: LoaderPosition, buckets: Option<&LengthBuckets>) -> Result<Option<Block>, Error> {
        let Some(places) = self.blocks.range(position.block) else { return Ok(None) };
        let (seed, epoch, groups) = (self.seed, position.epoch, self.blocks.groups);
        if self.order.as_ref().is_none_or(|(of, _)| *of != epoch) {
            let mut random = Stream::new(seed, Domain::LoaderDocuments, &[epoch]);
            self.order = Some((epoch, Permutation::new(groups, &mut random)));
        }
        let (_, order) = self.order.as_ref().expect("made above");
        let mut of_block: Vec<u64> = places.map(|position| order.get(position)).collect();
        // In the order on disk.
        of_block.sort_unstable();
        let bucket = self.groups.read(of_block)?;
        let (mut pairs, mut sources) = (ShardRows::default(), Vec::new());
        for at in 0..bucket.len() {
            let before = pairs.len();
            self.passes.append_pairs(&bucket, epoch, at, &mut pairs)?;
            let document = bucket.number(at);
            sources.extend((0..(pairs.len() - before) as u32).map(|number| (document, number)));
        }
        let mut random = Stream::new(seed, Domain::LoaderRows, &[epoch, position.block]);
        let order = shuffled(&pairs, position.first_sample, &mut random, buckets);
        Ok(Some(Block { position, pairs, sources, order }))
    }
}
