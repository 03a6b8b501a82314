//! Recipes, and a run limited by time.

use serde_json::json;

use crate::common::{Folder, QUICK};

/// Checks that a warm-up of the recipe is reduced to fit into --steps; one of the command line is not.
fn check_reduced_warmup(folder: &Folder, flags: &str) {
    let flags = flags.replace("--warmup-steps 1 ", "").replace("--steps 2", "--steps 40");
    let reduced = folder.ok(&format!("pretrain --recipe laptop {flags} --output reduced"));
    reduced.stderr_has("note: --warmup-steps is 4, a tenth of --steps 40");
    assert_eq!(folder.checksummed("reduced/run.json")["config"]["warmup_steps"], 4);
    for next in ["bert report reduced", "--checkpoint reduced"] {
        reduced.stdout_has(next);
    }
    folder.refused(
        &format!("pretrain --recipe laptop {flags} --warmup-steps 41 --output none"),
        2,
        "--warmup-steps",
    );
}

#[test]
fn flags_override_a_recipe() {
    let folder = Folder::with_data();
    let list = folder.ok("bert recipes").stdout;
    for name in ["laptop", "overnight", "babylm", "paper"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{list}");
    }
    let columns = |line: &str| line.split("  ").filter(|part| !part.trim().is_empty()).count();
    assert!(list.lines().all(|line| columns(line) == 3), "{list}");
    let shown = folder.ok("bert recipes laptop").stdout;
    assert!(shown.contains("[pretrain]") && shown.contains("learning_rate"), "{shown}");

    let flags = "--input train.txt --vocab vocab.txt --max-seq-length 32";
    folder.ok(&format!("make-pretrain-data --recipe laptop {flags} --output documents"));
    let made = folder.checksummed("documents/manifest.json");
    assert_eq!(made["config"]["layout"], "documents", "of the recipe");
    assert_eq!(made["config"]["max_seq_length"], 32, "of the flag");

    let flags = "--data documents --model config.json --steps 2 --warmup-steps 1 --batch-size 4";
    folder.ok(&format!("pretrain --recipe laptop {flags} --output run"));
    let config = folder.checksummed("run/run.json")["config"].clone();
    assert_eq!((&config["learning_rate"], &config["adam_beta2"]), (&json!(0.002), &json!(0.98)));
    assert_eq!((&config["steps"], &config["model"]), (&json!(2), &json!("config.json")));

    check_reduced_warmup(&folder, flags);
    // A custom recipe has the same format, and a start from a checkpoint replaces its model.
    folder.write("mine.toml", shown.replace("steps = 10000", "steps = 3").replace("= 500", "= 1"));
    folder
        .ok("pretrain --recipe mine.toml --data documents --init-checkpoint run --batch-size 4 --output on");
    let config = folder.checksummed("on/run.json")["config"].clone();
    assert_eq!((&config["steps"], &config["model"]), (&json!(3), &json!(null)));
}

#[test]
fn invalid_recipes_are_rejected() {
    let folder = Folder::with_data();
    let flags = "--data data --steps 2 --output run";
    folder.refused(
        &format!("pretrain --recipe lunch {flags}"),
        2,
        "not a recipe and not a file; the recipes are ",
    );
    folder.refused(&format!("pretrain --recipe labtop {flags}"), 2, "did you mean `laptop`?");
    for (text, message) in [
        ("title = 1", "mine.toml: not a valid configuration"),
        ("title = \"a\"\nabout = \"b\"\n[pretrain]\nlearning_rat = 1", "did you mean `learning_rate`?"),
        ("title = \"a\"\nabout = \"b\"\n[pretrain]\nlearning_rate = \"high\"", "learning"),
        ("title = \"a\"\nabout = \"b\"\n[tuning]\nlearning_rate = 1", "tuning"),
    ] {
        folder.write("mine.toml", text);
        folder.refused(&format!("pretrain --recipe mine.toml {flags} --model tiny"), 2, message);
    }
    assert!(!folder.at("run").exists());
}

#[test]
fn budget_sets_the_number_of_steps() {
    let folder = Folder::with_data();
    let flags = format!("{QUICK} --eval-data held --initialization reference");
    let whole = folder.ok(&format!("pretrain {flags} --budget 5s --output run"));
    whole.stderr_has("--budget allows ");
    let saved = folder.checksummed("run/run.json");
    let steps = saved["config"]["steps"].as_u64().expect("a number");
    assert!(
        steps > 0 && saved["identity"]["steps"] == steps && saved["config"]["budget"].is_null(),
        "{saved}"
    );
    assert_eq!(folder.json("run/metrics.jsonl").len() as u64, steps);

    // Only the number of steps is saved: the run with this number is the same, and a resumed run measures nothing.
    folder.ok(&format!("pretrain {flags} --steps {steps} --output by-steps"));
    assert!(folder.read("run/metrics.jsonl") == folder.read("by-steps/metrics.jsonl"));
    let again = folder.ok(&format!("pretrain {flags} --budget 1h --output run --resume"));
    assert!(!again.stderr.contains("--budget allows "), "{}", again.stderr);

    for (budget, message) in
        [("1ms", "it ends before the first step"), ("soon", "is not a time such as 45m or 2h")]
    {
        folder.refused(&format!("pretrain {flags} --budget {budget} --output none"), 2, message);
    }
    let both = folder.run(&format!("pretrain {flags} --budget 1h --steps 3 --output none"));
    assert_eq!(both.code, Some(2), "{}", both.stderr);
    assert!(!folder.at("none").exists());
}

#[test]
fn lamb_recipes_run_in_two_phases() {
    let folder = Folder::with_data();
    let flags = "--data data --steps 4 --batch-size 8 --micro-batch-size 2 --quiet";
    folder.ok(&format!("pretrain --recipe lamb-phase-1 --model config.json {flags} --output one"));
    let config = folder.checksummed("one/run.json")["config"].clone();
    assert_eq!((&config["optimizer"], &config["schedule"]), (&json!("lamb"), &json!("poly")));
    assert_eq!((&config["warmup_ratio"], &config["micro_batch_size"]), (&json!(0.2843), &json!(2)));

    folder.ok(&format!("pretrain --recipe lamb-phase-2 --continue-from one {flags} --output two"));
    let run = folder.checksummed("two/run.json");
    assert!(run["identity"]["init_moments"].is_string(), "{run}");
    folder.ok(&format!("pretrain --continue-from one {flags} --optimizer lamb --output fresh"));
    let weights = |run: &str| folder.read(&format!("{run}/checkpoints/step-00000004/model.safetensors"));
    assert_ne!(weights("two"), weights("fresh"), "the moments were kept");
}

#[test]
fn moments_need_a_run() {
    let folder = Folder::with_data();
    let flags = "--data data --steps 2 --output run";
    folder.refused(&format!("pretrain --model tiny --keep-moments {flags}"), 2, "--init-checkpoint");
    folder.refused(
        &format!("pretrain --init-checkpoint tiny-en --keep-moments {flags}"),
        2,
        "has no optimizer.safetensors",
    );
}
