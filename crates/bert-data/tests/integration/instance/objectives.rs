//! Objectives other than the reference's: other segments, spans of words, ordinary random words.
//!
//! Statistical tests have a fixed seed and a bound of 5 sigma.

use bert_data::{BuildConfig, Instance, MaskRules, Masker, Nsp, Row, Vocabulary, inspect, number_to_predict};
use bert_random::{Domain, Random, Stream};
use bert_tokenization::is_special_token;

use crate::support::{Corpus, config, golden_vocabulary, run, shards, small_text, small_vocabulary};

/// Returns a vocabulary of special tokens, `[unused...]` tokens and numbered words, each with a continuation.
fn numbered_vocabulary(words: usize) -> Vocabulary {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(String::from);
    let unused = (0..20).map(|n| format!("[unused{n}]"));
    let numbered = (0..words).flat_map(|n| [format!("w{n}"), format!("##x{n}")]);
    let tokens: Vec<String> = special.into_iter().chain(unused).chain(numbered).collect();
    Vocabulary::from_bytes((tokens.join("\n") + "\n").into_bytes(), std::path::Path::new("v.txt")).unwrap()
}

/// Returns `[CLS] w .. w [SEP] w .. w [SEP]` of words with these numbers of pieces.
fn instance(vocabulary: &Vocabulary, words: &[usize], random: &mut Stream) -> Instance {
    let mut tokens = vec![vocabulary.cls_id()];
    let count = (vocabulary.len() - 25) / 2;
    let half = words.len() / 2;
    let mut first = 0;
    for (at, &pieces) in words.iter().enumerate() {
        if at == half {
            tokens.push(vocabulary.sep_id());
            first = tokens.len();
        }
        for piece in 0..pieces {
            tokens.push((25 + 2 * random.below(count) + usize::from(piece > 0)) as u32);
        }
    }
    tokens.push(vocabulary.sep_id());
    let segment_ids = (0..tokens.len()).map(|at| i8::from(at >= first)).collect();
    Instance { tokens, segment_ids, ..Instance::default() }
}

/// Asserts that `count` of `n` draws is `p` within 5 sigma of a binomial.
fn assert_share(what: &str, count: usize, n: usize, p: f64) {
    let (count, n) = (count as f64, n as f64);
    let bound = 5.0 * (n * p * (1.0 - p)).sqrt();
    assert!((count - n * p).abs() <= bound, "{what}: {count} of {n}, expected {} +- {bound}", n * p);
}

fn masked(masker: &mut Masker, instance: &Instance, random: &mut Stream) -> Instance {
    let mut masked = instance.clone();
    masker.mask(&mut masked, random);
    masked
}

#[test]
fn spans_use_the_budget_exactly_and_hold_whole_words() {
    let vocabulary = numbered_vocabulary(500);
    let mut random = Stream::new(1, Domain::Test, &[]);
    for round in 0..3000 {
        // One word in three has several pieces, so that single pieces always remain.
        let words: Vec<usize> =
            (0..10 + round % 90).map(|_| if random.chance(0.33) { 2 + random.below(3) } else { 1 }).collect();
        let instance = instance(&vocabulary, &words, &mut random);
        let rules = MaskRules { max_ngram: 2 + round % 4, ..MaskRules::default() };
        let masked = masked(&mut Masker::new(&vocabulary, rules), &instance, &mut random);
        let budget = number_to_predict(instance.tokens.len(), 0.15, 20);
        assert_eq!(masked.masked_lm_positions.len(), budget, "{words:?}");
        assert!(masked.masked_lm_positions.is_sorted_by(|a, b| a < b));
        let hidden = |at: usize| masked.masked_lm_positions.contains(&(at as u32));
        for (at, &id) in instance.tokens.iter().enumerate() {
            let special = id == vocabulary.cls_id() || id == vocabulary.sep_id();
            assert!(!(special && hidden(at)));
            if vocabulary.token(id).starts_with("##") {
                assert_eq!(hidden(at), hidden(at - 1), "a word is half masked");
            }
        }
        for (&position, &id) in masked.masked_lm_positions.iter().zip(&masked.masked_lm_ids) {
            assert_eq!(instance.tokens[position as usize], id);
        }
    }
}

/// With room for two single pieces the first draw decides: a span of two (weight 1/2 of 3/2) masks neighbours; two
/// single words are neighbours with probability 2 / W each, for W words in two segments a little less.
#[test]
fn spans_are_drawn_with_weight_one_over_n() {
    let vocabulary = numbered_vocabulary(500);
    let mut random = Stream::new(2, Domain::Test, &[]);
    let rules = MaskRules { max_ngram: 2, max_predictions_per_seq: 2, ..MaskRules::default() };
    let mut masker = Masker::new(&vocabulary, rules);
    let (words, n) = (60, 40_000);
    let (mut neighbours, mut decided_together) = (0, 0);
    for _ in 0..n {
        let instance = instance(&vocabulary, &vec![1; words], &mut random);
        let masked = masked(&mut masker, &instance, &mut random);
        let [a, b] = masked.masked_lm_positions[..] else { panic!("two tokens are masked") };
        if b == a + 1 {
            neighbours += 1;
            let is_mask = |at: u32| masked.tokens[at as usize] == vocabulary.mask_id();
            decided_together += usize::from(is_mask(a) == is_mask(b));
        }
    }
    let pairs = (words * (words - 1) / 2) as f64;
    let by_chance = (words - 2) as f64 / pairs;
    assert_share("neighbours", neighbours, n, 1.0 / 3.0 + 2.0 / 3.0 * by_chance);
    // For spans, all tokens share one decision (except for a random word that is [MASK]); for chance pairs, 68 % do.
    assert!(decided_together as f64 > 0.97 * neighbours as f64, "{decided_together} of {neighbours}");
}

#[test]
fn spans_keep_the_masking_proportions() {
    let vocabulary = numbered_vocabulary(3000);
    let mut random = Stream::new(3, Domain::Test, &[]);
    let rules = MaskRules { max_ngram: 3, ..MaskRules::default() };
    let mut masker = Masker::new(&vocabulary, rules);
    let (mut total, mut shown, mut kept) = (0, 0, 0);
    for _ in 0..5000 {
        let instance = instance(&vocabulary, &[1; 120], &mut random);
        let masked = masked(&mut masker, &instance, &mut random);
        for (&at, &id) in masked.masked_lm_positions.iter().zip(&masked.masked_lm_ids) {
            total += 1;
            shown += usize::from(masked.tokens[at as usize] == vocabulary.mask_id());
            kept += usize::from(masked.tokens[at as usize] == id);
        }
    }
    // Decisions are made for spans of 1.64 words (the mean under the weights 1, 1/2, 1/3), at most 3: as if there
    // were fewer, by the factor 6/3.67 of the mean squared length over the mean; take 2.
    assert_share("[MASK]", shown / 2, total / 2, 0.8);
    assert_share("kept", kept / 2, total / 2, 0.1);
}

#[test]
fn random_replacements_can_exclude_special_tokens() {
    let vocabulary = numbered_vocabulary(40);
    let count = |skip: bool| {
        let mut random = Stream::new(4, Domain::Test, &[]);
        let rules = MaskRules { random_word_skip_special: skip, ..MaskRules::default() };
        let mut masker = Masker::new(&vocabulary, rules);
        let mut seen = vec![0usize; vocabulary.len()];
        for _ in 0..20_000 {
            let instance = instance(&vocabulary, &[1; 100], &mut random);
            let masked = masked(&mut masker, &instance, &mut random);
            for (&at, &id) in masked.masked_lm_positions.iter().zip(&masked.masked_lm_ids) {
                let shown = masked.tokens[at as usize];
                // Kept and hidden tokens are not random; nor can a [MASK] be distinguished from a drawn one.
                if shown != id && shown != vocabulary.mask_id() {
                    seen[shown as usize] += 1;
                }
            }
        }
        seen
    };
    let special = |id: usize| is_special_token(&vocabulary.tokens()[id]);
    let (all, ordinary) = (count(false), count(true));
    assert_eq!((0..vocabulary.len()).filter(|&id| special(id)).count(), 25);
    assert!((0..vocabulary.len()).all(|id| all[id] > 0 || id == vocabulary.mask_id() as usize));
    let total: usize = ordinary.iter().sum();
    for (id, &seen) in ordinary.iter().enumerate() {
        if special(id) {
            assert_eq!(seen, 0, "{}", vocabulary.tokens()[id]);
        } else if !vocabulary.tokens()[id].starts_with("##") {
            // Words of the text are drawn a little more rarely: a draw that is the original is not counted.
            assert!(seen > 0);
        } else {
            // Continuations are never the original: 40 of 80 tokens, of which the 40 words lose one draw in 80.
            assert_share("a continuation", seen, total, 1.0 / (80.0 - 1.0));
        }
    }
}

struct World {
    folder: tempfile::TempDir,
    config: BuildConfig,
    vocabulary: Vocabulary,
}

fn world(text: &str) -> World {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("text.txt");
    std::fs::write(&input, text).unwrap();
    let vocab = small_vocabulary(folder.path());
    let vocabulary = Vocabulary::read(&vocab).unwrap();
    let output = folder.path().join("data");
    let config = BuildConfig {
        max_seq_length: 32,
        max_predictions_per_seq: Some(5),
        dupe_factor: 4,
        ..config(&[&input], &vocab, &output)
    };
    World { folder, config, vocabulary }
}

fn original(row: Row<'_>) -> Vec<u32> {
    let mut ids = row.input_ids.to_vec();
    for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
        ids[position as usize] = id;
    }
    ids
}

#[test]
fn nsp_off_uses_every_token_once() {
    let document = format!("{}\n", small_text(10).replace("\n\n", "\n"));
    let world = world(&document.repeat(20));
    let config = BuildConfig { nsp: Nsp::Off, ..world.config.clone() };
    let outcome = run(&config).unwrap();
    let report = &outcome.manifest.report;
    let (mut tokens, mut full) = (0, 0);
    for row in shards(&outcome).iter().flat_map(|rows| rows.iter()) {
        let ids = original(row);
        let (cls, sep) = (world.vocabulary.cls_id(), world.vocabulary.sep_id());
        assert_eq!((ids[0], ids[ids.len() - 1]), (cls, sep));
        assert!(!ids[1..ids.len() - 1].contains(&sep), "one segment");
        assert!(row.segment_ids.iter().all(|&segment| segment == 0));
        assert_eq!(row.next_sentence_label, 0);
        tokens += ids.len() as u64 - 2;
        full += usize::from(ids.len() == 32);
    }
    assert_eq!(tokens, 4 * report.tokens, "every token is in each pass once");
    assert!(2 * full as u64 > report.instances, "{full} of {}", report.instances);
    assert_eq!((report.random_next, report.warnings.len()), (0, 0));
    assert!(!report.to_string().contains("next sentence"), "{report}");
    assert!(inspect(&outcome.output, 1).unwrap().instances[0].starts_with("one segment"));
    assert_eq!(outcome.manifest.config.nsp, Nsp::Off);
}

/// The words encode their position: document `d`, sentence `s` is `d` letters of the alphabet starting at `s`.
#[test]
fn sop_pairs_are_consecutive_and_half_swapped() {
    let mut text = String::new();
    for document in 0..400 {
        for sentence in 0..4 + document % 7 {
            let letter = |shift: usize| char::from(b'a' + ((document + sentence + shift) % 26) as u8);
            text += &format!("{} {} {}\n", letter(0), letter(0), letter(0));
        }
        text += "\n";
    }
    let world = world(&text);
    let outcome = run(&BuildConfig { nsp: Nsp::Sop, ..world.config.clone() }).unwrap();
    let (mut n, mut swapped) = (0, 0);
    for row in shards(&outcome).iter().flat_map(|rows| rows.iter()) {
        let ids = original(row);
        let letters = |segment: i8| -> Vec<u8> {
            let pairs = ids.iter().zip(row.segment_ids);
            pairs
                .filter(|(_, found)| **found == segment)
                .map(|(&id, _)| world.vocabulary.token(id))
                .filter(|token| token.len() == 1)
                .map(|token| token.as_bytes()[0])
                .collect()
        };
        let (a, b) = (letters(0), letters(1));
        let (first, second) = if row.next_sentence_label == 1 { (&b, &a) } else { (&a, &b) };
        let (last, next) = (*first.last().unwrap(), second[0]);
        // Truncation may cut at the border; the remaining text still follows in the alphabet.
        let step = (26 + next - last) % 26;
        assert!((1..=2).contains(&step), "{first:?} {second:?}");
        n += 1;
        swapped += usize::from(row.next_sentence_label == 1);
    }
    assert_share("swapped", swapped, n, 0.5);
    let report = &outcome.manifest.report;
    assert_eq!(report.random_next, swapped as u64);
    assert!(report.to_string().contains("swapped sentences") && report.warnings.is_empty(), "{report}");
}

#[test]
fn sop_requires_two_sentences() {
    let world = world(&"the cat sat on the mat.\n\n".repeat(40));
    let error = run(&BuildConfig { nsp: Nsp::Sop, ..world.config.clone() }).unwrap_err();
    assert!(error.to_string().contains("no instance can be built: `.nsp sop` needs"), "{error}");
    assert_eq!(error.exit_code(), 3);
    assert!(!world.folder.path().join("data").exists());
    // A single document is enough if nothing is drawn from another one.
    let single = format!("{}\n", small_text(5).replace("\n\n", "\n"));
    for nsp in [Nsp::Sop, Nsp::Off] {
        let world = self::world(&single);
        let report = run(&BuildConfig { nsp, ..world.config.clone() }).unwrap().manifest.report;
        assert!(report.documents == 1 && report.warnings.is_empty(), "{report}");
    }
}

#[test]
fn spans_and_ordinary_words_are_in_the_manifest() {
    let world = world(&small_text(50));
    let config = BuildConfig { max_ngram: 3, random_word_skip_special: true, ..world.config.clone() };
    let outcome = run(&config).unwrap();
    let resolved = &outcome.manifest.config;
    assert_eq!((resolved.max_ngram, resolved.random_word_skip_special), (3, true));
    assert!(resolved.do_whole_word_mask, "spans are of whole words");
    assert!(bert_data::verify(&outcome.output, true).unwrap().is_good());
    // A vocabulary of only special tokens has nothing to draw from.
    let folder = tempfile::tempdir().unwrap();
    let vocab = golden_vocabulary(folder.path());
    let bare = world.folder.path().join("bare.txt");
    std::fs::write(&bare, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[unused1]\n").unwrap();
    let output = Some(folder.path().join("data"));
    let other = |vocab| BuildConfig { vocab: Some(vocab), output: output.clone(), ..config.clone() };
    assert!(run(&other(bare)).unwrap_err().to_string().contains("cannot be used with"));
    assert!(run(&other(vocab)).is_ok());
}

#[test]
fn span_masking_keeps_the_masked_fraction() {
    let folder = tempfile::tempdir().unwrap();
    let base = Corpus::almanac().config(folder.path());
    let share = |name: &str, change: &dyn Fn(BuildConfig) -> BuildConfig| {
        let output = Some(folder.path().join(name));
        run(&change(BuildConfig { output, ..base.clone() })).unwrap().manifest.report
    };
    let single = share("a", &|config| config);
    let spans = share("b", &|config| BuildConfig { max_ngram: 3, ..config });
    // The same instances (masks have their own draws), the same budgets, almost completely used.
    assert_eq!((single.instances, single.instance_tokens), (spans.instances, spans.instance_tokens));
    let used = spans.masked_tokens as f64 / single.masked_tokens as f64;
    assert!((0.99..=1.0).contains(&used), "{used}");
    let off = share("c", &|config| BuildConfig { nsp: Nsp::Off, ..config });
    assert_eq!(off.instance_tokens, 10 * off.tokens + 2 * off.instances);
    let sop = share("d", &|config| BuildConfig { nsp: Nsp::Sop, ..config });
    assert_share("swapped", sop.random_next as usize, sop.instances as usize, 0.5);
}
