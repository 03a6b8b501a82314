//! Statistics of fine-tuning results: seeds, subsets, accumulation, early stopping, confidence intervals, paired tests,
//! and grids that do not use dev.

use serde_json::{Value, json};

use crate::common::{Folder, assert_self_contained, entailment, number};

const QUICK: &str =
    "finetune --task rte --data glue --checkpoint run --max-seq-length 48 --train-batch-size 8";

fn with_entailment() -> Folder {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 40));
    folder.write("glue/RTE/dev.tsv", entailment(40, 20));
    folder
}

#[test]
fn seeds_are_numbers_and_ranges() {
    let folder = with_entailment();
    let report =
        folder.ok(&format!("{QUICK} --num-train-epochs 1 --seeds 2-3,7 --output tuned --json")).json();
    let seeds: Vec<&Value> =
        report["runs"].as_array().expect("runs").iter().map(|run| &run["seed"]).collect();
    assert_eq!(seeds, [&json!(2), &json!(3), &json!(7)]);
    assert_eq!(report["config"]["seeds"], json!([2, 3, 7]));
    assert_eq!(
        folder.names("tuned"),
        ["dev_labels.tsv", "model", "report.json", "seed-2", "seed-3", "seed-7"]
    );
    // The saved list of seeds is read back.
    folder.ok("finetune --config tuned --output again --quiet");
    assert_eq!(folder.json("again/report.json")[0]["config"]["seeds"], json!([2, 3, 7]));
}

#[test]
fn training_subset_depends_only_on_its_seed() {
    let folder = with_entailment();
    let tune = |flags: &str, output: &str| {
        folder.ok(&format!("{QUICK} --num-train-epochs 1 --max-train-examples 16 {flags} --output {output}"))
    };
    let ended = tune("", "some");
    ended.stdout_has("warning: Trained on 16 of the 40 training examples");
    let report = &folder.json("some/report.json")[0];
    let parts = json!({ "in_file": 40, "trained_on": 16, "held_out": 0, "subset_seed": 1 });
    assert_eq!((&report["training"], &report["train_examples"]), (&parts, &json!(16)));
    assert_eq!(report["runs"][0]["history"][0]["step"], json!(2), "two batches are an epoch");
    let warnings = report["warnings"].as_array().expect("warnings");
    assert!(warnings.last().and_then(Value::as_str).expect("text").starts_with("Trained on 16 of the 40"));
    folder.ok("bert report some");
    assert!(folder.text("some/report.html").contains("Trained on 16 of the 40"));
    tune("", "same");
    tune("--subset-seed 2", "other");
    let weights = |output: &str| folder.read(&format!("{output}/model/model.safetensors"));
    assert_eq!(weights("some"), weights("same"));
    assert_ne!(weights("some"), weights("other"));
    // A maximum equal to the number of examples is not a subset.
    let ended = folder.ok(&format!("{QUICK} --num-train-epochs 1 --max-train-examples 40 --output all"));
    assert!(!ended.stdout.contains("Trained on"), "{}", ended.stdout);
}

#[test]
fn micro_batches_equal_one_batch() {
    let folder = with_entailment();
    let mut config = folder.config();
    config["hidden_dropout_prob"] = 0.0.into();
    config["attention_probs_dropout_prob"] = 0.0.into();
    folder.write("still.json", config.to_string());
    folder.ok("pretrain --data data --model still.json --steps 1 --batch-size 8 --output still");
    let line =
        QUICK.replace("--checkpoint run", "--checkpoint still --num-train-epochs 2 --learning-rate 1e-3");
    for parts in [1, 3, 8] {
        folder.ok(&format!("{line} --gradient-accumulation-steps {parts} --output in-{parts}"));
    }
    let losses = |parts: usize| -> Vec<f64> {
        let report = &folder.json(&format!("in-{parts}/report.json"))[0];
        (0..2).map(|epoch| number(report, &format!("/runs/0/history/{epoch}/train_loss"))).collect()
    };
    let whole = losses(1);
    for parts in [3, 8] {
        for (a, b) in whole.iter().zip(losses(parts)) {
            assert!((a - b).abs() < 1e-5 * a, "in {parts} parts {b}, whole {a}");
        }
    }
}

#[test]
fn patience_stops_early_and_reports_it() {
    let folder = with_entailment();
    // At this rate nothing changes, so no epoch is better than the first.
    let line = format!("{QUICK} --learning-rate 1e-9 --num-train-epochs 9 --seeds 1-2 --output");
    let ended = folder.ok(&format!("{line} tuned --patience 2"));
    assert!(
        ended
            .stdout
            .contains("stopped early by --patience: seed 1 after 3.0 epochs, seed 2 after 3.0 epochs"),
        "{}",
        ended.stdout
    );
    let report = &folder.json("tuned/report.json")[0];
    let run = &report["runs"][0];
    assert_eq!((run["stopped_early"].as_bool(), number(run, "/epoch")), (Some(true), 1.0));
    assert_eq!(run["history"].as_array().map(Vec::len), Some(3));
    folder.ok("bert report tuned");
    assert!(folder.text("tuned/report.html").contains("2 of 2 runs were stopped early by --patience"));
    // Until early stopping, the run equals a run without it.
    folder.ok(&format!("{line} whole"));
    let whole = &folder.json("whole/report.json")[0];
    assert_eq!(whole["runs"][0]["history"].as_array().map(Vec::len), Some(9));
    assert_eq!(whole["runs"][0]["history"][2], run["history"][2]);
    assert_eq!(whole["runs"][0]["stopped_early"], json!(false));
    assert_eq!(folder.read("whole/model/model.safetensors"), folder.read("tuned/model/model.safetensors"));
}

#[test]
fn report_has_a_confidence_interval() {
    let folder = with_entailment();
    let line = format!("{QUICK} --num-train-epochs 2 --learning-rate 1e-2 --seeds 1-3 --output tuned");
    let ended = folder.ok(&line);
    let report = &folder.json("tuned/report.json")[0];
    let interval = &report["dev"]["interval"];
    let low = number(interval, "/low");
    let high = number(interval, "/high");
    let mean = number(report, "/dev/metrics/0/mean");
    assert!(low < mean && mean < high && low >= 0.0 && high <= 1.0, "{interval}");
    assert_eq!(interval["metric"], json!("accuracy"));
    // The interval is at least as wide as 20 examples alone make it: three seeds give very similar answers.
    assert!(high - low > 0.1, "{interval}");
    let range = format!("{:.1} % to {:.1} %", 100.0 * low, 100.0 * high);
    let text = format!("95 % interval of the mean accuracy: {range} (over examples and seeds)");
    assert!(ended.stdout.contains(&text), "{text}\n{}", ended.stdout);
    folder.ok("bert report tuned");
    let page = folder.text("tuned/report.html");
    assert_self_contained(&page);
    assert!(page.contains(&format!("<b>{range}</b>")), "the interval is a first figure");
}

/// Checks that McNemar's counts match the prediction files.
fn check_counts_of_mcnemar(folder: &Folder, test: &Value) {
    let answers = |output: &str, seed: usize| -> Vec<bool> {
        let labels = folder.text(&format!("{output}/dev_labels.tsv"));
        let answers = folder.text(&format!("{output}/seed-{seed}/dev_predictions.tsv"));
        labels.lines().zip(answers.lines()).skip(1).map(|(a, b)| a == b).collect()
    };
    for (at, seed) in [1, 2].into_iter().enumerate() {
        let a = answers("a", seed);
        let b = answers("b", seed);
        let only = |x: &[bool], y: &[bool]| x.iter().zip(y).filter(|(x, y)| **x && !**y).count() as f64;
        assert_eq!(number(test, &format!("/mcnemar/{at}/first_seed")), seed as f64);
        assert_eq!(number(test, &format!("/mcnemar/{at}/only_first")), only(&a, &b));
        assert_eq!(number(test, &format!("/mcnemar/{at}/only_second")), only(&b, &a));
    }
}

#[test]
fn scores_runs_a_paired_test() {
    let folder = with_entailment();
    let line = format!("{QUICK} --num-train-epochs 2 --learning-rate 1e-2 --seeds");
    folder.ok(&format!("{line} 1-2 --output a"));
    folder.ok(&format!("{line} 1-2 --random-init --output b"));
    folder.ok(&format!("{line} 5 --random-init --output c"));
    let ended = folder.ok("bert scores a b --paired");
    ended.stdout_has("rte on dev, 20 examples: accuracy (%)");
    let test = folder.ok("bert scores a b --paired --json").json();
    let mean =
        |output: &str| number(&folder.json(&format!("{output}/report.json"))[0], "/dev/metrics/0/mean");
    let difference = mean("a") - mean("b");
    assert!((number(&test, "/test/difference") - difference).abs() < 1e-12, "{test}");
    assert!(number(&test, "/test/low") <= difference && difference <= number(&test, "/test/high"));
    assert_eq!(test["test"]["covers_seeds"], json!(true));
    let back = folder.ok("bert scores b a --paired --json").json();
    assert!((number(&back, "/test/low") + number(&test, "/test/high")).abs() < 1e-12);
    assert!((number(&back, "/test/p") - number(&test, "/test/p")).abs() < 1e-12);

    check_counts_of_mcnemar(&folder, &test);
    // A fine-tuning does not differ from itself; three folders with two configurations are accepted.
    let same = folder.ok("bert scores a a --paired --json").json();
    assert_eq!((number(&same, "/test/p"), number(&same, "/test/difference")), (1.0, 0.0));
    let three = folder.ok("bert scores a b c --paired --json").json();
    let seeds = [&three["first"]["seeds"], &three["second"]["seeds"]];
    assert!(seeds.contains(&&json!([1, 2])) && seeds.contains(&&json!([1, 2, 5])), "{three}");
    let one = folder.ok("bert scores c c --paired");
    one.stdout_has("one seed on each side: the two models are compared, other seeds are not covered");
}

/// Adds copies of the output folder `a` whose predictions are cut, missing or of unknown labels.
fn add_damaged_outputs(folder: &Folder) {
    folder.copy("a", "cut");
    let predictions = folder.text("cut/seed-1/dev_predictions.tsv");
    folder.write(
        "cut/seed-1/dev_predictions.tsv",
        predictions.lines().take(9).map(|l| format!("{l}\n")).collect::<String>(),
    );
    folder.copy("a", "old");
    std::fs::remove_file(folder.at("old/dev_labels.tsv")).expect("a file removed");
    folder.copy("a", "strange");
    let labels = folder.text("strange/dev_labels.tsv");
    let (first, _) = labels.split_once('\n').expect("a header");
    folder.write("strange/dev_labels.tsv", format!("{first}\n0\tperhaps\n"));
}

#[test]
fn paired_test_rejects_different_dev_sets() {
    let folder = with_entailment();
    let tune = |data: &str, output: &str| {
        let line = QUICK.replace("--data glue", &format!("--data {data}"));
        folder.ok(&format!("{line} --num-train-epochs 1 --output {output}"));
    };
    tune("glue", "a");
    let dev = entailment(40, 20);
    for (name, dev) in [
        ("shorter", entailment(40, 19)),
        ("others", entailment(41, 20)),
        ("text", dev.replacen("\tthe ", "\tsome ", 1).replacen("\tThe ", "\tSome ", 1)),
    ] {
        folder.write(&format!("{name}/train.tsv"), entailment(0, 40));
        folder.write(&format!("{name}/dev.tsv"), dev);
        tune(name, &format!("of-{name}"));
    }
    add_damaged_outputs(&folder);
    for (line, code, message) in [
        ("a of-shorter", 2, "of-shorter: rte on 19 examples, but the first folder has rte on 20"),
        ("a of-others", 2, "of-others: not the same dev set as a: row 0 has another example"),
        ("a of-text", 2, "of-text: not the same dev set as a: the texts differ"),
        ("a", 2, "--paired: needs two folders"),
        ("a run", 1, "run: no finished fine-tuning here"),
        ("a cut", 3, "cut/seed-1/dev_predictions.tsv:8: 8 examples, but report.json has 20"),
        ("a old", 3, "old/dev_labels.tsv: this file is missing: restore it"),
        ("strange a", 3, "strange/dev_labels.tsv:2: \"perhaps\" is not a label of task rte"),
    ] {
        folder.refused(&format!("bert scores {line} --paired"), code, message);
    }
}

/// Checks that the chosen cell alone gives the same model, and that dev does not affect the choice.
fn check_chosen_cell(folder: &Folder, line: &str, grid: &str) {
    let report = &folder.json("grid/report.json")[0];
    let cells = report["grid"]["cells"].as_array().expect("cells");
    let chosen = cells.iter().find(|cell| cell["chosen"] == json!(true)).expect("one is chosen");
    let rate = &chosen["learning_rate"];
    let size = &chosen["train_batch_size"];
    let flags = format!("--learning-rate {rate} --train-batch-size {size} --holdout 0.25");
    folder.ok(&format!("{line} {flags} --output alone"));
    let alone = &folder.json("alone/report.json")[0];
    assert_eq!((&alone["runs"], &alone["dev"]), (&report["runs"], &report["dev"]));
    assert_eq!(folder.read("alone/model/model.safetensors"), folder.read("grid/model/model.safetensors"));
    assert!(alone["grid"].is_null());
    // Dev does not affect the choice: with other dev labels it is the same.
    let swap = |text: &str| {
        text.replace("\tentailment", "\tX")
            .replace("\tnot_entailment", "\tentailment")
            .replace("\tX", "\tnot_entailment")
    };
    folder.write("swapped/train.tsv", entailment(0, 40));
    folder.write("swapped/dev.tsv", swap(&entailment(40, 20)));
    let line = line.replace("--data glue", "--data swapped");
    folder.ok(&format!("{line} {grid} --holdout 0.25 --output swapped-grid"));
    assert_eq!(folder.json("swapped-grid/report.json")[0]["grid"], report["grid"]);
    assert_eq!(
        folder.read("swapped-grid/model/model.safetensors"),
        folder.read("grid/model/model.safetensors")
    );
}

/// Checks that the cell with the highest mean on the held-out examples is chosen.
fn check_report_of_grid(folder: &Folder) {
    let report = &folder.json("grid/report.json")[0];
    let cells = report["grid"]["cells"].as_array().expect("cells");
    let chosen = cells.iter().position(|cell| cell["chosen"] == json!(true)).expect("one is chosen");
    let means: Vec<f64> = cells.iter().map(|cell| number(cell, "/mean")).collect();
    assert!(
        means.iter().all(|mean| *mean <= means[chosen]) && means[..chosen].iter().all(|m| *m < means[chosen])
    );
    assert_eq!(report["resolved"]["learning_rate"], cells[chosen]["learning_rate"]);
    assert_eq!(report["resolved"]["train_batch_size"], cells[chosen]["train_batch_size"]);
    assert_eq!(report["config"]["learning_rate"], json!([1e-9, 3e-3]));
    assert_eq!(
        report["training"],
        json!({ "in_file": 40, "trained_on": 30, "held_out": 10, "subset_seed": 1 })
    );
    let history = &report["runs"][0]["history"][0];
    assert!(history["dev"].is_null() && number(history, "/held_out/accuracy") <= 1.0, "{history}");
}

#[test]
fn grid_search_uses_held_out_training_examples() {
    let folder = with_entailment();
    let line = QUICK.replace("--train-batch-size 8", "--num-train-epochs 4 --seeds 1-2");
    let grid = "--learning-rate 1e-9,3e-3 --train-batch-size 4,9";
    let ended = folder.ok(&format!("{line} {grid} --holdout 0.25 --output grid"));
    ended.stderr_has("seed 1, epoch 1.1: held-out accuracy");
    assert!(!ended.stderr.contains(": dev accuracy"), "{}", ended.stderr);
    assert!(
        ended.stdout.starts_with("grid of 4: accuracy (%) on 10 examples held out of train\n"),
        "{}",
        ended.stdout
    );
    let cells = ended.stdout.lines().filter(|line| line.contains("learning_rate ")).count();
    assert_eq!((cells, ended.stdout.matches("<- chosen").count()), (4, 1), "{}", ended.stdout);
    check_report_of_grid(&folder);
    folder.ok("bert report grid");
    let page = folder.text("grid/report.html");
    assert!(
        page.contains("Grid search: accuracy (%) on 10 examples held out of train")
            && page.contains("<td>chosen</td>")
    );

    check_chosen_cell(&folder, &line, grid);
}

#[test]
fn report_page_shows_the_calibration() {
    let folder = with_entailment();
    folder.ok(&format!("{QUICK} --num-train-epochs 2 --learning-rate 1e-2 --output tuned"));
    let calibration = folder.json("tuned/report.json")[0]["runs"][0]["calibration"].clone();
    let bins = calibration["bins"].as_array().expect("bins");
    let examples: f64 = bins.iter().map(|bin| number(bin, "/examples")).sum();
    let right: f64 = bins.iter().map(|bin| number(bin, "/examples") * number(bin, "/accuracy")).sum();
    let accuracy = number(&folder.json("tuned/report.json")[0], "/runs/0/dev/accuracy");
    assert!(examples == 20.0 && (right / 20.0 - accuracy).abs() < 1e-12, "{calibration}");
    // With two classes, the probability of the answer is at least one half.
    assert!(bins.iter().all(|bin| number(bin, "/confidence") >= 0.5));
    folder.ok("bert report tuned");
    let page = folder.text("tuned/report.html");
    let message = format!("Expected calibration error {:.3}", number(&calibration, "/expected_error"));
    assert!(page.contains(&message) && page.contains("Calibration, seed 1"), "{message}");
    let link = "href=\"../run/report.html\"";
    assert!(page.contains(link), "a link to the pre-training run");
    assert_self_contained(&page);
}

/// Checks that a job array with one seed per job gives the same result, with the same interval, as one job with all
/// seeds.
#[test]
fn scores_combines_seeds_of_separate_folders() {
    let folder = with_entailment();
    for (seeds, output) in [("1-2", "both"), ("1", "first"), ("2", "second")] {
        let flags = "--num-train-epochs 2 --learning-rate 1e-2 --quiet";
        folder.ok(&format!("{QUICK} {flags} --seeds {seeds} --output {output}"));
    }
    let together = folder.ok("bert scores first second --json").json();
    assert_eq!(together["groups"][0]["dev"], folder.json("both/report.json")[0]["dev"]);
    let message = folder.ok("bert scores first second").stdout;
    assert!(message.contains("95 % interval of the mean accuracy"), "{message}");
}
