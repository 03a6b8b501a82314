//! Samples of a run from shards of documents.
//!
//! In: a data folder with documents and the number of a sample. Out: its row, masked. The samples of a run are
//!
//! ```text
//! epoch after epoch
//! the documents in the order of a permutation keyed by (seed, epoch), cut into blocks of about 4 million tokens
//! block after block, each with the instances of its documents: pairs keyed by (seed, epoch, document)
//! within each block, the instances in the order of a permutation keyed by (seed, epoch, block)
//! each masked when it is used, keyed by (seed, epoch, document, number in the document)
//! ```
//!
//! so that every epoch is one pass over the text with pairs and masks of its own, the same that the data builder would
//! make for that pass. How many instances a block has is known when its pairs are made; a [`Place`] says where
//! counting may begin, otherwise it begins at sample 0. In memory are the pairs of one block (some 40,000 instances of 128
//! tokens, more if a single document has more), the order of the documents, and of the documents themselves as much as
//! fits in 256 MiB; the rest is in scratch files, from which it is read where it is needed.

use std::path::{Path, PathBuf};

use bert_data::document::Documents;
use bert_data::document_shard::read_documents_within;
use bert_data::rng::{Domain, Random, Stream};
use bert_data::{DocumentPasses, Manifest, Row, ShardRows};

use super::Place;
use super::length_buckets::LengthBuckets;
use super::shard_samples::shuffled;
use crate::error::Error;

/// Bytes of documents that are held in memory; the rest waits on disk. 100 million tokens fit.
const MEMORY: u64 = 256 << 20;
/// Tokens of the documents of a block: as many instances as in a shard, roughly. Part of what a run computes.
const BLOCK_TOKENS: usize = 1 << 22;

/// The instances of a folder's documents in the order of a seed.
pub(super) struct DocumentSamples {
    folder: PathBuf,
    manifest: Manifest,
    seed: u64,
    passes: DocumentPasses,
    pub(super) block_tokens: usize,
    pub(super) memory: u64,
    start: Place,
    documents: Option<Documents>,
    order: Option<EpochOrder>,
    block: Option<Block>,
}

/// The documents of an epoch in their order.
pub(super) struct EpochOrder {
    epoch: u64,
    documents: Vec<u32>,
    /// Where each block ends in `documents`.
    block_ends: Vec<usize>,
}

impl EpochOrder {
    pub(super) fn new(
        documents: &Documents,
        seed: u64,
        epoch: u64,
        block_tokens: usize,
    ) -> bert_data::Result<Self> {
        let mut order: Vec<u32> = (0..documents.len() as u32).collect();
        Stream::new(seed, Domain::LoaderDocuments, &[epoch]).shuffle(&mut order);
        let (mut block_ends, mut tokens) = (Vec::new(), 0);
        let mut reader = documents.reader();
        // In the order of the text, which is how they lie on disk.
        let sizes: Vec<u64> =
            (0..documents.len()).map(|document| reader.tokens_of(document)).collect::<Result<_, _>>()?;
        for (at, &document) in order.iter().enumerate() {
            tokens += sizes[document as usize] as usize;
            if tokens >= block_tokens {
                block_ends.push(at + 1);
                tokens = 0;
            }
        }
        if tokens > 0 {
            block_ends.push(order.len());
        }
        Ok(Self { epoch, documents: order, block_ends })
    }

    /// The documents of a block, or `None` behind the last.
    pub(super) fn block(&self, block: u64) -> Option<&[u32]> {
        let block = usize::try_from(block).ok()?;
        let end = *self.block_ends.get(block)?;
        let start = if block == 0 { 0 } else { self.block_ends[block - 1] };
        Some(&self.documents[start..end])
    }
}

/// The instances of a block, not yet masked.
struct Block {
    place: Place,
    pairs: ShardRows,
    /// The document of each instance, and its number among those of the document.
    sources: Vec<(u32, u32)>,
    order: Vec<u32>,
}

impl Block {
    /// The number of the first sample after the block.
    fn end(&self) -> u64 {
        self.place.first_sample + self.order.len() as u64
    }
}

impl DocumentSamples {
    pub(super) fn new(folder: &Path, manifest: &Manifest, passes: DocumentPasses, seed: u64) -> Self {
        Self {
            folder: folder.to_path_buf(),
            manifest: manifest.clone(),
            seed,
            passes,
            block_tokens: BLOCK_TOKENS,
            memory: MEMORY,
            start: Place::default(),
            documents: None,
            order: None,
            block: None,
        }
    }

    /// Forgets what depends on the order within blocks.
    pub(super) fn forget(&mut self) {
        self.block = None;
    }

    pub(super) fn start_at(&mut self, place: Option<Place>) {
        self.start = place.unwrap_or_default();
    }

    pub(super) fn place(&self) -> Option<Place> {
        self.block.as_ref().map(|block| block.place)
    }

    /// Sample number `index` of the run.
    pub(super) fn row(&mut self, index: u64, buckets: Option<&LengthBuckets>) -> Result<Row<'_>, Error> {
        self.seek(index, buckets)?;
        let block = self.block.as_ref().expect("made by seek");
        let row = block.order[(index - block.place.first_sample) as usize] as usize;
        let (document, number) = block.sources[row];
        let pass = block.place.epoch;
        Ok(self.passes.mask(block.pairs.row(row), pass, document as usize, u64::from(number)))
    }

    /// Has the block of a sample in memory.
    fn seek(&mut self, index: u64, buckets: Option<&LengthBuckets>) -> Result<(), Error> {
        let mut place = match self.block.take() {
            Some(block) if (block.place.first_sample..block.end()).contains(&index) => {
                self.block = Some(block);
                return Ok(());
            }
            Some(block) if index >= block.end() => {
                Place { block: block.place.block + 1, first_sample: block.end(), ..block.place }
            }
            _ if index >= self.start.first_sample => self.start,
            _ => Place::default(),
        };
        let mut epoch_began_at = None;
        loop {
            match self.make(place, buckets)? {
                Some(block) if index < block.end() => {
                    self.block = Some(block);
                    return Ok(());
                }
                Some(block) => {
                    place = Place { block: place.block + 1, first_sample: block.end(), ..place };
                }
                // Without this an epoch that gives nothing would be followed by others without end.
                None if epoch_began_at == Some(place.first_sample) => {
                    return Err(Error::NoInstances { path: self.folder.clone() });
                }
                None => {
                    epoch_began_at = Some(place.first_sample);
                    place = Place { epoch: place.epoch + 1, block: 0, ..place };
                }
            }
        }
    }

    /// Makes the pairs of a block and their order; `None` behind the last block of the epoch.
    fn make(&mut self, place: Place, buckets: Option<&LengthBuckets>) -> Result<Option<Block>, Error> {
        if self.documents.is_none() {
            self.documents = Some(read_documents_within(&self.folder, &self.manifest, self.memory)?);
        }
        let documents = self.documents.as_ref().expect("read above");
        if self.order.as_ref().is_none_or(|order| order.epoch != place.epoch) {
            self.order = Some(EpochOrder::new(documents, self.seed, place.epoch, self.block_tokens)?);
        }
        let order = self.order.as_ref().expect("made above");
        let Some(of_block) = order.block(place.block) else { return Ok(None) };
        let (mut pairs, mut sources) = (ShardRows::default(), Vec::new());
        for &document in of_block {
            let before = pairs.len();
            self.passes.append_pairs(documents, place.epoch, document as usize, &mut pairs)?;
            sources.extend((0..(pairs.len() - before) as u32).map(|number| (document, number)));
        }
        let mut random = Stream::new(self.seed, Domain::LoaderRows, &[place.epoch, place.block]);
        let order = shuffled(&pairs, place.first_sample, &mut random, buckets);
        Ok(Some(Block { place, pairs, sources, order }))
    }
}
