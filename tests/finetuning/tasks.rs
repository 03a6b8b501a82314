//! Fine-tuning on small sets in the official formats: the figures of the report, the predictions, the fine-tuned model,
//! and which weights a run may change.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::common::{Folder, assert_self_contained, entailment, number};

/// Flags for a quick run of the very small model.
const QUICK: &str = "--checkpoint run --max-seq-length 48 --num-train-epochs 2 --train-batch-size 8";

pub(crate) fn with_entailment() -> Folder {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 40));
    folder.write("glue/RTE/dev.tsv", entailment(40, 20));
    let test = entailment(60, 7);
    let unlabelled = test.lines().map(|line| line.rsplit_once('\t').expect("a label").0.to_string() + "\n");
    folder.write("glue/RTE/test.tsv", unlabelled.collect::<String>());
    folder
}

fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split('\t').collect()).collect()
}

#[test]
fn two_seeds_report_and_predictions() {
    let folder = with_entailment();
    let line =
        format!("finetune --task rte --data glue --seeds 1,2 {QUICK} --predict glue/RTE/test.tsv --output");
    let ended = folder.ok(&format!("{line} tuned --json"));
    ended.stderr_has("seed 1, epoch 1.0: dev accuracy");
    ended.stderr_has("seed 2, epoch 2.0: dev accuracy");
    let report = ended.json();
    assert_eq!(report, folder.json("tuned/report.json")[0]);
    assert_eq!(report["train_examples"], json!(40));
    assert_eq!(report["dev"]["examples"], json!(20));
    let seeds: Vec<&Value> =
        report["runs"].as_array().expect("runs").iter().map(|run| &run["seed"]).collect();
    assert_eq!(seeds, [&json!(1), &json!(2)]);

    let accuracies: Vec<f64> =
        (0..2).map(|run| number(&report, &format!("/runs/{run}/dev/accuracy"))).collect();
    assert_eq!(report["dev"]["metrics"][0]["metric"], json!("accuracy"));
    let mean = number(&report, "/dev/metrics/0/mean");
    assert!((mean - (accuracies[0] + accuracies[1]) / 2.0).abs() < 1e-12);
    let sd = (accuracies[0] - accuracies[1]).abs() / 2f64.sqrt();
    assert!((number(&report, "/dev/metrics/0/sd") - sd).abs() < 1e-12);
    let error = (mean * (1.0 - mean) / 20.0).sqrt();
    assert!((number(&report, "/dev/binomial_standard_error") - error).abs() < 1e-12);

    check_predictions(&folder, &report, &accuracies);
    let config = &folder.json("tuned/model/config.json")[0];
    assert_eq!(config["architectures"], json!(["BertForSequenceClassification"]));
    assert_eq!(config["id2label"], json!({ "0": "entailment", "1": "not_entailment" }));
    folder.ok("bert report tuned");
    let page = folder.text("tuned/report.html");
    assert_self_contained(&page);
    assert!(page.contains(&format!("<b>{:.1} %</b>", 100.0 * mean)), "the mean is the first figure");
    for of in ["tuned", "tuned/model"] {
        folder.ok(&format!("bert attention --checkpoint {of} 'a river ||| a stream' --overwrite"));
    }
    check_single_seeds(&folder, &line);
}

/// Checks that the dev predictions are the scored ones, that the baseline is the larger class of dev, and that the test
/// file is answered.
fn check_predictions(folder: &Folder, report: &Value, accuracies: &[f64]) {
    let dev = folder.text("glue/RTE/dev.tsv");
    let truth: Vec<&str> = rows(&dev).iter().skip(1).map(|row| row[3]).collect();
    let share = |right: usize| right as f64 / 20.0;
    let entailed = truth.iter().filter(|label| **label == "entailment").count();
    assert_eq!(number(report, "/dev/majority_baseline/accuracy"), share(entailed.max(20 - entailed)));
    for (seed, accuracy) in [1, 2].into_iter().zip(accuracies) {
        let text = folder.text(&format!("tuned/seed-{seed}/dev_predictions.tsv"));
        let predicted = rows(&text);
        assert_eq!(predicted[0], ["index", "prediction"]);
        let right = predicted.iter().skip(1).zip(&truth).filter(|(row, label)| row[1] == **label).count();
        assert_eq!(share(right), *accuracy);
        let text = folder.text(&format!("tuned/seed-{seed}/dev_probabilities.tsv"));
        for (row, predicted) in rows(&text).iter().zip(&predicted[1..]) {
            let p: Vec<f64> = row.iter().map(|p| p.parse().expect("a number")).collect();
            assert!(p.len() == 2 && (p[0] + p[1] - 1.0).abs() < 1e-5);
            let class = if p[0] >= p[1] { "entailment" } else { "not_entailment" };
            assert_eq!(predicted[1], class);
        }
    }

    let text = folder.text("tuned/predictions.tsv");
    let test = folder.text("glue/RTE/test.tsv");
    let indices = |rows: Vec<Vec<&str>>| rows.iter().map(|row| row[0].to_string()).collect::<Vec<_>>();
    assert_eq!(indices(rows(&text)), indices(rows(&test)));
    assert!(rows(&text)[1..].iter().all(|row| ["entailment", "not_entailment"].contains(&row[1])));
    assert_eq!(folder.text("tuned/probabilities.tsv").lines().count(), 7);
}

/// Checks that one seed at a time gives the same result: a run does not depend on the others.
fn check_single_seeds(folder: &Folder, line: &str) {
    let line = line.replace("--seeds 1,2", "--seeds 2");
    folder.ok(&format!("{line} again"));
    folder.refused("bert scores tuned again", 2, "again: seed 2 of this configuration");
    let line = line.replace("--seeds 2", "--seeds 3");
    folder.ok(&format!("{line} third"));
    let together = folder.ok("bert scores tuned third --json").json();
    let runs = together["groups"][0]["dev"]["runs"].as_array().expect("runs");
    assert_eq!(runs.iter().map(|run| &run["seed"]).collect::<Vec<_>>(), [&json!(1), &json!(2), &json!(3)]);
    for file in ["dev_predictions.tsv", "dev_probabilities.tsv"] {
        let file = format!("seed-2/{file}");
        assert_eq!(folder.read(&format!("again/{file}")), folder.read(&format!("tuned/{file}")));
    }
}

#[test]
fn report_has_the_history_and_the_errors() {
    let folder = with_entailment();
    let line = format!("finetune --task rte --data glue --learning-rate 1e-2 {QUICK} --output");
    let report = folder.ok(&format!("{line} tuned --json")).json();
    let run = &report["runs"][0];
    let history = run["history"].as_array().expect("epochs");
    let epochs: Vec<(f64, f64)> =
        history.iter().map(|at| (number(at, "/step"), number(at, "/epoch"))).collect();
    assert_eq!(epochs, [(5.0, 1.0), (10.0, 2.0)]);
    let scores: Vec<f64> = history.iter().map(|at| number(at, "/dev/accuracy")).collect();
    let accuracy = number(run, "/dev/accuracy");
    assert_eq!(scores.iter().copied().fold(0.0, f64::max), accuracy, "the best epoch counts");
    assert!(history.iter().all(|at| number(at, "/train_loss") > 0.0));

    // The four cells add up to the dev set, and the off-diagonal examples are in the error file.
    let cell = |label: usize, predicted: usize| number(run, &format!("/confusion/{label}/{predicted}"));
    assert_eq!(cell(0, 0) + cell(0, 1) + cell(1, 0) + cell(1, 1), 20.0);
    assert_eq!((cell(0, 0) + cell(1, 1)) / 20.0, accuracy);
    let text = folder.text("tuned/seed-1/dev_errors.tsv");
    let errors = rows(&text);
    assert_eq!(errors[0], ["index", "label", "prediction", "probability", "text_a", "text_b"]);
    assert_eq!((errors.len() - 1) as f64, cell(0, 1) + cell(1, 0));
    assert!(errors[1..].iter().all(|row| row[1] != row[2] && row.len() == 6));
    assert!(errors[1..].is_sorted_by(|a, b| a[3] >= b[3]), "highest confidence first");

    // Only the last state is scored, but every epoch has its loss.
    let report = folder.ok(&format!("{line} last --select last --json")).json();
    assert_eq!(report["runs"][0]["history"][0]["dev"], Value::Null);
    assert_eq!(report["runs"][0]["history"][0]["train_loss"], history[0]["train_loss"]);
    assert_eq!(report["runs"][0]["history"][1]["dev"], history[1]["dev"]);
}

#[test]
fn restart_keeps_unrelated_files() {
    let folder = with_entailment();
    let line = format!("finetune --task rte --data glue {QUICK} --output");
    folder.ok(&format!("{line} whole"));
    // State after a stop: the finished runs and a marker, but no report.
    folder.copy("whole", "half");
    std::fs::remove_file(folder.at("half/report.json")).expect("a file removed");
    folder.write("half/.unfinished", "");
    folder.write("half/seed-9/dev_predictions.tsv", "of another run");
    folder.ok(&format!("{line} half"));
    assert_eq!(folder.names("half"), ["dev_labels.tsv", "model", "report.json", "seed-1"]);
    assert!(!folder.at("half/.unfinished").exists());
    assert_eq!(folder.read("half/model/model.safetensors"), folder.read("whole/model/model.safetensors"));
    folder.refused(&format!("{line} half"), 1, "a finished fine-tuning");
    folder.write("foreign/seed-1/dev_predictions.tsv", "not of a fine-tuning");
    folder.refused(&format!("{line} foreign"), 1, "other files");
    assert_eq!(folder.text("foreign/seed-1/dev_predictions.tsv"), "not of a fine-tuning");
}

#[test]
fn degenerate_runs_print_a_warning() {
    let folder = with_entailment();
    let line = format!("finetune --task rte --data glue --learning-rate 1e-9 {QUICK} --output tuned --quiet");
    let ended = folder.ok(&line);
    ended.stdout_has("degenerate runs: 1 of 1");
    ended.stdout_has("\nwarning: 1 of 1 runs predict one answer");
    ended.stdout_has("not above the majority class");
    let report = &folder.json("tuned/report.json")[0];
    let warnings = report["warnings"].to_string();
    assert!(
        warnings.contains("predict one answer") && warnings.contains("above the majority class"),
        "{warnings}"
    );
}

#[test]
fn fine_tuning_starts_from_a_fine_tuned_model() {
    let folder = with_entailment();
    let line = format!("finetune --task rte --data glue {}", QUICK.replace("--checkpoint run ", ""));
    // Five classes first, then two.
    let lines = |first: usize, count: usize| {
        let text = entailment(first, count);
        let rows = rows(&text);
        let line = |(at, row): (usize, &Vec<&str>)| format!("{} ||| {}\n", at % 5, row[2]);
        rows.iter().skip(1).enumerate().map(line).collect::<String>()
    };
    folder.write("sst/sst-train.txt", lines(0, 16));
    folder.write("sst/sst-dev.txt", lines(16, 8));
    folder.ok(&format!("finetune --task sst-5 --data sst {QUICK} --output five"));
    let ended = folder.ok(&format!("{line} --checkpoint five --learning-rate 1e-9 --output two"));
    ended.stderr_has("the head of the checkpoint is from an earlier fine-tuning");
    let five = folder.tensors("five/model/model.safetensors");
    let two = folder.tensors("two/model/model.safetensors");
    assert_eq!(two["classifier.weight"].0, [2, 16]);
    // The encoder is the fine-tuned one; at this learning rate it hardly moves.
    let near = |name: &str| {
        let floats = |bytes: &[u8]| -> Vec<f32> {
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
        };
        let a = floats(&five[name].1);
        let b = floats(&two[name].1);
        a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-6)
    };
    assert!(two.keys().filter(|name| name.starts_with("bert.")).all(|name| near(name)));
    // The classifier is not reused, even if the number of classes is equal.
    folder.ok(&format!("{line} --checkpoint two --learning-rate 1e-9 --seeds 7 --output again"));
    let again = folder.tensors("again/model/model.safetensors");
    assert_ne!(again["classifier.weight"], two["classifier.weight"]);
}

/// Checks that padding goes up to a multiple of 8, but not beyond the model's maximum length.
#[test]
fn max_seq_length_may_equal_max_positions() {
    let folder = Folder::with_data();
    let mut config = folder.config();
    config["max_position_embeddings"] = 36.into();
    folder.write("config.json", config.to_string());
    folder.ok("pretrain --data data --model config.json --steps 1 --batch-size 8 --output run");
    folder.write("glue/RTE/train.tsv", entailment(0, 8));
    folder.write("glue/RTE/dev.tsv", entailment(8, 8));
    let flags = "--checkpoint run --num-train-epochs 1 --train-batch-size 8 --max-seq-length";
    folder.ok(&format!("finetune --task rte --data glue {flags} 36 --output tuned"));
    folder.refused(
        &format!("finetune --task rte --data glue {flags} 37 --output longer"),
        4,
        "the model has 36 positions",
    );
}

#[test]
fn only_trainable_parameters_change() {
    let folder = with_entailment();
    let tune = |flags: &str, output: &str| {
        folder.ok(&format!("finetune --task rte --data glue {QUICK} {flags} --output {output}"));
        folder.tensors(&format!("{output}/model/model.safetensors"))
    };
    let start = folder.tensors("run/checkpoints/step-00000006/model.safetensors");
    let encoder = || start.keys().filter(|name| name.starts_with("bert."));
    assert!(encoder().count() > 30);

    let whole = tune("", "whole");
    let frozen = tune("--freeze-encoder", "frozen");
    let fresh = tune("--random-init", "fresh");
    let neighbours = tune("--random-init --initialization previous-next", "neighbours");
    let counts = tune("--random-init --initialization bigram --initialization-data data", "counts");
    assert!(encoder().all(|name| frozen[name] == start[name]), "a frozen encoder stays as it was");
    // Segment ids and words that do not occur have no gradient, but every matrix must change.
    let query = "bert.encoder.layer.0.attention.self.query.weight";
    assert!(whole[query] != start[query] && fresh[query] != start[query] && fresh[query] != whole[query]);
    assert!(
        fresh[query] != neighbours[query]
            && counts["bert.pooler.dense.weight"] != start["bert.pooler.dense.weight"]
    );
    for tuned in [&whole, &frozen, &fresh, &neighbours, &counts] {
        assert_eq!(tuned["classifier.weight"].0, [2, 16]);
        assert_eq!(tuned.len(), encoder().count() + 2);
    }
    assert_ne!(whole["classifier.weight"], frozen["classifier.weight"]);
    let last = tune("--select last", "last");
    assert_eq!(last.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
}

#[test]
fn regression_task_reports_correlations() {
    let folder = Folder::with_run();
    let scored = |first: usize, count: usize| {
        let text = entailment(first, count);
        let mut out = String::from("index\tsentence1\tsentence2\tscore\n");
        for (at, row) in rows(&text).iter().skip(1).enumerate() {
            out += &format!("{at}\t{}\t{}\t{:.2}\n", row[1], row[2], (at * 7 % 26) as f64 / 5.0);
        }
        out
    };
    folder.write("STS-B/train.tsv", scored(0, 40));
    folder.write("STS-B/dev.tsv", scored(40, 20));
    let line =
        format!("finetune --task sts-b --data . {QUICK} --learning-rate 1e-3 --seeds 3 --output tuned");
    let report = folder.ok(&format!("{line} --json")).json();
    for metric in ["pearson", "spearman"] {
        assert!(number(&report, &format!("/runs/0/dev/{metric}")).abs() <= 1.0);
    }
    assert_eq!(report["dev"]["binomial_standard_error"], Value::Null);
    let predictions = folder.text("tuned/seed-3/dev_predictions.tsv");
    assert_eq!(predictions.lines().count(), 21);
    for row in rows(&predictions).iter().skip(1) {
        let score: f64 = row[1].parse().expect("a score");
        assert!((0.0..=5.0).contains(&score) && row[1].split_once('.').expect("decimals").1.len() == 3);
    }
    assert_eq!(folder.tensors("tuned/model/model.safetensors")["classifier.weight"].0, [1, 16]);
    assert_eq!(folder.json("tuned/model/config.json")[0]["problem_type"], json!("regression"));
}

#[test]
fn minbert_files_with_five_classes() {
    let folder = Folder::with_run();
    let lines = |first: usize, count: usize| {
        let text = entailment(first, count);
        let rows = rows(&text);
        let line = |(at, row): (usize, &Vec<&str>)| format!("{} ||| {}\n", at % 5, row[2]);
        rows.iter().skip(1).enumerate().map(line).collect::<String>()
    };
    folder.write("sst/sst-train.txt", lines(0, 40));
    folder.write("sst/sst-dev.txt", lines(40, 15));
    folder.write("sst/sst-test.txt", lines(55, 10));
    let ended = folder.ok(&format!("finetune --task sst-5 --data sst {QUICK} --output tuned"));
    assert!(ended.stdout.contains("dev\n") && ended.stdout.contains("\ntest\n"), "{}", ended.stdout);
    let report = &folder.json("tuned/report.json")[0];
    assert_eq!(report["test"]["examples"], json!(10), "a published test split is scored");
    let accuracy = number(report, "/runs/0/test/accuracy");
    assert!((accuracy * 10.0 - (accuracy * 10.0).round()).abs() < 1e-9);
    let predictions = folder.text("tuned/seed-1/dev_predictions.tsv");
    let dev = folder.text("sst/sst-dev.txt");
    assert_eq!(predictions.lines().count(), 15);
    for (predicted, given) in predictions.lines().zip(dev.lines()) {
        let (class, text) = predicted.split_once(" ||| ").expect("the separator");
        assert!(["0", "1", "2", "3", "4"].contains(&class));
        assert_eq!(text, given.split_once(" ||| ").expect("the separator").1);
    }
    assert_eq!(folder.tensors("tuned/model/model.safetensors")["classifier.weight"].0, [5, 16]);
}

/// Checks the learning rate of each layer: one Adam step moves a bias by the rate, whatever its gradient is.
fn check_layer_decay(folder: &Folder, line: &str, start: &BTreeMap<String, (Vec<usize>, Vec<u8>)>) {
    let one = line.replace("--num-train-epochs 2", "--num-train-epochs 0.2");
    let flags = "--layer-decay 0.5 --schedule constant --warmup-proportion 0 --adam-epsilon 1e-20";
    folder.ok(&format!("{one} {flags} --output decayed"));
    let tuned = folder.tensors("decayed/model/model.safetensors");
    let moved = |name: &str| {
        let values = |bytes: &[u8]| -> Vec<f32> {
            bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
        };
        let before = values(&start[name].1);
        let after = values(&tuned[name].1);
        before.iter().zip(&after).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max)
    };
    for (name, rate) in [
        ("bert.pooler.dense.bias", 1e-3),
        ("bert.encoder.layer.1.output.dense.bias", 0.5e-3),
        ("bert.encoder.layer.0.output.dense.bias", 0.25e-3),
        ("bert.embeddings.LayerNorm.bias", 0.125e-3),
    ] {
        assert!((moved(name) / rate - 1.0).abs() < 0.01, "{name}: {}", moved(name));
    }
}

#[test]
fn gradual_unfreezing_and_layer_wise_decay() {
    let folder = with_entailment();
    let line = format!("finetune --task rte --data glue {QUICK} --learning-rate 1e-3");
    let report = folder.ok(&format!("{line} --trainable-layers 1 --output top --json")).json();
    let start = folder.tensors("run/checkpoints/step-00000006/model.safetensors");
    let changed = |name: &str| {
        let tuned = folder.tensors(&format!("{name}/model/model.safetensors"));
        let encoder = tuned.into_iter().filter(|(name, _)| name.starts_with("bert."));
        encoder.map(|(name, tensor)| (start[&name] != tensor, name)).collect::<Vec<_>>()
    };
    for (changed, name) in changed("top") {
        let trained = name.starts_with("bert.encoder.layer.1.") || name.starts_with("bert.pooler.");
        assert_eq!(changed, trained, "{name}");
    }
    let size = |(shape, _): &(Vec<usize>, Vec<u8>)| shape.iter().product::<usize>();
    let trained: usize = folder
        .tensors("top/model/model.safetensors")
        .iter()
        .filter(|(name, _)| {
            !name.starts_with("bert.embeddings.") && !name.starts_with("bert.encoder.layer.0.")
        })
        .map(|(_, tensor)| size(tensor))
        .sum();
    assert_eq!(report["parameters"]["trained"], json!(trained));

    check_layer_decay(&folder, &line, &start);
    for (flags, message) in [
        ("--trainable-layers 3", "--trainable-layers: 3 of a model with 2 layers"),
        ("--layer-decay 1.5", "--layer-decay is 1.5, but must be above 0 and at most 1"),
        ("--layer-decay 0.9 --freeze-encoder", "cannot be used with"),
    ] {
        folder.refused(&format!("{line} {flags} --output other"), 2, message);
        assert!(!folder.at("other").exists());
    }
}

#[test]
fn diverged_fine_tuning_is_reported() {
    let folder = with_entailment();
    let line = format!("finetune --task rte --data glue {QUICK} --max-gradient-norm 0 --learning-rate");
    let ended = folder.ok(&format!("{line} 30 --output wild"));
    ended.stderr_has("far above the loss of random guessing (0.6931): the run has diverged");
    let report = &folder.json("wild/report.json")[0];
    assert_eq!(report["runs"][0]["diverged"], json!(true));
    assert!(
        report["warnings"].to_string().contains("seed 1: the run has diverged"),
        "{}",
        report["warnings"]
    );
    ended.stdout_has("seed 1: the run has diverged");
    folder.ok(&format!("{line} 1e-3 --output tame"));
    assert_eq!(folder.json("tame/report.json")[0]["runs"][0]["diverged"], json!(false));
}

#[test]
fn small_training_sets_make_smaller_batches() {
    let folder = with_entailment();
    folder.write("glue/RTE/train.tsv", entailment(0, 10));
    let line = format!("finetune --task rte --data glue {QUICK} --output tuned").replace("size 8", "size 32");
    let ended = folder.ok(&line);
    ended.stderr_has("each step uses all 10 examples");
    let run = &folder.json("tuned/report.json")[0]["runs"][0];
    let last = &run["history"][1];
    assert_eq!((number(last, "/epoch"), number(last, "/step")), (2.0, 2.0), "{run}");
}
