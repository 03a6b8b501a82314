//! The settings that follow from model size, initialization and processor: printed, saved, and kept by a resumed run.

use serde_json::json;

use crate::common::Folder;

const LINE: &str =
    "pretrain --data data --model config.json --initialization reference --batch-size 4 --steps 20";

#[test]
fn chosen_settings_are_printed_and_saved() {
    let folder = Folder::with_data();
    let first = folder.ok(&format!("{LINE} --output run"));
    for line in [
        "learning rate 1.5e-3 (2 layers of 16, reference initialization)",
        "adam beta2 0.98 (2 layers of 16, reference initialization)",
        "warmup steps 2 (a tenth of the steps)",
    ] {
        assert_eq!(first.stderr.matches(line).count(), 1, "{line}: {}", first.stderr);
    }
    let saved = folder.checksummed("run/run.json");
    let config = &saved["config"];
    let values =
        (&config["learning_rate"], &config["adam_beta2"], &config["warmup_steps"], &config["precision"]);
    assert_eq!(values, (&json!(0.0015), &json!(0.98), &json!(2), &json!("f32")));
    assert_eq!(saved["defaults"][0]["option"], "learning_rate");
    assert_eq!(saved["defaults"].as_array().unwrap().len(), 4);

    let given = "--learning-rate 1e-3 --adam-beta2 0.9 --warmup-steps 1 --precision f32";
    let ended = folder.ok(&format!("{LINE} {given} --output given"));
    assert!(!ended.stderr.contains("learning rate 1"), "{}", ended.stderr);
    let saved = folder.checksummed("given/run.json");
    assert_eq!((&saved["config"]["learning_rate"], &saved["defaults"]), (&json!(0.001), &json!([])));
}

#[test]
fn resumed_run_keeps_its_saved_settings() {
    let folder = Folder::with_data();
    // The defaults of an earlier version.
    let older = "--learning-rate 1e-4 --adam-beta2 0.999 --warmup-steps 2 --precision f32 --save-every 10";
    folder.ok(&format!("{LINE} {older} --output run"));
    let whole = folder.read("run/metrics.jsonl");
    std::fs::remove_dir_all(folder.at("run/checkpoints/step-00000020")).unwrap();
    let resumed = folder.ok(&format!("{LINE} --save-every 10 --output run --resume"));
    assert!(!resumed.stderr.contains("learning rate 1.5e-3"), "{}", resumed.stderr);
    assert!(whole == folder.read("run/metrics.jsonl"));
    let other = format!("{LINE} --learning-rate 2e-4 --output run --resume");
    folder.refused(&other, 4, "--learning-rate was 0.0001, now 0.0002");
}

#[test]
fn recipes_give_the_published_settings() {
    let folder = Folder::with_data();
    for (recipe, rate) in [("paper", 1e-4), ("reference", 5e-5)] {
        let line =
            format!("pretrain --recipe {recipe} --data data --model config.json --steps 1 --batch-size 2");
        folder.ok(&format!("{line} --warmup-steps 1 --output {recipe}"));
        let config = folder.checksummed(&format!("{recipe}/run.json"))["config"].clone();
        let values = (&config["learning_rate"], &config["adam_beta2"], &config["initialization"]);
        assert_eq!(values, (&json!(rate), &json!(0.999), &json!("reference")));
    }
    let shown = folder.ok("bert recipes paper").stdout;
    for setting in
        ["warmup_steps = 10000", "learning_rate = 2e-5", "num_train_epochs = 3.0", "train_batch_size = 32"]
    {
        assert!(shown.contains(setting), "{setting}: {shown}");
    }
}
