//! `pretrain --dry-run`.

use crate::common::{Folder, QUICK};

const RUN: &str = "--steps 8 --save-every 2 --eval-data held --keep-best --average-last 2";

/// Returns the bytes of the files of a folder.
fn bytes(folder: &Folder, name: &str) -> u64 {
    folder.snapshot(name).values().flatten().map(|contents| contents.len() as u64).sum()
}

#[test]
fn dry_run_creates_nothing_and_predicts_the_run() {
    let folder = Folder::with_data();
    let estimate = folder.ok(&format!("pretrain {QUICK} {RUN} --output run --dry-run --json")).json();
    assert!(!folder.at("run").exists());
    let number = |key: &str| estimate[key].as_f64().unwrap_or_else(|| panic!("{key} in {estimate}"));
    let data: serde_json::Value =
        serde_json::from_str(&folder.text("data/manifest.json")).expect("a manifest");
    let instances = data["instances"].as_f64().expect("a number");
    assert_eq!(number("instances"), instances);
    assert_eq!(number("epochs"), 64.0 / instances);
    assert_eq!(number("passes_over_text"), 10.0 * number("epochs"));
    assert_eq!((number("steps"), number("batch_size"), number("evaluations")), (8.0, 8.0, 5.0));
    let steps = 8.0 * number("seconds_per_step") + 5.0 * number("seconds_per_evaluation");
    assert!((number("seconds") - steps).abs() < 1e-9 && number("seconds_per_step") > 0.0);
    assert!(number("flops_per_step") > 8.0 * 6.0 * 32.0 * 2.0 * 64.0 && number("memory") > 1e6);

    let started = folder.ok(&format!("pretrain {QUICK} {RUN} --output run"));
    let millions = format!("{:.2} M parameters", number("parameters") / 1e6);
    assert!(started.stderr.contains(&millions), "{millions}: {}", started.stderr);
    let checkpoint = "run/checkpoints/step-00000008";
    let weights = ["model", "optimizer"].map(|name| format!("{checkpoint}/{name}.safetensors"));
    let weights: usize = weights.iter().map(|name| folder.read(name).len()).sum();
    let predicted = number("checkpoint_bytes");
    assert!((weights as f64 / predicted - 1.0).abs() < 0.1, "{weights} bytes, {predicted} predicted");
    // Three checkpoints stay; while a fourth is written there are four.
    let used = bytes(&folder, "run") as f64;
    let predicted = number("disk");
    assert!(used < predicted && used > 0.5 * predicted, "{used} bytes, {predicted} predicted");
}

#[test]
fn dry_run_knows_the_group() {
    let folder = Folder::with_data();
    let flags =
        format!("pretrain {QUICK} --gradient-accumulation-steps 2 --steps 8 --output run --dry-run --json");
    let alone = folder.ok(&flags).json();
    let group = folder.ok(&format!("bert launch --processes 2 -- {flags}")).json();
    assert_eq!((&group["steps"], &group["flops_per_step"]), (&alone["steps"], &alone["flops_per_step"]));
    assert!(group["memory"].as_f64() < alone["memory"].as_f64(), "a rank keeps half of the moments");
    assert!(group["seconds_per_step"].as_f64() > Some(0.0));
    assert!(!folder.at("run").exists());
}

#[test]
fn dry_run_refuses_what_the_run_refuses() {
    let folder = Folder::with_run();
    folder.refused(&format!("pretrain {QUICK} --steps 2 --output run --dry-run"), 1, "run");
    folder.refused(&format!("pretrain {QUICK} --steps 2 --output o --dry-run --resume"), 2, "--resume");
    folder.refused("pretrain --data none --model tiny --steps 2 --output o --dry-run", 3, "none");
    assert!(!folder.at("o").exists());
}

#[test]
fn dry_run_counts_evaluations_on_held_out_documents() {
    let folder = Folder::with_data();
    let data = "--input train.txt --vocab vocab.txt --max-seq-length 32 --hold-out 30% --output both";
    folder.ok(&format!("make-pretrain-data {data}"));
    let line = "pretrain --data both --model config.json --steps 3 --output run --dry-run";
    assert_eq!(folder.ok(&format!("{line} --json")).json()["evaluations"], 2);
    let table = folder.ok(&format!("{line} --format csv")).stdout;
    assert!(table.starts_with("figure,value\n") && table.contains("\nparameters,"), "{table}");
}

#[test]
fn dry_run_of_a_budget_estimates_its_steps() {
    let folder = Folder::with_data();
    let line = format!("pretrain {QUICK} --budget 1h --output run --dry-run");
    let estimate = folder.ok(&format!("{line} --json")).json();
    let steps = estimate["steps"].as_f64().expect("a number");
    let planned = steps * estimate["seconds_per_step"].as_f64().expect("a number");
    assert!((0.96..0.98).contains(&(planned / 3600.0)), "{planned} seconds");
    let text = folder.ok(&format!("{line} --recompute")).stdout;
    for row in ["parameters", "FLOPs per step", "memory, about", "size on disk", "passes over the text"] {
        assert!(text.contains(row), "{row} is not in {text}");
    }
    assert!(!folder.at("run").exists());
}
