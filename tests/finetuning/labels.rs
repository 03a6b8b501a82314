//! Sets and labels that would give wrong scores: dev in train, missing labels, equal texts with different labels.

use serde_json::{Value, json};

use crate::common::{Folder, entailment, number};
use crate::finetuning::heads::{with_questions, with_tags};

const QUICK: &str = "--checkpoint run --max-seq-length 48 --num-train-epochs 1 --train-batch-size 8";
const TABLE: &str = "finetune --task table";

/// Returns a table of sentences with these numbers and two classes.
fn table(rows: impl Iterator<Item = usize>) -> String {
    let row = |at: usize| format!("a sentence with the number {at},{}\n", ["good", "bad"][at % 2]);
    "text,label\n".to_string() + &rows.map(row).collect::<String>()
}

fn with_table() -> Folder {
    let folder = Folder::with_run();
    folder.write("data/train.csv", table(0..24));
    folder.write("data/dev.csv", table(24..36));
    folder
}

fn warnings(folder: &Folder, output: &str) -> String {
    folder.json(&format!("{output}/report.json"))[0]["warnings"].to_string()
}

#[test]
fn sets_inside_another_set_are_refused() {
    let folder = with_table();
    folder.write("data/train.csv", table(0..240));
    folder.write("data/part.csv", table(100..210));
    let line = format!("{TABLE} --data data {QUICK} --output out");
    let in_train = "--allow-overlap: 110 of 110 examples of dev are in the training data too";
    for more in ["", "--holdout 0.2", "--max-train-examples 8"] {
        folder.refused(&format!("{line} --dev-file data/part.csv {more}"), 2, in_train);
    }
    let in_dev = "--allow-overlap: 12 of 12 examples of test are in dev too";
    folder.refused(&format!("{line} --test-file data/dev.csv"), 2, in_dev);
    assert!(!folder.at("out").exists());
    folder.ok(&format!("{line} --dev-file data/part.csv --allow-overlap"));
    let shared = &folder.json("out/report.json")[0]["shared_texts"][0];
    assert_eq!((&shared["equal"], &shared["is_part"]), (&json!(110), &json!(true)));
    let warning = "110 of 110 examples of dev (100.0 %) are in the training set too";
    assert!(
        warnings(&folder, "out").contains(warning) && folder.text("out/model/README.md").contains(warning)
    );
    // A few texts may be equal by chance.
    folder.write("data/few.csv", table(0..30));
    folder.ok(&format!("{TABLE} --data data {QUICK} --output few --dev-file data/few.csv"));
    assert!(warnings(&folder, "few").contains("30 of 30 examples of dev (100.0 %)"));
}

#[test]
fn other_tasks_do_not_train_on_dev() {
    let folder = Folder::with_run();
    for (task, train, dev) in [("RTE", 0, 40), ("WNLI", 40, 80)] {
        let rows = |first| {
            let rows = entailment(first, 12);
            if task == "RTE" {
                rows
            } else {
                rows.replace("\tnot_entailment", "\t0").replace("\tentailment", "\t1")
            }
        };
        folder.write(&format!("glue/{task}/train.tsv"), rows(train));
        folder.write(&format!("glue/{task}/dev.tsv"), rows(dev));
    }
    let line = "bert multitask --tasks rte,wnli --data glue --checkpoint run";
    let flags = "-- --max-seq-length 48 --num-train-epochs 1";
    let message = "12 of 12 examples of dev are in the training set of wnli too";
    folder.refused(&format!("{line} --output both {flags}"), 2, message);
    folder.ok(&format!("{line} --output both {flags} --allow-overlap"));
    assert!(warnings(&folder, "both/rte").contains("(100.0 %) are in the training set of wnli too"));
}

/// Checks that a task refuses a missing label, and leaves its example out on request.
fn check_missing(folder: &Folder, line: &str, message: &str, left_out: &str) {
    folder.refused(&format!("{line} --output out"), 3, message);
    folder.ok(&format!("{line} --output out --skip-unlabelled"));
    assert!(warnings(folder, "out").contains(left_out), "{}", warnings(folder, "out"));
    std::fs::remove_dir_all(folder.at("out")).expect("removed");
}

#[test]
fn missing_labels_are_refused_in_every_task() {
    let folder = with_table();
    let mark =
        "marks an example without a label in other programs; --skip-unlabelled leaves such examples out";
    let one = "train.csv: 1 examples without a label are left out";
    for label in ["NA", "n/a", "-1", "\"\""] {
        folder.write("data/train.csv", table(0..24) + &format!("one more,{label}\n"));
        let message = if label == "\"\"" { "there is no label here; --skip-unlabelled" } else { mark };
        check_missing(&folder, &format!("{TABLE} --data data {QUICK}"), message, one);
    }
    // A class with such a name is possible.
    folder.write("data/train.csv", table(0..24) + "one more,None\n");
    let named = folder
        .ok(&format!("{TABLE} --data data --labels None,good,bad {QUICK} --output named --json"))
        .json();
    assert_eq!(named["train_examples"], json!(25));
    let scores = |text: String| text.replace(",good", ",1.5").replace(",bad", ",-1");
    folder.write("scores/train.csv", scores(table(0..24)) + "one more,NA\n");
    folder.write("scores/dev.csv", scores(table(24..36)));
    check_missing(&folder, &format!("{TABLE} --regression --data scores {QUICK}"), mark, one);
    folder.write("glue/RTE/train.tsv", entailment(0, 24) + "99\ta\tb\tNA\n");
    folder.write("glue/RTE/dev.tsv", entailment(40, 12));
    check_missing(
        &folder,
        &format!("finetune --task rte --data glue {QUICK}"),
        mark,
        "train.tsv: 1 examples without",
    );
}

#[test]
fn words_and_questions_without_an_answer_are_refused() {
    let folder = with_tags();
    folder.write("ner/train.txt", folder.text("ner/train.txt") + "\nA DT O\nword\n");
    let line = format!("finetune --task conll --data ner {QUICK}");
    check_missing(&folder, &line, "the word \"word\" has no tag", "train.txt: 1 examples without a label");
    let (folder, _) = with_questions(false);
    let mut train = folder.json("squad/train-v1.1.json")[0].clone();
    train["data"][0]["paragraphs"][0]["qas"][0]["answers"] = json!([]);
    folder.write("squad/train-v1.1.json", train.to_string());
    let line = format!("finetune --task squad --data squad {QUICK} --max-query-length 16");
    check_missing(&folder, &line, "has no answer (SQuAD 2.0", "train-v1.1.json: 1 examples without a label");
}

#[test]
fn sets_are_equal_without_their_unlabelled_rows() {
    let folder = with_table();
    folder.write("gap/train.csv", table(0..24));
    folder.write("gap/dev.csv", table(24..30) + "no label,\n" + &table(30..36)["text,label\n".len()..]);
    folder.ok(&format!("{TABLE} --data data {QUICK} --output a"));
    folder.ok(&format!("{TABLE} --data gap {QUICK} --output b --skip-unlabelled --seeds 2"));
    let digest = |name: &str| folder.json(&format!("{name}/report.json"))[0]["dev_digest"].clone();
    assert_eq!(digest("a"), digest("b"));
    let test = folder.ok("bert scores a b --paired --json").json();
    assert_eq!(number(&test, "/examples"), 12.0);
    // The range of the training scores does not matter, but the classes do.
    let scores = |text: String| text.replace(",good", ",1.5").replace(",bad", ",-1");
    folder.write("gap/dev.csv", scores(table(24..36)));
    for (name, high) in [("c", "1.5"), ("d", "2.5")] {
        folder.write("gap/train.csv", scores(table(0..24)).replace(",1.5", &format!(",{high}")));
        folder.ok(&format!("{TABLE} --regression --data gap {QUICK} --output {name}"));
    }
    folder.ok("bert scores c d --paired");
    folder.write("data/train.csv", table(0..24) + "another,mixed\n");
    folder.ok(&format!("{TABLE} --data data {QUICK} --output e"));
    folder.refused(
        "bert scores a e",
        2,
        "its classes are bad, good, mixed, those of the first folder are bad, good",
    );
}

#[test]
fn contradicting_and_repeated_examples_are_counted() {
    let folder = with_table();
    let again = "a sentence with the number 24,bad\nA sentence with the number 26,good\n";
    folder.write("data/dev.csv", table(24..36) + again);
    folder.write("data/test.csv", table(40..50) + &table(40..42)["text,label\n".len()..]);
    folder.ok(&format!("{TABLE} --data data {QUICK} --output out"));
    let found = warnings(&folder, "out");
    for text in [
        "2 of 14 examples of dev have texts that are there with other labels too",
        "the first is \\\"a sentence with the number 24\\\"",
        "2 of 14 examples of dev have the texts of an earlier one",
        "2 of 12 examples of test have the texts of an earlier one",
    ] {
        assert!(found.contains(text), "{text}: {found}");
    }
    // One class is the right answer to all examples.
    folder.write("data/dev.csv", "text,label\na sentence,good\n");
    folder.ok(&format!("{TABLE} --data data {QUICK} --output constant"));
    let found = warnings(&folder, "constant");
    assert!(
        found.contains("all 1 labels of dev are equal") && !found.contains("predict one answer"),
        "{found}"
    );
    // Rows of one index.
    folder.write("glue/RTE/train.tsv", entailment(0, 24));
    let dev =
        entailment(40, 12).lines().map(|line| line.replacen("41\t", "40\t", 1) + "\n").collect::<String>();
    folder.write("glue/RTE/dev.tsv", dev);
    folder.ok(&format!("finetune --task rte --data glue {QUICK} --output rte"));
    assert!(warnings(&folder, "rte").contains("1 examples of dev have the index of an earlier one"));
}

#[test]
fn baseline_of_a_regression_knows_training_scores_only() {
    let folder = with_table();
    let scores = |text: String, good: &str| text.replace(",good", &format!(",{good}")).replace(",bad", ",2");
    folder.write("scores/train.csv", scores(table(0..24), "4"));
    folder.write("scores/dev.csv", scores(table(24..36), "8"));
    folder.write("scores/test.csv", scores(table(36..46), "12"));
    let ended = folder.ok(&format!("{TABLE} --regression --data scores {QUICK} --output out"));
    ended.stdout_has("the mean score of the training set");
    let report: Value = folder.json("out/report.json")[0].clone();
    // The constant answer 3 to scores 8 and 2, and to 12 and 2.
    assert_eq!(number(&report, "/dev/majority_baseline/mae"), 3.0);
    assert_eq!(number(&report, "/test/majority_baseline/mae"), 5.0);
    assert_eq!(report["dev"]["task"]["range"], json!([2.0, 4.0]));
}

#[test]
fn messages_name_the_file_and_the_remedy() {
    let folder = with_table();
    let line = format!("finetune {QUICK} --output out");
    folder.write("same.csv", "text,label\n".to_string() + &"one text,good\none text,bad\n".repeat(20));
    let little: Vec<u8> = table(0..24).encode_utf16().flat_map(u16::to_le_bytes).collect();
    folder.write("utf16.csv", [vec![0xff, 0xfe], little].concat());
    folder.write("large/train.csv", table(0..24).replace("good", &"1".repeat(42)).replace("bad", "2"));
    folder.write("large/dev.csv", "text,label\na,1\n");
    for (flags, code, message) in [
        ("--task table --data same.csv", 2, "40 examples with 1 different texts, which is too few to divide"),
        (
            "--task table --data data/train.csv --train-file data/dev.csv",
            2,
            "--data: is a table, which is the training file",
        ),
        (
            "--task rte --data data/train.csv",
            3,
            "train.csv: this is a file, but --data is the folder with the files of task rte",
        ),
        (
            "--task table --data utf16.csv",
            3,
            "this is UTF-16, not UTF-8; convert the file: iconv -f UTF-16 -t UTF-8",
        ),
        ("--task table --data large --regression", 3, "is too large for a score"),
    ] {
        folder.refused(&format!("{line} {flags}"), code, message);
    }
    let report = folder
        .ok(&format!("{line} --task table --data data/train.csv --dev-file data/dev.csv --json"))
        .json();
    assert_eq!((&report["train_examples"], &report["dev"]["examples"]), (&json!(24), &json!(12)));
    folder.write("new.tsv", "Text\tLabel\na river\tgood\n");
    folder.refused("bert predict --checkpoint out --input new.tsv", 3, "no column \"text\" in the header");
}
