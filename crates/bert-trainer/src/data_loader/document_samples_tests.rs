//! The samples of documents on disk, with blocks small enough that an epoch has several.

use std::path::{Path, PathBuf};

use bert_data::document_shard::read_all_documents;
use bert_data::{BuildConfig, Layout, Row, StoredRows, Vocabulary, build};

use super::document_samples::EpochOrder;
use super::{DataLoader, Place, PretrainingBatch, Samples};
use crate::error::Error;

const SEED: u64 = 5;

/// A corpus of `documents` documents of different lengths, as documents and, with three passes, as instances.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new(documents: usize) -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        let words = ["river", "stone", "bread", "engine", "violin", "harbour", "planet", "library"];
        let mut text = String::new();
        for document in 0..documents {
            for line in 0..2 + document * 7 % 11 {
                let word = |at: usize| words[(document * 3 + line * at) % 8];
                text += &format!("{} {} {} {}\n", word(1), word(3), word(5), word(2));
            }
            text.push('\n');
        }
        std::fs::write(world.at("text.txt"), text).unwrap();
        let special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
        std::fs::write(world.at("vocab.txt"), format!("{special}{}\n", words.join("\n"))).unwrap();
        world.build("documents", |config| config.layout = Layout::Documents);
        world
    }

    fn build(&self, name: &str, change: impl FnOnce(&mut BuildConfig)) {
        let mut config = BuildConfig {
            input: vec![self.at("text.txt")],
            output: Some(self.at(name)),
            vocab: Some(self.at("vocab.txt")),
            max_seq_length: 24,
            max_predictions_per_seq: Some(4),
            random_seed: SEED,
            num_shards: Some(2),
            ..BuildConfig::default()
        };
        change(&mut config);
        build(&config, &mut |_| {}).unwrap();
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A loader whose blocks are of about 120 tokens.
    fn loader(&self, seed: u64, buckets: usize) -> DataLoader {
        small_blocks(DataLoader::open(&self.at("documents"), seed).unwrap())
            .with_length_buckets(buckets, BATCH)
    }
}

fn small_blocks(mut loader: DataLoader) -> DataLoader {
    match &mut loader.samples {
        Samples::Documents(samples) => samples.block_tokens = 120,
        Samples::Shards(_) => panic!("not the layout of documents"),
    }
    loader
}

const BATCH: usize = 7;

/// Tokens, label and masks.
type Instance = (Vec<i32>, i32, Vec<(i32, i32)>);

/// The tokens, the label and the masks of each row of a batch, without padding.
fn rows(batch: &PretrainingBatch) -> Vec<Instance> {
    let row = |at: usize| {
        let cells = at * batch.seq_length..(at + 1) * batch.seq_length;
        let real = batch.input_mask[cells.clone()].iter().filter(|&&real| real == 1).count();
        let tokens = batch.input_ids[cells.start..cells.start + real].to_vec();
        let masks = batch.masked_lm_positions.iter().zip(&batch.masked_lm_ids);
        let masks = masks.filter(|(position, _)| cells.contains(&(**position as usize)));
        let masks = masks.map(|(position, id)| (*position - cells.start as i32, *id)).collect();
        (tokens, batch.next_sentence_labels[at], masks)
    };
    (0..batch.batch_size).map(row).collect()
}

fn of_row(row: Row<'_>) -> Instance {
    let masks = row.masked_lm_positions.iter().copied().zip(row.masked_lm_ids.iter().copied());
    (row.input_ids.to_vec(), i32::from(row.next_sentence_label), masks.collect())
}

/// The instances of the builder's first three passes with the loader's seed, and where each pass ends.
fn passes_of_the_builder(world: &World) -> Vec<Instance> {
    // One shard, and so one bucket a pass, like the loader.
    world.build("instances", |config| (config.dupe_factor, config.num_shards) = (3, Some(1)));
    let folder = world.at("instances");
    let manifest = bert_data::Manifest::read(&folder).unwrap();
    let vocabulary = Vocabulary::read(&world.at("vocab.txt")).unwrap();
    let mut stored = StoredRows::new(&folder, &manifest, &vocabulary);
    (0..stored.len()).map(|index| of_row(stored.row(index).unwrap())).collect()
}

/// Three epochs are the builder's three passes under the same seed: every document once in each, nothing lost and
/// nothing twice, whatever the blocks and the buckets.
#[test]
fn epochs_are_the_passes_of_the_builder() {
    let world = World::new(40);
    let mut expected = passes_of_the_builder(&world);
    expected.sort_unstable();
    for buckets in [1, 4] {
        let mut loader = world.loader(SEED, buckets);
        let batch = loader.batch(0, expected.len()).unwrap();
        assert!(loader.place().unwrap().block > 2, "{:?}", loader.place());
        assert_eq!(loader.place().unwrap().epoch, 2);
        let mut made = rows(&batch);
        made.sort_unstable();
        assert!(made == expected, "{buckets} bucket(s)");
        // The next sample begins the next epoch.
        loader.batch(expected.len() as u64, 1).unwrap();
        let place = Place { epoch: 3, block: 0, first_sample: expected.len() as u64 };
        assert_eq!(loader.place(), Some(place));
    }
}

/// Where little of the documents fits in memory, the batches are the same.
#[test]
fn batches_do_not_depend_on_memory() {
    let world = World::new(40);
    let batches = |memory: Option<u64>| {
        let mut loader = world.loader(SEED, 1);
        if let (Samples::Documents(samples), Some(memory)) = (&mut loader.samples, memory) {
            samples.memory = memory;
        }
        loader.batch(0, 500).unwrap()
    };
    let expected = batches(None);
    for memory in [0, 1 << 10, 1 << 12] {
        assert_eq!(batches(Some(memory)), expected, "{memory} bytes");
    }
}

#[test]
fn an_epoch_has_every_document_once_and_blocks_cut_it() {
    let world = World::new(40);
    let manifest = bert_data::Manifest::read(&world.at("documents")).unwrap();
    let documents = read_all_documents(&world.at("documents"), &manifest).unwrap();
    let order = |seed, epoch, tokens| EpochOrder::new(&documents, seed, epoch, tokens).unwrap();
    let whole = |order: &EpochOrder| -> Vec<u32> {
        (0..).map_while(|block| order.block(block)).flatten().copied().collect()
    };
    for epoch in 0..20 {
        for tokens in [1, 120, 1 << 40] {
            let mut all = whole(&order(SEED, epoch, tokens));
            all.sort_unstable();
            assert!(all.into_iter().eq(0..40));
        }
        assert_eq!(order(SEED, epoch, 1).block(39).map(<[u32]>::len), Some(1));
        assert_eq!(order(SEED, epoch, 1 << 40).block(0).map(<[u32]>::len), Some(40));
        assert_ne!(whole(&order(SEED, epoch, 120)), whole(&order(SEED, epoch + 1, 120)));
        assert_ne!(whole(&order(SEED, epoch, 120)), whole(&order(SEED + 1, epoch, 120)));
    }
}

/// A run that stops after any batch sees, when it goes on, what it would have seen: with the place of its checkpoint,
/// and without it.
#[test]
fn a_resumed_run_sees_the_batches_of_an_uninterrupted_one() {
    let world = World::new(23);
    for buckets in [1, 4] {
        let mut loader = world.loader(SEED, buckets);
        let mut batches = Vec::new();
        while batches.last().is_none_or(|(_, place): &(_, Option<Place>)| place.unwrap().epoch < 3) {
            let start = (batches.len() * BATCH) as u64;
            batches.push((loader.batch(start, BATCH).unwrap(), loader.place()));
        }
        let blocks = batches.iter().map(|(_, place)| place.unwrap().block).max();
        assert!(batches.len() > 20 && blocks > Some(2));
        for stop in 1..batches.len() {
            let place = batches[stop - 1].1;
            for hint in [place, None] {
                let mut resumed = world.loader(SEED, buckets).starting_at(hint);
                for (at, (batch, place)) in batches.iter().enumerate().skip(stop).take(3) {
                    assert_eq!(&resumed.batch((at * BATCH) as u64, BATCH).unwrap(), batch, "{at}, {hint:?}");
                    assert_eq!(resumed.place(), *place);
                }
            }
        }
        // Backwards, and from a place behind the sample that is asked for.
        let last = batches.last().unwrap().1;
        let mut loader = world.loader(SEED, buckets).starting_at(last);
        for (at, (batch, place)) in batches.iter().enumerate().rev() {
            assert_eq!(&loader.batch((at * BATCH) as u64, BATCH).unwrap(), batch);
            assert_eq!(loader.place(), *place);
        }
        // Sizes of batches do not matter but for buckets, which are made for one.
        if buckets == 1 {
            let all = loader.batch(3, 50).unwrap();
            let parts = [loader.batch(3, 9).unwrap(), loader.batch(12, 41).unwrap()];
            assert_eq!(parts.iter().flat_map(rows).collect::<Vec<_>>(), rows(&all));
        }
    }
}

/// The place is used: with a first sample one too high everything after it is one sample late.
#[test]
fn counting_begins_at_the_place() {
    let world = World::new(23);
    let mut loader = world.loader(SEED, 1);
    let far = loader.batch(400, 3).unwrap();
    let place = loader.place().unwrap();
    assert!(place.epoch > 1, "{place:?}");
    let late = Place { first_sample: place.first_sample + 1, ..place };
    let mut shifted = world.loader(SEED, 1).starting_at(Some(late));
    assert_eq!(shifted.batch(401, 3).unwrap(), far);
}

#[test]
fn seeds_and_epochs_differ() {
    let world = World::new(23);
    let first = |seed| world.loader(seed, 1).batch(0, 20).unwrap();
    assert_eq!(first(SEED), first(SEED));
    assert_ne!(first(SEED), first(SEED + 1));
}

/// One document is larger than a block, and the corpus has no other.
#[test]
fn a_corpus_of_one_long_document() {
    let world = World::new(1);
    let line = "river stone bread engine violin harbour planet library\n";
    std::fs::write(world.at("text.txt"), line.repeat(5000)).unwrap();
    world.build("long", |config| config.layout = Layout::Documents);
    let mut loader = small_blocks(DataLoader::open(&world.at("long"), SEED).unwrap());
    let rows = loader.rows();
    assert!(rows > 1000, "{rows}");
    let batch = loader.batch(rows * 2, 50).unwrap();
    let place = loader.place().unwrap();
    assert!((1..=2).contains(&place.epoch) && place.block == 0, "{place:?}");
    let mut resumed = small_blocks(DataLoader::open(&world.at("long"), SEED).unwrap());
    resumed = resumed.starting_at(Some(place));
    assert_eq!(resumed.batch(rows * 2, 50).unwrap(), batch);
    assert!(batch.next_sentence_labels.iter().all(|&label| label == 0), "there is no other document");
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_documents_are_found_before_the_first_batch() {
    let world = World::new(23);
    flip(&world.at("documents").join("train-00001-of-00002.parquet"));
    for error in
        [world.loader(SEED, 1).batch(0, 1).unwrap_err(), world.loader(SEED, 1).stored(0, 1).unwrap_err()]
    {
        assert!(
            matches!(
                &error,
                Error::Data(bert_data::Error::Manifest(bert_data::ManifestError::FileDigest { .. }))
            ),
            "{error}"
        );
        assert_eq!(error.exit_code(), 3);
    }
}
