//! `bert glue`: several tasks in one command, their table, and the archive for the GLUE server.

use std::io::Read;

use serde_json::{Value, json};

use crate::common::{Folder, entailment, number};

/// Returns sentences in SST-2 format: `index` and `sentence` for a test set, otherwise `sentence` and `label`.
fn sentences(first: usize, rows: usize, labelled: bool) -> String {
    let row = |at: usize| {
        let word = if at.is_multiple_of(2) { "warm" } else { "cold" };
        if labelled {
            format!("the river is {word} today\t{}\n", 1 - at % 2)
        } else {
            format!("{at}\ta {word} sea\n")
        }
    };
    let header = if labelled { "sentence\tlabel\n" } else { "index\tsentence\n" };
    header.to_string() + &(first..first + rows).map(row).collect::<String>()
}

/// Checks that the archive contains the output of `finetune --predict`.
fn check_archive(folder: &Folder, flags: &str) {
    let archive = std::fs::File::open(folder.at("all/submission.zip")).expect("an archive");
    let mut archive = zip::ZipArchive::new(archive).expect("an archive");
    assert_eq!(archive.file_names().collect::<Vec<_>>(), ["RTE.tsv"]);
    let mut text = String::new();
    archive.by_name("RTE.tsv").expect("a file").read_to_string(&mut text).expect("text");
    folder.ok(&format!(
        "finetune --task rte --data glue --checkpoint run --seeds 1,2 {flags} \
         --predict glue/RTE/test.tsv --output alone"
    ));
    assert_eq!(text, folder.text("alone/predictions.tsv"));
}

/// Checks that results are not reused with other flags, seeds, weights or data.
fn check_other_runs_are_rejected(folder: &Folder, line: &str, flags: &str) {
    let refused = |line: String, message: &str| {
        folder.refused(&line, 4, message);
    };
    refused(
        format!("{line} --resume -- {flags} --weight-decay 0.1"),
        "config.weight_decay was 0.01, now 0.1",
    );
    refused(format!("{line} --resume -- {flags}").replace("1,2", "1,3"), "seeds was [1,2], now [1,3]");
    let other = line.replace("--checkpoint run", "--checkpoint run/checkpoints/step-00000002");
    refused(format!("{other} --resume -- {flags}"), "start.model.safetensors was");
    folder.write("glue/RTE/train.tsv", entailment(1, 40));
    refused(format!("{line} --resume -- {flags}"), "train was");
}

/// Checks the rows of the table against the reports of the tasks.
fn check_rows(folder: &Folder, results: &Value, shown: &str) {
    for (at, name) in ["rte", "sst-2"].into_iter().enumerate() {
        let report = &folder.json(&format!("all/{name}/report.json"))[0];
        // One epoch as requested, and the learning rate of small models.
        assert_eq!(report["resolved"]["num_train_epochs"], json!(1.0));
        assert_eq!(report["resolved"]["learning_rate"], json!(5e-4));
        let mean = 100.0 * number(report, "/dev/metrics/0/mean");
        assert!((mean / 100.0 - number(&results["rows"][at], "/dev/metrics/0/mean")).abs() < 1e-12);
        let row = shown.lines().find(|line| line.starts_with(name)).expect("a row");
        assert!(row.contains(&format!("{mean:.1}")), "{row}");
    }
}

/// Checks that an existing output is refused, or resumed: only the missing task is run.
fn check_resume(folder: &Folder, line: &str, flags: &str) {
    let again = folder.run(&format!("{line} -- {flags}"));
    assert_eq!(again.code, Some(1), "{}", again.stderr);
    let before = folder.snapshot("all");
    std::fs::remove_dir_all(folder.at("all/sst-2")).expect("removed");
    let ended = folder.ok(&format!("{line} --resume -- {flags}"));
    ended.stderr_has("note: rte is already complete");
    assert_eq!(folder.snapshot("all"), before);
}

#[test]
fn glue_writes_one_table_and_one_archive() {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 40));
    folder.write("glue/RTE/dev.tsv", entailment(40, 20));
    let unlabelled = entailment(60, 7);
    let unlabelled =
        unlabelled.lines().map(|line| line.rsplit_once('\t').expect("a label").0.to_string() + "\n");
    folder.write("glue/RTE/test.tsv", unlabelled.collect::<String>());
    folder.write("glue/SST-2/train.tsv", sentences(0, 40, true));
    folder.write("glue/SST-2/dev.tsv", sentences(40, 20, true));
    let line = "bert glue --checkpoint run --data glue --output all --seeds 1,2";
    let flags = "-- --max-seq-length 48 --num-train-epochs 1 --train-batch-size 8";

    // The default is all nine tasks, and their files are checked before anything is run.
    folder.refused(&format!("{line} {flags}"), 1, "no train file of task cola here");
    for (wrong, message) in [
        (format!("{line} --tasks snli {flags}"), "snli is not a GLUE task"),
        (
            format!("{line} --tasks rte {flags} --learning-rate=-1"),
            "--learning-rate is -1, but must be positive",
        ),
        (format!("{line} --tasks rte {flags} --learn 1"), "unexpected argument '--learn'"),
    ] {
        folder.refused(&wrong, 2, message);
    }
    assert!(!folder.at("all").exists());

    let line = format!("{line} --tasks rte,sst-2");
    let shown = folder.ok(&format!("{line} {flags}")).stdout;
    let results = &folder.json("all/glue.json")[0];
    assert_eq!(results["submission"]["files"], json!(["RTE.tsv"]));
    assert!(results["submission"]["missing"].as_array().expect("names").contains(&json!("SST-2.tsv")));
    check_rows(&folder, results, &shown);
    let mean = |at: usize| number(results, &format!("/rows/{at}/dev/metrics/0/mean"));
    assert!((number(results, "/average") - (mean(0) + mean(1)) / 2.0).abs() < 1e-12);

    let flags = flags.trim_start_matches("-- ");
    assert!(results["checkpoint"].as_str().is_some_and(|path| path.starts_with("run/")), "{results}");
    check_archive(&folder, flags);
    check_resume(&folder, &line, flags);
    check_other_runs_are_rejected(&folder, &line, flags);
}

#[test]
fn from_mnli_starts_from_the_mnli_model() {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 16));
    folder.write("glue/RTE/dev.tsv", entailment(40, 8));
    let rows = |count: usize| {
        let label = |at: usize| ["neutral", "entailment", "contradiction"][at % 3];
        let rows = (0..count).map(|at| format!("{at}\ta river runs\ta sea is {at}\t{}\n", label(at)));
        "index\tsentence1\tsentence2\tgold_label\n".to_string() + &rows.collect::<String>()
    };
    folder.write("glue/MNLI/train.tsv", rows(18));
    folder.write("glue/MNLI/dev_matched.tsv", rows(9));
    folder.write("glue/MNLI/dev_mismatched.tsv", rows(6));
    let line = "bert glue --checkpoint run --data glue --from-mnli --output all";
    let flags = "-- --max-seq-length 48 --num-train-epochs 1 --train-batch-size 8";
    folder.refused(&format!("{line} --tasks rte {flags}"), 2, "--from-mnli: needs mnli in --tasks");
    // RTE is listed first and run last.
    let ended = folder.ok(&format!("{line} --tasks rte,mnli {flags}"));
    ended.stderr_has("the head of the checkpoint is from an earlier fine-tuning");
    ended.stdout_has("mismatched");
    let report = |task: &str| folder.json(&format!("all/{task}/report.json"))[0].clone();
    assert_eq!(report("rte")["start"], json!("all/mnli/model"));
    assert_eq!(report("mnli")["config"]["checkpoint"], json!("run"));
    assert_eq!(report("mnli")["dev_mismatched"]["examples"], json!(6));
}
