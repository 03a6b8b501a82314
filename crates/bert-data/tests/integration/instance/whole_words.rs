//! Whole-word masking in keyed mode: no word is half masked, no word crosses `[SEP]`.

use bert_data::{BuildConfig, Instance, MaskRules, Masker, Row, Vocabulary, number_to_predict};
use bert_random::{Domain, Stream};

use crate::support::{Corpus, config, golden, run, shards, small_text, small_vocabulary};

/// Returns the words of a row: runs of a piece and its continuations within one segment.
fn words(row: Row<'_>, vocabulary: &Vocabulary) -> Vec<Vec<usize>> {
    let mut ids = row.input_ids.to_vec();
    for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
        ids[position as usize] = id;
    }
    let mut words: Vec<Vec<usize>> = Vec::new();
    let mut begins = true;
    for (position, &id) in ids.iter().enumerate() {
        if id == vocabulary.cls_id() || id == vocabulary.sep_id() {
            begins = true;
            continue;
        }
        match words.last_mut() {
            Some(word) if !begins && vocabulary.token(id).starts_with("##") => word.push(position),
            _ => words.push(vec![position]),
        }
        begins = false;
    }
    words
}

/// Counts masked words, and words of several pieces among them.
fn assert_whole(row: Row<'_>, vocabulary: &Vocabulary) -> (usize, usize) {
    let masked = |position: &usize| row.masked_lm_positions.contains(&(*position as u32));
    let (mut count, mut long) = (0, 0);
    for word in words(row, vocabulary) {
        let hidden = word.iter().filter(|position| masked(position)).count();
        assert!(hidden == 0 || hidden == word.len(), "a word is half masked");
        if hidden == 0 {
            continue;
        }
        count += 1;
        long += usize::from(word.len() > 1);
        // One decision for the word: all [MASK], or none. With few tokens a random piece often is [MASK] by chance.
        let shown = word.iter().filter(|&&position| row.input_ids[position] == vocabulary.mask_id()).count();
        assert!(shown == 0 || shown == word.len() || vocabulary.len() < 200, "a word is half hidden");
    }
    (count, long)
}

#[test]
fn whole_words_are_masked_together() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, small_text(100)).unwrap();
    let vocab = small_vocabulary(folder.path());
    let vocabulary = Vocabulary::read(&vocab).unwrap();
    let config = BuildConfig {
        do_whole_word_mask: true,
        max_seq_length: 48,
        max_predictions_per_seq: Some(12),
        masked_lm_prob: 0.25,
        ..config(&[&text], &vocab, &folder.path().join("data"))
    };
    let outcome = run(&config).unwrap();
    let rows = &shards(&outcome)[0];
    let long: usize = rows.iter().map(|row| assert_whole(row, &vocabulary).1).sum();
    assert!(long > 100, "{long} words of several pieces masked");
}

#[test]
fn almanac_words_are_masked_whole() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = Corpus::almanac();
    let vocabulary = Vocabulary::read(&corpus.vocab).unwrap();
    // No random [MASK]: a word that is half hidden would be a mistake.
    let config = BuildConfig {
        do_whole_word_mask: true,
        random_word_skip_special: true,
        ..corpus.config(folder.path())
    };
    let outcome = run(&config).unwrap();
    let report = &outcome.manifest.report;
    let long: usize = shards(&outcome)
        .iter()
        .flat_map(|rows| rows.iter())
        .map(|row| assert_whole(row, &vocabulary).1)
        .sum();
    assert!(long > 5_000, "{long} words of several pieces masked");
    // 80/10/10 by words: 5 sigma of a binomial, widened by 1.6 for words of several pieces.
    let share = report.replaced_by_mask as f64 / report.masked_tokens as f64;
    assert!((share - 0.8).abs() < 5.0 * 1.6 * (0.16 / report.masked_tokens as f64).sqrt(), "{share}");
}

#[test]
fn segment_b_continuation_is_separate() {
    let folder = tempfile::tempdir().unwrap();
    let vocabulary = Vocabulary::read(&small_vocabulary(folder.path())).unwrap();
    let ids =
        |text: &str| -> Vec<u32> { text.split(' ').map(|token| vocabulary.id(token).unwrap()).collect() };
    let instance = Instance {
        tokens: ids("[CLS] the cat [SEP] ##ing sat [SEP]"),
        segment_ids: vec![0, 0, 0, 0, 1, 1, 1],
        ..Instance::default()
    };
    let rules = |reference| MaskRules {
        masked_lm_prob: 0.3,
        max_predictions_per_seq: 2,
        do_whole_word_mask: true,
        reference,
        ..MaskRules::default()
    };
    let mut together = [0, 0];
    for seed in 0..300 {
        for (reference, count) in [false, true].into_iter().zip(&mut together) {
            let mut masked = instance.clone();
            let mut random = Stream::new(seed, Domain::Test, &[]);
            Masker::new(&vocabulary, rules(reference)).mask(&mut masked, &mut random);
            assert!(masked.masked_lm_positions.len() <= 2);
            let has = |position| masked.masked_lm_positions.contains(&position);
            // In the reference `cat` and `##ing` are one word and always share their fate.
            if reference {
                assert_eq!(has(2), has(4));
            }
            *count += usize::from(has(2) != has(4));
        }
    }
    assert!(together[0] > 50, "{together:?}");
}

/// Halves round to even. Origin: CPython 3.11, `max(1, int(round(length * 0.15)))`; the listed lengths would differ if
/// halves rounded away from zero; then all lengths and four probabilities by `rounding.json`.
#[test]
fn rounding_is_half_to_even() {
    for (length, expected) in
        [(5, 1), (10, 2), (30, 4), (50, 8), (70, 10), (110, 16), (128, 19), (150, 22), (510, 76)]
    {
        assert_eq!(number_to_predict(length, 0.15, 1000), expected, "{length}");
    }
    assert_eq!(number_to_predict(128, 0.15, 5), 5);
    let table: serde_json::Value =
        serde_json::from_slice(&std::fs::read(golden("rounding.json")).unwrap()).unwrap();
    for (prob, expected) in table.as_object().unwrap() {
        let prob: f64 = prob.parse().unwrap();
        for (length, expected) in (5..=512).zip(expected.as_array().unwrap()) {
            assert_eq!(
                number_to_predict(length, prob, 1000) as u64,
                expected.as_u64().unwrap(),
                "{prob} {length}"
            );
        }
    }
}
