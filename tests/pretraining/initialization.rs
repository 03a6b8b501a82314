//! Initialization of a run: the reference's, previous-next heads, bigram counts of the text.

use crate::common::{Folder, QUICK, articles, number};

const WEIGHTS: &str = "checkpoints/step-00000004/model.safetensors";

#[test]
fn init_writes_the_initial_weights_of_a_run() {
    let folder = Folder::with_data();
    for choice in ["reference", "previous-next", "bigram"] {
        let message = folder
            .ok(&format!(
                "bert init --initialization {choice} --data data --model config.json --seed 3 --output fresh-{choice}"
            ))
            .stdout;
        assert_eq!(message, format!("{choice} -> fresh-{choice}\n"));
        let card = folder.text(&format!("fresh-{choice}/README.md"));
        assert!(card.contains(&format!("| initialization | {choice} |\n| seed | 3 |")), "{card}");
        let run = |flags: &str, output: &str| {
            folder.ok(&format!(
                "pretrain --data data --batch-size 8 --learning-rate 3e-3 --adam-beta2 0.999 --steps 4 --seed 3 {flags} \
                 --output {output}"
            ));
            folder.tensors(&format!("{output}/{WEIGHTS}"))
        };
        let itself = run(&format!("--model config.json --initialization {choice}"), &format!("run-{choice}"));
        let from_folder = run(&format!("--init-checkpoint fresh-{choice}"), &format!("from-{choice}"));
        assert!(itself == from_folder, "{choice}: a run from the folder is another run");
    }
    let weights = |choice: &str| folder.read(&format!("run-{choice}/{WEIGHTS}"));
    assert!(
        weights("reference") != weights("previous-next") && weights("previous-next") != weights("bigram")
    );
    // The default, and the initialization that needs only a vocabulary.
    folder.ok(&format!("pretrain {QUICK} --steps 4 --seed 3 --output default"));
    assert!(folder.read(&format!("default/{WEIGHTS}")) == weights("bigram"));
    let line = "bert init --initialization previous-next --vocab vocab.txt --model config.json --seed 3 --output words";
    folder.ok(line);
    let table = |name: &str| folder.tensors(&format!("{name}/model.safetensors"));
    assert!(table("words") == table("fresh-previous-next"));
}

#[test]
fn bigram_initialization_starts_below_the_uniform_loss() {
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
    let reference = loss("reference");
    let bigram = loss("bigram");
    let uniform = (folder.text("vocab.txt").lines().count() as f64).ln();
    assert!((reference - uniform).abs() < 0.15, "{reference}");
    assert!(bigram < uniform - 0.8, "{bigram} and a uniform guess {uniform}");
}

#[test]
fn resume_keeps_the_initialization() {
    let folder = Folder::with_data();
    let line = |choice: &str, output: &str| {
        format!("pretrain {QUICK} --initialization {choice} --steps 4 --save-every 2 --output {output}")
    };
    folder.ok(&line("bigram", "run"));
    let identity = &folder.checksummed("run/run.json")["identity"];
    assert_eq!(identity["initialization"], "bigram");
    for choice in ["previous-next", "reference"] {
        folder.refused(&format!("{} --resume", line(choice, "run")), 4, "initialization was \"bigram\"");
    }
    // A run that is killed before its first checkpoint counts again.
    folder.copy("run", "young");
    std::fs::remove_dir_all(folder.at("young/checkpoints")).unwrap();
    folder.ok(&format!("{} --resume", line("bigram", "young")));
    assert!(folder.read(&format!("run/{WEIGHTS}")) == folder.read(&format!("young/{WEIGHTS}")));
    folder.ok(&line("reference", "paper"));
    assert_eq!(folder.checksummed("paper/run.json")["identity"]["initialization"], "reference");
    folder.ok(&format!("{} --resume", line("reference", "paper")));
}

#[test]
fn invalid_initializations_are_rejected() {
    let folder = Folder::with_data();
    let mut config = folder.config();
    config["num_attention_heads"] = 1.into();
    folder.write("one-head.json", config.to_string());
    let lines = [
        ("pretrain --data data --model one-head.json --steps 2 --output out", 4, "num_attention_heads"),
        (
            "bert init --vocab vocab.txt --model config.json --initialization bigram --output out",
            2,
            "initialization",
        ),
        (
            "bert init --data data --vocab vocab.txt --model config.json --output out",
            2,
            "cannot be used with",
        ),
        (
            "pretrain --data data --init-checkpoint x --initialization bigram --steps 2 --output out",
            2,
            "cannot be used",
        ),
        (
            "finetune --task rte --data glue --checkpoint x --random-init --initialization bigram --output out",
            2,
            "--initialization-data",
        ),
        (
            "finetune --task rte --data glue --checkpoint x --initialization previous-next --output out",
            2,
            "--random-init",
        ),
    ];
    for (line, code, message) in lines {
        folder.refused(line, code, message);
        assert!(!folder.at("out").exists(), "{line}");
    }
    folder.ok("pretrain --data data --model one-head.json --initialization reference --steps 2 --output out");
}
