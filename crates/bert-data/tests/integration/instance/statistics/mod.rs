//! Over seeds, the keyed mode and the passes over stored documents give instances with the statistics of the reference.
//!
//! On the embedded articles they are compared with the reference mode, which equals the reference. On the bench corpus
//! (ignored tests) they are compared with `golden/create_pretraining_data/reference_stats.json`:
//! google-research/bert@eedf571 under CPython 3.11, eight seeds. The gate, for each scalar and each bin of the
//! histograms of length and mask count: the difference between the means over the seeds of both sides is below 5 *
//! sqrt(sd_ref^2 / n_ref + sd^2 / n). Seeds are fixed, so the outcome is too.

mod tally;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use crate::instance::statistics::tally::{Sample, Tally};
use crate::support::{Corpus, canonical, long_text, reference, run, sha256, shards, shared};
use bert_data::{
    BuildConfig, DocumentPasses, Layout, Masking, ShardRows, Tokenizer, Vocabulary, read_all_documents,
};
use serde_json::Value;

struct Bench {
    statistics: Value,
    corpus: Corpus,
    /// For each id whether its token continues a word.
    continues: Vec<bool>,
}

/// For each id whether its token continues a word.
fn continues(vocab: &Path) -> Vec<bool> {
    std::fs::read_to_string(vocab).unwrap().lines().map(|token| token.starts_with("##")).collect()
}

impl Bench {
    fn new() -> Self {
        let statistics = shared().join("golden/create_pretraining_data/reference_stats.json");
        let statistics = serde_json::from_slice(&std::fs::read(statistics).unwrap()).unwrap();
        let corpus = Corpus::bench();
        let continues = continues(&corpus.vocab);
        Self { statistics, corpus, continues }
    }

    fn config(&self, setting: &str, seed: u64, output: &Path) -> BuildConfig {
        let options = &self.statistics[setting]["config"];
        let number = |key: &str| options[key].as_u64().unwrap() as usize;
        BuildConfig {
            max_seq_length: number("max_seq_length"),
            max_predictions_per_seq: Some(number("max_predictions_per_seq")),
            dupe_factor: number("dupe_factor"),
            do_whole_word_mask: options["do_whole_word_mask"].as_bool().unwrap(),
            random_seed: seed,
            ..self.corpus.config(output)
        }
    }

    fn oracle(&self, setting: &str) -> Oracle {
        let measured = &self.statistics[setting];
        let pair = |value: &Value| (value["mean"].as_f64().unwrap(), value["sd"].as_f64().unwrap());
        let histogram =
            |name: &str| measured["histograms"][name].as_array().unwrap().iter().map(pair).collect();
        Oracle {
            n: measured["config"]["seeds"].as_array().unwrap().len() as f64,
            scalars: measured["scalars"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(k, v)| (k.clone(), pair(v)))
                .collect(),
            lengths: histogram("seq_len_hist"),
            masks: histogram("masked_per_seq_hist"),
        }
    }
}

/// Statistics of the reference over some seeds: mean and SD of each number.
struct Oracle {
    n: f64,
    scalars: BTreeMap<String, (f64, f64)>,
    lengths: Vec<(f64, f64)>,
    /// From one mask upward.
    masks: Vec<(f64, f64)>,
}

fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
}

impl Oracle {
    fn of(samples: &[Sample]) -> Self {
        let over =
            |value: &dyn Fn(&Sample) -> f64| mean_and_sd(&samples.iter().map(value).collect::<Vec<_>>());
        let names = samples[0].scalars.keys();
        Self {
            n: samples.len() as f64,
            scalars: names.map(|name| (name.clone(), over(&|sample| sample.scalars[name]))).collect(),
            lengths: (0..samples[0].lengths.len()).map(|bin| over(&|sample| sample.lengths[bin])).collect(),
            masks: (1..samples[0].masks.len()).map(|bin| over(&|sample| sample.masks[bin])).collect(),
        }
    }
}

/// Builds a data set and returns the statistics of its rows; its shards must have equal numbers of rows.
fn measure(config: &BuildConfig, continues: &[bool]) -> (Sample, Vec<ShardRows>) {
    let outcome = run(config).unwrap();
    let shards = shards(&outcome);
    let counts: Vec<usize> = shards.iter().map(ShardRows::len).collect();
    assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
    let mask = Vocabulary::read(config.vocab.as_ref().unwrap()).unwrap().mask_id();
    let mut tally = Tally::new(config, continues, mask);
    shards.iter().flat_map(ShardRows::iter).for_each(|row| tally.add(row));
    (tally.finish(), shards)
}

/// Origin of the digests: `create_training_instances` of google-research/bert@eedf571 run under CPython 3.11 with seed
/// 12345 on the decompressed corpus; SHA-256 over the canonical lines of the instances in their order.
#[test]
#[ignore = "needs ../shared"]
fn reference_mode_gives_the_reference_instances() {
    let bench = Bench::new();
    let folder = tempfile::tempdir().unwrap();
    let digests = [
        ("bench_128_d5", "31adbf493831014b05d8231bd7493d0417a5b995db39649c01e2e71792afbe7d"),
        ("bench_128_d5_wwm", "78f1e3dc9fddc26cab4a622d0295b22c10d56d54071f70edca8c0db1a848a129"),
        ("bench_512_d5", "23333e88cfb101d74a2980cfec6c8fdade7db06aaad5d9e4ddd1a65368fb2a8d"),
    ];
    for (setting, digest) in digests {
        let config = reference(bench.config(setting, 12345, &folder.path().join(setting)));
        let (sample, rows) = measure(&config, &bench.continues);
        let text: String = rows.iter().flat_map(ShardRows::iter).map(canonical).collect();
        assert_eq!(sha256(text.as_bytes()), digest, "{setting}");
        for (name, found) in &sample.scalars {
            let expected = bench.statistics[setting]["scalars"][name]["per_seed"][0].as_f64().unwrap();
            // Equal up to the order of summation.
            assert!(
                (found - expected).abs() <= 1e-9 * expected.abs(),
                "{setting} {name}: {found}, {expected}"
            );
        }
    }
}

/// Checks the gate in the module documentation. Histogram bins with a handful of instances have no meaningful SD: they
/// may differ by `least`.
fn assert_passes_gate(setting: &str, samples: &[Sample], oracle: &Oracle, least: f64) {
    let found = Oracle::of(samples);
    let check = |name: &str, (wanted, sd): (f64, f64), (mean, own_sd): (f64, f64), least: f64| {
        let bound = 5.0 * (sd * sd / oracle.n + own_sd * own_sd / found.n).sqrt();
        let bound = bound.max(least);
        assert!((mean - wanted).abs() <= bound, "{setting} {name}: {mean}, not {wanted} +- {bound}");
    };
    for (name, &wanted) in &oracle.scalars {
        check(name, wanted, found.scalars[name], 0.0);
    }
    let histograms = [("length", &oracle.lengths, &found.lengths), ("masks", &oracle.masks, &found.masks)];
    for (name, oracle, found) in histograms {
        // Bins that the oracle never saw are not listed in it.
        let oracle = oracle.iter().copied().chain(std::iter::repeat((0.0, 0.0)));
        for (index, (wanted, &found)) in oracle.zip(found).enumerate() {
            check(&format!("{name}[{index}]"), wanted, found, least);
        }
    }
}

/// Returns the samples of builds that differ from `config` only in the seed.
fn built_samples(config: &BuildConfig, continues: &[bool], seeds: Range<u64>) -> Vec<Sample> {
    let sample = |random_seed| {
        let folder = tempfile::tempdir().unwrap();
        let output = Some(folder.path().join("data"));
        measure(&BuildConfig { random_seed, output, ..config.clone() }, continues).0
    };
    seeds.map(sample).collect()
}

/// Returns the samples of a loader over stored documents, with one epoch per pass of `config`, for each seed.
fn document_samples(config: &BuildConfig, continues: &[bool], seeds: Range<u64>) -> Vec<Sample> {
    let outcome = run(&BuildConfig {
        layout: Layout::Documents,
        dupe_factor: BuildConfig::default().dupe_factor,
        ..config.clone()
    })
    .unwrap();
    let vocabulary = Vocabulary::read(config.vocab.as_ref().unwrap()).unwrap();
    let documents = read_all_documents(&outcome.data_set().unwrap()).unwrap();
    let sample = |seed| {
        let mut passes = DocumentPasses::new(&outcome.manifest, &vocabulary, seed).unwrap();
        let mut tally = Tally::new(config, continues, vocabulary.mask_id());
        for pass in 0..config.dupe_factor as u64 {
            for document in 0..documents.len() {
                let mut pairs = ShardRows::default();
                passes.append_pairs(&documents, pass, document, &mut pairs).unwrap();
                for (number, pair) in pairs.iter().enumerate() {
                    tally.add(passes.mask(pair, pass, document as u64, number as u64));
                }
            }
        }
        tally.finish()
    };
    seeds.map(sample).collect()
}

/// The same gate with the data in this repository. Sentences fit an instance: the modes cut longer ones differently.
fn assert_agree_with_the_reference_mode(corpus: &Corpus, change: &dyn Fn(BuildConfig) -> BuildConfig) {
    let folder = tempfile::tempdir().unwrap();
    let config = change(corpus.config(&folder.path().join("documents")));
    let continues = continues(&corpus.vocab);
    let oracle = Oracle::of(&built_samples(&reference(config.clone()), &continues, 1..17));
    // Three instances of the total.
    let least = 3.0 / oracle.scalars["n_instances"].0;
    assert_passes_gate("keyed", &built_samples(&config, &continues, 1..13), &oracle, least);
    assert_passes_gate("documents", &document_samples(&config, &continues, 1..13), &oracle, least);
}

#[test]
fn all_modes_match_the_reference_at_128() {
    assert_agree_with_the_reference_mode(&Corpus::almanac(), &|config| BuildConfig {
        dupe_factor: 5,
        ..config
    });
}

#[test]
fn all_modes_match_the_reference_at_512() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("long.txt");
    std::fs::write(&text, long_text()).unwrap();
    let corpus = Corpus { text, ..Corpus::almanac() };
    assert_agree_with_the_reference_mode(&corpus, &|config| BuildConfig {
        max_seq_length: 512,
        max_predictions_per_seq: Some(77),
        dupe_factor: 5,
        ..config
    });
}

fn assert_documents_agree(setting: &str, seeds: Range<u64>) {
    let bench = Bench::new();
    let folder = tempfile::tempdir().unwrap();
    let config = bench.config(setting, 0, folder.path());
    let samples = document_samples(&config, &bench.continues, seeds);
    assert_passes_gate(setting, &samples, &bench.oracle(setting), 3e-5);
}

fn assert_keyed_agrees(setting: &str, seeds: Range<u64>) {
    let bench = Bench::new();
    let config = bench.config(setting, 0, Path::new("unused"));
    let samples = built_samples(&config, &bench.continues, seeds);
    assert_passes_gate(setting, &samples, &bench.oracle(setting), 3e-5);
}

#[test]
#[ignore = "needs ../shared"]
fn document_passes_match_at_128() {
    assert_documents_agree("bench_128_d5", 1..7);
}

#[test]
#[ignore = "needs ../shared"]
fn document_passes_match_at_512() {
    assert_documents_agree("bench_512_d5", 1..7);
}

/// At dupe_factor 10 the golden statistics are finer than the intended difference between the modes: keyed mode uses
/// the 43 sentences of the bench corpus that are longer than an instance in pieces, while the reference discards most
/// of them, and so masks 0.2 % more tokens. Without these 43 the gate holds against the reference mode.
#[test]
#[ignore = "needs ../shared"]
fn all_modes_match_the_reference_at_dupe_10() {
    let bench = Corpus::bench();
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    let tokenizer = Tokenizer::new(&Vocabulary::read(&bench.vocab).unwrap(), true);
    let all = zstd::decode_all(std::fs::File::open(&bench.text).unwrap()).unwrap();
    let fits = |line: &&str| {
        let mut ids = Vec::new();
        tokenizer.encode(line, &mut ids);
        ids.len() <= 125
    };
    let all = String::from_utf8(all).unwrap();
    let kept: Vec<&str> = all.split('\n').filter(fits).collect();
    assert_eq!(all.split('\n').count() - kept.len(), 43);
    std::fs::write(&text, kept.join("\n")).unwrap();
    let corpus = Corpus { text, ..bench };
    assert_agree_with_the_reference_mode(&corpus, &|config| BuildConfig { dupe_factor: 10, ..config });
}

#[test]
#[ignore = "needs ../shared"]
fn keyed_mode_matches_at_128() {
    assert_keyed_agrees("bench_128_d5", 1..7);
}

#[test]
#[ignore = "needs ../shared"]
fn keyed_mode_matches_at_512() {
    assert_keyed_agrees("bench_512_d5", 1..7);
}

/// Writes twelve documents, each with a different word, and their vocabulary.
fn one_word_documents(folder: &Path) -> Corpus {
    let corpus = Corpus { text: folder.join("text.txt"), vocab: folder.join("vocab.txt") };
    let word = |document: usize| format!("w{}", (b'a' + document as u8) as char);
    let words = (0..12).map(|document| word(document) + "\n").collect::<String>();
    std::fs::write(&corpus.vocab, format!("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n{words}")).unwrap();
    let document = |document| format!("{}\n", format!("{} ", word(document)).repeat(7)).repeat(6) + "\n";
    std::fs::write(&corpus.text, (0..12).map(document).collect::<String>()).unwrap();
    corpus
}

/// Twelve documents, each with a different word, are assigned to two buckets in each of many passes: every other
/// document is equally likely as the random next one, and the rows of each occur everywhere in the shards.
#[test]
fn bucket_count_does_not_change_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let config = BuildConfig {
        max_seq_length: 24,
        masking: Masking::Dynamic,
        dupe_factor: 2001,
        num_shards: Some(2),
        ..one_word_documents(folder.path()).config(&folder.path().join("data"))
    };
    let made = run(&config).unwrap();
    let mut pairs = [[0f64; 12]; 12];
    let (mut places, mut rows_of) = ([0f64; 12], [0f64; 12]);
    for shard in 0..2 {
        let rows = made.data_set().unwrap().read_rows(shard).unwrap();
        for (place, row) in rows.iter().enumerate() {
            let first = row.segment_ids.iter().position(|&segment| segment == 1).unwrap();
            let (a, b) = (row.input_ids[1] as usize - 5, row.input_ids[first] as usize - 5);
            assert_eq!(a == b, row.next_sentence_label == 0, "labels are of the documents");
            if a != b {
                pairs[a][b] += 1.0;
            }
            places[a] += place as f64 / rows.len() as f64;
            rows_of[a] += 1.0;
        }
    }
    for (a, row) in pairs.iter().enumerate() {
        let all: f64 = row.iter().sum();
        for (b, &count) in row.iter().enumerate().filter(|&(b, _)| b != a) {
            let p = 1.0 / 11.0;
            // 5 sigma of a binomial; rows of one pass share a bucket, so a few of them depend on each other.
            let bound = 6.0 * (all * p * (1.0 - p)).sqrt();
            assert!((count - all * p).abs() < bound, "{a} with {b}: {count} of {all}");
        }
    }
    for (sum, rows) in places.iter().zip(rows_of) {
        // Places are uniform in 0..1, so their mean has a standard deviation of sqrt(1/12).
        assert!((sum / rows - 0.5).abs() < 5.0 * (1.0 / 12.0 / rows).sqrt(), "{places:?}");
    }
}
