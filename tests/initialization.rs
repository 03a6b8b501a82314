//! Initialization of a run: the reference's, previous-next heads, bigram counts of the text.

use serde_json::Value;

use crate::common::{Folder, QUICK, articles, number};

const WEIGHTS: &str = "checkpoints/step-00000004/model.safetensors";

#[test]
fn a_folder_of_fresh_weights_is_what_a_run_begins_with() {
    let folder = Folder::with_data();
    for choice in ["reference", "neighbours", "counts"] {
        let said = folder
            .ok(&format!(
                "bert init --initialization {choice} --data data --model config.json --seed 3 --output fresh-{choice}"
            ))
            .stdout;
        assert_eq!(said, format!("{choice} -> fresh-{choice}\n"));
        let card = folder.text(&format!("fresh-{choice}/README.md"));
        assert!(card.contains(&format!("| initialization | {choice} |\n| seed | 3 |")), "{card}");
        let run = |flags: &str, output: &str| {
            folder.ok(&format!(
                "pretrain --data data --batch-size 8 --learning-rate 3e-3 --steps 4 --seed 3 {flags} --output {output}"
            ));
            folder.tensors(&format!("{output}/{WEIGHTS}"))
        };
        let itself = run(&format!("--model config.json --initialization {choice}"), &format!("run-{choice}"));
        let from_folder = run(&format!("--init-checkpoint fresh-{choice}"), &format!("from-{choice}"));
        assert!(itself == from_folder, "{choice}: a run from the folder is another run");
    }
    let weights = |choice: &str| folder.read(&format!("run-{choice}/{WEIGHTS}"));
    assert!(weights("reference") != weights("neighbours") && weights("neighbours") != weights("counts"));
    // The default, and the initialization that needs only a vocabulary.
    folder.ok(&format!("pretrain {QUICK} --steps 4 --seed 3 --output default"));
    assert!(folder.read(&format!("default/{WEIGHTS}")) == weights("counts"));
    let line =
        "bert init --initialization neighbours --vocab vocab.txt --model config.json --seed 3 --output words";
    folder.ok(line);
    let table = |name: &str| folder.tensors(&format!("{name}/model.safetensors"));
    assert!(table("words") == table("fresh-neighbours"));
}

#[test]
fn counts_begin_far_below_a_uniform_guess() {
    let folder = Folder::new();
    folder.add_data_of(&articles(12, 60));
    let mut config = folder.config();
    (config["hidden_size"], config["intermediate_size"]) = (64.into(), 128.into());
    folder.write("config.json", config.to_string());
    let loss = |choice: &str| {
        let output = format!("run-{choice}");
        let line = format!(
            "pretrain {QUICK} --initialization {choice} --eval-data held --steps 1 --output {output}"
        );
        folder.ok(&line);
        number(&folder.json(&format!("{output}/evaluations.jsonl"))[0], "/masked_lm_loss")
    };
    let (reference, counts) = (loss("reference"), loss("counts"));
    let uniform = (folder.text("vocab.txt").lines().count() as f64).ln();
    assert!((reference - uniform).abs() < 0.15, "{reference}");
    assert!(counts < uniform - 0.8, "{counts} and a uniform guess {uniform}");
}

#[test]
fn a_run_goes_on_as_it_began() {
    let folder = Folder::with_data();
    let line = |choice: &str, output: &str| {
        format!("pretrain {QUICK} --initialization {choice} --steps 4 --save-every 2 --output {output}")
    };
    folder.ok(&line("counts", "run"));
    let identity = &folder.sealed("run/run.json")["identity"];
    assert_eq!(identity["initialization"], "counts");
    for choice in ["neighbours", "reference"] {
        let refused = folder.run(&format!("{} --resume", line(choice, "run")));
        assert_eq!(refused.code, Some(4), "{}", refused.stderr);
        assert!(refused.stderr.contains("initialization was \"counts\""), "{}", refused.stderr);
    }
    // A run that is killed before its first checkpoint counts again.
    folder.copy("run", "young");
    std::fs::remove_dir_all(folder.at("young/checkpoints")).unwrap();
    folder.ok(&format!("{} --resume", line("counts", "young")));
    assert!(folder.read(&format!("run/{WEIGHTS}")) == folder.read(&format!("young/{WEIGHTS}")));
    // A run from before this option existed used the reference's initialization and does not record it.
    folder.ok(&line("reference", "old"));
    assert_eq!(folder.sealed("old/run.json")["identity"]["initialization"], Value::Null);
    folder.ok(&format!("{} --resume", line("reference", "old")));
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = Folder::with_data();
    let mut config = folder.config();
    config["num_attention_heads"] = 1.into();
    folder.write("one-head.json", config.to_string());
    let lines = [
        ("pretrain --data data --model one-head.json --steps 2 --output out", 4, "num_attention_heads"),
        (
            "bert init --vocab vocab.txt --model config.json --initialization counts --output out",
            2,
            "initialization",
        ),
        (
            "bert init --data data --vocab vocab.txt --model config.json --output out",
            2,
            "cannot be used with",
        ),
        (
            "pretrain --data data --init-checkpoint x --initialization counts --steps 2 --output out",
            2,
            "cannot be used",
        ),
        (
            "finetune --task rte --data glue --checkpoint x --random-init --initialization counts --output out",
            2,
            "--initialization-data",
        ),
        (
            "finetune --task rte --data glue --checkpoint x --initialization neighbours --output out",
            2,
            "--random-init",
        ),
    ];
    for (line, code, said) in lines {
        let ended = folder.run(line);
        assert_eq!(ended.code, Some(code), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{line}: {}", ended.stderr);
        assert!(!folder.at("out").exists(), "{line}");
    }
    folder.ok("pretrain --data data --model one-head.json --initialization reference --steps 2 --output out");
}
