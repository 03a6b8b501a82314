//! The ids equal the ids of the reference's `tokenization.py`.
//!
//! Origin of the digests in this file: google-research/bert@eedf571 `tokenization.py` under CPython 3.11 (Unicode 14),
//! `FullTokenizer(vocab, do_lower_case)`, each line stripped with `str.strip()`; SHA-256 over all lines' ids, joined
//! with commas, a line feed after each. Compared exactly. `tests/golden/README.md` documents the origin of the Unicode
//! sweep.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use bert_data::{Tokenizer, Vocabulary};
use bert_tokenization::is_python_space;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;

use crate::support::{Corpus, golden, golden_vocabulary, long_text, sha256, shared};

/// Characters whose properties have changed since Unicode 14: U+1171E was a nonspacing mark and is a spacing one.
const CHANGED: [u32; 1] = [0x1171e];

fn text(path: &Path) -> String {
    let file = std::fs::File::open(path).unwrap();
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "zst") {
        zstd::Decoder::new(file).unwrap().read_to_string(&mut text).unwrap();
    } else {
        std::io::BufReader::new(file).read_to_string(&mut text).unwrap();
    }
    text
}

fn ids_line(ids: &[u32]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",") + "\n"
}

#[test]
#[ignore = "needs ../shared"]
fn every_line_of_the_corpora_has_the_reference_ids() {
    let shared = shared();
    let cases = [
        (
            "bert-base-uncased-vocab.txt",
            "bench_sentences.txt.zst",
            true,
            1_847_558,
            "df7e3c5e75b327fdabe63ca70ccb0421a6ee61848e603f8397fe3acbf7c65367",
        ),
        (
            "bert-base-cased-vocab.txt",
            "bench_sentences.txt.zst",
            false,
            1_886_651,
            "9d1b257a450c39f085386ccd386a403d5dd84b0548b32f4ce635f77335961121",
        ),
        (
            "bert-base-chinese-vocab.txt",
            "zh_news_sample.txt",
            true,
            11_008,
            "32b8987314d87252615cf05fdcc72b399c46583a0b0a42e56134a9cc3661b9fb",
        ),
    ];
    for (vocab, corpus, do_lower_case, pieces, digest) in cases {
        let vocabulary = Vocabulary::read(&shared.join("data/vocab").join(vocab)).unwrap();
        let tokenizer = Tokenizer::new(&vocabulary, do_lower_case);
        let mut encoder = tokenizer.encoder();
        let (mut all, mut count) = (String::new(), 0);
        for line in text(&shared.join("data/corpora").join(corpus)).split_terminator('\n') {
            let mut ids = Vec::new();
            encoder.encode(line, &mut ids);
            count += ids.len();
            all += &ids_line(&ids);
        }
        assert_eq!(count, pieces, "{corpus}");
        assert_eq!(sha256(all.as_bytes()), digest, "{corpus}");
    }
}

/// Returns a vocabulary in which no two characters have the same ids: each is a first piece of a word and a later
/// piece.
fn every_character(ranges: &[(u32, u32)]) -> Vocabulary {
    let mut tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(String::from).to_vec();
    for c in ranges.iter().flat_map(|&(from, to)| from..=to).filter_map(char::from_u32) {
        if !is_python_space(c) {
            tokens.extend([c.to_string(), format!("##{c}")]);
        }
    }
    Vocabulary::from_bytes((tokens.join("\n") + "\n").into_bytes(), Path::new("every character")).unwrap()
}

/// Checks every character of Unicode 14 in a word, alone, and after a capital sigma, uncased and cased, except the
/// characters whose properties have changed since.
#[test]
fn every_character_has_the_reference_ids() {
    let hex = |text: &str| u32::from_str_radix(text, 16).unwrap();
    let ranges = std::fs::read_to_string(golden("unicode14.txt")).unwrap();
    let range = |line: &str| line.split_once(' ').map(|(from, to)| (hex(from), hex(to))).unwrap();
    let ranges: Vec<(u32, u32)> = ranges.lines().map(range).collect();
    let vocabulary = every_character(&ranges);
    let tokenizers = [true, false].map(|do_lower_case| Tokenizer::new(&vocabulary, do_lower_case));
    let mut blocks: BTreeMap<u32, [String; 2]> = BTreeMap::new();
    for code in ranges.iter().flat_map(|&(from, to)| from..=to).filter(|code| !CHANGED.contains(code)) {
        let c = char::from_u32(code).unwrap();
        for (tokenizer, lines) in tokenizers.iter().zip(blocks.entry(code >> 12).or_default()) {
            let mut ids = Vec::new();
            tokenizer.encode(&format!("a{c}b {c} Σ{c}"), &mut ids);
            *lines += &format!("{code:x} {}", ids_line(&ids));
        }
    }
    let expected = std::fs::read_to_string(golden("unicode14_ids.tsv")).unwrap();
    assert_eq!(blocks.len(), expected.lines().count());
    for ((block, lines), expected) in blocks.iter().zip(expected.lines()) {
        let [uncased, cased] = lines.each_ref().map(|lines| sha256(lines.as_bytes()));
        let found = format!("{block:x}\t{}\t{}", &uncased[..16], &cased[..16]);
        assert_eq!(found, expected, "characters from U+{:04X}", block << 12);
    }
}

/// On ordinary text this port of the reference's basic tokenizer and the crate's own BERT pipeline agree.
#[test]
fn the_crates_own_pipeline_agrees_on_ordinary_text() {
    let corpus = Corpus::almanac();
    let vocabulary = Vocabulary::read(&corpus.vocab).unwrap();
    let ours = Tokenizer::new(&vocabulary, true);
    let file = corpus.vocab.to_str().unwrap();
    let model = WordPiece::from_file(file).max_input_chars_per_word(200).build().unwrap();
    let mut theirs = tokenizers::Tokenizer::new(model);
    let _ = theirs.with_normalizer(Some(BertNormalizer::default()));
    let _ = theirs.with_pre_tokenizer(Some(BertPreTokenizer));
    for line in long_text().lines() {
        let mut ids = Vec::new();
        ours.encode(line, &mut ids);
        assert_eq!(theirs.encode(line, false).unwrap().get_ids(), ids, "{line}");
    }
}

fn words(tokenizer: &Tokenizer, vocabulary: &Vocabulary, line: &str) -> Vec<String> {
    let mut ids = Vec::new();
    tokenizer.encode(line, &mut ids);
    let mut again = Vec::new();
    let mut encoder = tokenizer.encoder();
    encoder.encode(line, &mut again);
    assert_eq!(ids, again, "with and without a cache");
    ids.iter().map(|&id| vocabulary.token(id).to_owned()).collect()
}

#[test]
fn rules_of_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(golden_vocabulary(folder.path())).unwrap();
    bytes.extend_from_slice("[\n]\nsep\nun\n##aff\n##able\ncafe\n中\n\u{2b830}\nσας\n,\nx\n##x\n".as_bytes());
    let vocabulary = Vocabulary::from_bytes(bytes, Path::new("test")).unwrap();
    let tokenizer = Tokenizer::new(&vocabulary, true);
    let words = |line: &str| words(&tokenizer, &vocabulary, line).join(" ");
    assert_eq!(words("unaffable"), "un ##aff ##able");
    assert_eq!(words("[SEP]"), "[ sep ]", "special tokens in text are text");
    assert_eq!(words("CAFÉ,un\u{200b}able"), "cafe , un ##able", "accents, punctuation, format characters");
    assert_eq!(words("un中un"), "un 中 un");
    assert_eq!(words("x\u{2b830}x"), "x \u{2b830} x", "CJK extension E");
    assert_eq!(words("ΣΑΣ"), "σας", "the final sigma");
    assert_eq!(words("un\u{e000}able"), "[UNK]", "private use is kept");
    assert_eq!(words("un\u{fffd}able un\0able"), "un ##able un ##able");
    assert_eq!(words("un\u{2028}un\u{3000}un\tun"), "un un un un");
    assert_eq!(words(&"x".repeat(200)).split(' ').count(), 200);
    assert_eq!(words(&"x".repeat(201)), "[UNK]", "more than 200 characters");
    assert_eq!(words("\u{feff}un"), "un", "a byte-order mark");
    assert_eq!(words("\u{301}"), "");
}
