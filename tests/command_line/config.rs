//! `--config` in TOML and JSON, and recipes of fine-tuning.

use serde_json::json;

use crate::common::{Folder, entailment};

/// Returns a folder with the task RTE in `glue`, and the options of a short fine-tuning of the built-in model.
fn with_task() -> Folder {
    let folder = Folder::new();
    folder.write("glue/RTE/train.tsv", entailment(0, 8));
    folder.write("glue/RTE/dev.tsv", entailment(8, 4));
    folder
}

#[test]
fn toml_and_json_give_the_same_options() {
    let folder = Folder::with_data();
    let toml = "# a comment\ndata = \"data\"\nmodel = \"config.json\"\nsteps = 2\nbatch_size = 8\nrecompute = true\n";
    folder.write("flat.toml", toml);
    folder.write("by-content", toml);
    folder.write(
        "sections.toml",
        format!("about = \"all programs\"\n[data]\ndupe_factor = 2\n[pretrain]\n{toml}"),
    );
    let options =
        json!({ "data": "data", "model": "config.json", "steps": 2, "batch_size": 8, "recompute": true });
    folder.write("flat.json", options.to_string());
    folder.write("sections.json", json!({ "pretrain": options, "finetune": {} }).to_string());
    for file in ["flat.toml", "by-content", "sections.toml", "flat.json", "sections.json"] {
        let output = format!("run-{}", file.replace('.', "-"));
        folder.ok(&format!("pretrain --config {file} --batch-size 4 --output {output}"));
        let config = folder.checksummed(&format!("{output}/run.json"))["config"].clone();
        assert_eq!((&config["steps"], &config["recompute"]), (&json!(2), &json!(true)), "{file}");
        assert_eq!(config["batch_size"], 4, "{file}: the flag wins");
    }
    folder.write("data.toml", "input = [\"train.txt\"]\nvocab = \"vocab.txt\"\nmax_seq_length = 32\n");
    folder.ok("make-pretrain-data --config data.toml --output of-toml --dupe-factor 1");
    let made = folder.checksummed("of-toml/manifest.json")["config"].clone();
    assert_eq!((&made["max_seq_length"], &made["dupe_factor"]), (&json!(32), &json!(1)));
}

#[test]
fn errors_in_a_config_name_file_line_and_key() {
    let folder = with_task();
    for (name, text, message) in [
        (
            "a.toml",
            "task = \"rte\"\n\nlearning_rat = 1.0\n",
            "line 3: unknown field `learning_rat`; did you mean",
        ),
        ("a.toml", "task = \"rte\"\nlearning_rate = \"high\"\n", "line 2: invalid value 'high'"),
        ("a.toml", "task = \"rte\"\nfreeze_encoder = \"yes\"\n", "line 2: "),
        ("a.toml", "task = \"rte\"\nprecision = \"bf61\"\n", "line 2: invalid value 'bf61'"),
        ("a.toml", "task = \"rte\"\n\ntask = \"sst-2\"\n", "line 3: duplicate key"),
        ("a.toml", "task = \"rte\"\n[finetune]\nseeds = [1]\n", "line 1: unknown field `task`"),
        (
            "a.json",
            "{ \"task\": \"rte\",\n  \"seed\": 1 }",
            "line 2: unknown field `seed`; did you mean `seeds`?",
        ),
        ("a.json", "{ \"finetune\": {\n\n  \"tas\": \"rte\" } }", "line 3: unknown field `tas`"),
        (
            "a.json",
            "{ \"task\": \"rte\",\n \"max_seq_length\": [3] }",
            "line 2: max_seq_length: invalid type",
        ),
    ] {
        folder.write(name, text);
        let ended = folder.refused(
            &format!("finetune --task rte --data glue --output o --config {name}"),
            2,
            message,
        );
        assert!(ended.stderr.contains(&format!("{name}: ")), "{}", ended.stderr);
    }
    assert!(!folder.at("o").exists());
}

#[test]
fn misspelled_required_option_is_named_with_its_line() {
    let folder = Folder::with_data();
    folder.write("a.toml", "data = \"data\"\noutptu = \"run\"\nsteps = 2\nmodel = \"tiny\"\n");
    let ended = folder.refused(
        "pretrain --config a.toml",
        2,
        "line 2: unknown field `outptu`; did you mean `output`?",
    );
    assert!(ended.stderr.contains("a.toml: "), "{}", ended.stderr);
    // Without a misspelled key, the missing option is named.
    folder.write("b.toml", "data = \"data\"\nsteps = 2\nmodel = \"tiny\"\n");
    folder.refused("pretrain --config b.toml", 2, "--output");
    assert!(!folder.at("run").exists());
}

#[test]
fn recipes_of_finetuning_set_its_options() {
    let folder = with_task();
    let line = "finetune --task rte --data glue --num-train-epochs 1";
    for (recipe, expected) in [
        ("lora", json!({ "adapter": "lora", "learning_rate": 5e-4, "merge_lora": true })),
        ("adapters", json!({ "adapter": "pfeiffer", "learning_rate": 1e-4, "train_batch_size": 32 })),
        ("frozen", json!({ "freeze_encoder": true, "learning_rate": 1e-3, "adapter": null })),
    ] {
        folder.ok(&format!("{line} --recipe {recipe} --output {recipe}"));
        let report = folder.text(&format!("{recipe}/report.json"));
        let report: serde_json::Value = serde_json::from_str(&report).expect("a report");
        for (key, value) in expected.as_object().expect("an object") {
            assert_eq!(&report["config"][key], value, "{recipe}: {key}");
        }
        assert_eq!(report["config"]["num_train_epochs"], json!(1.0), "{recipe}: the flag wins");
    }
    let houlsby =
        folder.ok(&format!("{line} --recipe adapters --adapter houlsby --output houlsby --json")).json();
    assert_eq!(houlsby["config"]["adapter"], "houlsby");
    folder.refused(
        &format!("{line} --recipe laptop --output none"),
        2,
        "no options of finetune, but of data, pretrain",
    );
    folder.refused(
        "pretrain --recipe lora --data data --output none",
        2,
        "no options of pretrain, but of finetune",
    );
}
