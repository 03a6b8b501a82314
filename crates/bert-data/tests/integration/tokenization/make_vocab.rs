//! Training a vocabulary gives the same bytes every time.

use std::collections::HashMap;
use std::path::Path;

use ahash::AHashMap;
use bert_data::{
    BuildConfig, Tokenizer, TrainedVocabulary, VocabConfig, Vocabulary, train_on_words, train_vocabulary,
};
use bert_random::{Domain, Random, Stream};
use tokenizers::AddedToken;
use tokenizers::models::bpe::{BPE, BpeTrainer};

use crate::support::{almanac, config, run, small_text};

#[test]
fn special_tokens_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, small_text(30)).unwrap();
    let config = VocabConfig { vocab_size: 60, ..VocabConfig::default() };
    let tokens = train_vocabulary(&[text], &config, &mut |_, _| {}).unwrap().tokens;
    assert_eq!(tokens[..5], ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]);
    assert!(tokens.len() <= 60 && tokens.iter().any(|token| token == "the"), "{tokens:?}");
    let vocabulary =
        Vocabulary::from_bytes((tokens.join("\n") + "\n").into_bytes(), Path::new("test")).unwrap();
    let mut ids = Vec::new();
    Tokenizer::new(&vocabulary, true).encode(&small_text(5).replace('\n', " "), &mut ids);
    assert!(!ids.contains(&vocabulary.unk_id()));
}

/// Many ties: words over few letters, all almost equally frequent. Each map has its own random order.
#[test]
fn ties_are_deterministic() {
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
        // Later entries of a word win in a map: keep one of each before reversing the order.
        words = words.into_iter().collect::<HashMap<_, _>>().into_iter().collect();
        words.reverse();
        for _ in 0..3 {
            let again = train_on_words(words.iter().cloned().collect(), &config).unwrap();
            assert_eq!(first, again, "seed {seed}");
        }
    }
}

/// The same in another process, where hash maps have a different seed.
#[test]
fn another_process_trains_the_same_bytes() {
    const CHILD: &str = "BERT_DATA_TEST_VOCABULARY";
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, small_text(40)).unwrap();
    let config = VocabConfig { vocab_size: 70, min_frequency: 1, ..VocabConfig::default() };
    if let Some(path) = std::env::var_os(CHILD) {
        let tokens = train_vocabulary(&[text], &config, &mut |_, _| {}).unwrap().tokens;
        std::fs::write(path, tokens.join("\n")).unwrap();
        return;
    }
    let outputs = ["one", "two", "three"].map(|name| {
        let path = folder.path().join(name);
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tokenization::make_vocab::another_process_trains_the_same_bytes"])
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
        VocabConfig { vocab_size: 100, limit_alphabet: Some(2), min_frequency: 1, ..VocabConfig::default() };
    let trained = train_on_words(words, &config).unwrap();
    assert_eq!(trained.tokens[5..], ["a", "b", "##a", "##b", "aa", "ab", "aab"].map(String::from));
    let report = trained.report;
    assert_eq!((report.characters, report.dropped_characters), (5, 3));
    assert_eq!((report.unknown_tokens, report.text_tokens), (1, 11), "xyz once");
}

#[test]
fn almanac_vocabulary_is_fixed() {
    let corpus = [almanac("")];
    let config = VocabConfig { vocab_size: 3000, ..VocabConfig::default() };
    let first = train_vocabulary(&corpus, &config, &mut |_, _| {}).unwrap();
    assert_eq!(first.tokens.len(), 3000);
    assert_eq!(first, train_vocabulary(&corpus, &config, &mut |_, _| {}).unwrap());
}

/// Returns words over few letters, with many ties, or words of a text.
fn random_words(random: &mut Stream, words: usize, letters: usize, most: usize) -> HashMap<String, u64> {
    (0..words)
        .map(|_| {
            let length = 1 + random.below(12);
            let word = (0..length).map(|_| char::from(b'a' + random.below(letters) as u8)).collect();
            (word, 1 + random.below(most) as u64)
        })
        .collect()
}

/// Returns the tokens that `BpeTrainer` learns from words, after the first tokens.
fn by_the_crate(words: &HashMap<String, u64>, config: &VocabConfig, first: &[String]) -> Vec<String> {
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(config.vocab_size)
        .min_frequency(config.min_frequency)
        .continuing_subword_prefix("##".to_owned())
        .special_tokens(first.iter().map(|token| AddedToken::from(token.clone(), true)).collect())
        .build();
    let counts: AHashMap<_, _> = words.iter().map(|(word, count)| (word.as_str().into(), *count)).collect();
    let mut model = BPE::default();
    trainer.do_train(&counts, &mut model).unwrap();
    let mut tokens: Vec<(u32, String)> =
        tokenizers::Model::get_vocab(&model).into_iter().map(|(token, id)| (id, token)).collect();
    tokens.sort_unstable();
    tokens.into_iter().map(|(_, token)| token).collect()
}

/// The trainer of the `tokenizers` crate, which has the same rules, gives the same tokens as long as its counts fit 32
/// bits.
#[test]
fn tokens_match_the_tokenizers_crate() {
    for seed in 0..300 {
        let mut random = Stream::new(seed, Domain::Test, &[7]);
        let (words, letters, most) = (5 + random.below(200), 2 + random.below(12), 1 + random.below(1000));
        let words = random_words(&mut random, words, letters, most);
        let min_frequency = 1 + random.below(3) as u64;
        let config =
            VocabConfig { vocab_size: 40 + random.below(200), min_frequency, ..VocabConfig::default() };
        let ours = train_on_words(words.clone(), &config).unwrap().tokens;
        let alphabet = ours.iter().skip(5).take_while(|token| token.trim_start_matches("##").len() == 1);
        let first = 5 + alphabet.count();
        assert_eq!(ours, by_the_crate(&words, &config, &ours[..first]), "seed {seed}");
    }
}

/// With pair counts above 2^32, 32-bit counts would wrap, and a rare pair would come before a frequent one.
#[test]
fn counts_of_huge_texts_do_not_wrap() {
    let words = |scale: u64| {
        let words = [("river", 5), ("rivers", 3), ("sea", 2), ("seas", 1), ("delta", 1), ("deltas", 1)];
        words.map(|(word, count)| (word.to_owned(), count * scale)).into_iter().collect::<HashMap<_, _>>()
    };
    let config = VocabConfig { vocab_size: 60, min_frequency: 1, ..VocabConfig::default() };
    let small = train_on_words(words(1), &config).unwrap();
    let huge = train_on_words(words(3_000_000_019), &config).unwrap();
    assert_eq!(small.tokens, huge.tokens);
    assert_eq!(small.report.text_tokens * 3_000_000_019, huge.report.text_tokens);
    // The minimum frequency applies to the text, not to scaled counts.
    let often = VocabConfig { min_frequency: 2 * 3_000_000_019 + 1, ..config.clone() };
    let twice = VocabConfig { min_frequency: 3, ..config };
    assert_eq!(
        train_on_words(words(3_000_000_019), &often).unwrap().tokens,
        train_on_words(words(1), &twice).unwrap().tokens
    );
}

/// Returns lines of ideographs, the first ones of the block more often than the last ones, in sentences of ten.
fn ideographs(characters: u32) -> String {
    let mut text = String::new();
    for (number, c) in (0..characters).map(|at| char::from_u32(0x4e00 + at).unwrap()).enumerate() {
        let often = 1 + 20_000 / (number + 1);
        for _ in 0..often {
            text.push(c);
            text.push_str("\u{7684}\u{4e00}\u{662f}\u{3002}\n");
        }
        text.push_str(if number % 3 == 0 { "\n" } else { "" });
    }
    text
}

fn train_text(text: &str, config: &VocabConfig) -> TrainedVocabulary {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    std::fs::write(&path, text).unwrap();
    train_vocabulary(&[path], config, &mut |_, _| {}).unwrap()
}

/// A Chinese alphabet has some thousands of characters. With the former limit of 1000, 4 % of this text were `[UNK]`.
#[test]
fn a_chinese_alphabet_fits() {
    let text = ideographs(7000);
    let config = VocabConfig { vocab_size: 21_128, ..VocabConfig::default() };
    let trained = train_text(&text, &config);
    assert!(trained.report.unknown_fraction() <= 1e-4, "{}", trained.report);
    assert!(trained.tokens.len() > 6900, "{}", trained.tokens.len());
    let limited = train_text(&text, &VocabConfig { limit_alphabet: Some(1000), ..config.clone() });
    assert!(limited.report.unknown_fraction() > 0.02, "{}", limited.report);
    assert_eq!(limited.report.dropped_characters, 6002, "of 7000 ideographs and two characters more");
    // There is nothing to merge, so a small vocabulary is full of characters.
    let small = train_text(&text, &VocabConfig { vocab_size: 4000, ..config });
    assert_eq!((small.report.dropped_characters, small.tokens.len()), (7002 - 3995, 4000));
    let syllables: String = (0..3000).map(|at| char::from_u32(0xac00 + at).unwrap()).collect();
    let korean = syllables.chars().map(|c| format!("{c}{c} ").repeat(3)).collect::<String>();
    let config = VocabConfig { vocab_size: 4000, do_lower_case: false, ..VocabConfig::default() };
    let report = train_text(&korean, &config).report;
    // Half of the vocabulary, with characters that continue a word counted twice; 1000 merged words; then 497 in the
    // remaining room.
    assert!(report.to_string().contains("1503 of 3000 characters"), "{report}");
}

/// The printed fraction equals the fraction that a build with this vocabulary finds.
#[test]
fn unk_fraction_matches_a_build() {
    let folder = tempfile::tempdir().unwrap();
    let (input, vocab) = (folder.path().join("text.txt"), folder.path().join("vocab.txt"));
    let long = "x".repeat(300);
    std::fs::write(
        &input,
        ideographs(3000) + "The Zebra's \u{e9}t\u{e9}, " + &long + "!\n\nA zoo\u{200b}m.\n",
    )
    .unwrap();
    for (do_lower_case, max_words, limit_alphabet) in
        [(true, 5_000_000, None), (false, 5_000_000, Some(500)), (true, 1000, Some(1200))]
    {
        let words = VocabConfig {
            vocab_size: 5000,
            do_lower_case,
            max_words,
            limit_alphabet,
            ..VocabConfig::default()
        };
        let trained = train_vocabulary(std::slice::from_ref(&input), &words, &mut |_, _| {}).unwrap();
        std::fs::write(&vocab, trained.tokens.join("\n")).unwrap();
        let output = folder.path().join("data");
        let build = BuildConfig {
            dupe_factor: 1,
            do_lower_case: Some(do_lower_case),
            overwrite: true,
            ..config(&[&input], &vocab, &output)
        };
        let built = run(&build).unwrap().manifest.report;
        let report = trained.report;
        assert_eq!(
            (report.text_tokens, report.unknown_tokens),
            (built.tokens, built.unknown_tokens),
            "{report}"
        );
        assert!(report.unknown_tokens > 0, "the long word at least");
        assert_eq!(report.dropped_words > 0, max_words == 1000, "{report}");
    }
}

/// With more distinct words than the maximum, the same words are dropped for any number of threads.
#[test]
fn memory_is_bounded_and_threads_change_nothing() {
    let mut random = Stream::new(3, Domain::Test, &[8]);
    let mut text = String::new();
    for _ in 0..60_000 {
        // A few frequent words, and very many that occur once.
        let rare = format!("{}{}", random.below(30_000), random.below(9));
        let word = ["river", "sea", "delta", "rivers", &rare][random.below(5)];
        text.push_str(word);
        text.push_str(if random.below(9) == 0 { ".\n" } else { " " });
    }
    let text = text.repeat(3);
    let train = |threads: usize, max_words: usize| {
        let config = VocabConfig { vocab_size: 300, max_words, threads, ..VocabConfig::default() };
        train_text(&text, &config)
    };
    let all = train(2, 1_000_000);
    let one = train(1, 2000);
    assert_eq!(all.report.dropped_words, 0);
    assert!(one.report.dropped_words > 10_000, "{}", one.report);
    assert!(one.report.to_string().contains("occurrences of rare words were not counted (--max-words)"));
    assert_eq!(one.report.unknown_tokens, 0, "the characters of forgotten words are known");
    assert!(["river", "sea", "delta"].iter().all(|word| one.tokens.iter().any(|token| token == word)));
    for threads in [2, 4] {
        assert_eq!(train(threads, 2000), one, "{threads} threads");
        assert_eq!(train(threads, 1_000_000), all, "{threads} threads");
    }
}
