//! Helpers shared by the integration tests.

use std::path::{Path, PathBuf};

use bert_data::{
    BuildConfig, BuildOutcome, DocumentPasses, Error, Manifest, RandomMode, Row, ShardRows, Vocabulary,
    build, read_all_documents, read_shard,
};

/// Returns the folder of the reference material: `BERT_SHARED`, else `../shared` next to the workspace. Tests that need
/// it are ignored with the reason "needs ../shared".
pub(crate) fn shared() -> PathBuf {
    let default_folder = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = std::env::var_os("BERT_SHARED").map_or_else(default_folder, PathBuf::from);
    assert!(path.is_dir(), "this test needs the reference material, and {} is no folder", path.display());
    path
}

/// A text and a vocabulary for it.
pub(crate) struct Corpus {
    pub(crate) text: PathBuf,
    pub(crate) vocab: PathBuf,
}

impl Corpus {
    /// Returns the embedded articles, with the vocabulary of the goldens.
    pub(crate) fn almanac() -> Self {
        Self { text: almanac(""), vocab: golden("vocab-uncased.txt") }
    }

    /// Returns the bench corpus, with the uncased vocabulary of the reference.
    pub(crate) fn bench() -> Self {
        let data = shared().join("data");
        Self {
            text: data.join("corpora/bench_sentences.txt.zst"),
            vocab: data.join("vocab/bert-base-uncased-vocab.txt"),
        }
    }

    pub(crate) fn config(&self, output: &Path) -> BuildConfig {
        config(&[&self.text], &self.vocab, output)
    }
}

/// Returns the path of a file of the embedded articles, or of their folder for `""`.
pub(crate) fn almanac(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpora/almanac/train").join(file)
}

/// Returns the embedded articles with ten in a document, for long instances.
pub(crate) fn long_text() -> String {
    let read = |file| std::fs::read_to_string(almanac(file)).unwrap();
    let text = ["culture.txt", "nature.txt", "science.txt"].map(|file| read(file).trim().to_owned());
    let articles: Vec<&str> = text.iter().flat_map(|text| text.split("\n\n")).collect();
    let documents: Vec<String> = articles.chunks(10).map(|ten| ten.join("\n")).collect();
    documents.join("\n\n") + "\n"
}

pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Writes the stand-in for the uncased vocabulary (see `tests/golden/README.md`) and returns its path.
pub(crate) fn golden_vocabulary(folder: &Path) -> PathBuf {
    let mut tokens: Vec<String> = (0..30_522).map(|id| format!("[filler{id}]")).collect();
    for line in std::fs::read_to_string(golden("tokens.tsv")).unwrap().lines() {
        let (id, token) = line.split_once('\t').unwrap();
        tokens[id.parse::<usize>().unwrap()] = token.to_owned();
    }
    let path = folder.join("vocab.txt");
    std::fs::write(&path, tokens.join("\n") + "\n").unwrap();
    path
}

/// Writes a small vocabulary: letters, some words and pieces.
pub(crate) fn small_vocabulary(folder: &Path) -> PathBuf {
    let mut tokens: Vec<String> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(String::from).to_vec();
    tokens.extend("[].,!?".chars().map(String::from));
    tokens.extend(('a'..='z').map(String::from));
    tokens.extend(('a'..='z').map(|c| format!("##{c}")));
    tokens
        .extend("the cat sat on mat dog ran far away sun is hot sep ##ing ##ed".split(' ').map(String::from));
    let path = folder.join("small-vocab.txt");
    std::fs::write(&path, tokens.join("\n") + "\n").unwrap();
    path
}

/// Returns a text of `documents` documents over [`small_vocabulary`].
pub(crate) fn small_text(documents: usize) -> String {
    let sentences =
        ["the cat sat on the mat.", "the dog ran far away!", "is the sun hot?", "walking, talking, far."];
    let mut text = String::new();
    for document in 0..documents {
        for sentence in 0..3 + document % 5 {
            text += sentences[(document * 7 + sentence * 3) % sentences.len()];
            text += "\n";
        }
        text += "\n";
    }
    text
}

pub(crate) fn config(input: &[&Path], vocab: &Path, output: &Path) -> BuildConfig {
    BuildConfig {
        input: input.iter().map(|path| path.to_path_buf()).collect(),
        vocab: Some(vocab.to_owned()),
        output: Some(output.to_owned()),
        ..BuildConfig::default()
    }
}

pub(crate) fn run(config: &BuildConfig) -> Result<BuildOutcome, Error> {
    build(config, &mut |_| {})
}

/// Returns all shards of an outcome, in order.
pub(crate) fn shards(outcome: &BuildOutcome) -> Vec<ShardRows> {
    (0..outcome.manifest.shards.len())
        .map(|shard| read_shard(&outcome.manifest.shard_path(&outcome.output, shard)).unwrap())
        .collect()
}

pub(crate) fn reference(config: BuildConfig) -> BuildConfig {
    BuildConfig { random: RandomMode::Reference, ..config }
}

/// Returns a row in the canonical form that the reference digests are computed over.
pub(crate) fn canonical(row: Row<'_>) -> String {
    fn join<T: ToString>(values: &[T]) -> String {
        values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
    format!(
        "{}|{}|{}|{}|{}\n",
        join(row.input_ids),
        join(row.segment_ids),
        join(row.masked_lm_positions),
        join(row.masked_lm_ids),
        row.next_sentence_label
    )
}

/// Returns the rows that the loader generates from stored documents in the passes of a seed, in canonical form, sorted.
pub(crate) fn loader_rows(outcome: &BuildOutcome, seed: u64, passes: u64) -> Vec<String> {
    let data = outcome.data_set().unwrap();
    let text = read_all_documents(&data).unwrap();
    let vocabulary = Vocabulary::read(&outcome.manifest.vocabulary_path(&outcome.output)).unwrap();
    let mut generator = DocumentPasses::new(&outcome.manifest, &vocabulary, seed).unwrap();
    let mut rows = Vec::new();
    for (pass, document) in (0..passes).flat_map(|pass| (0..text.len()).map(move |at| (pass, at))) {
        let mut pairs = ShardRows::default();
        generator.append_pairs(&text, pass, document, &mut pairs).unwrap();
        // In any order, each row independently.
        for number in (0..pairs.len()).rev() {
            rows.push(canonical(generator.mask(pairs.row(number), pass, document as u64, number as u64)));
        }
    }
    rows.sort_unstable();
    rows
}

/// Returns all rows of an outcome in canonical form, sorted.
pub(crate) fn sorted_rows(outcome: &BuildOutcome) -> Vec<String> {
    let mut rows: Vec<String> = shards(outcome).iter().flat_map(ShardRows::iter).map(canonical).collect();
    rows.sort_unstable();
    rows
}

/// Returns the SHA-256 digest (FIPS 180-4), because the reference digests use it.
pub(crate) fn sha256(message: &[u8]) -> String {
    let primes = || (2u64..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0));
    let fraction = |root: f64| (root.fract() * 4_294_967_296.0) as u32;
    let k: Vec<u32> = primes().take(64).map(|prime| fraction((prime as f64).cbrt())).collect();
    let mut hash: Vec<u32> = primes().take(8).map(|prime| fraction((prime as f64).sqrt())).collect();
    let mut bytes = message.to_vec();
    bytes.push(0x80);
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    if bytes.len() - message.len() < 9 {
        bytes.resize(bytes.len() + 64, 0);
    }
    let end = bytes.len() - 8;
    bytes[end..].copy_from_slice(&(8 * message.len() as u64).to_be_bytes());
    for block in bytes.chunks_exact(64) {
        let mut w: Vec<u32> =
            block.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
        for i in 16..64 {
            let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
            let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
            w.push(w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1));
        }
        let mut v = hash.clone();
        for i in 0..64 {
            let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
            let t1 = v[7].wrapping_add(s1).wrapping_add(choice).wrapping_add(k[i]).wrapping_add(w[i]);
            let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
            v.rotate_right(1);
            v[4] = v[4].wrapping_add(t1);
            v[0] = t1.wrapping_add(s0).wrapping_add(majority);
        }
        for (sum, part) in hash.iter_mut().zip(v) {
            *sum = sum.wrapping_add(part);
        }
    }
    hash.iter().map(|word| format!("{word:08x}")).collect()
}

/// Reads the documents of a shard that replaces a data set's own, with a manifest that describes its content.
pub(crate) fn documents_of(
    manifest: &Manifest,
    path: &Path,
    vocabulary: usize,
) -> bert_data::Result<bert_data::Bucket> {
    let bytes = std::fs::read(path).unwrap();
    let footer = parquet::file::metadata::ParquetMetaDataReader::new();
    let footer = footer.parse_and_finish(&std::fs::File::open(path).unwrap());
    let (rows, groups) =
        footer.map_or((1, 1), |footer| (footer.file_metadata().num_rows(), footer.num_row_groups()));
    let mut manifest = manifest.clone();
    manifest.vocabulary.size = vocabulary;
    manifest.shards = vec![bert_data::ShardEntry {
        file: path.file_name().unwrap().to_string_lossy().into_owned(),
        rows: rows as u64,
        row_groups: groups as u64,
        bytes: bytes.len() as u64,
        blake3: bert_storage::digest_bytes(&bytes),
    }];
    let words = (0..vocabulary).map(|id| format!("[unused{id}]\n")).collect::<String>();
    let words = ["[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", &words].concat();
    let words = bert_data::Vocabulary::from_bytes(words.into_bytes(), path).unwrap();
    let data = bert_data::DataSet::new(path.parent().unwrap(), manifest, words);
    bert_data::DocumentGroups::new(&data).read(0..groups as u64)
}
