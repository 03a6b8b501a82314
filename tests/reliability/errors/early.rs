//! Outputs and inputs that are wrong are refused before the first text is counted or tokenized.

use std::time::{Duration, Instant};

use crate::common::Folder;
use crate::finetuning::tasks::with_entailment;

#[test]
fn unwritable_outputs_are_refused_before_the_work() {
    let folder = with_entailment();
    // A path below a file cannot be created, whoever the user is.
    folder.write("file", "");
    let out = "file/out";
    for line in [
        format!("pretrain --data data --model config.json --steps 5 --output {out}"),
        format!("finetune --task rte --data glue --checkpoint run --output {out}"),
        format!("bert init --model config.json --data data --output {out}"),
        format!("bert export run {out}"),
        format!("make-pretrain-data --input train.txt --vocab vocab.txt --output {out}"),
        format!("bert make-vocab --input train.txt --vocab-size 400 --output {out}/vocab.txt"),
        format!("bert glue --data glue --tasks rte --output {out}"),
        format!("bert attention hello --output {out}/page.html"),
        format!("bert features --input train.txt --output {out}/features.jsonl"),
        format!("bert report run --output {out}/page.html"),
        format!("bert quickstart --output {out}"),
    ] {
        let ended = folder.run(&line);
        assert_eq!(ended.code, Some(1), "{line}: {}", ended.stderr);
        for sign in ["counting", "epoch", "read bytes", "1/5"] {
            assert!(!ended.stderr.contains(sign), "{line}: {}", ended.stderr);
        }
    }
    assert_eq!(folder.read("file"), b"");
}

#[test]
fn urls_are_rejected_as_outputs_on_a_disk() {
    let folder = with_entailment();
    for line in [
        "pretrain --data data --model config.json --steps 5 --output s3://bucket/run",
        "pretrain --data data --model config.json --steps 5 --output other --tensorboard=s3://bucket/run",
        "finetune --task rte --data glue --checkpoint run --output s3://bucket/run",
        "bert init --model config.json --data data --output s3://bucket/run",
        "bert export run s3://bucket/run",
        "bert experiment masking --input train.txt --checkpoint run --output s3://bucket/run",
        "bert experiment adapters --data glue --checkpoint run --output s3://bucket/run",
        "bert attention hello --output s3://bucket/run/page.html",
        "bert features --input train.txt --output s3://bucket/run/features.jsonl",
        "bert glue --data glue --tasks rte --output s3://bucket/run",
    ] {
        folder.refused(line, 2, "s3://bucket/run");
    }
    assert!(!folder.at("s3:").exists() && !folder.at("other").exists());
    folder.refused("bert glue --data glue --tasks rte,rte --output twice", 2, "--tasks: rte is named twice");
    folder.refused("bert nearest ''", 2, "the pieces of the vocabulary cannot spell");
}

#[test]
fn missing_shards_and_held_out_data_are_found_first() {
    let folder = Folder::with_data();
    let line = "pretrain --data data --model config.json --steps 5 --output run";
    let started = Instant::now();
    folder.refused(&format!("{line} --eval-data none"), 3, "none: this folder does not exist");
    std::fs::remove_file(folder.at("data/train-00002-of-00003.parquet")).unwrap();
    let ended = folder.refused(line, 3, "train-00002-of-00003.parquet");
    assert!(!ended.stderr.contains("counting"), "{}", ended.stderr);
    assert!(started.elapsed() < Duration::from_secs(60) && !folder.at("run").exists());
}
