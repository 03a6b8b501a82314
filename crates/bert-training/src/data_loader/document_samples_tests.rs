//! Tests the samples of documents on disk, with several blocks in an epoch.

use std::path::{Path, PathBuf};

use bert_data::{BuildConfig, Layout, Row, StoredRows, build};
use bert_inference::checkpoint::LoaderPosition;

use crate::data_loader::document_samples::Blocks;
use crate::data_loader::{DataLoader, PretrainingBatch, Samples};

const SEED: u64 = 5;

/// A corpus of documents of different lengths, stored once as documents and once as the instances of three
/// passes.
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
        world.build("documents", |config| {
            (config.layout, config.num_shards) = (Layout::Documents, Some(documents.min(GROUPS)));
        });
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

    /// Returns a loader whose epochs have five blocks.
    fn loader(&self, seed: u64, buckets: usize) -> DataLoader {
        self.loader_of_blocks(5, seed, buckets)
    }

    fn loader_of_blocks(&self, blocks: u64, seed: u64, buckets: usize) -> DataLoader {
        let loader = DataLoader::open(&self.at("documents"), seed).unwrap();
        with_blocks(blocks, loader.with_length_buckets(buckets, BATCH))
    }
}

fn with_blocks(blocks: u64, mut loader: DataLoader) -> DataLoader {
    match &mut loader.sets[0].samples {
        Samples::Documents(samples) => samples.blocks.blocks = blocks,
        Samples::Shards(_) => panic!("not the layout of documents"),
    }
    loader
}

/// Number of shards of documents, each with one row group.
const GROUPS: usize = 8;
const BATCH: usize = 7;

/// Tokens, label and masks.
type Instance = (Vec<i32>, i32, Vec<(i32, i32)>);

/// Returns the tokens, the label and the masks of each row of a batch, without padding.
fn rows(batch: &PretrainingBatch) -> Vec<Instance> {
    let row = |at: usize| {
        let cells = at * batch.padded.seq_length..(at + 1) * batch.padded.seq_length;
        let real = batch.padded.input_mask[cells.clone()].iter().filter(|&&real| real == 1).count();
        let tokens = batch.padded.input_ids[cells.start..cells.start + real].to_vec();
        let masks = batch.masked_lm_positions.iter().zip(&batch.masked_lm_ids);
        let masks = masks.filter(|(position, _)| cells.contains(&(**position as usize)));
        let masks = masks.map(|(position, id)| (*position - cells.start as i32, *id)).collect();
        (tokens, batch.next_sentence_labels[at], masks)
    };
    (0..batch.batch_size()).map(row).collect()
}

fn instance(row: Row<'_>) -> Instance {
    let masks = row.masked_lm_positions.iter().zip(row.masked_lm_ids);
    let masks = masks.map(|(&position, &id)| (position as i32, id as i32));
    (row.input_ids.iter().map(|&id| id as i32).collect(), i32::from(row.next_sentence_label), masks.collect())
}

/// Returns the instances of the builder's first three passes with the loader's seed.
fn passes_of_the_builder(world: &World) -> Vec<Instance> {
    // With one shard, a pass has one bucket, as in the loader.
    world.build("instances", |config| (config.dupe_factor, config.num_shards) = (3, Some(1)));
    let folder = world.at("instances");
    let mut stored = StoredRows::new(&bert_data::DataSet::open(&folder).unwrap());
    (0..stored.len()).map(|index| instance(stored.row(index).unwrap())).collect()
}

/// If a block is the whole text, three epochs equal the builder's three passes under the same seed: no
/// instance is lost or duplicated, regardless of the order of the stored documents and of the number of
/// buckets.
#[test]
fn epochs_are_the_passes_of_the_builder() {
    let world = World::new(40);
    let mut expected = passes_of_the_builder(&world);
    expected.sort_unstable();
    for buckets in [1, 4] {
        let mut loader = world.loader_of_blocks(1, SEED, buckets);
        let batch = loader.batch(0, expected.len()).unwrap();
        assert_eq!(loader.position().unwrap().epoch, 2);
        let mut made = rows(&batch);
        made.sort_unstable();
        assert!(made == expected, "{buckets} bucket(s)");
        // The next sample starts the next epoch.
        loader.batch(expected.len() as u64, 1).unwrap();
        let position = LoaderPosition { epoch: 3, block: 0, first_sample: expected.len() as u64 };
        assert_eq!(loader.position(), Some(position));
    }
}

/// Checks that an epoch of five blocks has about as many instances as an epoch of one block, and that the first two
/// epochs differ.
#[test]
fn blocks_cover_the_whole_text() {
    let world = World::new(40);
    let epoch = |blocks: u64, epoch: u64| {
        let mut loader = world.loader_of_blocks(blocks, SEED, 1);
        let mut all: Vec<Instance> = Vec::new();
        for at in 0.. {
            let batch = loader.batch(at, 1).unwrap();
            match loader.position().unwrap().epoch {
                now if now == epoch => all.extend(rows(&batch)),
                now if now > epoch => break,
                _ => {}
            }
        }
        all
    };
    let whole = epoch(1, 0).len();
    let cut = epoch(5, 0);
    let next = epoch(5, 1);
    assert!((cut.len() as f64 / whole as f64 - 1.0).abs() < 0.1, "{} and {whole}", cut.len());
    assert_ne!(cut, next);
}

#[test]
fn blocks_have_every_row_group_once() {
    for (groups, blocks) in [(1, 1), (8, 5), (8, 8), (1 << 40, 1 << 20)] {
        let division = Blocks { groups, blocks };
        let some = if blocks > 100 { 100 } else { blocks };
        let ranges: Vec<_> = (0..some).map_while(|block| division.range(block)).collect();
        assert_eq!(ranges.len() as u64, some);
        assert!(ranges[0].start == 0 && ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(ranges.iter().all(|range| range.end > range.start));
        assert_eq!(division.range(blocks - 1).unwrap().end, groups);
        assert_eq!(division.range(blocks), None);
    }
}

/// A run that stops after any batch sees the same batches when it is resumed, with the position of its checkpoint and
/// without it.
#[test]
fn resumed_loader_gives_the_same_batches() {
    let world = World::new(23);
    for buckets in [1, 4] {
        let mut loader = world.loader(SEED, buckets);
        let mut batches = Vec::new();
        while batches
            .last()
            .is_none_or(|(_, position): &(_, Option<LoaderPosition>)| position.unwrap().epoch < 3)
        {
            let start = (batches.len() * BATCH) as u64;
            batches.push((loader.batch(start, BATCH).unwrap(), loader.position()));
        }
        let blocks = batches.iter().map(|(_, position)| position.unwrap().block).max();
        assert!(batches.len() > 20 && blocks == Some(4));
        for stop in 1..batches.len() {
            let position = batches[stop - 1].1;
            for hint in [position, None] {
                let mut resumed = world.loader(SEED, buckets).starting_at(hint);
                for (at, (batch, position)) in batches.iter().enumerate().skip(stop).take(3) {
                    assert_eq!(&resumed.batch((at * BATCH) as u64, BATCH).unwrap(), batch, "{at}, {hint:?}");
                    assert_eq!(resumed.position(), *position);
                }
            }
        }
        // Read the batches backwards, beginning at a position after the requested sample.
        let last = batches.last().unwrap().1;
        let mut loader = world.loader(SEED, buckets).starting_at(last);
        for (at, (batch, position)) in batches.iter().enumerate().rev() {
            assert_eq!(&loader.batch((at * BATCH) as u64, BATCH).unwrap(), batch);
            assert_eq!(loader.position(), *position);
        }
        // The batch size matters only for buckets, which are built for one batch size.
        if buckets == 1 {
            let all = loader.batch(3, 50).unwrap();
            let parts = [loader.batch(3, 9).unwrap(), loader.batch(12, 41).unwrap()];
            assert_eq!(parts.iter().flat_map(rows).collect::<Vec<_>>(), rows(&all));
        }
    }
}

/// Checks that the position is used: with a first sample that is one too high, every later sample is one late.
#[test]
fn counting_starts_at_the_given_position() {
    let world = World::new(23);
    let mut loader = world.loader(SEED, 1);
    loader.batch(400, 1).unwrap();
    let position = loader.position().unwrap();
    assert!(position.epoch > 1, "{position:?}");
    let far = loader.batch(position.first_sample, 3).unwrap();
    assert_eq!(loader.position(), Some(position));
    let late = LoaderPosition { first_sample: position.first_sample + 1, ..position };
    let mut shifted = world.loader(SEED, 1).starting_at(Some(late));
    assert_eq!(shifted.batch(position.first_sample + 1, 3).unwrap(), far);
}

#[test]
fn seeds_and_epochs_differ() {
    let world = World::new(23);
    let first = |seed| world.loader(seed, 1).batch(0, 20).unwrap();
    assert_eq!(first(SEED), first(SEED));
    assert_ne!(first(SEED), first(SEED + 1));
}

/// Tests a corpus with a single document.
#[test]
fn a_corpus_of_one_long_document() {
    let world = World::new(1);
    let line = "river stone bread engine violin harbour planet library\n";
    std::fs::write(world.at("text.txt"), line.repeat(5000)).unwrap();
    world.build("long", |config| config.layout = Layout::Documents);
    let mut loader = DataLoader::open(&world.at("long"), SEED).unwrap();
    let rows = loader.rows();
    assert!(rows > 1000, "{rows}");
    let batch = loader.batch(rows * 2, 50).unwrap();
    let position = loader.position().unwrap();
    assert!((1..=2).contains(&position.epoch) && position.block == 0, "{position:?}");
    let mut resumed = DataLoader::open(&world.at("long"), SEED).unwrap().starting_at(Some(position));
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
fn corrupt_documents_are_an_error() {
    let world = World::new(23);
    flip(&world.at("documents").join("train-00003-of-00008.parquet"));
    let rows = world.loader(SEED, 1).rows();
    for error in [
        world.loader(SEED, 1).batch(0, 2 * rows as usize).unwrap_err(),
        world.loader(SEED, 1).stored(0, rows).unwrap_err(),
    ] {
        assert!(error.to_string().contains(", but the manifest says"), "{error}");
        assert_eq!(error.exit_code(), 3);
    }
}
