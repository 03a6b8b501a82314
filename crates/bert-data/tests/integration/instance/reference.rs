//! `--random reference` gives the instances of the 2018 script, exactly and in its order.
//!
//! `tests/golden/README.md` documents the source of the expected instances.

use std::path::{Path, PathBuf};

use crate::support::{
    almanac, canonical, config, golden, golden_vocabulary, long_text, reference, run, sha256, shards, shared,
};
use bert_data::{BuildConfig, ShardRows};
use serde_json::Value;

fn instances(config: BuildConfig) -> ShardRows {
    let outcome = run(&reference(config)).unwrap();
    shards(&outcome).remove(0)
}

/// Compares field by field with a file of the reference's instances, which may contain only the first ones.
fn assert_same(rows: &ShardRows, expected: &Path) {
    let text = std::fs::read_to_string(expected).unwrap();
    assert!(rows.len() >= text.lines().count() && !text.is_empty());
    for (index, (row, line)) in rows.iter().zip(text.lines()).enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        let found = serde_json::json!({
            "input_ids": row.input_ids,
            "segment_ids": row.segment_ids,
            "masked_lm_positions": row.masked_lm_positions,
            "masked_lm_ids": row.masked_lm_ids,
            "next_sentence_label": row.next_sentence_label,
        });
        assert_eq!(found, line, "instance {index} of {}", expected.display());
    }
}

fn digest(rows: &ShardRows) -> String {
    sha256(rows.iter().map(canonical).collect::<String>().as_bytes())
}

#[test]
fn sha256_is_sha256() {
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn committed_goldens_are_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    let vocab = golden_vocabulary(folder.path());
    let (a, b) = (golden("golden_a.txt"), golden("golden_b.txt"));
    let twofiles = BuildConfig { dupe_factor: 2, ..config(&[&a, &b], &vocab, &folder.path().join("two")) };
    assert_same(&instances(twofiles), &golden("golden_twofiles.jsonl"));
    let onedoc = BuildConfig {
        max_seq_length: 32,
        max_predictions_per_seq: Some(5),
        dupe_factor: 3,
        random_seed: 7,
        short_seq_prob: 0.5,
        ..config(&[&golden("golden_onedoc.txt")], &vocab, &folder.path().join("one"))
    };
    assert_same(&instances(onedoc), &golden("golden_onedoc.jsonl"));
}

/// Whole words, cased, length 512, Chinese, short instances, a seed of more than 32 bits.
#[test]
fn every_setting_is_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("long.txt");
    std::fs::write(&long, long_text()).unwrap();
    let path = |name: &str| match name {
        "odd" | "chinese" => golden(&format!("{name}.txt")),
        "long" => long.clone(),
        _ => almanac(&format!("{name}.txt")),
    };
    let settings: Value = serde_json::from_slice(&std::fs::read(golden("index.json")).unwrap()).unwrap();
    let settings = settings.as_array().unwrap();
    assert_eq!(settings.len(), 7);
    for of in settings {
        let name = of["name"].as_str().unwrap();
        let number = |key: &str| of[key].as_u64().unwrap();
        let inputs = of["inputs"].as_array().unwrap().iter().map(|input| path(input.as_str().unwrap()));
        let vocab = golden(&format!("vocab-{}.txt", of["vocab"].as_str().unwrap()));
        let rows = instances(BuildConfig {
            input: inputs.collect(),
            do_lower_case: of["lower"].as_bool(),
            max_seq_length: number("length") as usize,
            max_predictions_per_seq: Some(number("predictions") as usize),
            dupe_factor: number("dupe") as usize,
            random_seed: number("seed"),
            masked_lm_prob: of["prob"].as_f64().unwrap(),
            short_seq_prob: of["short"].as_f64().unwrap(),
            do_whole_word_mask: of["whole_words"].as_bool().unwrap(),
            ..config(&[], &vocab, &folder.path().join(name))
        });
        assert_same(&rows, &golden(&format!("golden_{name}.jsonl")));
        assert_eq!(rows.len() as u64, number("instances"), "{name}");
        assert_eq!(digest(&rows), of["sha256"].as_str().unwrap(), "{name}");
    }
}

#[test]
#[ignore = "needs ../shared"]
fn all_goldens_are_reproduced() {
    let shared = shared();
    let goldens = shared.join("golden/create_pretraining_data");
    let vocab = shared.join("data/vocab/bert-base-uncased-vocab.txt");
    let index: Value = serde_json::from_slice(&std::fs::read(goldens.join("index.json")).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for golden in index["configs"].as_array().unwrap() {
        let number = |key: &str| golden[key].as_u64().unwrap() as usize;
        let name = golden["name"].as_str().unwrap();
        let inputs: Vec<PathBuf> =
            golden["input"].as_str().unwrap().split(',').map(|file| goldens.join(file)).collect();
        let config = BuildConfig {
            input: inputs,
            max_seq_length: number("seqlen"),
            max_predictions_per_seq: Some(number("maxpred")),
            dupe_factor: number("dupe"),
            random_seed: number("seed") as u64,
            masked_lm_prob: golden["prob"].as_f64().unwrap(),
            short_seq_prob: golden["short"].as_f64().unwrap(),
            do_whole_word_mask: golden["wwm"].as_bool().unwrap(),
            ..config(&[], &vocab, &folder.path().join(name))
        };
        let rows = instances(config);
        assert_eq!(rows.len(), number("n"), "{name}");
        assert_same(&rows, &goldens.join(format!("golden_{name}.jsonl")));
        assert_eq!(digest(&rows), golden["sha256"].as_str().unwrap(), "{name}");
    }
}
