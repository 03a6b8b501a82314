//! Reads the shards of a data folder and builds [`PretrainingBatch`]es from them.
//!
//! Sample number `index` of a run (0, 1, 2, ... without end) is a pure function of (seed, index), so a run that resumes
//! at any sample gets the same samples as an uninterrupted run. The function depends on the layout of the data folder:
//!
//! - Instances on disk (`shard_samples`): an epoch covers all rows, with the shards in random order and the rows of
//!   each shard in random order (block by block in a very large shard). If the rows have no masks (`--masking
//!   dynamic`), the loader generates new masks in every epoch. It keeps one block of row groups in memory.
//! - Documents on disk (`document_samples`): an epoch is one pass over all documents in random order, with new pairs
//!   and masks. The loader keeps the documents and the pairs of one block of row groups in memory.
//!
//! Evaluation reads the instances in stored order instead ([`bert_data::StoredRows`]). Their pairs and masks depend on
//! the data set's own seed and are the same for every run.
//!
//! [`DataLoader::mixed`] reads several data sets by their shares (`mixture`): the number of a sample determines its
//! data set and its number there.
//!
//! [`DataLoader::with_length_buckets`] reorders the rows of a shard or a block, also by a keyed permutation: each batch
//! has rows of similar length and is padded no further than needed.

mod batch;
mod document_samples;
#[cfg(test)]
mod document_samples_tests;
mod length_buckets;
mod mixture;
mod shard_samples;
pub(crate) mod training_data;

use std::ops::Range;
use std::path::Path;

use crate::error::{mismatch, no_instances};

pub use batch::PretrainingBatch;
pub(crate) use batch::micro_batch_bounds;
use bert_data::{DataSet, DocumentPasses, Manifest, Nsp, Row, StoredRows, Vocabulary};
use bert_inference::checkpoint::LoaderPosition;
use bert_model::BertConfig;
use bert_tokenization::TokenizerSettings;
pub(crate) use shard_samples::BLOCK_TOKENS;
pub use shard_samples::ShardOrder;

use bert_inference::ModelTokenizer;
use document_samples::DocumentSamples;
pub(crate) use length_buckets::LengthBuckets;
use mixture::{Mixture, Place};
use shard_samples::ShardSamples;

use crate::error::Error;

/// The source of a run's samples.
enum Samples {
    Shards(Box<ShardSamples>),
    Documents(Box<DocumentSamples>),
}

impl Samples {
    fn new(data: &DataSet, seed: u64, buckets: Option<LengthBuckets>) -> Self {
        match DocumentPasses::new(data.manifest(), data.vocabulary(), seed) {
            Some(passes) => Self::Documents(Box::new(DocumentSamples::new(data, passes, seed, buckets))),
            None => Self::Shards(Box::new(ShardSamples::new(data, seed, buckets))),
        }
    }

    fn row(&mut self, index: u64) -> Result<Row<'_>, Error> {
        match self {
            Self::Shards(samples) => samples.row(index),
            Self::Documents(samples) => samples.row(index),
        }
    }
}

/// A data set of a loader, and the order of its samples.
struct LoadedSet {
    data: DataSet,
    samples: Samples,
}

/// Returns the tokenizer that a data set was made with.
pub fn data_tokenizer(data: &DataSet) -> ModelTokenizer {
    // In the corpus, the text `[MASK]` is plain text. In a text for the model, it is a special token.
    let settings =
        TokenizerSettings { split_special_tokens: false, ..data.manifest().config.tokenizer_settings() };
    ModelTokenizer::new(data.vocabulary().clone(), settings, data.folder().to_path_buf())
}

/// A reader of the instances of one or several data folders, in an order that depends on a seed.
pub struct DataLoader {
    /// The data sets. The first one determines the vocabulary and the manifest.
    sets: Vec<LoadedSet>,
    mixture: Mixture,
    seed: u64,
    seq_length: usize,
    buckets: Option<LengthBuckets>,
    stored: StoredRows,
}

impl DataLoader {
    /// Opens a data folder.
    ///
    /// # Errors
    /// Fails when the manifest is missing or cannot be read, or the folder has no instances.
    pub fn open(folder: &Path, seed: u64) -> Result<Self, Error> {
        Self::new(DataSet::open(folder)?, seed)
    }

    /// Creates a loader for an open data set.
    ///
    /// # Errors
    /// Fails when the data set has no instances.
    pub fn new(data: DataSet, seed: u64) -> Result<Self, Error> {
        Self::mixed(vec![(data, 1.0)], seed)
    }

    /// Creates a loader for several data sets with positive weights. Samples are taken from them in the proportion of
    /// the weights; layouts and the number of instances may differ.
    ///
    /// # Errors
    /// Fails when a data set has no instances, when vocabulary, tokenizer, maximum length or `nsp` of the data sets
    /// differ, or when two of them have the same shards.
    ///
    /// # Panics
    /// Panics if there is no data set.
    pub fn mixed(sets: Vec<(DataSet, f64)>, seed: u64) -> Result<Self, Error> {
        for (at, (data, _)) in sets.iter().enumerate() {
            if data.manifest().instances == 0 {
                return Err(no_instances().at(data.folder()));
            }
            check_mixes(&sets[0].0, data)?;
            check_is_new(&sets[..at], data)?;
        }
        let weights: Vec<f64> = sets.iter().map(|(_, weight)| *weight).collect();
        let first = &sets[0].0;
        Ok(Self {
            seed,
            seq_length: first.manifest().config.max_seq_length,
            buckets: None,
            mixture: Mixture::new(&weights, seed),
            stored: StoredRows::new(first),
            sets: sets
                .into_iter()
                .map(|(data, _)| LoadedSet { samples: Samples::new(&data, seed, None), data })
                .collect(),
        })
    }

    /// Groups sequences of similar length into batches: the lengths are divided into `buckets` equal ranges,
    /// and a batch is padded to the end of its longest sequence's range. With 1 bucket, the order does not
    /// change. `batch_size` is the run's batch size: the order of the samples assumes batches that begin at
    /// multiples of this size.
    #[must_use]
    pub fn with_length_buckets(mut self, buckets: usize, batch_size: usize) -> Self {
        let batch_size = batch_size.max(1);
        let longest = self.seq_length;
        self.buckets = (buckets > 1).then_some(LengthBuckets { count: buckets, batch_size, longest });
        for set in &mut self.sets {
            set.samples = Samples::new(&set.data, self.seed, self.buckets);
        }
        self
    }

    /// Starts at a position that [`DataLoader::position`] returned for the same folder, seed and buckets. This does not
    /// change any batch: it only saves counting the samples before the position. Set the buckets first. A loader of
    /// several data sets ignores the position.
    #[must_use]
    pub fn starting_at(mut self, position: Option<LoaderPosition>) -> Self {
        if let [LoadedSet { samples: Samples::Documents(samples), .. }] = &mut self.sets[..] {
            samples.start = position.unwrap_or_default();
        }
        self
    }

    /// Returns the position of the last sample that was read; `None` if a sample's number alone determines it, and for
    /// several data sets.
    pub fn position(&self) -> Option<LoaderPosition> {
        match &self.sets[..] {
            [LoadedSet { samples: Samples::Documents(samples), .. }] => samples.position(),
            _ => None,
        }
    }

    /// Returns the number of instances in an epoch of the data set, or of the first one of several. For stored
    /// documents, it is the number in pass 0 under the data set's own seed; other passes have about as many.
    pub fn rows(&self) -> u64 {
        self.manifest().instances
    }

    /// Returns the data set, or the first one of several.
    pub fn data(&self) -> &DataSet {
        &self.sets[0].data
    }

    /// Returns the folder's manifest.
    pub fn manifest(&self) -> &Manifest {
        self.data().manifest()
    }

    /// Returns the folder's vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        self.data().vocabulary()
    }

    /// Checks that a model can read this data: its vocabulary and its numbers of positions and segments are large
    /// enough, and `text`, the model's tokenizer if known, is the same as the data's.
    ///
    /// # Errors
    /// Fails when the data does not fit the model or its tokenizer; the error lists every difference.
    pub fn check_fits(&self, model: &BertConfig, text: Option<&ModelTokenizer>) -> Result<(), Error> {
        let mut differences = Vec::new();
        let size = self.manifest().vocabulary.size;
        let length = self.seq_length;
        // An embedding table may be larger than the vocabulary (for example padded to a multiple of 8), but never
        // smaller.
        if model.vocab_size < size {
            differences.push(format!(
                "the model has embeddings of {} tokens, but the vocabulary has {size}",
                model.vocab_size
            ));
        }
        if model.type_vocab_size < 2 && self.manifest().config.nsp != Nsp::Off {
            differences.push(
                "the model has one segment (type_vocab_size 1), but the data has pairs; make it with `.nsp off`".to_string(),
            );
        }
        if model.max_position_embeddings < length {
            let most = model.max_position_embeddings;
            differences.push(format!(
                "the model has {most} positions, but the data has sequences of {length} tokens"
            ));
        }
        if let Some(text) = text {
            let ours = self.data().folder().display();
            let theirs = text.source.display();
            // Compare tokens, not bytes: a copy may have different line endings.
            if text.vocabulary.tokens() != self.vocabulary().tokens() {
                differences.push(format!(
                    "{ours} was made with another vocabulary than {theirs}; make the data with `.vocab` {theirs}"
                ));
            }
            let settings = self.manifest().config.tokenizer_settings();
            if !text.settings.same_tokens(settings) {
                differences.push(format!(
                    "{ours} was made with {settings}, but the tokenizer of {theirs} has {}; build the data with the \
                     same options",
                    text.settings
                ));
            }
        }
        if differences.is_empty() { Ok(()) } else { Err(mismatch(differences)) }
    }

    /// Returns the samples `start..start + size` of the run as one batch.
    ///
    /// # Errors
    /// Fails when a shard cannot be read or does not match the manifest.
    pub fn batch(&mut self, start: u64, size: usize) -> Result<PretrainingBatch, Error> {
        let mut batch = self.rows_of_batch(start, 0..size)?;
        if let Some(buckets) = &self.buckets {
            batch.narrow(buckets.padded(batch.padded.longest()));
        }
        Ok(batch)
    }

    /// Returns the rows `rows` of the batch whose first sample is `start`, padded to the maximum length.
    ///
    /// # Errors
    /// Fails as [`DataLoader::batch`] does.
    pub(crate) fn rows_of_batch(
        &mut self,
        start: u64,
        rows: Range<usize>,
    ) -> Result<PretrainingBatch, Error> {
        let mut batch = PretrainingBatch::with_capacity(rows.len(), self.seq_length);
        batch.first_sequence = rows.start;
        let pad_id = self.vocabulary().pad_id() as i32;
        for row in rows {
            let Place { set, sample } = self.mixture.place(start + row as u64);
            batch.push(self.sets[set].samples.row(sample)?, pad_id);
        }
        Ok(batch)
    }

    /// Returns the length buckets, if any.
    pub(crate) fn buckets(&self) -> Option<LengthBuckets> {
        self.buckets
    }

    /// Returns the instances `start..end` of the (first) folder in stored order, for evaluation: pairs and masks do not
    /// depend on the loader's seed.
    ///
    /// # Errors
    /// Fails as [`DataLoader::batch`] does.
    pub fn stored(&mut self, start: u64, end: u64) -> Result<PretrainingBatch, Error> {
        let mut batch = PretrainingBatch::with_capacity((end - start) as usize, self.seq_length);
        let pad_id = self.vocabulary().pad_id() as i32;
        for index in start..end {
            batch.push(self.stored.row(index)?, pad_id);
        }
        Ok(batch)
    }

    /// Returns the first `limit` instances of the folder, or all of them, in stored order, in batches of `batch_size`.
    pub(crate) fn stored_batches(
        &mut self,
        limit: Option<u64>,
        batch_size: usize,
    ) -> impl Iterator<Item = Result<PretrainingBatch, Error>> {
        let end = limit.unwrap_or(u64::MAX).min(self.rows());
        let starts = (0..end).step_by(batch_size);
        starts.map(move |start| self.stored(start, end.min(start + batch_size as u64)))
    }

    /// Returns one instance of the folder, as [`DataLoader::stored`] puts it into batches.
    ///
    /// # Errors
    /// Fails as [`DataLoader::batch`] does.
    ///
    /// # Panics
    /// Panics if `index` is out of range.
    pub fn stored_row(&mut self, index: u64) -> Result<Row<'_>, Error> {
        self.stored.row(index)
    }
}

/// Checks that the instances of two data sets can be in one batch.
///
/// # Errors
/// Fails when vocabulary, tokenizer, maximum length or `nsp` differ; the error lists every difference.
fn check_mixes(first: &DataSet, other: &DataSet) -> Result<(), Error> {
    let [a, b] = [first, other].map(|data| &data.manifest().config);
    let [a_name, b_name] = [first, other].map(|data| data.folder().display());
    let mut differences = Vec::new();
    if first.vocabulary().tokens() != other.vocabulary().tokens() {
        differences.push(format!("{a_name} and {b_name} were made with different vocabularies"));
    }
    let settings = [a, b].map(|config| config.tokenizer_settings());
    if !settings[0].same_tokens(settings[1]) {
        differences.push(format!("{a_name} was made with {}, {b_name} with {}", settings[0], settings[1]));
    }
    if a.max_seq_length != b.max_seq_length {
        let lengths = [a.max_seq_length, b.max_seq_length];
        differences
            .push(format!("`.max_seq_length` of {a_name} is {}, of {b_name} {}", lengths[0], lengths[1]));
    }
    if a.nsp != b.nsp {
        differences.push(format!("`.nsp` of {a_name} and {b_name} differ"));
    }
    if differences.is_empty() { Ok(()) } else { Err(mismatch(differences)) }
}

/// Rejects a data set that has the same shards as an earlier one, because a run would read every sample twice.
fn check_is_new(before: &[(DataSet, f64)], data: &DataSet) -> Result<(), Error> {
    let digest = data.manifest().shards_digest();
    let Some((same, _)) = before.iter().find(|(other, _)| other.manifest().shards_digest() == digest) else {
        return Ok(());
    };
    let [a, b] = [same, data].map(|data| data.folder().display());
    Err(mismatch(vec![format!(
        "{a} and {b} have the same samples; give one of them, with the sum of both weights"
    )]))
}
