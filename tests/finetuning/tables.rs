//! Fine-tuning on a user table: the same task from CSV, TSV, JSON Lines and Parquet, classes and scores.

use std::fs::File;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use crate::common::{Folder, Refusal, entailment, number, refusals};

const QUICK: &str = "--checkpoint run --max-seq-length 48 --num-train-epochs 1 --train-batch-size 8";

/// Returns pairs of the entailment set with their labels.
fn pairs(first: usize, count: usize) -> Vec<[String; 3]> {
    let text = entailment(first, count);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        [fields[1].to_string(), fields[2].to_string(), fields[3].to_string()]
    };
    text.lines().skip(1).map(row).collect()
}

fn csv(rows: &[[String; 3]]) -> String {
    let quoted = |text: &String| format!("\"{}\"", text.replace('"', "\"\""));
    let row = |row: &[String; 3]| format!("{},{},{}\r\n", row[2], quoted(&row[0]), quoted(&row[1]));
    format!("gold,premise,hypothesis\r\n{}", rows.iter().map(row).collect::<String>())
}

fn tsv(rows: &[[String; 3]]) -> String {
    let row = |row: &[String; 3]| format!("{}\t{}\t{}\n", row[0], row[2], row[1]);
    format!("premise\tgold\thypothesis\n{}", rows.iter().map(row).collect::<String>())
}

fn jsonl(rows: &[[String; 3]]) -> String {
    let row = |row: &[String; 3]| json!({ "gold": row[2], "premise": row[0], "hypothesis": row[1] });
    rows.iter().map(|of| format!("{}\n", row(of))).collect()
}

fn parquet(folder: &Folder, name: &str, columns: Vec<(&str, ArrayRef)>) {
    folder.write(name, "");
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let file = File::create(folder.at(name)).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
}

fn column(rows: &[[String; 3]], at: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row[at].as_str())))
}

/// Returns a report's figures, without paths and table names.
fn figures(report: &Value) -> [Value; 3] {
    [report["runs"].clone(), report["dev"]["metrics"].clone(), report["train_examples"].clone()]
}

/// Checks the metrics and the predictions in the output folder `a`.
fn check_report_of_table(folder: &Folder, report: &Value) {
    let metrics = report["dev"]["metrics"].as_array().expect("metrics");
    assert_eq!(
        metrics.iter().map(|m| &m["metric"]).collect::<Vec<_>>(),
        [&json!("accuracy"), &json!("macro_f1")]
    );
    let cell = |label: usize, predicted: usize| {
        number(&report["runs"][0], &format!("/confusion/{label}/{predicted}"))
    };
    let f1 = |class: usize| {
        let errors = cell(class, 1 - class) + cell(1 - class, class);
        2.0 * cell(class, class) / (2.0 * cell(class, class) + errors)
    };
    let macro_f1 = number(report, "/runs/0/dev/macro_f1");
    assert!(((f1(0) + f1(1)) / 2.0 - macro_f1).abs() < 1e-12);
    assert_eq!(folder.json("a/model/config.json")[0]["id2label"]["1"], json!("not_entailment"));
    let predictions = folder.text("a/predictions.tsv");
    assert!(predictions.starts_with("index\tprediction\n0\t") && predictions.lines().count() == 3);
    assert_eq!(folder.text("a/seed-1/dev_predictions.tsv").lines().count(), 11);
}

/// Checks that a report is enough for pages, summaries and a repetition.
fn check_uses_of_a_report(folder: &Folder, line: &str) {
    folder.ok("bert report a");
    assert!(folder.text("a/report.html").contains("predicted not_entailment"));
    let ended = folder.ok(&format!("finetune --config a {QUICK} --seeds 2 --output d --quiet"));
    ended.stdout_has("table: 10 examples");
    let together = folder.ok("bert scores a d --json").json();
    assert_eq!(together["groups"][0]["dev"]["runs"].as_array().map(Vec::len), Some(2));
    let order =
        folder.ok(&format!("{line} --data csv --labels not_entailment,entailment --output e --json")).json();
    assert_eq!(order["dev"]["task"]["labels"], json!(["not_entailment", "entailment"]));
    let differ = folder.run("bert scores a e");
    assert_eq!(differ.code, Some(2), "other class numbers are another task: {}", differ.stderr);
}

/// A spreadsheet of a country with decimal commas: semicolons, and no second file.
#[test]
fn one_table_is_divided_and_predicts_texts() {
    let folder = Folder::with_run();
    let row = |at: usize| {
        let (word, label) = if at.is_multiple_of(2) { ("splendid", "good") } else { ("dreadful", "bad") };
        format!("{at};\"The film {at} was {word}; we talked\";{label}\n")
    };
    folder.write("reviews.csv", format!("id;text;label\n{}", (0..50).map(row).collect::<String>()));
    let line = format!("finetune --task table --data reviews.csv {QUICK} --output tuned --json");
    let tuned = folder.ok(&line);
    assert!(
        tuned.stderr.contains("reviews.csv is divided into 40 examples to train on and 10 for dev"),
        "{}",
        tuned.stderr
    );
    assert_eq!(tuned.json()["dev"]["examples"], json!(10));
    folder.write("more.csv", "text,label\nIt was splendid,good\nIt was dreadful,bad\n");
    let tested = folder.ok(&format!(
        "finetune --task table --data reviews.csv --test-file more.csv {QUICK} --output b --json"
    ));
    assert_eq!(tested.json()["test"]["examples"], json!(2));
    let predicted =
        folder.ok("bert predict --checkpoint tuned 'The film was splendid' 'It was dreadful'").stdout;
    let rows: Vec<Value> = predicted.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts: Vec<&Value> = rows.iter().map(|row| &row["text"]).collect();
    assert_eq!(texts, ["The film was splendid", "It was dreadful"]);
    assert!(rows.iter().all(|row| row["label"] == "good" || row["label"] == "bad"), "{predicted}");
    // The same file cannot be both the text and the input.
    folder.refused("bert predict --checkpoint tuned --input reviews.csv 'a text'", 2, "cannot be used with");
    folder.refused("bert predict --checkpoint tuned", 2, "<TEXT>");
}

#[test]
fn all_table_formats_give_one_result() {
    let folder = Folder::with_run();
    let train = pairs(0, 24);
    let dev = pairs(24, 10);
    let test = pairs(34, 5);
    folder.write("csv/train.csv", csv(&train));
    folder.write("csv/dev.csv", csv(&dev));
    folder.write("csv/test.csv", csv(&test));
    folder.write("csv/new.csv", "id,premise,hypothesis\n1,\"two\nlines\",b\n2,c,\"d, e\"\n");
    let line = format!("finetune --task table --columns premise,hypothesis,gold {QUICK}");
    let report = folder.ok(&format!("{line} --data csv --predict csv/new.csv --output a --json")).json();
    assert_eq!((&report["train_examples"], &report["test"]["examples"]), (&json!(24), &json!(5)));
    assert_eq!(report["dev"]["task"]["labels"], json!(["entailment", "not_entailment"]));
    assert_eq!(report["config"]["task"], json!("table"));
    check_report_of_table(&folder, &report);
    // The other formats, and files given by name.
    folder.write("tsv/train.tsv", tsv(&train));
    folder.write("tsv/dev.tsv", tsv(&dev));
    folder.write("tsv/test.tsv", tsv(&test));
    let again = folder.ok(&format!("{line} --data tsv --output b --json")).json();
    assert_eq!(figures(&again), figures(&report));
    for (name, rows) in [("train", &train), ("test", &test)] {
        let columns =
            vec![("hypothesis", column(rows, 1)), ("gold", column(rows, 2)), ("premise", column(rows, 0))];
        parquet(&folder, &format!("mixed/{name}.parquet"), columns);
    }
    folder.write("mixed/other.jsonl", jsonl(&dev));
    let named =
        "--train-file mixed/train.parquet --dev-file mixed/other.jsonl --test-file mixed/test.parquet";
    let again = folder.ok(&format!("{line} {named} --output c --json")).json();
    assert_eq!(figures(&again), figures(&report));
    assert_eq!(folder.read("c/model/model.safetensors"), folder.read("a/model/model.safetensors"));

    check_uses_of_a_report(&folder, &line);
}

#[test]
fn table_regression_reports_scores() {
    let folder = Folder::with_run();
    let score = |rows: &[[String; 3]], first: i64| -> ArrayRef {
        Arc::new((0..rows.len() as i64).map(|at| Some(first + at * 7 % 10)).collect::<Int64Array>())
    };
    let train = pairs(0, 24);
    let dev = pairs(24, 10);
    for (name, rows, first) in [("train", &train, 0), ("dev", &dev, 5)] {
        let columns = vec![("text", column(rows, 0)), ("points", score(rows, first))];
        parquet(&folder, &format!("data/{name}.parquet"), columns);
    }
    let line = format!("finetune --task table --columns text,points --regression --data data {QUICK}");
    let report = folder.ok(&format!("{line} --output tuned --json")).json();
    assert_eq!(report["dev"]["task"]["range"], json!([0.0, 9.0]), "the range of train");
    for metric in ["pearson", "spearman"] {
        assert!(number(&report, &format!("/runs/0/dev/{metric}")).abs() <= 1.0);
    }
    assert_eq!(report["test"], Value::Null);
    assert_eq!(folder.json("tuned/model/config.json")[0]["problem_type"], json!("regression"));
    folder.write("new.txt", "a river\n");
    let answer = folder.ok("bert predict --checkpoint tuned --input new.txt").json();
    assert!(answer["score"].is_number() && answer["label"].is_null(), "{answer}");
}

#[test]
fn predict_reads_tables_like_finetune() {
    let folder = Folder::with_run();
    let train = pairs(0, 24);
    let dev = pairs(24, 10);
    folder.write("data/train.csv", csv(&train));
    folder.write("data/dev.csv", csv(&dev));
    let line = format!("finetune --task table --columns premise,hypothesis,gold {QUICK}");
    folder.ok(&format!("{line} --data data --output tuned"));
    let scored = folder.text("tuned/seed-1/dev_probabilities.tsv");
    folder.write("dev.tsv", tsv(&dev));
    folder.write("dev.jsonl", jsonl(&dev));
    let columns =
        vec![("hypothesis", column(&dev, 1)), ("gold", column(&dev, 2)), ("premise", column(&dev, 0))];
    parquet(&folder, "dev.parquet", columns);
    for file in ["data/dev.csv", "dev.tsv", "dev.jsonl", "dev.parquet"] {
        let predicted =
            folder.ok(&format!("bert predict --checkpoint tuned --input {file} --id gold")).stdout;
        let rows: Vec<Value> =
            predicted.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(rows.len(), 10, "{file}");
        for ((row, scores), of) in rows.iter().zip(scored.lines()).zip(&dev) {
            assert_eq!((&row["text"], &row["id"]), (&json!(of[0]), &json!(of[2])), "{file}");
            let p: f64 = scores.split('\t').next().expect("a column").parse().expect("a number");
            assert!((number(row, "/probabilities/entailment") - p).abs() < 1e-6, "{file}");
        }
        // As short as the numbers are: f32 has nine digits.
        assert!(!predicted.contains("0.50000000000"), "{predicted}");
    }
    folder.write("other.csv", "gold,first,second\nx,a,b\n");
    let named = folder.ok("bert predict --checkpoint tuned --input other.csv --columns first,second").json();
    assert_eq!((&named["text"], &named["text_b"]), (&json!("a"), &json!("b")));
    folder.refused(
        "bert predict --checkpoint tuned --input other.csv",
        3,
        "other.csv:1: no column \"premise\" in the header",
    );
}

#[test]
fn regression_learns_scores_of_any_scale() {
    let folder = Folder::with_run();
    let words = ["good", "bad", "fine", "dull"];
    let table = |first: usize, count: usize, unit: f64, from: f64| {
        let row = |at: usize| format!("a {} film {at},{}\n", words[at % 4], from + unit * (at % 4) as f64);
        "text,label\n".to_string() + &(first..first + count).map(row).collect::<String>()
    };
    let line =
        format!("finetune --task table --columns text,label --regression {QUICK} --learning-rate 1e-2");
    let line = line.replace("epochs 1", "epochs 30");
    for (name, unit, from) in [("small", 1e-5, 0.0), ("large", 1e3, 1e6)] {
        folder.write(&format!("{name}/train.csv"), table(0, 48, unit, from));
        folder.write(&format!("{name}/dev.csv"), table(48, 16, unit, from));
        let report = folder.ok(&format!("{line} --data {name} --output {name}-tuned --json")).json();
        assert!(number(&report, "/runs/0/dev/rmse") < unit, "{name}: {}", report["runs"][0]["dev"]);
        assert!(number(&report, "/runs/0/dev/mae") <= number(&report, "/runs/0/dev/rmse"));
        // Every digit is written, and the folder gives scores in the same unit.
        let predictions = folder.text(&format!("{name}-tuned/seed-1/dev_predictions.tsv"));
        let mut distinct: Vec<&str> =
            predictions.lines().skip(1).filter_map(|row| row.split('\t').nth(1)).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() >= 4, "{name}: {distinct:?}");
        let predicted =
            folder.ok(&format!("bert predict --checkpoint {name}-tuned --input {name}/dev.csv")).stdout;
        let scored = folder.text(&format!("{name}-tuned/seed-1/dev_probabilities.tsv"));
        for (row, score) in predicted.lines().zip(scored.lines()) {
            let row: Value = serde_json::from_str(row).expect("JSON");
            let score: f64 = score.parse().expect("a number");
            assert!((number(&row, "/score") - score).abs() <= 1e-6 * score.abs().max(unit), "{name}");
        }
    }
}

#[test]
fn near_duplicate_labels_print_a_warning() {
    let folder = Folder::with_run();
    let table = |labels: &[&str]| {
        let row = |at: usize| format!("film {at},{}\n", labels[at % labels.len()]);
        "text,label\n".to_string() + &(0..24).map(row).collect::<String>()
    };
    for (name, labels, flags, warning) in [
        ("blanks", &["yes", "no ", "no"][..], "", "train.csv: 8 labels have surrounding white space"),
        ("forms", &["1.0", "0", "1"], "", "labels with several spellings are one class: 1 (1, 1.0)"),
        ("capitals", &["Yes", "yes", "no"], "", "are kept apart: Yes and yes"),
        ("numbers", &["0.2", "1.4", "3"], "", "--regression uses them as scores"),
        ("constant", &["3"], "--regression", "all 24 labels of the training set are equal"),
        ("one", &["no"], "--labels no,yes", "all 24 labels of dev are equal"),
    ] {
        folder.write(&format!("{name}/train.csv"), table(labels));
        folder.write(&format!("{name}/dev.csv"), table(labels));
        let line = format!("finetune --task table --columns text,label {QUICK} --data {name} {flags}");
        let ended = folder.ok(&format!("{line} --allow-overlap --output {name}-tuned"));
        assert!(ended.stderr.contains(warning), "{name}: {}", ended.stderr);
        let warnings = &folder.json(&format!("{name}-tuned/report.json"))[0]["warnings"];
        assert!(
            warnings.as_array().is_some_and(|all| all
                .iter()
                .any(|text| text.as_str().is_some_and(|text| text.contains(warning)))),
            "{name}: {warnings}"
        );
    }
    let classes = |name: &str| folder.json(&format!("{name}-tuned/model/config.json"))[0]["id2label"].clone();
    assert_eq!(classes("blanks"), json!({ "0": "no", "1": "yes" }));
    assert_eq!(classes("forms"), json!({ "0": "0", "1": "1" }));
}

/// Returns a folder with a run and with tables that no fine-tuning accepts.
fn with_invalid_tables() -> Folder {
    let folder = Folder::with_run();
    let good = "text,label\na,yes\nb,no\nc,yes\n";
    folder.write("dev/train.csv", good);
    folder.write("dev/dev.csv", "text,label\na,yes\nb,perhaps\n");
    folder.write("header/train.csv", "texts,label\na,yes\n");
    folder.write("header/dev.csv", good);
    folder.write("fields/train.csv", "text,label\na,yes\nb, and c,no\n");
    folder.write("fields/dev.csv", good);
    folder.write("one/train.csv", "text,label\na,yes\nb,yes\n");
    folder.write("one/dev.csv", good);
    folder.write("quote/train.csv", "text,label\n\"a,yes\nb,no\n");
    folder.write("quote/dev.csv", good);
    folder.write("two/train.csv", good);
    folder.write("two/train.tsv", good);
    folder.write("damaged/train.parquet", "PAR1 no more PAR1");
    folder.write("damaged/dev.csv", good);
    folder.write("file.xlsx", good);
    let list: ArrayRef =
        Arc::new(arrow_array::ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>([Some(
            [Some(1)],
        )]));
    parquet(&folder, "list/train.parquet", vec![("text", column(&pairs(0, 1), 0)), ("label", list)]);
    folder.write("list/dev.csv", good);
    folder
}

#[test]
fn invalid_table_flags_are_rejected() {
    let folder = with_invalid_tables();
    let table = "
        2 | --task table --data header | --columns: is required, as TEXT,LABEL or TEXT,TEXT_B,LABEL: header/train.csv has no columns \"text\" and \"label\", but texts, label
        2 | --task table --data dev --columns text | --columns: give TEXT,LABEL or TEXT,TEXT_B,LABEL, all different
        2 | --task rte --data dev --columns text,label | --columns: works with --task table
        2 | --task rte --data dev --regression | --regression: works with --task table
        2 | --task table --columns text,label | --data <DIR>
        2 | --task table --columns text,label --train-file dev/train.csv | --dev-file: is required without --data
        2 | --task table --columns text,label --data dev --labels yes,no --regression | cannot be used with
        2 | --task table --columns text,label --data dev --labels yes | --labels: must be two or more
        2 | --task table --columns text,label --data two | two: several train files (train.csv, train.tsv); choose one with --train-file
        2 | --task table --columns text,label --data dev --train-file file.xlsx | file.xlsx: the name of a table must end in .csv
        ";
    for Refusal { code, line, message } in refusals(&format!("finetune {QUICK} --output out"), table) {
        folder.refused(&line, code, message);
        assert!(!folder.at("out").exists(), "{line}");
    }
}

#[test]
fn invalid_tables_are_rejected() {
    let folder = with_invalid_tables();
    let table = r#"
        3 | --task table --columns text,label --data dev | dev.csv:3: unknown label "perhaps"; the labels of task table are no, yes
        3 | --task table --columns text,label --data dev --labels yes,maybe | train.csv:3: unknown label "no"; the labels of task table are yes, maybe
        3 | --task table --columns text,label --data header | train.csv:1: no column "text" in the header (columns here: texts, label; did you mean `texts`?)
        3 | --task table --columns text,label --data fields | train.csv:3: 3 comma-separated columns, expected 2 as in the first row
        3 | --task table --columns text,label --data one | train.csv: 1 different label(s) in column "label"
        3 | --task table --columns text,label --data quote | train.csv:2: the quote that begins a field here is never closed
        3 | --task table --columns text,label --data list | column "label" is list
        3 | --task table --columns text,label --data damaged | damaged/train.parquet: cannot be read as Parquet
        3 | --task table --columns text,label --data dev --regression | train.csv:2: "label" is not a number, expected a score
        1 | --task table --columns text,label --data run | run: no train file of task table here (looked for train.csv, train.tsv, train.jsonl, train.ndjson, train.json, train.parquet)
        1 | --task table --columns text,label --data dev --train-file none.csv | cannot read none.csv
        1 | --task table --columns text,label --data dev --test-file none.csv | cannot read none.csv
        "#;
    for Refusal { code, line, message } in refusals(&format!("finetune {QUICK} --output out"), table) {
        folder.refused(&line, code, message);
        assert!(!folder.at("out").exists(), "{line}");
    }
}
