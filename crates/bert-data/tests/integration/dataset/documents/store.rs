//! The stored documents, and the rows that the loader makes of them.

use arrow_array::RecordBatch;
use bert_data::{
    BuildConfig, DOCUMENT_COLUMNS, DocumentGroups, Layout, Masking, Nsp, RandomMode, Tokenizer, build_on,
    read_all_documents, verify,
};
use bert_storage::Disk;
use bert_testing::disks::{Fault, Faulty};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::dataset::documents::world;
use crate::support::{config, loader_rows, run, small_text, small_vocabulary, sorted_rows};

#[test]
fn documents_store_every_sentence_once() {
    let world = world();
    let outcome = run(&world.config).unwrap();
    let manifest = &outcome.manifest;
    let documents = read_all_documents(&outcome.data_set().unwrap()).unwrap();
    let vocabulary = world.vocabulary();
    let tokenizer = Tokenizer::new(&vocabulary, true);
    let mut encoder = tokenizer.encoder();
    let text = small_text(90);
    let of_text: Vec<Vec<Vec<u32>>> = text
        .trim_end()
        .split("\n\n")
        .map(|document| {
            let ids = |line: &str| {
                let mut ids = Vec::new();
                encoder.encode(line, &mut ids);
                ids
            };
            document.lines().map(ids).collect()
        })
        .collect();
    let read = documents.documents().iter().map(|document| -> Vec<Vec<u32>> {
        let ids = |sentence| {
            let mut ids = Vec::new();
            document.append_tokens(document.sentence(sentence), &mut ids);
            ids
        };
        (0..document.sentences()).map(ids).collect()
    });
    let read: Vec<_> = read.collect();
    assert_eq!(read, of_text);
    let rows: Vec<u64> = manifest.shards.iter().map(|shard| shard.rows).collect();
    assert_eq!(rows.iter().sum::<u64>(), 90);
    assert_eq!(rows, [30, 30, 30]);
    let numbers: Vec<u64> = (0..90).map(|place| documents.number(place)).collect();
    assert!(numbers.into_iter().eq(0..90));
    assert!(verify(&outcome.output, true).unwrap().is_good());
}

#[test]
fn a_shard_is_a_sample_of_the_text() {
    let world = world();
    let outcome = run(&world.config).unwrap();
    let mut groups = DocumentGroups::new(&outcome.data_set().unwrap());
    assert_eq!(groups.len(), 3);
    let first = groups.read([0]).unwrap();
    let below = |limit| (0..first.len()).filter(|&place| first.number(place) < limit).count();
    assert!((4..=16).contains(&below(30)) && (10..=20).contains(&below(45)), "{}", below(30));
}

#[test]
fn seed_changes_only_the_document_order() {
    let world = world();
    let digests = |threads, random_seed, name: &str| {
        let output = Some(world.at(name));
        let outcome =
            run(&BuildConfig { threads, random_seed, output, ..world.config.clone() }).unwrap().manifest;
        let shards: Vec<String> = outcome.shards.into_iter().map(|shard| shard.blake3).collect();
        (shards, outcome.report)
    };
    let one = digests(1, 7, "one");
    assert_eq!(one, digests(4, 7, "four"));
    let other = digests(2, 8, "other");
    assert_ne!(one.1, other.1);
    // The footers contain the seed; the rows are the same.
    let rows = |name: &str| -> Vec<String> {
        let path = |shard| world.at(name).join(format!("train-{shard:05}-of-00003.parquet"));
        let open = |shard| std::fs::File::open(path(shard)).unwrap();
        let shards = (0..3).map(|shard| ParquetRecordBatchReaderBuilder::try_new(open(shard)).unwrap());
        // Without the schema's metadata, which comes from the footer.
        let plain = |batch: RecordBatch| {
            RecordBatch::try_from_iter(
                DOCUMENT_COLUMNS.map(|name| (name, batch.column_by_name(name).unwrap().clone())),
            )
            .unwrap()
        };
        let batches = shards.flat_map(|shard| shard.build().unwrap()).map(|batch| plain(batch.unwrap()));
        batches
            .flat_map(|batch| {
                (0..batch.num_rows()).map(|row| format!("{:?}", batch.slice(row, 1))).collect::<Vec<_>>()
            })
            .collect()
    };
    let (mut one, mut other) = (rows("one"), rows("other"));
    assert_ne!(one, other);
    one.sort_unstable();
    other.sort_unstable();
    assert_eq!(one, other);
}

/// A build that fails at any point continues to the same data set.
#[test]
fn failed_build_resumes() {
    let world = world();
    let whole = run(&world.config).unwrap().manifest;
    let config = BuildConfig { threads: 1, output: Some(world.at("again")), ..world.config.clone() };
    let counting = Faulty::new(Fault::Full, u64::MAX);
    build_on(&counting, &config, &mut |_| {}).unwrap();
    std::fs::remove_dir_all(world.at("again")).unwrap();
    let (operations, mut failed) = (counting.operations(), 0);
    for fail_at in (0..operations).step_by(7) {
        // Removing a file needs no space: the last operations do not fail.
        let files = Faulty::new(Fault::Full, fail_at);
        let made = match build_on(&files, &config, &mut |_| {}) {
            Ok(outcome) => outcome.manifest,
            Err(_) => {
                failed += 1;
                build_on(&Disk, &config, &mut |_| {}).unwrap().manifest
            }
        };
        assert_eq!(made, whole, "{fail_at}");
        std::fs::remove_dir_all(world.at("again")).unwrap();
    }
    assert!(failed >= 6, "{failed} of {operations}");
}

#[test]
fn more_shards_than_documents_are_empty_and_read() {
    let world = world();
    let text = world.at("few.txt");
    std::fs::write(&text, small_text(2)).unwrap();
    let config = BuildConfig { num_shards: Some(5), input: vec![text], ..world.config.clone() };
    let outcome = run(&config).unwrap();
    assert_eq!(outcome.manifest.shards.len(), 5);
    assert_eq!(read_all_documents(&outcome.data_set().unwrap()).unwrap().len(), 2);
    assert!(verify(&outcome.output, true).unwrap().is_good());
}

/// For each (seed, pass, document) the loader generates what the builder stores, for every kind of pairs and masks.
#[test]
fn loader_passes_match_the_builder() {
    let world = world();
    const PASSES: u64 = 3;
    for (name, nsp, do_whole_word_mask, max_ngram) in [
        ("on", Nsp::On, false, 1),
        ("off", Nsp::Off, true, 1),
        ("sop", Nsp::Sop, false, 1),
        ("spans", Nsp::On, true, 3),
    ] {
        let seed = 31;
        let documents = BuildConfig {
            nsp,
            do_whole_word_mask,
            max_ngram,
            output: Some(world.at(name)),
            ..world.config.clone()
        };
        let instances = BuildConfig {
            layout: Layout::Instances,
            dupe_factor: PASSES as usize,
            random_seed: seed,
            output: Some(world.at(&format!("{name}-instances"))),
            ..documents.clone()
        };
        let expected = sorted_rows(&run(&instances).unwrap());
        assert!(loader_rows(&run(&documents).unwrap(), seed, PASSES) == expected, "{name}");
    }
}

#[test]
fn options_for_stored_instances_are_rejected() {
    let world = world();
    type Change = fn(&mut BuildConfig);
    let rejected: [(&str, Change); 3] = [
        ("dupe_factor", |config| config.dupe_factor = 5),
        ("masking", |config| config.masking = Masking::Dynamic),
        ("random", |config| config.random = RandomMode::Reference),
    ];
    for (flag, change) in rejected {
        let mut config = BuildConfig { num_shards: None, ..world.config.clone() };
        change(&mut config);
        let error = run(&config).unwrap_err();
        assert!(
            error.text().starts_with(&format!("`.{flag}` cannot be used with `.layout documents`")),
            "{error}"
        );
        assert!(!world.at("data").exists());
    }
}

/// A row group of one document has no other document for a random next sentence.
#[test]
fn too_many_shards_print_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let (text, vocab) = (folder.path().join("text.txt"), small_vocabulary(folder.path()));
    std::fs::write(&text, small_text(12)).unwrap();
    let base = BuildConfig { max_seq_length: 32, ..config(&[&text], &vocab, &folder.path().join("data")) };
    for (shards, is_warned) in [(12, true), (6, false), (1, false)] {
        let (layout, num_shards, overwrite) = (Layout::Documents, Some(shards), true);
        let report =
            run(&BuildConfig { layout, num_shards, overwrite, ..base.clone() }).unwrap().manifest.report;
        let warned = report.warnings.iter().any(|warning| warning.contains("--num-shards 6 or fewer"));
        assert_eq!(warned, is_warned, "{shards}: {:?}", report.warnings);
        assert_eq!(report.random_next == 0, is_warned);
    }
}
