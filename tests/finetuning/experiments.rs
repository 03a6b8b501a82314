//! `bert experiment`: fine-tunings of a fixed grid, one page and one table; and what fine-tuning forgets.

use serde_json::{Value, json};

use crate::common::{Folder, assert_self_contained, number};
use crate::finetuning::tasks::with_entailment;

/// Flags that make an experiment with the very small model short.
const QUICK: &str = "--checkpoint run --data . --tasks rte";
/// Flags of finetune for it.
const FLAGS: &str = "-- --max-seq-length 32 --num-train-epochs 1 --train-batch-size 8";

fn rows(results: &Value) -> &Vec<Value> {
    results["rows"].as_array().expect("rows")
}

#[test]
fn settings_are_trained_and_compared() {
    let folder = with_entailment();
    let line = format!("bert experiment from-scratch {QUICK} --seeds 1,2 --output out");
    let ended = folder.ok(&format!("{line} --json {FLAGS}"));
    ended.stderr_has("estimated time: ");
    let results = ended.json();
    assert_eq!(results, folder.json("out/experiment.json")[0]);
    let settings: Vec<&Value> = rows(&results).iter().map(|row| &row["setting"]).collect();
    assert_eq!(settings, ["pre-trained", "fresh"]);
    let row = &rows(&results)[0];
    let report = &folder.json("out/rte-pre-trained/report.json")[0];
    for (key, pointer) in [("mean", "/dev/metrics/0/mean"), ("sd", "/dev/metrics/0/sd")] {
        assert_eq!(number(row, &format!("/{key}")), number(report, pointer));
    }
    assert_eq!(row["seeds"], json!(2.0));
    assert_eq!(results["differences"][0]["comparison"], json!("pre-trained minus fresh"));
    assert_eq!(report["config"]["num_train_epochs"], json!(1.0), "flags after -- replace the experiment's");
    assert_eq!(report["config"]["layer_decay"], json!(0.3));
    let notes = results["notes"].to_string();
    assert!(
        notes.contains("pre-trained: C: BERT-base 65.82 ± 1.23") && notes.contains("trained on 40 of 40"),
        "{notes}"
    );
    let page = folder.text("out/experiment.html");
    assert_self_contained(&page);
    assert!(page.contains("C: BERT-base 52.83") && folder.text("out/experiment.md").contains("task rte"));

    // Finished fine-tunings are kept; a changed setting is refused.
    folder.refused(&format!("{line} {FLAGS}"), 1, "continue with --resume");
    let again = folder.ok(&format!("{line} --json --resume {FLAGS}"));
    assert!(!again.stderr.contains("estimated"), "{}", again.stderr);
    assert_eq!(rows(&again.json()), rows(&results));
    folder.refused(&format!("{line} --resume -- --num-train-epochs 2"), 4, "num_train_epochs");
    let other = format!("{} --resume {FLAGS}", line.replace("from-scratch", "probe"));
    folder.refused(&other, 4, "the experiment was from-scratch, now it is probe");
}

#[test]
fn forgetting_has_a_row_for_every_epoch() {
    let folder = with_entailment();
    let row = |at: usize| {
        format!("the river is {} today\t{}\n", if at.is_multiple_of(2) { "warm" } else { "cold" }, at % 2)
    };
    let all: String = (0..16).map(row).collect();
    folder.write("SST-2/train.tsv", format!("sentence\tlabel\n{all}"));
    let dev: String = (0..8).map(row).collect();
    folder.write("SST-2/dev.tsv", format!("sentence\tlabel\n{dev}"));
    folder.write("text.txt", folder.text("held.txt"));
    let line =
        "bert experiment forgetting --checkpoint run --data . --seeds 1 --input text.txt --output out --json";
    let results = folder.ok(&format!("{line} {FLAGS} --learning-rate 1e-2")).json();
    let of = |setting: &str| -> Vec<&Value> {
        rows(&results).iter().filter(|row| row["setting"] == json!(setting)).collect()
    };
    let before = number(of("checkpoint")[0], "/masked_lm_loss");
    for setting in ["whole-model", "layer-decay", "adapter", "rte-then-sst-2", "sst-2-then-rte", "together"] {
        let rows = of(setting);
        assert_eq!(rows.len(), 2, "{setting}");
        for row in rows {
            assert_ne!(number(row, "/masked_lm_loss"), before, "{row}");
            assert!((0.0..=1.0).contains(&number(row, "/mean")), "{row}");
        }
    }
    // The first rows are after one epoch of rte, and the sequences continue from the same models.
    let alone = of("whole-model")[1];
    let after = of("rte-then-sst-2")[1];
    assert_eq!((&alone["task"], &after["task"]), (&json!("sst-2"), &json!("sst-2")));
    assert!(folder.text("out/experiment.html").contains("masked-LM loss (nats)"));
}

#[test]
fn a_frozen_encoder_forgets_nothing() {
    let folder = with_entailment();
    let line = "finetune --task rte --data glue --checkpoint run --max-seq-length 32 --train-batch-size 8";
    let frozen =
        format!("{line} --freeze-encoder --num-train-epochs 2 --forgetting-data held --output frozen");
    let report = folder.ok(&format!("{frozen} --json")).json();
    let history = report["runs"][0]["history"].as_array().expect("epochs");
    let evaluation = folder.ok("bert evaluate --checkpoint run --data held --json").json();
    assert_eq!(history.len(), 2);
    for epoch in history {
        assert_eq!(number(epoch, "/masked_lm/loss"), number(&evaluation, "/masked_lm_loss"));
        assert_eq!(number(epoch, "/masked_lm/accuracy"), number(&evaluation, "/masked_lm_accuracy"));
    }
    folder.refused(&format!("{line} --random-init --forgetting-data held --output x"), 2, "--random-init");
    folder.refused(&format!("{line} --forgetting-data nowhere --output x"), 3, "nowhere");
}

#[test]
fn probes_count_flips_over_seeds() {
    let folder = with_entailment();
    let dev = folder.text("glue/RTE/dev.tsv").replace(" the ", " he ");
    folder.write("glue/RTE/dev.tsv", dev);
    let line = format!("bert experiment probe {QUICK} --seeds 1,2 --output out --json {FLAGS}");
    let results = folder.ok(&line).json();
    // Two settings and six replacements.
    assert_eq!(rows(&results).len(), 12);
    let first = &rows(&results)[0];
    assert_eq!((&first["replacement"], &first["seeds"]), (&json!("he -> she"), &json!(2.0)));
    assert!(number(first, "/changes") > 0.0 && number(first, "/moved") > 0.0, "{first}");
    // A word that no text has.
    assert_eq!(rows(&results)[2]["flips"], Value::Null);
}

#[test]
fn masking_shows_every_stage() {
    let folder = Folder::new();
    folder.write("text.txt", "the sun is warm .\nthe rain is cold .\n\nthe sea is deep .\nit is blue .\n");
    let line = "bert experiment masking --input text.txt --max-seq-length 16 --instances 2";
    let results = folder.ok(&format!("{line} --json --output out")).json();
    let stages: Vec<&str> = rows(&results).iter().filter_map(|row| row["stage"].as_str()).collect();
    assert_eq!(stages.len(), 14);
    assert_eq!(stages[..2], ["sentences", "target length"]);
    assert_eq!(rows(&results)[6]["reference"], json!("create_masked_lm_predictions"));
    assert_self_contained(&folder.text("out/experiment.html"));
    assert_eq!(folder.ok(&format!("{line} --json")).json(), results);
}

#[test]
fn experiments_reject_wrong_flags() {
    let folder = Folder::new();
    folder.refused("bert experiment fussion", 2, "small-models");
    folder.refused("bert experiment fusion --output out", 2, "--data");
    folder.refused("bert experiment fusion --data .", 2, "--output");
    folder.refused("bert experiment masking --dry-run", 2, "--dry-run");
    folder.refused("bert experiment fusion --data . --output out --instances 2", 2, "--instances");
    folder.refused("bert experiment fusion --data . --output out --tasks cola", 2, "its tasks are rte");
    let list = folder.ok("bert experiment").stdout;
    assert_eq!(list.lines().count(), 10, "{list}");
}
