//! Masks rows when they are loaded (`--masking dynamic`), and makes the instances of stored documents, pass by pass
//! (`--layout documents`).
//!
//! The masks are a pure function of the seed, the epoch and the row's number in the data set (or its document and its
//! number there), pairs one of (seed, pass, document). They are the same that the builder makes of a bucket with these
//! documents in that pass. So no state needs saving, a resumed run sees the same masks as an uninterrupted one, and
//! every epoch sees other masks. The rules are those in the data set's manifest. The reference masks once, when it
//! makes the data.

use crate::config::{Layout, Masking};
use crate::dataset::manifest::Manifest;
use crate::documents::bucket::Bucket;
use crate::error::Result;
use crate::instance::keyed::{mask_stream, pair_stream};
use crate::instance::masking::Masker;
use crate::instance::pairs::{Instance, PairRules, draw_pairs};
use crate::shard::row::{Row, ShardRows};
use crate::tokenization::vocabulary::Vocabulary;
use crate::tokenization::word_marks::IdSpace;
use bert_random::{Domain, Stream};

/// Masks stored rows; keeps its buffers from one to the next.
#[derive(Clone, Debug)]
pub struct RowMasker {
    seed: u64,
    ids: IdSpace,
    masker: Masker,
    instance: Instance,
}

impl RowMasker {
    /// A masker by the rules of a data set, or `None` where its rows are masked already.
    #[must_use]
    pub fn new(manifest: &Manifest, vocabulary: &Vocabulary, seed: u64) -> Option<Self> {
        (manifest.config.masking == Masking::Dynamic).then(|| {
            let (ids, masker) = (manifest.ids(), manifest.config.masker(vocabulary));
            Self { seed, ids, masker, instance: Instance::default() }
        })
    }

    /// The masker for looking at stored instances and for evaluating on them: the seed is the data set's own, so that
    /// everyone sees the same masks. The epoch is then 0.
    #[must_use]
    pub(crate) fn fixed(manifest: &Manifest, vocabulary: &Vocabulary) -> Option<Self> {
        match manifest.config.layout {
            Layout::Instances => Self::new(manifest, vocabulary, manifest.config.random_seed),
            Layout::Documents => None,
        }
    }

    /// Masks the row with number `instance`, counted over all shards from 0, for an epoch. All its ids must be inside
    /// the vocabulary ([`crate::ShardRows::check`]).
    pub fn mask(&mut self, row: Row<'_>, epoch: u64, instance: u64) -> Row<'_> {
        let random = Stream::new(self.seed, Domain::LoaderMasks, &[epoch, instance]);
        self.mask_by(row, random)
    }

    fn mask_by(&mut self, row: Row<'_>, mut random: Stream) -> Row<'_> {
        row.copy_to(self.ids, &mut self.instance);
        self.masker.mask(&mut self.instance, &mut random);
        Row::of(&self.instance)
    }
}

/// The row as a masker gives it, or as it is where there is none.
pub fn masked<'a>(masker: &'a mut Option<RowMasker>, row: Row<'a>, epoch: u64, instance: u64) -> Row<'a> {
    match masker {
        Some(masker) => masker.mask(row, epoch, instance),
        None => row,
    }
}

/// Makes instances by the rules of a data set.
#[derive(Clone, Debug)]
pub struct DocumentPasses {
    rules: PairRules,
    masker: RowMasker,
}

impl DocumentPasses {
    /// Instances by the rules of a data set under a seed, or `None` where it holds instances.
    #[must_use]
    pub fn new(manifest: &Manifest, vocabulary: &Vocabulary, seed: u64) -> Option<Self> {
        if manifest.config.layout == Layout::Instances {
            return None;
        }
        let masker = RowMasker::new(manifest, vocabulary, seed)?;
        Some(Self { rules: manifest.config.pair_rules(vocabulary), masker })
    }

    /// Appends the instances that the document at a place of a bucket gives in a pass, without masks, to `rows`.
    ///
    /// # Errors
    /// When the documents cannot be read.
    ///
    /// # Panics
    /// When there is no such place.
    pub fn append_pairs(&self, bucket: &Bucket, pass: u64, place: usize, rows: &mut ShardRows) -> Result<()> {
        let mut random = pair_stream(self.masker.seed, pass, bucket.number(place));
        let (documents, mut instance) = (bucket.documents(), Instance::default());
        draw_pairs(documents, place, &self.rules, &mut random, |_, pair| {
            pair.fill(documents, &self.rules, &mut instance);
            rows.push_instance(&instance, self.masker.ids);
            Ok(())
        })
    }

    /// Masks a row of [`DocumentPasses::append_pairs`]: `document` is its number in the order of the text, `number`
    /// counts the instances of the document in the pass.
    pub fn mask(&mut self, row: Row<'_>, pass: u64, document: u64, number: u64) -> Row<'_> {
        let random = mask_stream(self.masker.seed, pass, document).branch(number);
        self.masker.mask_by(row, random)
    }
}
