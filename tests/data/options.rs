//! Options that decide the data are printed, saved and read back: the cap on masked tokens, `--config`.

use serde_json::{Value, json};

use crate::common::{Folder, QUICK, articles, entailment};

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("train.txt", articles(0, 8));
    folder.ok("bert make-vocab --input train.txt --vocab-size 400 --output vocab.txt");
    folder
}

fn digests(folder: &Folder, data: &str) -> Vec<Value> {
    let shards = folder.checksummed(&format!("{data}/manifest.json"))["shards"].clone();
    shards.as_array().expect("a list").iter().map(|shard| shard["blake3"].clone()).collect()
}

/// Checks that the fraction of masked tokens is as requested at every length, and that a lower cap is reported at the
/// start.
#[test]
fn prediction_cap_below_masked_share_warns() {
    let folder = folder();
    let flags = "--input train.txt --vocab vocab.txt --max-seq-length 512 --dupe-factor 1";
    let free = folder.ok(&format!("make-pretrain-data {flags} --output free --json"));
    assert!(!free.stderr.contains("warning: At most"), "{}", free.stderr);
    assert_eq!(free.json()["config"]["max_predictions_per_seq"], 77);
    let share = |manifest: &Value| {
        let count = |name: &str| manifest["report"][name].as_f64().expect("a number");
        count("masked_tokens") / count("instance_tokens")
    };
    assert!((0.145..0.155).contains(&share(&free.json())), "{}", share(&free.json()));
    let warning = "warning: At most 20 tokens of an instance are masked (--max-predictions-per-seq): 3.9 % of one of 512 \
                   tokens, not 15.0 % as --masked-lm-prob 0.15 asks for. --max-predictions-per-seq 77 is enough.";
    for (name, more) in [
        ("by-hand", "--max-predictions-per-seq 20"),
        ("script", "--random reference"),
        ("not-made", "--max-predictions-per-seq 20 --dry-run"),
    ] {
        let ended = folder.ok(&format!("make-pretrain-data {flags} --output {name} {more} --quiet"));
        assert!(ended.stderr.contains(warning), "{name}: {}", ended.stderr);
        ended.stdout_has("warning: At most 20 tokens");
    }
    let help = folder.ok("make-pretrain-data --help");
    help.stdout_has("20 at 128, 77 at");
}

#[test]
fn manifest_rebuilds_the_data_set() {
    let folder = folder();
    let flags = "--input train.txt --vocab vocab.txt --max-seq-length 48 --dupe-factor 3 --num-shards 2 --nsp sop \
                 --do-whole-word-mask --random-seed 5 --masked-lm-prob 0.2 --columns hf";
    folder.ok(&format!("make-pretrain-data {flags} --output made"));
    for (name, from) in [("from-file", "made/manifest.json"), ("from-folder", "made")] {
        folder.ok(&format!("make-pretrain-data --config {from} --output {name} --threads 1"));
        assert_eq!(digests(&folder, name), digests(&folder, "made"), "{name}");
        let config = |data: &str| folder.checksummed(&format!("{data}/manifest.json"))["config"].clone();
        assert_eq!(config(name), config("made"), "{name}");
    }
    // A flag overrides the file, even if it gives the default.
    let ended =
        folder.ok("make-pretrain-data --config made --output other --random-seed 12345 --nsp on --json");
    let config = &ended.json()["config"];
    assert_eq!((&config["random_seed"], &config["nsp"]), (&json!(12345), &json!("on")));
    assert_eq!((&config["max_seq_length"], &config["columns"]), (&json!(48), &json!("hf")));
    assert_ne!(digests(&folder, "other"), digests(&folder, "made"));
    folder.ok("make-pretrain-data --config made --dry-run");

    folder.ok("make-pretrain-data --input train.txt --vocab vocab.txt --max-seq-length 48 --layout documents --output stored");
    folder.ok("make-pretrain-data --config stored --output again");
    assert_eq!(digests(&folder, "stored"), digests(&folder, "again"));
}

#[test]
fn config_file_rejects_unknown_keys_and_values() {
    let folder = folder();
    let options =
        json!({ "input": ["train.txt"], "vocab": "vocab.txt", "max_seq_length": 32, "dupe_factor": 2 });
    folder.write("options.json", options.to_string());
    folder.ok("make-pretrain-data --config options.json --output data");
    assert_eq!(folder.checksummed("data/manifest.json")["config"]["dupe_factor"], 2);
    for (name, text, named) in [
        ("key.json", r#"{ "dupe_facto": 3 }"#, "unknown field `dupe_facto`; did you mean `dupe_factor`?"),
        ("value.json", r#"{ "nsp": "maybe" }"#, "line 1: invalid value 'maybe' for '--nsp"),
        ("text.json", "dupe_factor = 3", "expected value"),
        ("saved.json", r#"{ "config": { "dupe_facto": 3 } }"#, "unknown field `dupe_facto`"),
    ] {
        folder.write(name, text);
        let ended = folder.run(&format!("make-pretrain-data --config {name} --output x"));
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(name) && ended.stderr.contains(named), "{}", ended.stderr);
    }
    folder.refused("make-pretrain-data --config nowhere.json --output x", 1, "nowhere.json");
    assert!(!folder.at("x").exists());
}

/// Checks that a configuration with an unknown key is rejected.
fn check_invalid_configurations(folder: &Folder) {
    for program in ["pretrain", "finetune"] {
        folder.write("wrong.json", r#"{ "stepz": 3 }"#);
        folder.refused(
            &format!("{program} --config wrong.json --output x"),
            2,
            "line 1: unknown field `stepz`",
        );
    }
    folder.write("wrong.json", r#"{ "data": "data", "model": "tiny", "steps": 3, "stepz": 3 }"#);
    let ended = folder.run("pretrain --config wrong.json --output x");
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    ended.stderr_has("wrong.json");
    ended.stderr_has("unknown field `stepz`; did you mean `steps`?");
    assert!(!folder.at("x").exists());
}

#[test]
fn saved_configurations_repeat_their_runs() {
    let folder = Folder::with_data();
    folder.ok(&format!("pretrain {QUICK} --steps 3 --seed 9 --adam-bias-correction true --output run"));
    for from in ["run", "run/run.json"] {
        let again = format!("again-{}", from.len());
        folder.ok(&format!("pretrain --config {from} --output {again}"));
        assert_eq!(
            folder.text(&format!("{again}/metrics.jsonl")),
            folder.text("run/metrics.jsonl"),
            "{from}"
        );
        let identity = |run: &str| folder.checksummed(&format!("{run}/run.json"))["identity"].clone();
        assert_eq!(identity(&again), identity("run"));
    }
    // A flag overrides the file, and also removes options that conflict with it: --model.
    folder.ok("pretrain --config run --steps 2 --init-checkpoint run --seed 10 --output other");
    let saved = folder.checksummed("other/run.json")["config"].clone();
    assert_eq!((&saved["steps"], &saved["seed"], &saved["model"]), (&json!(2), &json!(10), &Value::Null));
    assert_eq!((&saved["batch_size"], &saved["adam_bias_correction"]), (&json!(8), &json!(true)));

    folder.write("glue/train.tsv", entailment(0, 16));
    folder.write("glue/dev.tsv", entailment(16, 8));
    folder.ok(
        "finetune --task rte --data glue --checkpoint run --max-seq-length 48 --num-train-epochs 1 --seeds 3,4 \
         --freeze-encoder --output tuned",
    );
    folder.ok("finetune --config tuned --output tuned-again");
    for seed in [3, 4] {
        let predictions = |output: &str| folder.text(&format!("{output}/seed-{seed}/dev_probabilities.tsv"));
        assert_eq!(predictions("tuned-again"), predictions("tuned"));
    }
    let saved = folder.json("tuned-again/report.json")[0]["config"].clone();
    assert_eq!((&saved["seeds"], &saved["freeze_encoder"]), (&json!([3, 4]), &json!(true)));

    check_invalid_configurations(&folder);
}
