//! The bench corpus: the reference mode gives the reference's numbers exactly, the keyed mode agrees with them over
//! seeds.
//!
//! The numbers are those of `golden/create_pretraining_data/reference_stats.json`: google-research/bert@eedf571 under
//! CPython 3.11 on the bench corpus, eight seeds (five at dupe_factor 10). The gate of the keyed mode: for each
//! scalar the difference of the means below 4 * sqrt(sd_ref^2 / n_ref + sd^2 / n), and each bin of the histograms of
//! length and mask count within 4 reference SD. Seeds are fixed, so the outcome is too.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::support::{canonical, config, reference, run, sha256, shards, shared};
use bert_data::{BuildConfig, ShardRows};
use serde_json::Value;

type Scalars = BTreeMap<String, f64>;

struct Bench {
    statistics: Value,
    corpus: PathBuf,
    vocab: PathBuf,
    /// For each id whether its token continues a word.
    continues: Vec<bool>,
}

impl Bench {
    fn new() -> Option<Self> {
        let shared = shared()?;
        let statistics =
            std::fs::read(shared.join("golden/create_pretraining_data/reference_stats.json")).unwrap();
        let vocab = shared.join("data/vocab/bert-base-uncased-vocab.txt");
        let continues =
            std::fs::read_to_string(&vocab).unwrap().lines().map(|t| t.starts_with("##")).collect();
        Some(Self {
            statistics: serde_json::from_slice(&statistics).unwrap(),
            corpus: shared.join("data/corpora/bench_sentences.txt.zst"),
            vocab,
            continues,
        })
    }

    fn config(&self, setting: &str, seed: u64, output: &std::path::Path) -> BuildConfig {
        let of = &self.statistics[setting]["config"];
        let number = |key: &str| of[key].as_u64().unwrap() as usize;
        BuildConfig {
            max_seq_length: number("max_seq_length"),
            max_predictions_per_seq: number("max_predictions_per_seq"),
            dupe_factor: number("dupe_factor"),
            do_whole_word_mask: of["do_whole_word_mask"].as_bool().unwrap(),
            random_seed: seed,
            ..config(&[&self.corpus], &self.vocab, output)
        }
    }

    fn measure(&self, config: &BuildConfig) -> (Sample, Vec<ShardRows>) {
        let outcome = run(config).unwrap();
        let shards = shards(&outcome);
        let counts: Vec<usize> = shards.iter().map(ShardRows::len).collect();
        assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        (Sample::new(&shards, config, &self.continues), shards)
    }
}

struct Sample {
    scalars: Scalars,
    lengths: Vec<f64>,
    masks: Vec<f64>,
}

#[derive(Default)]
struct Mean {
    n: f64,
    sum: f64,
    squares: f64,
}

impl Mean {
    fn add(&mut self, value: usize) {
        self.n += 1.0;
        self.sum += value as f64;
        self.squares += (value * value) as f64;
    }

    fn mean(&self) -> f64 {
        self.sum / self.n
    }

    fn sd(&self) -> f64 {
        (self.squares / self.n - self.mean().powi(2)).sqrt()
    }
}

impl Sample {
    fn new(shards: &[ShardRows], config: &BuildConfig, continues: &[bool]) -> Self {
        const MASK: i32 = 103;
        let longest = config.max_seq_length;
        let (mut length, mut a, mut b, mut masks) =
            (Mean::default(), Mean::default(), Mean::default(), Mean::default());
        let (mut random_next, mut actual_next, mut random_id) =
            (Mean::default(), Mean::default(), Mean::default());
        let (mut masked, mut shown, mut kept, mut low, mut pieces, mut full, mut capped) =
            (0, 0, 0, 0, 0, 0, 0);
        let mut lengths = vec![0.0; 16];
        let mut mask_counts = vec![0.0; config.max_predictions_per_seq + 1];
        for row in shards.iter().flat_map(ShardRows::iter) {
            let (tokens, count) = (row.input_ids.len(), row.masked_lm_ids.len());
            let first = row.segment_ids.iter().filter(|&&segment| segment == 0).count();
            length.add(tokens);
            a.add(first - 2);
            b.add(tokens - first - 1);
            masks.add(count);
            if row.next_sentence_label == 1 {
                random_next.add(tokens)
            } else {
                actual_next.add(tokens)
            }
            full += usize::from(tokens == longest);
            capped += usize::from(count == config.max_predictions_per_seq);
            lengths[(tokens - 1) * 16 / longest] += 1.0;
            mask_counts[count] += 1.0;
            masked += count;
            for (&position, &original) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
                let token = row.input_ids[position as usize];
                pieces += usize::from(continues[original as usize]);
                if token == MASK {
                    shown += 1;
                } else if token == original {
                    kept += 1;
                } else {
                    random_id.add(token as usize);
                    low += usize::from(token < 999);
                }
            }
        }
        let share = |part: usize| part as f64 / masked as f64;
        let scalars = [
            ("n_instances", length.n),
            ("n_tokens_real", length.sum),
            ("padding_fraction", 1.0 - length.sum / (length.n * longest as f64)),
            ("is_random_next_fraction", random_next.n / length.n),
            ("masked_total", masked as f64),
            ("masked_per_seq_mean", masks.mean()),
            ("masked_per_seq_sd", masks.sd()),
            ("masked_over_real_tokens", masked as f64 / length.sum),
            ("masked_over_maskable_tokens", masked as f64 / (length.sum - 3.0 * length.n)),
            ("frac_mask_token", share(shown)),
            ("frac_kept_original_(incl_random_hit)", share(kept)),
            ("frac_random_other", share(masked - shown - kept)),
            ("frac_random_ids_below_999_(special+unused)", low as f64 / random_id.n),
            ("random_id_mean", random_id.mean()),
            ("frac_masked_labels_continuation_piece", share(pieces)),
            ("seq_len_mean", length.mean()),
            ("seq_len_sd", length.sd()),
            ("frac_full_length", full as f64 / length.n),
            ("len_a_mean", a.mean()),
            ("len_a_sd", a.sd()),
            ("len_b_mean", b.mean()),
            ("len_b_sd", b.sd()),
            ("len_mean_random_next", random_next.mean()),
            ("len_mean_actual_next", actual_next.mean()),
            ("frac_capped_at_max_predictions", capped as f64 / length.n),
        ];
        let n = length.n;
        Self {
            scalars: scalars.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            lengths: lengths.into_iter().map(|count| count / n).collect(),
            masks: mask_counts.into_iter().map(|count| count / n).collect(),
        }
    }
}

/// Birth certificate of the digests: `create_training_instances` of google-research/bert@eedf571 run under CPython 3.11
/// with seed 12345 on the decompressed corpus; SHA-256 over the canonical lines of the instances in their order.
#[test]
fn reference_mode_gives_the_reference_instances() {
    let Some(bench) = Bench::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let digests = [
        ("bench_128_d5", "31adbf493831014b05d8231bd7493d0417a5b995db39649c01e2e71792afbe7d"),
        ("bench_128_d5_wwm", "78f1e3dc9fddc26cab4a622d0295b22c10d56d54071f70edca8c0db1a848a129"),
        ("bench_512_d5", "23333e88cfb101d74a2980cfec6c8fdade7db06aaad5d9e4ddd1a65368fb2a8d"),
    ];
    for (setting, digest) in digests {
        let config = reference(bench.config(setting, 12345, &folder.path().join(setting)));
        let (sample, rows) = bench.measure(&config);
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

fn assert_agrees(bench: &Bench, setting: &str, seeds: std::ops::Range<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let samples: Vec<Sample> = seeds
        .map(|seed| bench.measure(&bench.config(setting, seed, &folder.path().join(seed.to_string()))).0)
        .collect();
    let n = samples.len() as f64;
    let reference = &bench.statistics[setting];
    let n_reference = reference["config"]["seeds"].as_array().unwrap().len() as f64;
    for (name, expected) in reference["scalars"].as_object().unwrap() {
        let values: Vec<f64> = samples.iter().map(|sample| sample.scalars[name]).collect();
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let (wanted, sd) = (expected["mean"].as_f64().unwrap(), expected["sd"].as_f64().unwrap());
        let bound = 4.0 * (sd * sd / n_reference + variance / n).sqrt();
        println!("{setting} {name}: {mean:.6} against {wanted:.6}, bound {bound:.6}");
        assert!((mean - wanted).abs() <= bound, "{setting} {name}: {mean}, not {wanted} +- {bound}");
    }
    for (name, bins) in [("seq_len_hist", 0), ("masked_per_seq_hist", 1)] {
        for (index, bin) in reference["histograms"][name].as_array().unwrap().iter().enumerate() {
            let mean = samples
                .iter()
                .map(|sample| if bins == 0 { sample.lengths[index] } else { sample.masks[index + 1] })
                .sum::<f64>()
                / n;
            let (wanted, sd) = (bin["mean"].as_f64().unwrap(), bin["sd"].as_f64().unwrap());
            // Bins with a handful of instances have no meaningful SD: they may differ by three instances of 100,000.
            let bound = (4.0 * sd).max(3e-5);
            assert!(
                (mean - wanted).abs() <= bound,
                "{setting} {name}[{index}]: {mean}, not {wanted} +- {bound}"
            );
        }
    }
}

#[test]
fn keyed_mode_agrees_at_128() {
    let Some(bench) = Bench::new() else { return };
    assert_agrees(&bench, "bench_128_d5", 1..7);
}

#[test]
fn keyed_mode_agrees_at_512() {
    let Some(bench) = Bench::new() else { return };
    assert_agrees(&bench, "bench_512_d5", 1..7);
}

#[test]
fn keyed_mode_agrees_at_dupe_10() {
    let Some(bench) = Bench::new() else { return };
    assert_agrees(&bench, "bench_128_d10", 1..6);
}
