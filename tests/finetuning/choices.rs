//! Fine-tuning of multiple choice, and of heads on the features of a frozen encoder.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::common::{Folder, number};
use crate::finetuning::heads::{NAMES, QUICK};
use crate::finetuning::tasks::with_entailment;

/// Returns beginnings whose correct ending repeats a word.
fn endings(first: usize, rows: usize) -> String {
    let mut text = String::from(",video-id,sent1,sent2,ending0,ending1,ending2,ending3,label\n");
    for at in first..first + rows {
        let thing = NAMES[at % 6];
        let right = at % 4;
        let ending = |choice: usize| {
            if choice == right {
                format!("\"shows {thing}, again.\"")
            } else {
                format!("shows {}.", NAMES[(at + choice + 1) % 6])
            }
        };
        let all: Vec<String> = (0..4).map(ending).collect();
        let _ = writeln!(text, "{at},v,A picture of {thing}.,The next one,{},{right}", all.join(","));
    }
    text
}

/// Checks that the most probable ending is chosen, and the accuracy.
fn check_chosen_endings(folder: &Folder, report: &Value) {
    let text = folder.text("tuned/seed-1/dev_probabilities.tsv");
    let predicted = folder.text("tuned/seed-1/dev_predictions.tsv");
    let mut right = 0;
    for (at, (row, answer)) in text.lines().zip(predicted.lines().skip(1)).enumerate() {
        let p: Vec<f64> = row.split('\t').map(|p| p.parse().expect("a number")).collect();
        assert!(p.len() == 4 && (p.iter().sum::<f64>() - 1.0).abs() < 1e-5);
        let best = (1..4).fold(0, |best, i| if p[i] > p[best] { i } else { best });
        assert_eq!(answer, format!("{at}\t{best}"));
        right += usize::from(best == (48 + at) % 4);
    }
    assert_eq!(number(report, "/runs/0/dev/accuracy"), right as f64 / 16.0);
}

#[test]
fn swag_chooses_one_of_four_endings() {
    let folder = Folder::with_run();
    folder.write("swag/train.csv", endings(0, 48));
    folder.write("swag/val.csv", endings(48, 16));
    // The endings repeat after 12 rows.
    let line = format!("{QUICK} --task swag --data swag --allow-overlap");
    let report =
        folder.ok(&format!("{line} --seeds 1,2 --output tuned --json --predict swag/val.csv")).json();
    assert_eq!(report["dev"]["examples"], json!(16));
    assert_eq!(number(&report, "/dev/majority_baseline/accuracy"), 0.25);
    check_chosen_endings(&folder, &report);
    let config = &folder.json("tuned/model/config.json")[0];
    assert_eq!(config["architectures"], json!(["BertForMultipleChoice"]));
    let shape = &folder.tensors("tuned/model/model.safetensors")["classifier.weight"].0;
    assert_eq!(*shape, [1, 16]);
    folder.ok("bert scores tuned tuned --paired");
    folder.refused("bert predict --checkpoint tuned --input swag/val.csv", 4, "finetune --predict");
    // The outputs of a frozen encoder are computed once; only the head is trained.
    let frozen = folder
        .ok(&format!("{line} --freeze-encoder --learning-rate 1e-1 --output frozen --json")
            .replace("--learning-rate 3e-3 ", ""))
        .json();
    assert_eq!(frozen["parameters"]["trained"], json!(17));
    let weights = |name: &str| folder.tensors(&format!("{name}/model.safetensors"));
    let before = weights("run/checkpoints/step-00000006");
    let after = weights("frozen/model");
    assert!(after.iter().all(|(name, tensor)| !name.starts_with("bert.") || before[name] == *tensor));

    let test = folder.run(&format!("{line} --test-file swag/val.csv --output other"));
    assert_eq!(test.code, Some(2), "{}", test.stderr);
    folder.write("swag/val.csv", endings(0, 2).replace(",1\n", ",7\n"));
    let unknown = "val.csv:3: unknown label \"7\"; the labels of task swag are 0, 1, 2, 3";
    folder.refused(&format!("{line} --output other"), 3, unknown);
}

/// Checks that the next fine-tuning initializes its own head, and that other heads and encoders are rejected.
fn check_next_head_is_new(folder: &Folder, line: &str) {
    // The next fine-tuning initializes its own head of the same kind; at this rate it does not move.
    let still = line.replace("--learning-rate 1e-2", "--learning-rate 1e-12").replace("epochs 3", "epochs 1");
    let again = still.replace("--checkpoint run", "--checkpoint mlp");
    let ended = folder.ok(&format!("{again} --head mlp --output mlp-again"));
    ended.stderr_has("the head of the checkpoint is from an earlier fine-tuning");
    let weights = |name: &str| folder.tensors(&format!("{name}/model/model.safetensors"));
    for name in ["head.dense.weight", "head.classifier.weight"] {
        assert_ne!(weights("mlp")[name], weights("mlp-again")[name], "{name}");
    }
    folder.ok("finetune --task rte --data glue --checkpoint gru --max-seq-length 48 --num-train-epochs 1 --output on");
    assert_eq!(
        folder.json("on/model/config.json")[0]["architectures"],
        json!(["BertForSequenceClassification"])
    );
    let thawed = folder.run(&format!("{} --head gru --output other", line.replace("--freeze-encoder ", "")));
    assert_eq!(thawed.code, Some(2), "{}", thawed.stderr);
    folder.refused(
        &format!("{} --head mlp --output other", line.replace("rte", "conll")),
        2,
        "--head: works with tasks that classify or score a text or a pair",
    );
}

/// Checks that the output folder is a regular model: on new texts it gives the same results as on dev.
fn check_predictions_of_head(folder: &Folder, head: &str) {
    // The output folder is a regular model: on new texts it gives the same results as on dev.
    let dev = folder.text("glue/RTE/dev.tsv");
    let pairs = dev.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>()[1..3].join("\t") + "\n");
    folder.write("dev_pairs.tsv", pairs.collect::<String>());
    let answers = folder.ok(&format!("bert predict --checkpoint {head} --input dev_pairs.tsv")).stdout;
    let scored = folder.text(&format!("{head}/seed-1/dev_probabilities.tsv"));
    for (answer, row) in answers.lines().zip(scored.lines()) {
        let answer: Value = serde_json::from_str(answer).expect("JSON");
        let p: f64 = row.split('\t').next().expect("a column").parse().expect("a number");
        assert!((number(&answer, "/probabilities/entailment") - p).abs() < 1e-5, "{head}");
    }
}

#[test]
fn feature_heads_train_on_a_frozen_encoder() {
    let folder = with_entailment();
    let line = "finetune --task rte --data glue --checkpoint run --max-seq-length 48 --num-train-epochs 3 \
                --train-batch-size 8 --freeze-encoder --learning-rate 1e-2";
    let dense = |input: usize, output: usize| input * output + output;
    // A gate has one dense layer for the input and one for the state.
    let gates = |count: usize| count * 2 * dense(16, 16);
    let before = folder.tensors("run/checkpoints/step-00000006/model.safetensors");
    for (head, parameters) in [
        ("linear", dense(16, 2)),
        ("mean", dense(16, 2)),
        ("mlp", dense(16, 16) + dense(16, 2)),
        ("gru", gates(3) + dense(16, 2)),
        ("bilstm", 2 * gates(4) + dense(32, 2)),
    ] {
        let report = folder.ok(&format!("{line} --head {head} --output {head} --json")).json();
        assert_eq!(report["parameters"]["trained"], json!(parameters), "{head}");
        let losses: Vec<f64> =
            (0..3).map(|at| number(&report, &format!("/runs/0/history/{at}/train_loss"))).collect();
        assert!(losses[2] < losses[0], "{head}: {losses:?}");
        let after = folder.tensors(&format!("{head}/model/model.safetensors"));
        assert!(
            after.iter().all(|(name, tensor)| !name.starts_with("bert.") || before[name] == *tensor),
            "{head}"
        );
        let config = &folder.json(&format!("{head}/model/config.json"))[0];
        let expected = if head == "linear" { Value::Null } else { json!(head) };
        assert_eq!(config["classifier_head"], expected);
        check_predictions_of_head(&folder, head);
    }
    check_next_head_is_new(&folder, line);
}
