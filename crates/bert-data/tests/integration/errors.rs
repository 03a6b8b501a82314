//! Every kind of failure: the right variant and exit code, the problem and its location in the message, no side
//! effects.

use std::path::{Path, PathBuf};

use arrow_array::builder::{BooleanBuilder, ListBuilder};
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{ArrayRef, Int8Array, Int32Array, ListArray, RecordBatch};
use bert_data::make_vocab::{VocabConfig, train_vocabulary};
use bert_data::{
    BuildConfig, DataSet, Error, InputError, InputProblem, Located, Manifest, ManifestProblem, Nsp,
    OptionError, OutputProblem, RowProblem, ShardProblem, Vocabulary, VocabularyProblem, inspect, read_shard,
    verify,
};
use bert_storage::{Disk, LOCK, StagedFolder};
use std::sync::Arc;

use crate::support::{config, reference, run, small_text, small_vocabulary};

struct World {
    folder: tempfile::TempDir,
    config: BuildConfig,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text.txt");
        std::fs::write(&text, small_text(20)).unwrap();
        let vocab = small_vocabulary(folder.path());
        let config = config(&[&text], &vocab, &folder.path().join("data"));
        Self { folder, config }
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn data(&self) -> PathBuf {
        self.config.output.clone().unwrap()
    }

    /// Runs, and expects a failure with this exit code and these words and without output.
    fn fails(&self, config: &BuildConfig, code: u8, words: &[&str]) -> Error {
        let before = self.data().exists();
        let error = run(config).unwrap_err();
        assert_says(&error, code, words);
        assert_eq!(before, self.data().exists(), "{error}: nothing may change");
        error
    }
}

fn assert_says(error: &Error, code: u8, words: &[&str]) {
    let message = error.to_string();
    assert_eq!(error.exit_code(), code, "{message}");
    for word in words {
        assert!(message.contains(word), "{message:?} does not name {word:?}");
    }
}

#[test]
fn wrong_values_name_the_flag() {
    let world = World::new();
    let base = || world.config.clone();
    let cases = [
        ("max-seq-length", BuildConfig { max_seq_length: 7, ..base() }),
        ("max-seq-length", BuildConfig { max_seq_length: 70_000, ..base() }),
        ("max-predictions-per-seq", BuildConfig { max_predictions_per_seq: Some(0), ..base() }),
        ("max-predictions-per-seq", BuildConfig { max_predictions_per_seq: Some(128), ..base() }),
        ("masked-lm-prob", BuildConfig { masked_lm_prob: 0.0, ..base() }),
        ("masked-lm-prob", BuildConfig { masked_lm_prob: f64::NAN, ..base() }),
        ("short-seq-prob", BuildConfig { short_seq_prob: 1.1, ..base() }),
        ("dupe-factor", BuildConfig { dupe_factor: 0, ..base() }),
        ("num-shards", BuildConfig { num_shards: Some(0), ..base() }),
        ("max-ngram", BuildConfig { max_ngram: 0, ..base() }),
        ("max-ngram", BuildConfig { max_ngram: 65, ..base() }),
        ("threads", BuildConfig { threads: 5000, ..base() }),
        ("language", BuildConfig { split_sentences: true, language: "tlh".to_owned(), ..base() }),
    ];
    for (flag, config) in cases {
        let error = world.fails(&config, 2, &[&format!("--{flag}")]);
        assert!(matches!(error, Error::Option(OptionError::Invalid { .. })));
    }
}

#[test]
fn conflicting_or_missing_options_are_rejected() {
    let world = World::new();
    let base = || world.config.clone();
    for config in [
        reference(BuildConfig { split_sentences: true, ..base() }),
        reference(BuildConfig { num_shards: Some(2), ..base() }),
        reference(BuildConfig { nsp: Nsp::Off, ..base() }),
        reference(BuildConfig { nsp: Nsp::Sop, ..base() }),
        reference(BuildConfig { max_ngram: 2, ..base() }),
        reference(BuildConfig { random_word_skip_special: true, ..base() }),
    ] {
        let error = world.fails(&config, 2, &["--random reference"]);
        assert!(matches!(error, Error::Option(OptionError::Conflict { .. })));
    }
    for config in [BuildConfig { output: None, ..base() }, BuildConfig { vocab: None, ..base() }] {
        assert!(matches!(
            world.fails(&config, 2, &["is required"]),
            Error::Option(OptionError::Missing { .. })
        ));
    }
    let wrong = world.file("config.json", br#"{"dupe_factr": 3}"#);
    assert_says(&BuildConfig::read(&wrong).unwrap_err(), 2, &["config.json"]);
    assert_says(&BuildConfig::read(&world.data()).unwrap_err(), 1, &["data"]);
}

#[test]
fn bad_inputs_are_named() {
    let world = World::new();
    let with = |input: Vec<PathBuf>| BuildConfig { input, ..world.config.clone() };
    let inside = |name: &str| world.folder.path().join(name);
    let text = world.config.input[0].clone();
    assert!(matches!(world.fails(&with(vec![]), 2, &["no input"]), Error::Input(InputError::NoneNamed)));
    let missing = world.fails(&with(vec![text.clone(), inside("missing.txt")]), 2, &["missing.txt"]);
    assert!(matches!(missing, Error::InputFile(Located { problem: InputProblem::Missing, .. })));
    let nothing = world.fails(&with(vec![inside("*.nothing")]), 2, &["*.nothing"]);
    assert!(matches!(
        nothing,
        Error::InputFile(Located { problem: InputProblem::PatternMatchesNothing, .. })
    ));
    let pattern = world.fails(&with(vec![inside("a***")]), 2, &["a***"]);
    assert!(matches!(pattern, Error::InputFile(Located { problem: InputProblem::InvalidPattern(..), .. })));
    std::fs::create_dir(inside("empty")).unwrap();
    let empty = world.fails(&with(vec![inside("empty")]), 2, &["empty"]);
    assert!(matches!(empty, Error::InputFile(Located { problem: InputProblem::FolderEmpty, .. })));
    let twice = world.fails(&with(vec![text.clone(), text]), 2, &["text.txt", "twice"]);
    assert!(matches!(twice, Error::InputFile(Located { problem: InputProblem::Twice, .. })));
    #[cfg(unix)]
    {
        let device = world.fails(&with(vec!["/dev/null".into()]), 2, &["/dev/null"]);
        assert!(matches!(device, Error::InputFile(Located { problem: InputProblem::NotAFile, .. })));
    }
    for content in [&b""[..], b"\n\n  \n", b"\xe2\x80\x8b\n"] {
        let error =
            world.fails(&with(vec![world.file("blank.txt", content)]), 3, &["1 file(s)", "no tokens"]);
        assert!(matches!(error, Error::Input(InputError::NoText { .. })));
    }
    let one = world.fails(&with(vec![world.file("one.txt", b"the cat sat\n")]), 3, &["1 sentence(s)"]);
    assert!(matches!(one, Error::Input(InputError::NoInstances { .. })));
}

#[test]
fn damaged_inputs_are_named() {
    let world = World::new();
    let with = |name: &str, content: &[u8]| BuildConfig {
        input: vec![world.file(name, content)],
        ..world.config.clone()
    };
    let mut zstd = zstd::encode_all(small_text(500).as_bytes(), 1).unwrap();
    zstd.truncate(zstd.len() - 9);
    let error = world.fails(&with("cut.zst", &zstd), 3, &["cut.zst", "zstd"]);
    assert!(matches!(error, Error::InputFile(Located { problem: InputProblem::CorruptCompression(..), .. })));
    let error = world.fails(
        &with("bad.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03garbage!"),
        3,
        &["bad.gz", "gzip"],
    );
    assert!(matches!(error, Error::InputFile(Located { problem: InputProblem::CorruptCompression(..), .. })));
    let error = world.fails(&with("bad.bz2", b"BZh91AY&SYgarbage!"), 3, &["bad.bz2", "bzip2"]);
    assert!(matches!(error, Error::InputFile(Located { problem: InputProblem::CorruptCompression(..), .. })));
    let error = world.fails(&with("bad.xz", b"\xfd7zXZ\0\0\x04garbage!"), 3, &["bad.xz", "xz"]);
    assert!(matches!(error, Error::InputFile(Located { problem: InputProblem::CorruptCompression(..), .. })));
    let strict = |name: &str, content: &[u8]| BuildConfig { strict_utf8: true, ..with(name, content) };
    let error = world.fails(&strict("nul.txt", b"the cat\n\nthe c\0t\n"), 3, &["nul.txt:3", "a NUL byte"]);
    assert!(matches!(error, Error::InputFile(Located { problem: InputProblem::NulByte, line: Some(3), .. })));
    let error = world.fails(&strict("latin.txt", b"the cat\n\nthe caf\xe9\n"), 3, &["latin.txt:3"]);
    assert!(matches!(
        error,
        Error::InputFile(Located { problem: InputProblem::InvalidUtf8, line: Some(3), .. })
    ));
    let long = [&b"the cat\n"[..], &vec![b'a'; 65 << 20]].concat();
    let error = world.fails(&with("long.txt", &long), 3, &["long.txt:2"]);
    assert!(matches!(
        error,
        Error::InputFile(Located { problem: InputProblem::LineTooLong(..), line: Some(2), .. })
    ));
}

#[test]
fn bad_vocabularies_are_named() {
    let world = World::new();
    let vocabulary =
        |content: &[u8]| Vocabulary::from_bytes(content.to_vec(), Path::new("v.txt")).unwrap_err();
    assert_says(&vocabulary(b""), 3, &["v.txt", "empty"]);
    for missing in ["[UNK]", "[CLS]", "[SEP]", "[MASK]"] {
        let tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the"]
            .into_iter()
            .filter(|token| *token != missing);
        let content = tokens.collect::<Vec<_>>().join("\n");
        let config =
            BuildConfig { vocab: Some(world.file("v.txt", content.as_bytes())), ..world.config.clone() };
        let error = world.fails(&config, 3, &["v.txt", missing, "5 tokens"]);
        assert!(matches!(
            error,
            Error::Vocabulary(Located { problem: VocabularyProblem::LacksToken { .. }, .. })
        ));
    }
    assert_says(&vocabulary(b"[PAD]\nthe\n[UNK]\nthe\n"), 3, &["v.txt:4", "\"the\"", "line 2"]);
    assert_says(&vocabulary(b"[PAD]\n\xff\n"), 3, &["v.txt:2", "UTF-8"]);
    let missing = BuildConfig { vocab: Some("no-such-vocab".into()), ..world.config.clone() };
    assert!(matches!(
        world.fails(&missing, 1, &["no-such-vocab"]),
        Error::Storage(bert_storage::Error::Io { .. })
    ));
    let small = VocabConfig { vocab_size: 10, ..VocabConfig::default() };
    assert_says(
        &train_vocabulary(&world.config.input, &small, &mut |_, _| {}).unwrap_err(),
        2,
        &["--vocab-size"],
    );
    let blank = [world.file("blank.txt", b"\n")];
    assert_says(&train_vocabulary(&blank, &small, &mut |_, _| {}).unwrap_err(), 3, &["no tokens"]);
    let latin = [world.file("latin.txt", b"caf\xe9\n")];
    let strict = VocabConfig { strict_utf8: true, ..VocabConfig::default() };
    assert_says(&train_vocabulary(&latin, &strict, &mut |_, _| {}).unwrap_err(), 3, &["latin.txt:1"]);
}

#[test]
fn foreign_outputs_are_not_changed() {
    let world = World::new();
    let data = world.data();
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("thesis.tex"), "mine").unwrap();
    for overwrite in [false, true] {
        let config = BuildConfig { overwrite, ..world.config.clone() };
        let error = world.fails(&config, 2, &["data", "thesis.tex"]);
        assert!(matches!(error, Error::Output(Located { problem: OutputProblem::HoldsOtherData(..), .. })));
    }
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 1);
    std::fs::remove_file(data.join("thesis.tex")).unwrap();
    // A vocabulary alone may belong to the user, and so may a manifest in another format.
    for name in ["vocab.txt", "manifest.json"] {
        std::fs::write(data.join(name), "{}").unwrap();
        world.fails(&BuildConfig { overwrite: true, ..world.config.clone() }, 2, &[name]);
        std::fs::remove_file(data.join(name)).unwrap();
    }
    run(&world.config).unwrap();
    // Other files may be added later; the same command has nothing to do, and a different one is rejected.
    std::fs::write(data.join("thesis.tex"), "mine").unwrap();
    run(&world.config).unwrap();
    let other = BuildConfig { random_seed: 7, ..world.config.clone() };
    let error = world.fails(&other, 2, &["--overwrite", "--random-seed is 12345, not 7"]);
    assert!(matches!(error, Error::Output(Located { problem: OutputProblem::Finished { .. }, .. })));
    run(&BuildConfig { overwrite: true, ..other }).unwrap();
    assert!(data.join("thesis.tex").exists());
    let file = BuildConfig { output: Some(world.file("file", b"")), ..world.config.clone() };
    assert!(matches!(
        world.fails(&file, 2, &["not a folder"]),
        Error::Output(Located { problem: OutputProblem::NotAFolder, .. })
    ));
}

#[test]
fn a_folder_in_use_is_rejected() {
    let world = World::new();
    let data = world.data();
    std::fs::create_dir(&data).unwrap();
    let lock = StagedFolder::new(&Disk, &data).lock(LOCK).unwrap();
    let error = world.fails(&world.config, 6, &["in use by another process"]);
    assert!(matches!(error, Error::Storage(bert_storage::Error::InUse { .. })));
    drop(lock);
    run(&world.config).unwrap();
}

#[test]
fn manifests_are_checked() {
    let world = World::new();
    let data = world.data();
    assert_says(&Manifest::read(&data).unwrap_err(), 3, &["this folder does not exist"]);
    let good = run(&BuildConfig { num_shards: Some(2), ..world.config.clone() }).unwrap().manifest;
    let path = Manifest::path(&data);
    let change = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = serde_json::to_value(&good).unwrap();
        change(&mut value);
        std::fs::write(&path, serde_json::to_vec(&value).unwrap()).unwrap();
        Manifest::read(&data).unwrap_err()
    };
    assert_says(&change(&|value| value["format_version"] = 99.into()), 3, &["version 99"]);
    assert_says(&change(&|value| value["extra"] = 2.into()), 3, &["not a valid manifest"]);
    for bad in ["../x.parquet", "/etc/passwd", "a/b", "C:x", ".lock", ""] {
        let error = change(&|value| value["shards"][0]["file"] = bad.into());
        assert!(
            matches!(error, Error::Manifest(Located { problem: ManifestProblem::UnsafePath(..), .. })),
            "{error}"
        );
        change(&|value| value["vocabulary"]["file"] = bad.into());
    }
    let error = change(&|value| value["shards"][0]["rows"] = 1.into());
    assert!(
        matches!(error, Error::Manifest(Located { problem: ManifestProblem::Count { .. }, .. })),
        "{error}"
    );
    change(&|value| value["shards"][0]["rows"] = u64::MAX.into());
    change(&|value| value["report"]["instances"] = 1.into());
    std::fs::write(&path, "{").unwrap();
    assert_says(&inspect(&data, 1).unwrap_err(), 3, &["not a valid manifest"]);
}

#[test]
fn damaged_folders_are_found() {
    let world = World::new();
    let data = world.data();
    let manifest = run(&world.config).unwrap().manifest;
    let shard = manifest.shard_path(&data, 0);
    let bytes = std::fs::read(&shard).unwrap();
    let problem = || verify(&data, true).unwrap().into_problem().unwrap();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    std::fs::write(&shard, &flipped).unwrap();
    assert!(matches!(
        problem(),
        Error::Manifest(Located { problem: ManifestProblem::FileDigest { .. }, .. })
    ));
    assert!(verify(&data, false).unwrap().is_good(), "only a deep check reads digests");
    std::fs::write(&shard, &bytes[1..]).unwrap();
    assert!(matches!(problem(), Error::Manifest(Located { problem: ManifestProblem::FileSize { .. }, .. })));
    std::fs::remove_file(&shard).unwrap();
    assert!(matches!(problem(), Error::Manifest(Located { problem: ManifestProblem::FileMissing, .. })));
    #[cfg(unix)]
    {
        // A link to itself exists, but cannot be read.
        std::os::unix::fs::symlink(&shard, &shard).unwrap();
        assert_says(&problem(), 1, &["cannot read", "train-00000"]);
        std::fs::remove_file(&shard).unwrap();
    }
    std::fs::write(&shard, &bytes).unwrap();
    std::fs::write(manifest.vocabulary_path(&data), "[UNK]\n").unwrap();
    assert_says(&problem(), 3, &["vocab.txt", "BLAKE3"]);
    assert!(verify(&data, true).unwrap().to_string().contains("bad   "));
}

#[test]
fn manifests_that_contradict_their_files_are_found() {
    let world = World::new();
    let manifest = run(&world.config).unwrap().manifest;
    let forged = |forge: &dyn Fn(&mut bert_data::Manifest)| {
        let mut forged = manifest.clone();
        forge(&mut forged);
        DataSet::of(&world.data(), forged).and_then(|forged| forged.read_rows(0)).unwrap_err()
    };
    assert_says(
        &forged(&|manifest| manifest.vocabulary.size += 1),
        3,
        &["manifest.json", "the vocabulary's size"],
    );
    assert_says(&forged(&|manifest| manifest.shards[0].rows -= 1), 3, &["train-00000", "the shard's rows"]);
    assert_says(&forged(&|manifest| manifest.config.max_seq_length = 5), 3, &["train-00000", "tokens"]);
}

/// A flipped bit or a cut in a shard read without a manifest is an error or other rows, never a panic.
#[test]
fn damaged_shards_do_not_panic() {
    let world = World::new();
    let manifest = run(&BuildConfig { dupe_factor: 1, ..world.config.clone() }).unwrap().manifest;
    let bytes = std::fs::read(manifest.shard_path(&world.data(), 0)).unwrap();
    let path = world.folder.path().join("damaged.parquet");
    for place in (0..bytes.len()).step_by(5) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        std::fs::write(&path, &damaged).unwrap();
        if let Err(error) = read_shard(&path) {
            assert_eq!(error.exit_code(), 3, "{error}");
        }
        std::fs::write(&path, &bytes[..place]).unwrap();
        assert_eq!(read_shard(&path).unwrap_err().exit_code(), 3);
    }
}

/// Returns the error for a shard with the given columns, written by the plain Parquet writer.
fn foreign(path: &Path, columns: Vec<(&str, ArrayRef)>) -> Error {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    read_shard(path).unwrap_err()
}

type Lists = Vec<Option<Vec<Option<i32>>>>;

fn int32(rows: &[&[i32]]) -> Lists {
    rows.iter().map(|row| Some(row.iter().copied().map(Some).collect())).collect()
}

fn columns(
    ids: Lists,
    segments: &[&[i8]],
    positions: Lists,
    labels: Lists,
    next: &[i8],
) -> Vec<(&'static str, ArrayRef)> {
    let segments = segments.iter().map(|row| Some(row.iter().copied().map(Some).collect::<Vec<_>>()));
    let list =
        |rows: Lists| -> ArrayRef { Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows)) };
    vec![
        ("input_ids", list(ids)),
        ("segment_ids", Arc::new(ListArray::from_iter_primitive::<Int8Type, _, _>(segments))),
        ("masked_lm_positions", list(positions)),
        ("masked_lm_ids", list(labels)),
        ("next_sentence_label", Arc::new(Int8Array::from(next.to_vec()))),
    ]
}

/// Two rows without fault.
const IDS: &[&[i32]] = &[&[2, 7, 3, 8, 3], &[2, 7, 3, 8, 3]];
const SEGMENTS: &[&[i8]] = &[&[0, 0, 0, 1, 1], &[0, 0, 0, 1, 1]];

fn masks() -> Lists {
    int32(&[&[1], &[1]])
}

#[test]
fn foreign_columns_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.parquet");
    let one: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    assert_says(
        &foreign(&path, vec![("text", one.clone())]),
        3,
        &["foreign.parquet", "\"input_ids\"", "missing"],
    );
    assert_says(&foreign(&path, vec![("input_ids", one.clone())]), 3, &["int32", "list<int32>"]);
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 1]));
    let mut flags = ListBuilder::new(BooleanBuilder::new());
    (0..2).for_each(|_| flags.append_value([Some(true); 5]));
    let flags: ArrayRef = Arc::new(flags.finish());
    // Only the column of word marks may follow, with its name and its type.
    for (name, values) in [("weight", &numbers), ("continues_word", &numbers), ("flags", &flags)] {
        let mut extra = columns(int32(IDS), SEGMENTS, masks(), masks(), &[0, 1]);
        extra.push((name, values.clone()));
        assert_says(&foreign(&path, extra), 3, &[&format!("{name:?}"), "no further column"]);
    }
}

#[test]
fn wrong_rows_of_foreign_shards_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let row = |columns| match foreign(&folder.path().join("foreign.parquet"), columns) {
        Error::Shard(Located { problem: ShardProblem::Row { row, problem, .. }, .. }) => (row, problem),
        other => panic!("{other}"),
    };
    let bad_ids = |ids: &[&[i32]]| columns(int32(ids), SEGMENTS, masks(), masks(), &[0, 1]);
    assert_eq!(
        row(bad_ids(&[IDS[0], &[2, 7, 3]])),
        (1, RowProblem::Length { column: "segment_ids", found: 5, of: "input_ids", expected: 3 })
    );
    assert_eq!(row(bad_ids(&[IDS[0], &[]])), (1, RowProblem::Empty));
    let negative = RowProblem::TokenId { id: -7, vocabulary: i32::MAX as usize };
    assert_eq!(row(bad_ids(&[IDS[0], &[2, -7, 3, 8, 3]])), (1, negative));
    let bad_segments = columns(int32(IDS), &[SEGMENTS[0], &[0, 0, 0, 2, 1]], masks(), masks(), &[0, 1]);
    assert_eq!(row(bad_segments), (1, RowProblem::Value { column: "segment_ids", value: 2 }));
    let bad_label = columns(int32(IDS), SEGMENTS, masks(), masks(), &[0, 5]);
    assert_eq!(row(bad_label), (1, RowProblem::Value { column: "next_sentence_label", value: 5 }));
    let bad_count = columns(int32(IDS), SEGMENTS, masks(), int32(&[&[1], &[1, 2]]), &[0, 1]);
    let two =
        RowProblem::Length { column: "masked_lm_ids", found: 2, of: "masked_lm_positions", expected: 1 };
    assert_eq!(row(bad_count), (1, two));
    for position in [5, -1] {
        let outside = columns(int32(IDS), SEGMENTS, int32(&[&[position], &[1]]), masks(), &[0, 1]);
        assert_eq!(row(outside), (0, RowProblem::Position { position, tokens: 5 }));
    }
    let twice = columns(int32(IDS), SEGMENTS, int32(&[&[1], &[1, 1]]), int32(&[&[1], &[1, 1]]), &[0, 1]);
    assert_eq!(row(twice), (1, RowProblem::Position { position: 1, tokens: 5 }));
    let mut ids = int32(IDS);
    ids[1] = None;
    assert_eq!(row(columns(ids, SEGMENTS, masks(), masks(), &[0, 1])), (1, RowProblem::Null("input_ids")));
    let mut ids = int32(IDS);
    ids[1] = Some(vec![None; 5]);
    assert_eq!(row(columns(ids, SEGMENTS, masks(), masks(), &[0, 1])), (1, RowProblem::Null("input_ids")));
}

#[test]
fn rows_that_do_not_fit_a_model_are_found() {
    let world = World::new();
    let manifest = run(&world.config).unwrap().manifest;
    let path = manifest.shard_path(&world.data(), 0);
    let rows = read_shard(&path).unwrap();
    rows.check(&path, manifest.vocabulary.size, 128, 20).unwrap();
    let problem = |vocabulary, length, masks| match rows.check(&path, vocabulary, length, masks).unwrap_err()
    {
        Error::Shard(Located { problem: ShardProblem::Row { problem, .. }, .. }) => problem,
        other => panic!("{other}"),
    };
    assert!(matches!(problem(8, 128, 20), RowProblem::TokenId { vocabulary: 8, .. }));
    assert!(matches!(problem(1000, 8, 20), RowProblem::TooLong { limit: 8, .. }));
    assert!(matches!(problem(1000, 128, 0), RowProblem::TooManyMasks { limit: 0, .. }));
}
