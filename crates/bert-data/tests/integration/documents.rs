//! Stored documents: their content, reading them back, and equal instances from the loader and the builder.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, ListArray, RecordBatch};
use bert_data::shard::documents::DOCUMENT_COLUMNS;
use bert_data::{
    BuildConfig, DataSet, DocumentGroups, Error, Layout, Located, Manifest, ManifestProblem, Masking, Nsp,
    OptionError, RandomMode, RowProblem, ShardProblem, StoredRows, Tokenizer, Vocabulary, build_on, inspect,
    read_all_documents, verify,
};
use bert_storage::checksummed_json::checksummed_json;
use bert_storage::faults::{Fault, Faulty};
use bert_storage::{Disk, digest_bytes};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::support::{
    canonical, config, documents_of, loader_rows, run, small_text, small_vocabulary, sorted_rows,
};

struct World {
    folder: tempfile::TempDir,
    config: BuildConfig,
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, small_text(90)).unwrap();
    let vocab = small_vocabulary(folder.path());
    let config = BuildConfig {
        max_seq_length: 32,
        max_predictions_per_seq: Some(5),
        num_shards: Some(3),
        layout: Layout::Documents,
        ..config(&[&text], &vocab, &folder.path().join("data"))
    };
    World { folder, config }
}

impl World {
    fn vocabulary(&self) -> Vocabulary {
        Vocabulary::read(self.config.vocab.as_ref().unwrap()).unwrap()
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

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

/// The first rows shown are generated from few documents: damage in the other shards is not detected.
#[test]
fn inspect_reads_only_the_shown_documents() {
    let world = world();
    let config = BuildConfig { num_shards: Some(30), ..world.config.clone() };
    let outcome = run(&config).unwrap();
    let shown = inspect(&outcome.output, 2).unwrap();
    let (mut seen, mut unseen) = (0, 0);
    for shard in 0..30 {
        let path = outcome.manifest.shard_path(&outcome.output, shard);
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[good.len() / 2] ^= 1;
        std::fs::write(&path, bad).unwrap();
        match inspect(&outcome.output, 2) {
            Ok(again) => {
                assert_eq!(again.instances, shown.instances);
                unseen += 1;
            }
            Err(error) => {
                assert!(
                    matches!(
                        error,
                        Error::Manifest(Located { problem: ManifestProblem::FileDigest { .. }, .. })
                    ),
                    "{error}"
                );
                seen += 1;
            }
        }
        let mut all = StoredRows::new(&outcome.data_set().unwrap());
        let all = (0..all.len()).find_map(|row| all.row(row).err());
        assert!(
            matches!(all, Some(Error::Manifest(Located { problem: ManifestProblem::FileDigest { .. }, .. }))),
            "who evaluates sees all"
        );
        std::fs::write(&path, good).unwrap();
    }
    assert!((seen, unseen) == (1, 29), "{seen} seen, {unseen} unseen");
}

#[test]
fn inspect_shows_the_first_pass() {
    let world = world();
    // With one row group the random next sentences come from the whole text, as in the preview.
    let config = BuildConfig { preview: 2, num_shards: Some(1), ..world.config.clone() };
    let outcome = run(&config).unwrap();
    let manifest = &outcome.manifest;
    let mut rows = StoredRows::new(&outcome.data_set().unwrap());
    let report = &manifest.report;
    assert_eq!((rows.len(), report.instances), (manifest.instances, manifest.instances));
    let (mut tokens, mut masked, mut random) = (0, 0, 0);
    let mut lines = Vec::new();
    for index in 0..rows.len() {
        let row = rows.row(index).unwrap();
        tokens += row.input_ids.len() as u64;
        masked += row.masked_lm_ids.len() as u64;
        random += u64::from(row.next_sentence_label == 1);
        lines.push(canonical(row));
    }
    assert_eq!((tokens, masked, random), (report.instance_tokens, report.masked_tokens, report.random_next));
    for index in (0..rows.len()).rev().step_by(7) {
        assert_eq!(canonical(rows.row(index).unwrap()), lines[index as usize], "in any order");
    }
    let shown = inspect(&outcome.output, 12).unwrap();
    assert_eq!(shown.instances[..2], outcome.preview);
    assert_eq!(bert_data::inspect::instance(&outcome.output, 11).unwrap(), shown.instances[11]);
    assert!(shown.to_string().contains("in one pass; the loader generates new ones in every epoch"));
    assert!(shown.to_string().contains("replaced by [MASK]"));
    let page = bert_data::inspect::page::page(&outcome.output, 3).unwrap();
    assert!(page.contains("The documents are stored") && page.contains("class=\"m\""));
    let card = std::fs::read_to_string(outcome.output.join("README.md")).unwrap();
    assert!(card.contains("`sentence_lengths`") && card.contains("| passes over the text | one per epoch |"));
    assert!(!card.contains("segment_ids"));
    let config = Manifest::read(&outcome.output).unwrap().config;
    assert_eq!((config.layout, config.masking, config.dupe_factor), (Layout::Documents, Masking::Dynamic, 1));
}

#[test]
fn options_for_stored_instances_are_rejected() {
    let world = world();
    type Change = fn(&mut BuildConfig);
    let rejected: [(&str, Change); 3] = [
        ("dupe-factor", |config| config.dupe_factor = 5),
        ("masking", |config| config.masking = Masking::Dynamic),
        ("random", |config| config.random = RandomMode::Reference),
    ];
    for (flag, change) in rejected {
        let mut config = BuildConfig { num_shards: None, ..world.config.clone() };
        change(&mut config);
        let error = run(&config).unwrap_err();
        assert!(
            matches!(&error, Error::Option(OptionError::Conflict { option, with: "--layout documents", .. }) if *option == flag),
            "{error}"
        );
        assert!(!world.at("data").exists());
    }
}

type Lists = Vec<Option<Vec<Option<i32>>>>;

/// Writes a batch with the plain Parquet writer, without compression.
fn write_plain(path: &Path, batch: &RecordBatch) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn lists(rows: &[&[i32]]) -> Lists {
    rows.iter().map(|row| Some(row.iter().copied().map(Some).collect())).collect()
}

/// Returns the error for a shard of documents with other content.
fn foreign(manifest: &Manifest, path: &Path, columns: Vec<(&str, Lists)>) -> Error {
    let columns = columns.into_iter().map(|(name, rows)| {
        let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows));
        (name, list)
    });
    write_plain(path, &RecordBatch::try_from_iter(columns).unwrap());
    documents_of(manifest, path, 100).unwrap_err()
}

#[test]
fn foreign_shards_name_the_column_or_row() {
    let world = world();
    let manifest = &run(&world.config).unwrap().manifest;
    let path = world.at("foreign.parquet");
    let error = foreign(manifest, &path, vec![("input_ids", lists(&[&[7]]))]);
    assert!(error.to_string().contains("\"sentence_lengths\"") && error.exit_code() == 3, "{error}");
    let problem = |ids: &[&[i32]], lengths: &[&[i32]]| match foreign(
        manifest,
        &path,
        vec![("input_ids", lists(ids)), ("sentence_lengths", lists(lengths))],
    ) {
        Error::Shard(Located { problem: ShardProblem::Row { row, problem, .. }, .. }) => (row, problem),
        other => panic!("{other}"),
    };
    let good: &[i32] = &[7, 8, 9];
    assert_eq!(problem(&[good, &[]], &[&[1, 2], &[]]), (1, RowProblem::Empty));
    for id in [100, -1] {
        let outside = RowProblem::TokenId { id, vocabulary: 100 };
        assert_eq!(problem(&[good, &[7, id, 9]], &[&[3], &[3]]), (1, outside));
    }
    assert_eq!(
        problem(&[good], &[&[1, 0, 2]]),
        (0, RowProblem::Value { column: "sentence_lengths", value: 0 })
    );
    assert_eq!(
        problem(&[good], &[&[5, -2]]),
        (0, RowProblem::Value { column: "sentence_lengths", value: -2 })
    );
    assert_eq!(problem(&[good, good], &[&[3], &[1, 1]]), (1, RowProblem::SentenceSum { sum: 2, tokens: 3 }));
    assert_eq!(problem(&[good], &[&[]]), (0, RowProblem::SentenceSum { sum: 0, tokens: 3 }));
}

#[test]
fn null_sentence_lengths_are_rejected() {
    let world = world();
    let manifest = &run(&world.config).unwrap().manifest;
    let lengths = vec![Some(vec![Some(3)]), Some(vec![Some(3), None])];
    let columns = vec![("input_ids", lists(&[&[7, 8, 9], &[7, 8, 9]])), ("sentence_lengths", lengths)];
    let error = foreign(manifest, &world.at("foreign.parquet"), columns);
    assert!(
        matches!(
            error,
            Error::Shard(Located {
                problem: ShardProblem::Row { row: 1, problem: RowProblem::Null("sentence_lengths"), .. },
                ..
            })
        ),
        "{error}"
    );
}

#[test]
fn damaged_document_shards_are_found() {
    let world = world();
    let outcome = run(&BuildConfig { num_shards: Some(2), ..world.config.clone() }).unwrap();
    let (manifest, folder) = (&outcome.manifest, &outcome.output);
    let under = |manifest: &Manifest| DataSet::new(folder, manifest.clone(), world.vocabulary());
    let path = manifest.shard_path(folder, 1);
    let bytes = std::fs::read(&path).unwrap();
    for place in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        std::fs::write(&path, &damaged).unwrap();
        let error = read_all_documents(&under(manifest)).unwrap_err();
        assert!(
            matches!(error, Error::Manifest(Located { problem: ManifestProblem::FileDigest { .. }, .. })),
            "{error}"
        );
        // Even with a manifest that matches the damaged file, reading gives an error or other documents, never a panic.
        let size = manifest.vocabulary.size;
        if let Err(error) = documents_of(manifest, &path, size) {
            assert_eq!(error.exit_code(), 3, "{error}");
        }
    }
    assert!(!verify(folder, true).unwrap().is_good());
    // Shards that are valid by themselves, but do not match the counts.
    std::fs::write(&path, &bytes).unwrap();
    let mut other = manifest.clone();
    other.report.tokens += 1;
    let error = read_all_documents(&under(&other)).unwrap_err();
    assert!(error.to_string().contains("the tokens of all shards"), "{error}");
    let mut rows = manifest.clone();
    rows.shards[1].rows += 1;
    assert!(read_all_documents(&under(&rows)).unwrap_err().to_string().contains("the shard's rows"));
    // More instances than the documents give are an error, not an endless search.
    let mut more = manifest.clone();
    more.instances += 1;
    let mut rows = StoredRows::new(&under(&more));
    let error = rows.row(manifest.instances).unwrap_err();
    assert!(error.to_string().contains("the instances of one pass"), "{error}");
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

/// A shard of 300 row groups; the last one is damaged, and the manifest matches the damaged file.
#[test]
fn inspect_reads_only_the_needed_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let (text, vocab) = (folder.path().join("text.txt"), small_vocabulary(folder.path()));
    std::fs::write(&text, small_text(100)).unwrap();
    let base = config(&[&text], &vocab, &folder.path().join("data"));
    let mut outcome = run(&BuildConfig { dupe_factor: 300, num_shards: Some(1), ..base }).unwrap();
    let path = outcome.manifest.shard_path(&outcome.output, 0);
    let file = std::fs::File::open(&path).unwrap();
    let groups = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().metadata().row_groups().to_vec();
    assert_eq!(groups.len(), 300);
    let (start, length) = groups[299].column(0).byte_range();
    let mut bytes = std::fs::read(&path).unwrap();
    // The end of the last page: the headers of all pages are checked when the file is opened.
    bytes[(start + length) as usize - 8..(start + length) as usize].fill(0xff);
    std::fs::write(&path, &bytes).unwrap();
    outcome.manifest.shards[0].blake3 = digest_bytes(&bytes);
    std::fs::write(Manifest::path(&outcome.output), checksummed_json(&outcome.manifest)).unwrap();
    assert_eq!(inspect(&outcome.output, 2).unwrap().instances.len(), 2);
    assert!(!verify(&outcome.output, true).unwrap().is_good());
}

/// Damage that the digests do not reveal, because the manifest matches the damaged file: reading the first rows gives
/// an error for the shard or some rows, never a panic.
#[test]
fn inspect_of_damaged_shards_does_not_panic() {
    let world = world();
    let outcome = run(&BuildConfig { num_shards: Some(1), ..world.config.clone() }).unwrap();
    let path = outcome.manifest.shard_path(&outcome.output, 0);
    // The same rows as plain pages: in compressed pages the decompressor detects most of the damage.
    let file = std::fs::File::open(&path).unwrap();
    let mut batches = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    write_plain(&path, &batches.next().unwrap().unwrap());
    let bytes = std::fs::read(&path).unwrap();
    let (mut shown, mut rejected) = (0, 0);
    for place in 4..bytes.len() - 8 {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        std::fs::write(&path, &damaged).unwrap();
        let mut manifest = outcome.manifest.clone();
        (manifest.shards[0].blake3, manifest.shards[0].bytes) =
            (digest_bytes(&damaged), damaged.len() as u64);
        std::fs::write(Manifest::path(&outcome.output), checksummed_json(&manifest)).unwrap();
        match bert_data::inspect::instance(&outcome.output, 0) {
            Ok(_) => shown += 1,
            Err(error) => {
                assert_eq!(error.exit_code(), 3, "{error}");
                rejected += 1;
            }
        }
    }
    assert!(shown > 100 && rejected > 100, "{shown} shown, {rejected} rejected");
}
