//! Equal input, equal bytes: whatever the number of threads, run after run; and micro-batches that
//! are one batch.

use crate::common::{Folder, QUICK, number};

#[test]
fn shards_do_not_depend_on_threads() {
    let folder = Folder::with_data();
    let flags = "--input train.txt held.txt --vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5 \
                 --num-shards 4 --do-whole-word-mask";
    for threads in 1..=3 {
        folder.ok(&format!("make-pretrain-data {flags} --threads {threads} --output t{threads}"));
    }
    let one = folder.snapshot("t1");
    assert_eq!(one.keys().filter(|name| name.ends_with(".parquet")).count(), 4);
    assert!(one == folder.snapshot("t2"), "two threads give other bytes than one");
    assert!(one == folder.snapshot("t3"), "three threads give other bytes than one");
    folder.ok(&format!("make-pretrain-data {flags} --random-seed 2 --output other"));
    assert_ne!(one["train-00000-of-00004.parquet"], folder.snapshot("other")["train-00000-of-00004.parquet"]);
}

#[test]
fn equal_runs_are_equal_and_other_seeds_differ() {
    let folder = Folder::with_data();
    let run = |seed: u64, output: &str| {
        folder.ok(&format!("pretrain {QUICK} --steps 5 --eval-data held --seed {seed} --output {output}"));
    };
    run(3, "a");
    run(3, "b");
    run(4, "c");
    let weights = "checkpoints/step-00000005/model.safetensors";
    for file in ["metrics.jsonl", "evaluations.jsonl", weights] {
        let [a, b, c] = ["a", "b", "c"].map(|run| folder.read(&format!("{run}/{file}")));
        assert!(a == b, "{file} of two equal runs");
        assert!(a != c, "{file} of runs with two seeds");
    }
}

#[test]
fn micro_batches_are_one_batch() {
    let folder = Folder::with_data();
    let mut config = folder.config();
    config["hidden_dropout_prob"] = 0.0.into();
    config["attention_probs_dropout_prob"] = 0.0.into();
    folder.write("config.json", config.to_string());
    for parts in [1, 4, 8] {
        folder.ok(&format!(
            "pretrain {QUICK} --steps 8 --warmup-steps 2 --gradient-accumulation-steps {parts} --output in-{parts}"
        ));
    }
    let whole = folder.json("in-1/metrics.jsonl");
    assert_eq!(whole.len(), 8);
    for parts in [4, 8] {
        for (whole, cut) in whole.iter().zip(folder.json(&format!("in-{parts}/metrics.jsonl"))) {
            assert_eq!(cut["predictions"], whole["predictions"]);
            for name in ["/loss", "/masked_lm_loss", "/next_sentence_loss", "/gradient_norm"] {
                let (a, b) = (number(whole, name), number(&cut, name));
                assert!((a - b).abs() <= 1e-4 * a.abs(), "{name} in {parts} parts: {a} and {b}");
            }
        }
    }
}
