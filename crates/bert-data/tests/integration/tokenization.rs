//! The ids are those of the reference's `tokenization.py`.
//!
//! Birth certificate of the digests: google-research/bert@eedf571 `tokenization.py` under CPython 3.11 (Unicode 14),
//! `FullTokenizer(vocab, do_lower_case)`, each line stripped with `str.strip()`; SHA-256 over all lines' ids, joined
//! with commas, a line feed after each. Compared exactly.

use std::io::Read;
use std::path::Path;

use bert_data::{Tokenizer, Vocabulary};
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;

use crate::support::{golden, golden_vocabulary, sha256, shared};

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
fn every_line_of_the_corpora_has_the_reference_ids() {
    let Some(shared) = shared() else { return };
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

/// Every character of Unicode 14 in a word, alone, and after a capital sigma, uncased and cased; but for U+1171E, which
/// was a nonspacing mark then and is a spacing one in the tables of today.
#[test]
fn every_character_has_the_reference_ids() {
    let Some(shared) = shared() else { return };
    let read = |name: &str| Vocabulary::read(&shared.join("data/vocab").join(name)).unwrap();
    let (uncased, cased) = (read("bert-base-uncased-vocab.txt"), read("bert-base-cased-vocab.txt"));
    let tokenizers = [("u", Tokenizer::new(&uncased, true)), ("c", Tokenizer::new(&cased, false))];
    let mut all = String::new();
    for range in std::fs::read_to_string(golden("unicode14.txt")).unwrap().lines() {
        let (from, to) = range.split_once(' ').unwrap();
        let number = |text| u32::from_str_radix(text, 16).unwrap();
        for c in (number(from)..=number(to)).filter_map(char::from_u32).filter(|&c| c != '\u{1171e}') {
            for (name, tokenizer) in &tokenizers {
                let mut ids = Vec::new();
                tokenizer.encode(&format!("a{c}b {c} Σ{c}"), &mut ids);
                all += &format!("{:x} {name} {}", u32::from(c), ids_line(&ids));
            }
        }
    }
    assert_eq!(sha256(all.as_bytes()), "ec279dfece611795fc0b54738a184e160d3fdebeff8799c2b12bb237891faf94");
}

/// On ordinary text our port of the reference's basic tokenizer and the crate's own BERT pipeline agree.
#[test]
fn the_crates_own_pipeline_agrees_on_the_bench_corpus() {
    let Some(shared) = shared() else { return };
    let path = shared.join("data/vocab/bert-base-uncased-vocab.txt");
    let vocabulary = Vocabulary::read(&path).unwrap();
    let ours = Tokenizer::new(&vocabulary, true);
    let model = WordPiece::from_file(path.to_str().unwrap()).max_input_chars_per_word(200).build().unwrap();
    let mut theirs = tokenizers::Tokenizer::new(model);
    let _ = theirs.with_normalizer(Some(BertNormalizer::default()));
    let _ = theirs.with_pre_tokenizer(Some(BertPreTokenizer));
    for line in text(&shared.join("data/corpora/bench_sentences.txt.zst")).lines().step_by(7) {
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
