//! Masks rows when they are loaded (`--masking dynamic`), and generates the instances of stored documents in every pass
//! (`--layout documents`).
//!
//! The masks are a pure function of the seed, the epoch and the row number in the data set (with documents: the
//! document and the index of the row within it). The pairs are a pure function of (seed, pass, document). Both equal
//! the builder's results for a bucket with these documents in that pass. Therefore, no state needs to be saved, a
//! resumed run sees the same masks as an uninterrupted one, and every epoch has new masks. The rules come from the
//! manifest of the data set. The reference masks only once, when it writes the data.

use bert_random::{Domain, Stream};
use bert_tokenization::{IdSpace, Vocabulary};

use crate::config::{Layout, Masking};
use crate::dataset::manifest::Manifest;
use crate::documents::Bucket;
use crate::error::Result;
use crate::instance::masking::{Masker, mask_stream, pair_stream};
use crate::instance::pairs::{Instance, PairRules, draw_pairs};
use crate::shard::row::{Row, ShardRows};

/// Masker of stored rows, which reuses its buffers from row to row.
#[derive(Clone, Debug)]
pub struct RowMasker {
    seed: u64,
    ids: IdSpace,
    masker: Masker,
    instance: Instance,
}

impl RowMasker {
    /// Returns a masker with the rules of a data set, or `None` if its rows are already masked.
    pub fn new(manifest: &Manifest, vocabulary: &Vocabulary, seed: u64) -> Option<Self> {
        (manifest.config.masking == Masking::Dynamic).then(|| {
            let ids = manifest.ids();
            let masker = manifest.config.masker(vocabulary);
            Self { seed, ids, masker, instance: Instance::default() }
        })
    }

    /// Returns the masker for displaying stored instances and for evaluation. It uses the seed of the data set, so
    /// that everyone sees the same masks. Callers use epoch 0. Returns `None` if the rows are already masked or the
    /// shards hold documents.
    pub(crate) fn fixed(manifest: &Manifest, vocabulary: &Vocabulary) -> Option<Self> {
        match manifest.config.layout {
            Layout::Instances => Self::new(manifest, vocabulary, manifest.config.random_seed),
            Layout::Documents => None,
        }
    }

    /// Masks row number `instance`, counted across all shards from 0, for an epoch. All its ids must be in the
    /// vocabulary ([`crate::ShardRows::check`]).
    pub fn mask(&mut self, row: Row<'_>, epoch: u64, instance: u64) -> Row<'_> {
        let random = Stream::new(self.seed, Domain::LoaderMasks, &[epoch, instance]);
        self.mask_by(row, random)
    }

    fn mask_by(&mut self, row: Row<'_>, mut random: Stream) -> Row<'_> {
        row.copy_to(self.ids, &mut self.instance);
        self.masker.mask(&mut self.instance, &mut random);
        Row::from_instance(&self.instance)
    }
}

/// Generator of instances from stored documents, with the rules of a data set.
#[derive(Clone, Debug)]
pub struct DocumentPasses {
    rules: PairRules,
    masker: RowMasker,
}

impl DocumentPasses {
    /// Returns a generator with the rules of a data set and a seed, or `None` if the data set holds instances.
    pub fn new(manifest: &Manifest, vocabulary: &Vocabulary, seed: u64) -> Option<Self> {
        if manifest.config.layout == Layout::Instances {
            return None;
        }
        let masker = RowMasker::new(manifest, vocabulary, seed)?;
        Some(Self { rules: manifest.config.pair_rules(vocabulary), masker })
    }

    /// Appends the instances of one document of a bucket in a pass to `rows`, without masks.
    ///
    /// # Errors
    /// Fails if the documents cannot be read.
    ///
    /// # Panics
    /// Panics if `index` is outside the bucket.
    pub fn append_pairs(&self, bucket: &Bucket, pass: u64, index: usize, rows: &mut ShardRows) -> Result<()> {
        let mut random = pair_stream(self.masker.seed, pass, bucket.number(index));
        let documents = bucket.documents();
        let mut instance = Instance::default();
        draw_pairs(documents, index, &self.rules, &mut random, |_, pair| {
            pair.fill(documents, &self.rules, &mut instance);
            rows.push_instance(&instance, self.masker.ids);
            Ok(())
        })
    }

    /// Masks a row of [`DocumentPasses::append_pairs`]: `document` is its number in text order, `number` is the index
    /// of the instance among the instances of the document in the pass.
    pub fn mask(&mut self, row: Row<'_>, pass: u64, document: u64, number: u64) -> Row<'_> {
        let random = mask_stream(self.masker.seed, pass, document).branch(number);
        self.masker.mask_by(row, random)
    }
}
