//! `inspect` on stored documents.

use bert_data::{BuildConfig, Layout, Manifest, Masking, StoredRows, inspect, verify};
use bert_storage::checksummed_json::checksummed_json;
use bert_storage::digest_bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::dataset::documents::{world, write_plain};
use crate::support::{canonical, config, run, small_text, small_vocabulary};

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
                assert!(error.to_string().contains(", but the manifest says"), "{error}");
                seen += 1;
            }
        }
        let mut all = StoredRows::new(&outcome.data_set().unwrap());
        let all = (0..all.len()).find_map(|row| all.row(row).err());
        assert!(
            all.as_ref().is_some_and(|error| error.to_string().contains(", but the manifest says")),
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
    assert_eq!(bert_data::inspect_instance(&outcome.output, 11).unwrap(), shown.instances[11]);
    assert!(shown.to_string().contains("in one pass; the loader generates new ones in every epoch"));
    assert!(shown.to_string().contains("replaced by [MASK]"));
    let page = bert_data::page::page(&outcome.output, 3).unwrap();
    assert!(page.contains("The documents are stored") && page.contains("class=\"m\""));
    let card = std::fs::read_to_string(outcome.output.join("README.md")).unwrap();
    assert!(card.contains("`sentence_lengths`") && card.contains("| passes over the text | one per epoch |"));
    assert!(!card.contains("segment_ids"));
    let config = Manifest::read(&outcome.output).unwrap().config;
    assert_eq!((config.layout, config.masking, config.dupe_factor), (Layout::Documents, Masking::Dynamic, 1));
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
        match bert_data::inspect_instance(&outcome.output, 0) {
            Ok(_) => shown += 1,
            Err(error) => {
                assert_eq!(error.exit_code(), 3, "{error}");
                rejected += 1;
            }
        }
    }
    assert!(shown > 100 && rejected > 100, "{shown} shown, {rejected} rejected");
}
