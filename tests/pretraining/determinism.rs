//! Equal input gives equal bytes, for any number of threads and in every run; micro-batches equal one batch.

use crate::common::{Folder, QUICK, has_bf16, number};
use crate::reliability::hostile::limited;

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
fn equal_seeds_give_equal_runs() {
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

/// Trains twenty steps on one, two and four threads. The word table has more elements than burn-flex adds up on one
/// thread, its products are large enough for several, and every gradient is clipped, so that its norm affects the
/// weights.
#[test]
fn training_does_not_depend_on_threads() {
    let folder = Folder::with_data();
    let mut config = folder.config();
    config["vocab_size"] = 30_000.into();
    config["hidden_size"] = 144.into();
    config["intermediate_size"] = 288.into();
    config["num_hidden_layers"] = 1.into();
    folder.write("config.json", config.to_string());
    let run = |flags: &str, threads: usize| {
        let output = format!("{}-{threads}", flags.replace([' ', '-'], ""));
        let line = format!(
            "pretrain {QUICK} --steps 20 --max-gradient-norm 0.1 --eval-data held --eval-instances 16 {flags} \
             --output {output}"
        );
        (output, folder.run(&format!("{line} --threads {threads}")))
    };
    for flags in ["--kernels fused", "--kernels plain", "--precision bf16"] {
        let (one, done) = run(flags, 1);
        if flags == "--precision bf16" && !has_bf16() {
            assert_eq!(done.code, Some(2), "bf16 is refused without its instructions: {}", done.stderr);
            continue;
        }
        assert_eq!(done.code, Some(0), "{flags}: {}", done.stderr);
        for threads in [2, 4] {
            let (other, done) = run(flags, threads);
            assert_eq!(done.code, Some(0), "{flags}: {}", done.stderr);
            let checkpoint = "checkpoints/step-00000020";
            for file in ["metrics.jsonl", "evaluations.jsonl"]
                .map(str::to_string)
                .into_iter()
                .chain(["model", "optimizer"].map(|name| format!("{checkpoint}/{name}.safetensors")))
            {
                let equal = folder.read(&format!("{one}/{file}")) == folder.read(&format!("{other}/{file}"));
                assert!(equal, "{flags}: {file} of {threads} threads is not that of one");
            }
        }
    }
}

/// Checks that with `--gradient-accumulation-steps` evaluation needs no more memory than training.
#[test]
fn evaluation_takes_the_memory_of_a_micro_batch() {
    let folder = Folder::with_data();
    let mut config = folder.config();
    config["intermediate_size"] = 1024.into();
    folder.write("config.json", config.to_string());
    let flags = "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5 --dupe-factor 60";
    folder.ok(&format!("make-pretrain-data --input train.txt {flags} --output many"));
    let instances = folder.checksummed("many/manifest.json")["instances"].as_u64().expect("a number");
    assert!(instances > 1000, "{instances} instances");
    let peak = |batch: &str, output: &str| {
        let line = format!(
            "pretrain --data many --eval-data many --allow-overlap --model config.json --steps 1 {batch} --output {output}"
        );
        let done = limited(&folder, &line);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.memory
    };
    let small = peak("--batch-size 8", "small");
    let cut = peak("--batch-size 1024 --gradient-accumulation-steps 128", "cut");
    // One evaluation of 1,024 sequences holds several times 128 MiB.
    assert!(cut < small + 64, "{cut} MiB in micro-batches of 8, {small} MiB in batches of 8");
    let first = |run: &str| folder.json(&format!("{run}/evaluations.jsonl")).swap_remove(0);
    assert_eq!(first("small"), first("cut"), "equal batches, equal figures");
}

#[test]
fn micro_batches_equal_one_batch() {
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
                let a = number(whole, name);
                let b = number(&cut, name);
                assert!((a - b).abs() <= 1e-4 * a.abs(), "{name} in {parts} parts: {a} and {b}");
            }
        }
    }
}
