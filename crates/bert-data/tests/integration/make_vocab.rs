//! Training a vocabulary gives the same bytes every time.

use std::collections::HashMap;
use std::path::Path;

use bert_data::make_vocab::{VocabConfig, train_on_words, train_vocabulary};
use bert_data::rng::{Domain, Random, Stream};
use bert_data::{Tokenizer, Vocabulary};

use crate::support::{almanac, small_text};

#[test]
fn specials_come_first_and_the_text_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, small_text(30)).unwrap();
    let config = VocabConfig { vocab_size: 60, ..VocabConfig::default() };
    let tokens = train_vocabulary(&[text], &config, &mut |_, _| {}).unwrap();
    assert_eq!(tokens[..5], ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]);
    assert!(tokens.len() <= 60 && tokens.iter().any(|token| token == "the"), "{tokens:?}");
    let vocabulary =
        Vocabulary::from_bytes((tokens.join("\n") + "\n").into_bytes(), Path::new("test")).unwrap();
    let mut ids = Vec::new();
    Tokenizer::new(&vocabulary, true).encode(&small_text(5).replace('\n', " "), &mut ids);
    assert!(!ids.contains(&vocabulary.unk_id()));
}

/// Many ties: words over few letters, all about equally frequent. Each map has its own random order.
#[test]
fn ties_are_decided_the_same_way_every_time() {
    for seed in 0..200 {
        let mut random = Stream::new(seed, Domain::Test, &[]);
        let letters = 2 + random.below(4);
        let mut words: Vec<(String, u64)> = (0..5 + random.below(60))
            .map(|_| {
                let length = 1 + random.below(12);
                let word = (0..length).map(|_| char::from(b'a' + random.below(letters) as u8)).collect();
                (word, 1 + random.below(4) as u64)
            })
            .collect();
        let config =
            VocabConfig { vocab_size: 30 + random.below(60), min_frequency: 1, ..VocabConfig::default() };
        let first = train_on_words(words.iter().cloned().collect::<HashMap<_, _>>(), &config).unwrap();
        // Later entries of a word win in a map: keep one of each before the order is turned round.
        words = words.into_iter().collect::<HashMap<_, _>>().into_iter().collect();
        words.reverse();
        for _ in 0..3 {
            let again = train_on_words(words.iter().cloned().collect(), &config).unwrap();
            assert_eq!(first, again, "seed {seed}");
        }
    }
}

/// In another process too: hash maps are seeded anew in each.
#[test]
fn another_process_trains_the_same_bytes() {
    const CHILD: &str = "BERT_DATA_TEST_VOCABULARY";
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, small_text(40)).unwrap();
    let config = VocabConfig { vocab_size: 70, min_frequency: 1, ..VocabConfig::default() };
    if let Some(path) = std::env::var_os(CHILD) {
        let tokens = train_vocabulary(&[text], &config, &mut |_, _| {}).unwrap();
        std::fs::write(path, tokens.join("\n")).unwrap();
        return;
    }
    let outputs = ["one", "two", "three"].map(|name| {
        let path = folder.path().join(name);
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "make_vocab::another_process_trains_the_same_bytes"])
            .env(CHILD, &path)
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        std::fs::read(path).unwrap()
    });
    assert!(outputs[0].len() > 100 && outputs.iter().all(|output| *output == outputs[0]));
}

#[test]
fn the_alphabet_is_limited_by_frequency() {
    let words = HashMap::from([("aab".to_owned(), 5), ("ab".to_owned(), 5), ("xyz".to_owned(), 1)]);
    let config =
        VocabConfig { vocab_size: 100, limit_alphabet: 2, min_frequency: 1, ..VocabConfig::default() };
    let tokens = train_on_words(words, &config).unwrap();
    assert_eq!(tokens[5..], ["a", "b", "##a", "##b", "aa", "ab", "aab"].map(String::from));
}

#[test]
fn the_almanac_gives_one_vocabulary() {
    let corpus = [almanac("")];
    let config = VocabConfig { vocab_size: 3000, ..VocabConfig::default() };
    let first = train_vocabulary(&corpus, &config, &mut |_, _| {}).unwrap();
    assert_eq!(first.len(), 3000);
    assert_eq!(first, train_vocabulary(&corpus, &config, &mut |_, _| {}).unwrap());
}
