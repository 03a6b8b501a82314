//! The settings of a fine-tuning that follow from the size of the model.

use bert_storage::{Disk, StagedFolder};
use serde_json::json;

use crate::common::Folder;
use crate::finetuning::tasks::with_entailment;

const LINE: &str =
    "finetune --task rte --data glue --checkpoint run --max-seq-length 48 --train-batch-size 8";

#[test]
fn chosen_settings_are_printed_and_reported() {
    let folder = with_entailment();
    let ended = folder.ok(&format!("{LINE} --num-train-epochs 1 --output tuned"));
    assert!(ended.stderr.contains("learning rate 5e-4 (2 layers of 16)\n"), "{}", ended.stderr);
    let report = &folder.json("tuned/report.json")[0];
    assert_eq!(
        (&report["resolved"]["learning_rate"], &report["resolved"]["precision"]),
        (&json!(0.0005), &json!("f32"))
    );
    assert_eq!(
        (&report["config"]["learning_rate"], &report["defaults"][0]["value"]),
        (&json!(null), &json!("5e-4"))
    );

    let frozen = folder.ok(&format!("{LINE} --num-train-epochs 1 --freeze-encoder --output frozen"));
    assert!(frozen.stderr.contains("learning rate 1e-3 (frozen encoder)\n"), "{}", frozen.stderr);
    folder.ok(&format!("{LINE} --recipe reference --num-train-epochs 1 --output reference"));
    let report = &folder.json("reference/report.json")[0];
    let values = (&report["resolved"]["learning_rate"], &report["config"]["adam_bias_correction"]);
    assert_eq!(values, (&json!(5e-5), &json!(false)));
    folder.refused(&format!("{LINE} --recipe laptop --output no"), 2, "has no options of finetune");
}

#[cfg(unix)]
#[test]
fn finetuning_from_before_the_defaults_keeps_its_rate() {
    let folder = with_entailment();
    let long = format!("{LINE} --num-train-epochs 400 --output tuned");
    stop_after_start(&folder, &long);
    // An earlier version did not record the defaults and used the values of BERT-base.
    let mut run = folder.checksummed("tuned/.runs/run.json");
    run["identity"].as_object_mut().unwrap().remove("defaults").expect("recorded by this version");
    let runs = folder.at("tuned/.runs");
    StagedFolder::new(&Disk, &runs).write_checksummed("run.json", &run).unwrap();
    folder.ok(&format!("{long} --resume"));
    assert_eq!(folder.json("tuned/report.json")[0]["resolved"]["learning_rate"], json!(5e-5));
}

/// Starts a long fine-tuning and stops it when its settings are saved.
#[cfg(unix)]
fn stop_after_start(folder: &Folder, line: &str) {
    let mut child = folder.start(line);
    let started = std::time::Instant::now();
    while !folder.at("tuned/.runs/run.json").exists() {
        assert!(started.elapsed().as_secs() < 120, "it never started");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    crate::pretraining::resume::send(&child, "KILL");
    assert!(!child.wait().expect("its end").success(), "it ended before the signal");
}
