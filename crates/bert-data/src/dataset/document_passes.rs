//! Makes the instances of stored documents for the loader, pass by pass (`--layout documents`).
//!
//! Pairs are a pure function of (seed, pass, document), masks of (seed, pass, document, number of the instance). They
//! are the same that the builder makes of a bucket with these documents in that pass. So no state needs saving, and
//! masks can be made when an instance is used.

use crate::config::Layout;
use crate::dataset::manifest::Manifest;
use crate::dataset::row_masker::RowMasker;
use crate::documents::bucket::Bucket;
use crate::error::Result;
use crate::instance::keyed::pair_stream;
use crate::instance::pairs::{Instance, PairRules, draw_pairs};
use crate::shard::row::{Row, ShardRows};
use crate::tokenization::vocabulary::Vocabulary;
use crate::tokenization::word_marks::IdSpace;

/// Makes instances by the rules of a data set.
#[derive(Clone, Debug)]
pub struct DocumentPasses {
    seed: u64,
    rules: PairRules,
    ids: IdSpace,
    masker: RowMasker,
}

impl DocumentPasses {
    /// Instances by the rules of a data set under a seed, or `None` where it holds instances.
    #[must_use]
    pub fn new(manifest: &Manifest, vocabulary: &Vocabulary, seed: u64) -> Option<Self> {
        let (rules, ids) = (manifest.config.pair_rules(vocabulary), manifest.ids());
        let masker = match manifest.config.layout {
            Layout::Documents => RowMasker::new(manifest, vocabulary, seed)?,
            Layout::Instances => return None,
        };
        Some(Self { seed, rules, ids, masker })
    }

    /// Appends the instances that the document at a place of a bucket gives in a pass, without masks, to `rows`.
    ///
    /// # Errors
    /// When the documents cannot be read.
    ///
    /// # Panics
    /// When there is no such place.
    pub fn append_pairs(&self, bucket: &Bucket, pass: u64, place: usize, rows: &mut ShardRows) -> Result<()> {
        let mut random = pair_stream(self.seed, pass, bucket.number(place));
        let (documents, mut instance) = (bucket.documents(), Instance::default());
        draw_pairs(documents, place, &self.rules, &mut random, |_, pair| {
            pair.fill(documents, &self.rules, &mut instance);
            rows.push_instance(&instance, self.ids);
            Ok(())
        })
    }

    /// Masks a row of [`DocumentPasses::append_pairs`]: `document` is its number in the order of the text, `number`
    /// counts the instances of the document in the pass.
    pub fn mask(&mut self, row: Row<'_>, pass: u64, document: u64, number: u64) -> Row<'_> {
        self.masker.mask_of_document(row, pass, document, number)
    }
}
