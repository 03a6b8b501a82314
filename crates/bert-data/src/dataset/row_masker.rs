//! Masks rows when they are loaded, for `--masking dynamic` and `--layout documents`.
//!
//! The masks are a pure function of the seed, the epoch and the row's number in the data set (or its document and its
//! number there). So a resumed run sees the same masks as an uninterrupted one, and every epoch sees other masks. The
//! rules are those in the data set's manifest. The reference masks once, when it makes the data.

use crate::config::{Layout, Masking};
use crate::dataset::manifest::Manifest;
use crate::instance::keyed::MaskStreams;
use crate::instance::masking::Masker;
use crate::instance::pairs::Instance;
use crate::shard::row::Row;
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

    /// Masks the instance with number `number` of those that a document gives in a pass, as the builder would.
    pub fn mask_of_document(&mut self, row: Row<'_>, pass: u64, document: u64, number: u64) -> Row<'_> {
        let random = MaskStreams::new(self.seed, pass, document).of_instance(number);
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
