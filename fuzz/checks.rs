//! What must hold for any bytes at all: one function for each thing that reads bytes from outside.
//!
//! The fuzz targets in `fuzz_targets/` call these with bytes of a fuzzer's choice, `tests/fuzz_corpus.rs` with the files
//! of `corpus/`. Each may return an error inside; none may panic, and what is read without an error must be right.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bert_data::input::table::{InputReader, json_text};
use bert_data::input::{BlockReader, Format};
use bert_data::inspect::training_text::for_each_text;
use bert_data::{
    BuildConfig, DataSet, Layout, Manifest, StoredRows, Tokenizer, Vocabulary, build, inspect, read_shard,
    verify,
};
use bert_storage::sealed::{sealed, unsealed};
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;

/// A target: its name, which is also that of its corpus folder, and its check.
pub(crate) type Check = (&'static str, fn(&[u8]));

/// All targets of the data side; those of the model side are in `model_checks.rs`.
pub(crate) const CHECKS: [Check; 7] = [
    ("text", text),
    ("tokenizer", tokenizer),
    ("pairs", pairs),
    ("manifest", manifest),
    ("forged", forged),
    ("vocabulary", vocabulary),
    ("shard", shard),
];

/// A folder of this process, in memory where there is such a place.
fn scratch() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let above = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let folder = above.join(format!("bert-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a scratch folder");
        folder
    })
}

pub(crate) fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = scratch().join(name);
    std::fs::write(&path, bytes).expect("a scratch file");
    path
}

/// Removes the scratch folder; for tests, which end in order.
pub(crate) fn clean_up() {
    let _ = std::fs::remove_dir_all(scratch());
}

/// The text reader: plain and compressed text, JSON, CSV, TSV and Parquet, as the first bytes say.
pub(crate) fn text(bytes: &[u8]) {
    let path = file("text", bytes);
    let magic: [&[u8]; 6] = [&[0x1f, 0x8b], b"BZh", b"\xfd7zXZ\0", b"\x5d\0\0", b"LZIP", b"\x28\xb5\x2f\xfd"];
    let compressed = magic.iter().any(|magic| bytes.starts_with(magic))
        || matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] | [0x25..=0x27, 0xb5, 0x2f, 0xfd, ..]);
    if let Ok(mut reader) = BlockReader::open(&path, 0, Format::Text) {
        let (mut all, mut lines) = (Vec::new(), 0);
        let whole = loop {
            match reader.next_block() {
                Ok(Some(block)) => {
                    assert_eq!(block.first_line, lines + 1);
                    assert!(block.ends_file || block.bytes.ends_with(b"\n"), "a block ends within a line");
                    for (number, line) in block.lines() {
                        lines += 1;
                        assert_eq!(number, lines);
                        assert!(!line.contains(&b'\n'));
                        if let Ok(line) = std::str::from_utf8(line) {
                            let _ = json_text(line, &path, number, "text");
                        }
                    }
                    all.extend_from_slice(&block.bytes);
                }
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        if whole {
            assert_eq!(reader.entry().lines, lines);
            assert_eq!(reader.entry().blake3, bert_storage::digest_bytes(bytes));
        }
        assert!(compressed || (whole && all == bytes), "plain text is read as it is");
    }
    if let Ok(mut reader) = InputReader::open(&path, 0, "text") {
        let mut next = 1;
        while let Ok(Some(block)) = reader.next_block() {
            assert_eq!(block.first_line, next);
            let rows = if block.format.has_rows() { block.rows().count() } else { block.lines().count() };
            next += rows as u64;
            let lines = block.lines().filter(|_| block.format == Format::Jsonl);
            for line in lines.filter_map(|(_, line)| std::str::from_utf8(line).ok()) {
                let _ = json_text(line, &path, 1, "text");
            }
        }
    }
}

const WORDS: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nriver\nun\n##able\n\u{e4}\n\u{3c9}\n\u{6cb3}\n";

fn words() -> &'static Vocabulary {
    static WORDS_READ: OnceLock<Vocabulary> = OnceLock::new();
    WORDS_READ.get_or_init(|| {
        let mut text = WORDS.to_string();
        for c in ('a'..='z').chain('0'..='9').chain("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~".chars()) {
            text.push_str(&format!("{c}\n##{c}\n"));
        }
        Vocabulary::from_bytes(text.into_bytes(), Path::new("words")).expect("a vocabulary")
    })
}

/// Our tokenizer, cased and lower-casing.
fn tokenizers() -> &'static [Tokenizer; 2] {
    static TOKENIZERS: OnceLock<[Tokenizer; 2]> = OnceLock::new();
    TOKENIZERS.get_or_init(|| [false, true].map(|lower| Tokenizer::new(words(), lower)))
}

fn word_piece() -> &'static WordPiece {
    static MODEL: OnceLock<WordPiece> = OnceLock::new();
    MODEL.get_or_init(|| {
        let ids = words().tokens().iter().enumerate().map(|(id, word)| (word.clone(), id as u32));
        WordPiece::builder()
            .vocab(ids.collect::<ahash::AHashMap<String, u32>>())
            .unk_token("[UNK]".into())
            .max_input_chars_per_word(200)
            .build()
            .expect("a model")
    })
}

/// Whether both tokenizers are meant to agree on a character: outside these the reference, which ours follows, and
/// the `tokenizers` crate have different tables or rules.
fn is_common(c: char) -> bool {
    let final_sigma = matches!(c, '\u{3a3}' | '\u{3c3}' | '\u{3c2}');
    let letters = matches!(c, '\u{c0}'..='\u{24f}' | '\u{391}'..='\u{3c9}' | '\u{410}'..='\u{44f}');
    let others = matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{2010}'..='\u{2027}' | '\u{300}'..='\u{33f}');
    !final_sigma && (matches!(c, ' '..='~' | '\t' | '\n' | '\r' | '\0') || letters || others)
}

/// Our tokenizer against that of the `tokenizers` crate, on the characters on which both should agree.
pub(crate) fn tokenizer(bytes: &[u8]) {
    use tokenizers::{
        Model, NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    };
    let text: String = String::from_utf8_lossy(bytes).chars().filter(|&c| is_common(c)).collect();
    for lower in [true, false] {
        let (mut ours, mut remembered) = (Vec::new(), Vec::new());
        tokenizers()[usize::from(lower)].encode(&text, &mut ours);
        let mut encoder = tokenizers()[usize::from(lower)].encoder();
        encoder.encode(&text, &mut remembered);
        assert_eq!(ours, remembered, "{text:?}, lower-cased: {lower}");
        encoder.encode(&text, &mut remembered);
        assert!(remembered.ends_with(&ours), "{text:?}, a second time, lower-cased: {lower}");

        let mut normalized = NormalizedString::from(text.as_str());
        BertNormalizer::new(true, true, None, lower).normalize(&mut normalized).expect("normalized");
        let mut parts = PreTokenizedString::from(normalized);
        BertPreTokenizer.pre_tokenize(&mut parts).expect("split");
        let mut theirs = Vec::new();
        for (word, ..) in parts.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
            theirs.extend(word_piece().tokenize(word).expect("pieces").into_iter().map(|piece| piece.id));
        }
        assert_eq!(ours, theirs, "{text:?}, lower-cased: {lower}");
    }
}

/// The whole builder on any text: each row is a pair with masks as the paper has them, of text that is there.
pub(crate) fn pairs(bytes: &[u8]) {
    let (vocab, output) = (file("vocab.txt", words().bytes()), scratch().join("data"));
    let _ = std::fs::remove_dir_all(&output);
    let config = BuildConfig {
        input: vec![file("corpus.txt", bytes)],
        output: Some(output.clone()),
        vocab: Some(vocab),
        max_seq_length: 16,
        max_predictions_per_seq: Some(3),
        dupe_factor: 2,
        num_shards: Some(2),
        threads: 1,
        ..BuildConfig::default()
    };
    let Ok(built) = build(&config, &mut |_| {}) else { return };
    let tokenizer = Tokenizer::new(words(), true);
    let mut corpus = Vec::new();
    tokenizer.encode(&String::from_utf8_lossy(bytes), &mut corpus);
    let (mut rows, data) = (0, built.data_set().expect("what was just written"));
    for shard in 0..built.manifest.shards.len() {
        let read = data.read_rows(shard).expect("what was just written");
        for index in 0..read.len() {
            check_row(&read.row(index), &corpus);
            rows += 1;
        }
    }
    assert_eq!(rows, built.manifest.instances);
}

fn check_row(row: &bert_data::Row<'_>, corpus: &[u32]) {
    let mut ids: Vec<u32> = row.input_ids.to_vec();
    let real = ids.len() - 3;
    let masks = row.masked_lm_positions.len();
    assert!((1..=3).contains(&masks), "{masks} masks");
    for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
        ids[position as usize] = id;
    }
    let (cls, sep) = (words().cls_id(), words().sep_id());
    let first = row.segment_ids.partition_point(|&segment| segment == 0);
    assert!(row.segment_ids[first..].iter().all(|&segment| segment == 1), "segments in order");
    assert!(ids[0] == cls && ids[first - 1] == sep && ids[ids.len() - 1] == sep && real <= 13);
    for part in [&ids[1..first - 1], &ids[first..ids.len() - 1]] {
        assert!(!part.is_empty(), "an empty segment");
        assert!(corpus.windows(part.len()).any(|text| text == part), "a segment that is not in the text");
    }
    assert!(
        row.masked_lm_positions
            .iter()
            .all(|&at| at != 0 && at as usize != first - 1 && at as usize != ids.len() - 1)
    );
}

/// A manifest as it is, and under a seal that fits it.
pub(crate) fn manifest(bytes: &[u8]) {
    let folder = scratch().join("manifest");
    std::fs::create_dir_all(&folder).expect("a folder");
    let read = |bytes: &[u8]| {
        std::fs::write(folder.join("manifest.json"), bytes).expect("a file");
        Manifest::read(&folder)
    };
    if let Ok(json) = unsealed(bytes.to_vec()) {
        assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok() || read(bytes).is_err());
    }
    let _ = read(bytes);
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes)
        && value.as_object().is_some_and(|object| !object.is_empty())
        && let Ok(manifest) = read(sealed(&value).as_bytes())
    {
        let names = manifest.shards.iter().map(|shard| &shard.file).chain([&manifest.vocabulary.file]);
        for name in names {
            assert_eq!(
                folder.join(name).parent(),
                Some(folder.as_path()),
                "{name:?} leads out of the folder"
            );
        }
        if let Ok(data) = DataSet::of(&folder, manifest) {
            let _ = (0..data.manifest().shards.len()).try_for_each(|shard| data.read_rows(shard).map(drop));
        }
    }
}

/// Two small data sets: one of instances, one of documents.
fn data_sets() -> &'static [(PathBuf, serde_json::Value); 2] {
    static MADE: OnceLock<[(PathBuf, serde_json::Value); 2]> = OnceLock::new();
    MADE.get_or_init(|| {
        let text = "the river un able.\nun the able.\n\nriver river.\nthe un.\nable.\n\n".repeat(20);
        [(Layout::Instances, "instances"), (Layout::Documents, "documents")].map(|(layout, name)| {
            let (vocab, output) = (file("words.txt", words().bytes()), scratch().join(name));
            let config = BuildConfig {
                layout,
                max_seq_length: 16,
                num_shards: Some(2),
                threads: 1,
                ..BuildConfig::new([file("words", text.as_bytes())], vocab, &output)
            };
            let manifest = build(&config, &mut |_| {}).expect("a data set").manifest;
            (output, serde_json::to_value(manifest).expect("JSON"))
        })
    })
}

/// All values of a JSON value that hold no other ones.
fn leaves<'v>(value: &'v mut serde_json::Value, found: &mut Vec<&'v mut serde_json::Value>) {
    match value {
        serde_json::Value::Array(values) => values.iter_mut().for_each(|value| leaves(value, found)),
        serde_json::Value::Object(values) => values.values_mut().for_each(|value| leaves(value, found)),
        leaf => found.push(leaf),
    }
}

/// The good manifest of a small data set in which the bytes forge some values, under a seal that fits: programs that read
/// the data refuse it, or use it without a panic. The first byte chooses the data set; then two bytes choose a value of
/// the manifest, one how it is forged, and eight give a number.
pub(crate) fn forged(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let (folder, good) = &data_sets()[usize::from(first % 2)];
    let mut manifest = good.clone();
    for forgery in rest.chunks_exact(11).take(8) {
        let mut all = Vec::new();
        leaves(&mut manifest, &mut all);
        let at = usize::from(u16::from_le_bytes([forgery[0], forgery[1]])) % all.len();
        let number = u64::from_le_bytes(forgery[3..].try_into().expect("eight bytes"));
        *all[at] = match (forgery[2] % 8, all[at].as_u64()) {
            (0, Some(old)) => (old ^ (1 << (number % 64))).into(),
            (1, Some(old)) => old.wrapping_add(number % 16).into(),
            (2, Some(old)) => old.wrapping_sub(number % 16).into(),
            (3, _) => (number % 256).into(),
            (4, _) => f64::from_bits(number).into(),
            (5, _) => ["dynamic", "documents", "off", "sop", "chinese", "hf", "reference", ""]
                [number as usize % 8]
                .into(),
            (6, _) => (number % 2 == 0).into(),
            _ => number.into(),
        };
    }
    std::fs::write(folder.join("manifest.json"), sealed(&manifest)).expect("a file");
    let Ok(data) = DataSet::open(folder) else { return };
    if let Ok(verification) = verify(folder, true) {
        let _ = verification.to_string();
    }
    if let Ok(inspection) = inspect(folder, 2) {
        let _ = inspection.to_string();
    }
    let mut rows = StoredRows::new(&data);
    let _ = (0..rows.len().min(50)).try_for_each(|row| rows.row(row).map(drop));
    let _ = for_each_text(&data, 1000, &mut |_| true);
}

/// A vocabulary: what is accepted gives each token the id of its line.
pub(crate) fn vocabulary(bytes: &[u8]) {
    let Ok(vocabulary) = Vocabulary::from_bytes(bytes.to_vec(), Path::new("vocab.txt")) else { return };
    for (id, token) in vocabulary.tokens().iter().enumerate().filter(|(_, token)| !token.is_empty()) {
        assert_eq!(vocabulary.id(token), Some(id as u32), "{token:?}");
    }
    let again =
        Vocabulary::from_bytes(vocabulary.bytes().to_vec(), Path::new("vocab.txt")).expect("its own bytes");
    assert_eq!(again.tokens(), vocabulary.tokens());
    let mut ids = Vec::new();
    Tokenizer::new(&vocabulary, true).encode("the river [MASK] un", &mut ids);
    assert!(ids.iter().all(|&id| (id as usize) < vocabulary.len()));
}

/// A shard, read without a manifest.
pub(crate) fn shard(bytes: &[u8]) {
    let path = file("shard.parquet", bytes);
    if let Ok(rows) = read_shard(&path)
        && rows.check(&path, 1000, 128, 20).is_ok()
    {
        for index in 0..rows.len() {
            let row = rows.row(index);
            assert!(row.input_ids.len() <= 128 && row.segment_ids.len() == row.input_ids.len());
        }
    }
}
