//! The columns of `transformers`, and the entries in shard footers.

use std::fs::File;
use std::path::Path;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_schema::DataType;
use bert_data::{
    BuildConfig, BuildOutcome, Columns, DataSet, HF_COLUMNS, Layout, Manifest, Masking, NO_LABEL, Vocabulary,
    inspect, read_shard, verify,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use crate::support::{canonical, config, reference, run, shards, small_text, small_vocabulary};

fn small(folder: &Path) -> BuildConfig {
    let text = folder.join("text.txt");
    std::fs::write(&text, small_text(120)).unwrap();
    let vocab = small_vocabulary(folder);
    BuildConfig { max_seq_length: 32, num_shards: Some(3), ..config(&[&text], &vocab, &folder.join("data")) }
}

fn lines(outcome: &BuildOutcome) -> Vec<Vec<String>> {
    shards(outcome).iter().map(|rows| rows.iter().map(canonical).collect()).collect()
}

fn metadata(path: &Path) -> ParquetMetaData {
    ParquetMetaDataReader::new().parse_and_finish(&File::open(path).unwrap()).unwrap()
}

#[test]
fn both_column_layouts_have_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let config = small(folder.path());
    let to = |name: &str, columns| BuildConfig {
        columns,
        output: Some(folder.path().join(name)),
        ..config.clone()
    };
    let whole_words = |config| BuildConfig { do_whole_word_mask: true, ..config };
    let serial = |config| reference(BuildConfig { num_shards: None, ..config });
    for (name, change) in
        [("plain", (|config| config) as fn(_) -> _), ("words", whole_words), ("serial", serial)]
    {
        let ours = run(&change(to(&format!("{name}-ours"), Columns::Reference))).unwrap();
        let theirs = run(&change(to(&format!("{name}-hf"), Columns::Hf))).unwrap();
        assert!(lines(&ours) == lines(&theirs), "{name}");
        assert_eq!(ours.manifest.report, theirs.manifest.report);
        assert_eq!(ours.manifest.invariants, theirs.manifest.invariants);
        assert!(verify(&theirs.output, true).unwrap().is_good());
        assert_eq!(
            inspect(&ours.output, 3).unwrap().instances,
            inspect(&theirs.output, 3).unwrap().instances
        );
        let card = std::fs::read_to_string(theirs.output.join("README.md")).unwrap();
        assert!(card.contains("| `labels` | list of int32 |") && card.contains("Trainer(model"), "{card}");
        assert!(card.contains("BertConfig(vocab_size=words))"), "{card}");
    }
}

#[test]
fn hf_rows_are_padded_to_max_length() {
    let folder = tempfile::tempdir().unwrap();
    let config = BuildConfig { columns: Columns::Hf, ..small(folder.path()) };
    let outcome = run(&config).unwrap();
    let pad = Vocabulary::read(config.vocab.as_deref().unwrap()).unwrap().pad_id() as i32;
    let mut short = 0;
    for shard in 0..outcome.manifest.shards.len() {
        let file = File::open(outcome.manifest.shard_path(&outcome.output, shard)).unwrap();
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let names: Vec<_> = builder.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, HF_COLUMNS);
        for batch in builder.build().unwrap() {
            let batch = batch.unwrap();
            for row in 0..batch.num_rows() {
                let list = |at: usize| batch.column(at).as_list::<i32>().value(row);
                assert!((0..4).all(|at| list(at).len() == 32));
                let (ids, mask, labels) = (list(0), list(2), list(3));
                assert_eq!((ids.data_type(), mask.data_type()), (&DataType::Int32, &DataType::Int8));
                let mask = mask.as_primitive::<Int8Type>().values();
                let behind = mask.iter().filter(|&&value| value == 0).count();
                short += usize::from(behind > 0);
                let start = 32 - behind;
                assert!(ids.as_primitive::<Int32Type>().values()[start..].iter().all(|&id| id == pad));
                assert!(
                    labels.as_primitive::<Int32Type>().values()[start..].iter().all(|&id| id == NO_LABEL)
                );
            }
        }
    }
    assert!(short > 0);
}

#[test]
fn hf_columns_require_stored_masks() {
    let folder = tempfile::tempdir().unwrap();
    let hf = BuildConfig { columns: Columns::Hf, ..small(folder.path()) };
    for (wrong, named) in [
        (
            BuildConfig { layout: Layout::Documents, ..hf.clone() },
            "`.columns hf` cannot be used with `.layout documents`",
        ),
        (
            BuildConfig { masking: Masking::Dynamic, ..hf.clone() },
            "`.columns hf` cannot be used with `.masking dynamic`",
        ),
    ] {
        let error = run(&wrong).unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
        assert_eq!(error.exit_code(), 2);
        assert!(!folder.path().join("data").exists());
    }
}

/// A shard has one kind of columns and the manifest declares the other.
#[test]
fn mismatched_column_layouts_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let config = BuildConfig { num_shards: Some(1), ..small(folder.path()) };
    let ours = run(&config).unwrap();
    let output = Some(folder.path().join("hf"));
    let theirs = run(&BuildConfig { columns: Columns::Hf, output, ..config }).unwrap();
    for (manifest, data, column) in
        [(&ours.manifest, &theirs, "segment_ids"), (&theirs.manifest, &ours, "token_type_ids")]
    {
        let wrong = Manifest { shards: data.manifest.shards.clone(), ..manifest.clone() };
        let error =
            DataSet::from_manifest(&data.output, wrong).and_then(|data| data.read_rows(0)).unwrap_err();
        assert!(error.to_string().contains(&format!("column \"{column}\" is missing")), "{error}");
        assert_eq!(error.exit_code(), 3);
        assert!(read_shard(&data.manifest.shard_path(&data.output, 0)).is_ok());
    }
}

#[test]
fn shard_metadata_describes_the_shard() {
    let folder = tempfile::tempdir().unwrap();
    let config = BuildConfig { random_seed: 77, ..small(folder.path()) };
    let documents = BuildConfig { layout: Layout::Documents, ..config.clone() };
    for (name, config) in [
        ("instances", config.clone()),
        ("hf", BuildConfig { columns: Columns::Hf, ..config.clone() }),
        ("documents", documents),
    ] {
        let outcome = run(&BuildConfig { output: Some(folder.path().join(name)), ..config }).unwrap();
        let manifest = &outcome.manifest;
        for (index, shard) in manifest.shards.iter().enumerate() {
            let metadata = metadata(&outcome.output.join(&shard.file));
            let file = metadata.file_metadata();
            let created_by = concat!("bert-data version ", env!("CARGO_PKG_VERSION"));
            assert_eq!(file.created_by(), Some(created_by));
            let entries: Vec<_> = file.key_value_metadata().unwrap().iter().collect();
            let expected = [
                ("bert.format_version", manifest.format_version.to_string()),
                ("bert.config", manifest.config.digest()),
                ("bert.vocabulary", manifest.vocabulary.blake3.clone()),
                ("bert.random_seed", "77".to_owned()),
                ("bert.shard", format!("{index} of 3")),
            ];
            assert_eq!(entries.len(), expected.len());
            for (entry, (key, value)) in entries.iter().zip(expected) {
                assert_eq!(
                    (entry.key.as_str(), entry.value.as_deref()),
                    (key, Some(value.as_str())),
                    "{name}"
                );
            }
        }
    }
}

/// The digest in the footer equals the digest of the manifest's options, and contains no path.
#[test]
fn options_digest_can_be_recomputed() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = run(&small(folder.path())).unwrap().manifest;
    let other = bert_data::ResolvedConfig { vocab: "elsewhere".to_owned(), ..manifest.config.clone() };
    assert_eq!(manifest.config.digest(), other.digest());
    let seed = bert_data::ResolvedConfig { random_seed: 1, ..manifest.config.clone() };
    assert_ne!(manifest.config.digest(), seed.digest());
    let bare =
        bert_data::ResolvedConfig { input: Vec::new(), vocab: String::new(), ..manifest.config.clone() };
    let json = serde_json::to_string(&bare).unwrap();
    assert_eq!(manifest.config.digest(), blake3::hash(json.as_bytes()).to_hex().to_string());
}

#[test]
fn column_chunks_have_min_and_max_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(&small(folder.path())).unwrap();
    let words = outcome.manifest.vocabulary.size as i32;
    for shard in &outcome.manifest.shards {
        let metadata = metadata(&outcome.output.join(&shard.file));
        for group in metadata.row_groups() {
            let bounds = |at: usize| {
                let chunk = group.column(at).statistics().unwrap();
                assert_eq!(chunk.null_count_opt(), Some(0));
                let number = |bytes: Option<&[u8]>| i32::from_le_bytes(bytes.unwrap().try_into().unwrap());
                (number(chunk.min_bytes_opt()), number(chunk.max_bytes_opt()))
            };
            let (least, greatest) = bounds(0);
            assert!(least >= 0 && greatest > least && greatest < words);
            assert!(group.column(1).statistics().is_none(), "segment_ids are 0 and 1");
            assert!(bounds(2).0 >= 1 && bounds(2).1 < 32);
            assert_eq!(bounds(4), (0, 1));
        }
    }
}
