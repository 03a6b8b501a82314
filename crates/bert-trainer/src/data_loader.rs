//! Shards to batches: the data loader of pre-training.
//!
//! In: a data folder (manifest and Parquet shards). Out: [`PretrainingBatch`]es.
//!
//! Mental model: a data folder is one *epoch* of `rows` instances. Sample number `index` of a run
//! (0, 1, 2, ... without end) is
//!
//! ```text
//! epoch    = index / rows
//! position = index % rows
//! the shards in the order of a permutation keyed by (seed, epoch)
//! within each shard, the rows in the order of a permutation keyed by (seed, epoch, shard)
//! ```
//!
//! a pure function of (seed, index): nothing of the loader needs saving, and a run that resumes at
//! any sample sees what an uninterrupted run sees. In memory is one shard at a time.
//!
//! Data made with `--masking dynamic` holds instances without masks; the loader masks instance
//! `instance` (counted over the shards in stored order) in epoch `epoch` by draws keyed by (seed,
//! epoch, instance). In stored order, for evaluation, the masks are those of epoch 0 under the data
//! set's own seed, the same for every run. Not for pairing, which the data builder has done.
//!
//! With [`DataLoader::with_length_buckets`] the rows within a shard come in another order, also keyed:
//! batch by batch of similar lengths, padded no further than needed.

mod length_buckets;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use bert_data::dynamic::masked;
use bert_data::rng::{Domain, Random, Stream};
use bert_data::{Manifest, Row, RowMasker, ShardRows, Vocabulary};
use bert_model::{BertConfig, BertInput, PretrainingInput, PretrainingTargets};
use burn::tensor::{Device, Tensor};

use crate::error::Error;
use crate::host::{int_matrix, int_vector};
use length_buckets::LengthBuckets;

/// In the place of an epoch where rows are read in stored order.
const STORED: u64 = u64::MAX;

/// One batch of instances on the host, padded to one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PretrainingBatch {
    /// Number of sequences.
    pub batch_size: usize,
    /// Length every sequence is padded to.
    pub seq_length: usize,
    /// Word-piece ids, `[batch_size, seq_length]`, padded with `[PAD]`.
    pub input_ids: Vec<i32>,
    /// 1 for real tokens, 0 for padding, `[batch_size, seq_length]`.
    pub input_mask: Vec<i32>,
    /// 0 for the first segment and padding, 1 for the second, `[batch_size, seq_length]`.
    pub segment_ids: Vec<i32>,
    /// Masked positions as `row * seq_length + position`, only the real ones.
    pub masked_lm_positions: Vec<i32>,
    /// The original ids at those positions.
    pub masked_lm_ids: Vec<i32>,
    /// 1 where the second segment is a random one, `[batch_size]`.
    pub next_sentence_labels: Vec<i32>,
}

impl PretrainingBatch {
    fn with_capacity(batch_size: usize, seq_length: usize) -> Self {
        let cells = batch_size * seq_length;
        Self {
            batch_size,
            seq_length,
            input_ids: Vec::with_capacity(cells),
            input_mask: Vec::with_capacity(cells),
            segment_ids: Vec::with_capacity(cells),
            ..Self::default()
        }
    }

    fn push(&mut self, row: Row<'_>, pad_id: i32) {
        let (start, padding) = (self.input_ids.len(), self.seq_length - row.input_ids.len());
        self.input_ids.extend_from_slice(row.input_ids);
        self.input_ids.extend(std::iter::repeat_n(pad_id, padding));
        self.input_mask.extend(std::iter::repeat_n(1, row.input_ids.len()));
        self.input_mask.extend(std::iter::repeat_n(0, padding));
        self.segment_ids.extend(row.segment_ids.iter().map(|&id| i32::from(id)));
        self.segment_ids.extend(std::iter::repeat_n(0, padding));
        self.masked_lm_positions.extend(row.masked_lm_positions.iter().map(|&p| start as i32 + p));
        self.masked_lm_ids.extend_from_slice(row.masked_lm_ids);
        self.next_sentence_labels.push(i32::from(row.next_sentence_label));
    }

    /// Length of the longest sequence.
    fn longest(&self) -> usize {
        let rows = self.input_mask.chunks(self.seq_length.max(1));
        rows.map(|row| row.iter().rposition(|&real| real == 1).map_or(0, |last| last + 1)).max().unwrap_or(0)
    }

    /// Takes padding away: no sequence may be longer than `length`.
    fn narrow(&mut self, length: usize) {
        let wide = self.seq_length;
        for cells in [&mut self.input_ids, &mut self.input_mask, &mut self.segment_ids] {
            for row in 1..self.batch_size {
                cells.copy_within(row * wide..row * wide + length, row * length);
            }
            cells.truncate(self.batch_size * length);
        }
        for position in &mut self.masked_lm_positions {
            let (row, column) = (*position as usize / wide, *position as usize % wide);
            *position = (row * length + column) as i32;
        }
        self.seq_length = length;
    }

    /// Number of masked-LM targets.
    pub fn num_predictions(&self) -> usize {
        self.masked_lm_ids.len()
    }

    /// The batch as `parts` micro-batches of nearly equal size, in order.
    pub fn split(&self, parts: usize) -> Vec<Self> {
        let bounds = (0..=parts).map(|part| part * self.batch_size / parts);
        let bounds: Vec<usize> = bounds.collect();
        bounds.windows(2).filter(|w| w[0] < w[1]).map(|w| self.rows(w[0], w[1])).collect()
    }

    fn rows(&self, from: usize, to: usize) -> Self {
        let cells = from * self.seq_length..to * self.seq_length;
        let offset = cells.start as i32;
        let inside = |&(p, _): &(&i32, &i32)| cells.contains(&(*p as usize));
        let masked = self.masked_lm_positions.iter().zip(&self.masked_lm_ids).filter(inside);
        let (masked_lm_positions, masked_lm_ids) = masked.map(|(p, id)| (p - offset, *id)).unzip();
        Self {
            batch_size: to - from,
            seq_length: self.seq_length,
            input_ids: self.input_ids[cells.clone()].to_vec(),
            input_mask: self.input_mask[cells.clone()].to_vec(),
            segment_ids: self.segment_ids[cells.clone()].to_vec(),
            masked_lm_positions,
            masked_lm_ids,
            next_sentence_labels: self.next_sentence_labels[from..to].to_vec(),
        }
    }

    /// What the model reads.
    pub fn input(&self, device: &Device) -> PretrainingInput {
        let shape = [self.batch_size, self.seq_length];
        PretrainingInput {
            bert: BertInput {
                input_ids: int_matrix(&self.input_ids, shape, device),
                input_mask: int_matrix(&self.input_mask, shape, device),
                segment_ids: int_matrix(&self.segment_ids, shape, device),
            },
            masked_lm_positions: int_vector(&self.masked_lm_positions, device),
        }
    }

    /// What the loss compares with.
    pub fn targets(&self, device: &Device) -> PretrainingTargets {
        PretrainingTargets {
            masked_lm_ids: int_vector(&self.masked_lm_ids, device),
            masked_lm_weights: Tensor::ones([self.num_predictions()], device),
            next_sentence_labels: int_vector(&self.next_sentence_labels, device),
        }
    }
}

/// Reads the instances of a data folder in the order of a seed.
pub struct DataLoader {
    folder: PathBuf,
    manifest: Manifest,
    rows: u64,
    seq_length: usize,
    /// The number of each shard's first row.
    first_rows: Vec<u64>,
    pad_id: i32,
    seed: u64,
    /// Makes the masks where the data set has none: of this run, and those of evaluation.
    masks: Option<RowMasker>,
    fixed_masks: Option<RowMasker>,
    buckets: Option<LengthBuckets>,
    order: Option<(u64, Vec<usize>)>,
    shard: Option<(u64, usize, ShardRows, Vec<u32>)>,
}

impl DataLoader {
    /// Opens a data folder.
    ///
    /// # Errors
    /// When there is no manifest, it cannot be read, or it holds no instance.
    pub fn open(folder: &Path, seed: u64) -> Result<Self, Error> {
        let manifest = Manifest::read(folder)?;
        // Sizes and the vocabulary; each shard's digest is compared when it is read.
        manifest.verify(folder, false)?;
        let mut rows = 0;
        let mut first_rows = Vec::with_capacity(manifest.shards.len());
        for shard in &manifest.shards {
            first_rows.push(rows);
            rows += shard.rows;
        }
        if rows == 0 {
            return Err(Error::NoInstances { path: folder.to_path_buf() });
        }
        let seq_length = manifest.config.max_seq_length;
        let vocabulary = Vocabulary::read(&manifest.vocabulary_path(folder))?;
        Ok(Self {
            folder: folder.to_path_buf(),
            rows,
            seq_length,
            first_rows,
            pad_id: vocabulary.pad_id() as i32,
            seed,
            masks: RowMasker::new(&manifest, &vocabulary, seed),
            fixed_masks: RowMasker::fixed(&manifest, &vocabulary),
            manifest,
            buckets: None,
            order: None,
            shard: None,
        })
    }

    /// Puts sequences of similar length into one batch: the lengths are cut into `buckets` equal
    /// ranges, and a batch is padded to the end of its longest sequence's range. 1 changes nothing.
    /// `batch_size` is that of the run: samples are ordered for batches that begin at its multiples.
    pub fn with_length_buckets(mut self, buckets: usize, batch_size: usize) -> Self {
        let longest = self.seq_length;
        let wanted = LengthBuckets { count: buckets, batch_size: batch_size.max(1), longest };
        self.buckets = (buckets > 1).then_some(wanted);
        self.shard = None;
        self
    }

    /// Number of instances in an epoch.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Checks that a model can read this data: its vocabulary and its number of positions are large
    /// enough, and `vocabulary`, the file the model was made with, is the data's, if it is given and there.
    ///
    /// # Errors
    /// [`Error::Mismatch`] with every difference.
    pub fn check_fits(&self, model: &BertConfig, vocabulary: Option<&Path>) -> Result<(), Error> {
        let mut differences = Vec::new();
        let (size, length) = (self.manifest.vocabulary.size, self.seq_length);
        // A table may be larger than the vocabulary (padded to a multiple of 8, say), never smaller.
        if model.vocab_size < size {
            differences
                .push(format!("the model knows {} tokens, the vocabulary has {size}", model.vocab_size));
        }
        if model.max_position_embeddings < length {
            let most = model.max_position_embeddings;
            differences.push(format!("the model takes {most} positions, the data has {length}"));
        }
        if let Some(path) = vocabulary.filter(|path| path.exists()) {
            let ours = Vocabulary::read(&self.manifest.vocabulary_path(&self.folder))?;
            // Words, not bytes: a copy may end its lines otherwise.
            if Vocabulary::read(path)?.tokens() != ours.tokens() {
                let (ours, theirs) = (self.folder.display(), path.display());
                differences.push(format!("{ours} was made with another vocabulary than {theirs}"));
            }
        }
        match differences.is_empty() {
            true => Ok(()),
            false => Err(Error::Mismatch { differences }),
        }
    }

    /// The samples `start..start + size` of the run as one batch.
    ///
    /// # Errors
    /// When a shard cannot be read or does not match the manifest.
    pub fn batch(&mut self, start: u64, size: usize) -> Result<PretrainingBatch, Error> {
        let mut batch = PretrainingBatch::with_capacity(size, self.seq_length);
        for index in start..start + size as u64 {
            self.push(index / self.rows, index % self.rows, &mut batch)?;
        }
        if let Some(buckets) = &self.buckets {
            batch.narrow(buckets.padded(batch.longest()));
        }
        Ok(batch)
    }

    /// The instances `start..end` of the folder in stored order, for evaluation: their masks do not
    /// depend on the loader's seed.
    ///
    /// # Errors
    /// As [`DataLoader::batch`].
    pub fn stored(&mut self, start: u64, end: u64) -> Result<PretrainingBatch, Error> {
        let mut batch = PretrainingBatch::with_capacity((end - start) as usize, self.seq_length);
        for index in start..end {
            let shard = self.first_rows.partition_point(|&first| first <= index) - 1;
            let row = (index - self.first_rows[shard]) as usize;
            self.load(STORED, shard, 0)?;
            let (_, _, rows, _) = self.shard.as_ref().expect("loaded above");
            batch.push(masked(&mut self.fixed_masks, rows.row(row), 0, index), self.pad_id);
        }
        Ok(batch)
    }

    /// The masked-LM targets of every instance in stored order, with the masks of evaluation.
    ///
    /// # Errors
    /// When a shard cannot be read or does not match the manifest.
    pub fn for_each_target(&self, mut see: impl FnMut(i32)) -> Result<(), Error> {
        let mut masks = self.fixed_masks.clone();
        for shard in 0..self.manifest.shards.len() {
            let rows = self.read(shard)?;
            for (row, index) in rows.iter().zip(self.first_rows[shard]..) {
                masked(&mut masks, row, 0, index).masked_lm_ids.iter().for_each(|&id| see(id));
            }
        }
        Ok(())
    }

    fn push(&mut self, epoch: u64, position: u64, batch: &mut PretrainingBatch) -> Result<(), Error> {
        if self.order.as_ref().is_none_or(|(of, _)| *of != epoch) {
            let mut order: Vec<usize> = (0..self.manifest.shards.len()).collect();
            Stream::new(self.seed, Domain::LoaderShards, &[epoch]).shuffle(&mut order);
            self.order = Some((epoch, order));
        }
        let (_, order) = self.order.as_ref().expect("set above");
        let mut row = position;
        let mut at = 0;
        while row >= self.manifest.shards[order[at]].rows {
            row -= self.manifest.shards[order[at]].rows;
            at += 1;
        }
        let shard = order[at];
        self.load(epoch, shard, epoch * self.rows + position - row)?;
        let (_, _, rows, permutation) = self.shard.as_ref().expect("loaded above");
        let row = permutation[row as usize];
        let instance = self.first_rows[shard] + u64::from(row);
        batch.push(masked(&mut self.masks, rows.row(row as usize), epoch, instance), self.pad_id);
        Ok(())
    }

    /// Has a shard in memory, with its order in an epoch; `first` is the number of its first sample
    /// in the run.
    fn load(&mut self, epoch: u64, shard: usize, first: u64) -> Result<(), Error> {
        let current = self.shard.as_ref().is_some_and(|(e, s, ..)| (*e, *s) == (epoch, shard));
        if !current {
            let rows = match self.shard.take() {
                Some((_, loaded, rows, _)) if loaded == shard => rows,
                _ => self.read(shard)?,
            };
            let mut permutation: Vec<u32> = (0..rows.len() as u32).collect();
            let mut random = Stream::new(self.seed, Domain::LoaderRows, &[epoch, shard as u64]);
            random.shuffle(&mut permutation);
            if let Some(buckets) = self.buckets {
                let length = |row: u32| rows.row(row as usize).input_ids.len();
                permutation = buckets.order(permutation, length, first, &mut random);
            }
            self.shard = Some((epoch, shard, rows, permutation));
        }
        Ok(())
    }

    fn read(&self, shard: usize) -> Result<ShardRows, Error> {
        self.manifest.verify_shard(&self.folder, shard, false)?;
        Ok(self.manifest.read_verified(&self.folder, shard)?)
    }
}

/// A loader on its own thread, two batches ahead of the training step.
pub struct Prefetcher {
    batches: Option<Receiver<Result<PretrainingBatch, Error>>>,
    thread: Option<JoinHandle<()>>,
}

impl Prefetcher {
    /// Starts reading batches of `batch_size` for the steps `steps`.
    pub fn start(mut loader: DataLoader, steps: std::ops::Range<u64>, batch_size: usize) -> Self {
        let (sender, batches) = sync_channel(2);
        let thread = std::thread::spawn(move || {
            for step in steps {
                let batch = loader.batch(step * batch_size as u64, batch_size);
                let failed = batch.is_err();
                if sender.send(batch).is_err() || failed {
                    return;
                }
            }
        });
        Self { batches: Some(batches), thread: Some(thread) }
    }

    /// The next batch, in order.
    ///
    /// # Errors
    /// What the loader met.
    ///
    /// # Panics
    /// When more batches are taken than were ordered.
    pub fn next_batch(&mut self) -> Result<PretrainingBatch, Error> {
        let batches = self.batches.as_ref().expect("open until dropped");
        batches.recv().expect("the loader sends a batch for every step")
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        // The channel goes first, so that a loader waiting to send gives up.
        drop(self.batches.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> PretrainingBatch {
        PretrainingBatch {
            batch_size: 3,
            seq_length: 2,
            input_ids: vec![1, 2, 3, 4, 5, 6],
            input_mask: vec![1; 6],
            segment_ids: vec![0, 1, 0, 1, 0, 1],
            masked_lm_positions: vec![1, 2, 4, 5],
            masked_lm_ids: vec![20, 30, 50, 60],
            next_sentence_labels: vec![0, 1, 0],
        }
    }

    #[test]
    fn micro_batches_hold_every_row_and_target_once() {
        let parts = batch().split(2);
        assert_eq!(parts.iter().map(|part| part.batch_size).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(parts[0].masked_lm_positions, [1]);
        assert_eq!(parts[1].masked_lm_positions, [0, 2, 3]);
        assert_eq!(parts[1].masked_lm_ids, [30, 50, 60]);
        assert_eq!(parts[1].input_ids, [3, 4, 5, 6]);
        assert_eq!(batch().split(1), [batch()]);
        assert_eq!(batch().split(7).len(), 3);
    }
}
