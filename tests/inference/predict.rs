//! Applies a model to new texts: `bert predict` and `bert features`.

use std::fs::File;
use std::io::Write;
use std::process::Stdio;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, Int64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

use crate::common::{Folder, ended, number};
use crate::finetuning::tasks::with_entailment;

const TUNE: &str = "--checkpoint run --max-seq-length 48 --num-train-epochs 1 --train-batch-size 8";

/// Runs a command line with text on its standard input.
fn piped(folder: &Folder, line: &str, text: &str) -> crate::common::Ended {
    let mut child = folder.command(line).stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut input = child.stdin.take().expect("its input");
    let text = text.to_string();
    // Write in another thread: input and output are larger than a pipe buffer.
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).expect("written"));
    let output = child.wait_with_output().expect("its end");
    writer.join().expect("all was read");
    ended(line, output)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON value on each line")).collect()
}

/// Returns a folder with the fine-tuned model `tuned/`, and its dev pairs without labels in `new.tsv`.
fn with_tuned_model() -> Folder {
    let folder = with_entailment();
    folder.ok(&format!("finetune --task rte --data glue {TUNE} --output tuned"));
    let dev = folder.text("glue/RTE/dev.tsv");
    let pairs = rows(&dev).iter().map(|row| format!("{}\t{}\n", row[1], row[2])).collect::<String>();
    folder.write("new.tsv", pairs);
    folder
}

/// Returns the columns of each row of a TSV file, without the header.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().skip(1).map(|line| line.split('\t').collect()).collect()
}

/// Returns a folder with a run and `texts.txt`: a pair, a blank line and a text.
fn with_texts() -> Folder {
    let folder = Folder::with_run();
    folder.write("texts.txt", "The river flows . ||| It is long .\n\n  a stream\t\n");
    folder
}

/// Returns the tokens of a line of features.
fn tokens(line: &Value) -> Vec<String> {
    let features = line["features"].as_array().expect("features").iter();
    features.map(|feature| feature["token"].as_str().expect("a token").to_string()).collect()
}

#[test]
fn predict_equals_the_fine_tuning() {
    let folder = with_tuned_model();
    let dev = folder.text("glue/RTE/dev.tsv");
    let pairs = rows(&dev);
    let predicted = folder.ok("bert predict --checkpoint tuned --input new.tsv").stdout;
    let answers = lines(&predicted);
    let probabilities = folder.text("tuned/seed-1/dev_probabilities.tsv");
    let predictions = folder.text("tuned/seed-1/dev_predictions.tsv");
    assert_eq!(answers.len(), 20);
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!((&answer["line"], &answer["text"]), (&json!(at + 1), &json!(pairs[at][1])));
        assert_eq!(answer["text_b"], json!(pairs[at][2]));
        let row: Vec<f64> = probabilities
            .lines()
            .nth(at)
            .expect("a row")
            .split('\t')
            .map(|p| p.parse().expect("p"))
            .collect();
        for (name, probability) in ["entailment", "not_entailment"].iter().zip(row) {
            assert!((number(answer, &format!("/probabilities/{name}")) - probability).abs() < 1e-6);
        }
        let label = predictions.lines().nth(at + 1).expect("a row").split('\t').nth(1);
        assert_eq!(answer["label"].as_str(), label);
    }
    // Three columns without a header may be an index and a pair, or a pair and its label.
    folder.write("labelled.tsv", "the man sits\tthe man stands\tentailment\n");
    folder.refused(
        "bert predict --checkpoint tuned --input labelled.tsv",
        3,
        "labelled.tsv:1: 3 tab-separated columns, expected a text, or two separated by a tab, or a header",
    );
    // The official file, with its header and labels, is read as in the fine-tuning.
    let official =
        lines(&folder.ok("bert predict --checkpoint tuned --input glue/RTE/dev.tsv --id index").stdout);
    for ((official, answer), row) in official.iter().zip(&answers).zip(&pairs) {
        assert_eq!((&official["probabilities"], &official["id"]), (&answer["probabilities"], &json!(row[0])));
    }
}

#[test]
fn all_seeds_predict_together() {
    let folder = with_entailment();
    let flags = "--learning-rate 1e-2 --seeds 2,1,3 --keep-seeds --output tuned";
    folder.ok(&format!("finetune --task rte --data glue {TUNE} {flags}"));
    let report = folder.json("tuned/report.json").remove(0);
    let paths = ["tuned/seed-2/model", "tuned/seed-1/model", "tuned/seed-3/model"];
    assert_eq!(report["seed_models"], json!(paths));
    assert!(folder.text("tuned/model/README.md").contains("seed-N/model"));
    folder.write("new.tsv", "the river is long\tit is long\na sea\tno river\n");
    let predict = |flags: &str| lines(&folder.ok(&format!("bert predict {flags} --input new.tsv")).stdout);
    let by_seed = paths.map(|path| predict(&format!("--checkpoint {path}")));
    let together = predict("--checkpoint tuned --all-seeds");
    assert_eq!(together.len(), 2);
    for (at, answer) in together.iter().enumerate() {
        let entailed = "/probabilities/entailment";
        let mean = by_seed.iter().map(|answers| number(&answers[at], entailed)).sum::<f64>() / 3.0;
        assert!((number(answer, entailed) - mean).abs() < 1e-6, "{answer}");
        assert_eq!(answer["label"], json!(if mean > 0.5 { "entailment" } else { "not_entailment" }));
        let agree = by_seed.iter().filter(|answers| answers[at]["label"] == answer["label"]).count();
        assert_eq!((&answer["seeds"], &answer["agree"]), (&json!(3), &json!(agree)));
    }
    // The model of a seed answers dev as in the fine-tuning.
    let dev =
        lines(&folder.ok("bert predict --checkpoint tuned/seed-3/model --input glue/RTE/dev.tsv").stdout);
    let predictions = folder.text("tuned/seed-3/dev_predictions.tsv");
    let labels: Vec<&str> = rows(&predictions).iter().map(|row| row[1]).collect();
    assert_eq!(
        dev.iter().map(|answer| answer["label"].as_str().expect("a label")).collect::<Vec<_>>(),
        labels
    );

    let probed =
        folder.ok("bert probe --checkpoint tuned --all-seeds --input new.tsv --replace river=sea --json");
    let probed = probed.json();
    let seeds = probed["seeds"].as_array().expect("a list");
    assert_eq!(seeds.iter().map(|seed| &seed["seed"]).collect::<Vec<_>>(), [1, 2, 3]);
    let one = folder
        .ok(&format!("bert probe --checkpoint {} --input new.tsv --replace river=sea --json", paths[0]));
    assert_eq!(seeds[1]["probes"], one.json()["probes"]);
    let flips: f64 = seeds.iter().map(|seed| number(seed, "/flips")).sum();
    assert!((number(&probed, "/flip_rate/mean") - flips / 6.0).abs() < 1e-9, "{probed}");
    let text =
        folder.ok("bert probe --checkpoint tuned --all-seeds 'a river ||| a sea' --replace river=sea").stdout;
    assert!(text.starts_with("seed 1\n") && text.contains("\nMean over 3 seeds: "), "{text}");

    folder.ok(&format!("finetune --task rte --data glue {TUNE} --output best"));
    for line in [
        "bert predict --checkpoint best --all-seeds x",
        "bert probe --checkpoint best --all-seeds x --replace x=y",
    ] {
        folder.refused(line, 4, "best: no models of seeds here; finetune --keep-seeds writes them");
        folder.refused(&line.replace("best", "none"), 4, "none: this folder does not exist");
    }
    folder.refused(
        "bert probe --checkpoint tuned --all-seeds --input - --replace a=b",
        2,
        "once for each seed",
    );
}

/// Checks that the predictions are the same in every format, from standard input, from the model's own folder, and in
/// a file.
#[test]
fn predictions_do_not_depend_on_the_format() {
    let folder = with_tuned_model();
    let predicted = folder.ok("bert predict --checkpoint tuned --input new.tsv").stdout;
    let answers = lines(&predicted);
    let dev = folder.text("glue/RTE/dev.tsv");
    let pairs = rows(&dev);
    let json: String = pairs
        .iter()
        .map(|row| format!("{}\n", json!({ "id": 7, "text": row[1], "text_b": row[2] })))
        .collect();
    folder.write("new.jsonl", &json);
    assert_eq!(folder.ok("bert predict --checkpoint tuned/model --input new.jsonl").stdout, predicted);
    assert_eq!(
        piped(&folder, "bert predict --checkpoint tuned --input - --format jsonl", &json).stdout,
        predicted
    );
    let into = folder.ok("bert predict --checkpoint tuned --input new.tsv --output deep/answers.jsonl");
    assert_eq!((into.stdout.as_str(), folder.text("deep/answers.jsonl")), ("", predicted.clone()));
    into.stderr_has("wrote 20 predictions to deep/answers.jsonl");

    // With more texts than a window, the results stay in order.
    let many = piped(&folder, "bert predict --checkpoint tuned --input - --format jsonl", &json.repeat(110));
    let many = lines(&many.stdout);
    assert_eq!(many.len(), 2200);
    for (at, answer) in many.iter().enumerate() {
        assert_eq!(answer["line"], json!(at + 1));
        let one = number(answer, "/probabilities/entailment");
        let other = &answers[at % 20];
        assert!((one - number(other, "/probabilities/entailment")).abs() < 1e-6, "line {}", at + 1);
    }
    // A reader that closes the pipe is not an error.
    let mut child = folder.start("bert predict --checkpoint tuned --input new.tsv");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("its end").code(), Some(0));
}

#[test]
fn predict_rejects_invalid_input() {
    let folder = with_tuned_model();
    for (line, code, message) in [
        ("--checkpoint run --input new.tsv", 4, "the model has no classifier; fine-tune it first"),
        ("--checkpoint none --input new.tsv", 4, "none: this folder does not exist"),
        ("--checkpoint tuned --input none.tsv", 1, "cannot read none.tsv"),
        ("--checkpoint tuned --input glue", 3, "glue: this is not a regular file"),
        ("--checkpoint tuned --input new.jsonl --max-seq-length 65", 4, "the model has 64 positions"),
        ("--checkpoint tuned --input three.tsv", 3, "three.tsv:1: 5 tab-separated columns, expected a text"),
        ("--checkpoint tuned --input new.tsv --columns a,b", 3, "new.tsv:1: no column \"a\" in the header"),
        (
            "--checkpoint tuned --input bad.txt --columns a,b",
            2,
            "--columns: applies to tables and JSON Lines",
        ),
        ("--checkpoint tuned --input bad.jsonl", 3, "bad.jsonl:2: \"text\" is missing, expected a text"),
        ("--checkpoint tuned --input bad.txt --output answers", 3, "bad.txt:2: the line is empty"),
    ] {
        folder.write("bad.jsonl", "{\"text\": \"a\"}\n{\"texts\": \"b\"}\n");
        folder.write("bad.txt", "a\n\nb\n");
        folder.write("three.tsv", "a\tb\tc\td\te\n");
        folder.refused(&format!("bert predict {line}"), code, message);
        assert!(!folder.at("answers").exists());
    }
    let single = piped(&folder, "bert predict --checkpoint tuned --input -", "one text\twith a tab\n");
    assert_eq!(single.code, Some(3), "the model learnt pairs: {}", single.stderr);
    single.stderr_has("standard input:1: \"text_b\" is missing");
    let bad = piped(&folder, "bert predict --checkpoint tuned --input -", "a\n\n");
    assert!(
        bad.code == Some(3) && bad.stderr.contains("standard input:2: the line is empty"),
        "{}",
        bad.stderr
    );
}

#[test]
#[ignore = "needs AVX-512 BF16"]
fn bf16_predict_equals_the_fine_tuning() {
    assert!(crate::common::has_bf16(), "this test needs a processor with AVX-512 BF16");
    let folder = with_entailment();
    folder.ok(&format!("finetune --task rte --data glue {TUNE} --precision bf16 --output tuned"));
    let first = |flags: &str| {
        let line = format!("bert predict --checkpoint tuned --input glue/RTE/dev.tsv {flags}");
        number(&lines(&folder.ok(&line).stdout)[0], "/probabilities/entailment")
    };
    let row = folder.text("tuned/seed-1/dev_probabilities.tsv");
    let scored: f64 = row.split('\t').next().expect("a column").parse().expect("a number");
    assert!((first("") - scored).abs() < 1e-7, "{} {scored}", first(""));
    assert_ne!(first("--precision f32"), scored);
}

#[test]
fn pooling_gives_one_vector_per_text() {
    let folder = Folder::with_run();
    folder.write("texts.txt", "The river is old.\nA small stone ||| A river\n");
    let features = |flags: &str| {
        lines(&folder.ok(&format!("bert features --checkpoint run --input texts.txt {flags}")).stdout)
    };
    let vector = |layer: &Value| -> Vec<f64> {
        let values = layer["values"].as_array().expect("values");
        values.iter().map(|value| value.as_f64().expect("a number")).collect()
    };
    let tokens = features("--layers -1");
    let [mean, cls] = ["mean", "cls"].map(|pooling| features(&format!("--pooling {pooling}")));
    for (line, tokens) in tokens.iter().enumerate() {
        let all = tokens["features"].as_array().expect("features");
        let all: Vec<Vec<f64>> = all.iter().map(|token| vector(&token["layers"][0])).collect();
        assert_eq!(vector(&cls[line]["layers"][0]), all[0]);
        for (at, pooled) in vector(&mean[line]["layers"][0]).into_iter().enumerate() {
            let expected = all.iter().map(|token| token[at]).sum::<f64>() / all.len() as f64;
            assert!((pooled - expected).abs() < 2e-6, "{pooled} is not {expected}");
        }
    }
    folder.ok(
        "bert features --checkpoint run --input texts.txt --pooling mean --format parquet --output f.parquet",
    );
    folder.refused("bert export run sentences --pooling mean", 2, "--format sentence-transformers");
    folder.ok("bert export run sentences --format sentence-transformers --pooling cls");
    let pooling: Value = serde_json::from_str(&folder.text("sentences/1_Pooling/config.json")).expect("JSON");
    assert_eq!(
        (&pooling["pooling_mode_cls_token"], &pooling["pooling_mode_mean_tokens"]),
        (&json!(true), &json!(false))
    );
}

#[test]
fn features_of_every_token() {
    let folder = with_texts();
    let all = lines(&folder.ok("bert features --checkpoint run --input texts.txt --layers all").stdout);
    let layers = all[0]["features"][0]["layers"].as_array().expect("layers").len();
    assert_eq!(json!(layers), folder.json("config.json")[0]["num_hidden_layers"]);
    folder.refused(
        "bert features --checkpoint run --input texts.txt --layers all,0",
        2,
        "all includes every layer",
    );
    let line = "bert features --checkpoint run --input texts.txt --layers -1,0";
    let found = lines(&folder.ok(line).stdout);
    assert_eq!(found.len(), 3);
    let vocabulary = folder.text("vocab.txt");
    for (at, line) in found.iter().enumerate() {
        assert_eq!(line["linex_index"], json!(at));
        let tokens = tokens(line);
        assert_eq!((tokens[0].as_str(), tokens[tokens.len() - 1].as_str()), ("[CLS]", "[SEP]"));
        assert!(tokens.iter().all(|token| vocabulary.lines().any(|word| word == token)), "{tokens:?}");
    }
    assert_eq!(tokens(&found[0]).iter().filter(|token| *token == "[SEP]").count(), 2, "a pair");
    assert_eq!(tokens(&found[1]), ["[CLS]", "[SEP]"], "a blank line is a line");

    let piped =
        piped(&folder, "bert features --checkpoint run --input - --layers -1,0", &folder.text("texts.txt"));
    assert_eq!(lines(&piped.stdout), found);
    let short = lines(&folder.ok(&format!("{line} --max-seq-length 6")).stdout);
    assert_eq!(tokens(&short[0]).len(), 6);
}

/// Checks that the Parquet file has one row per token, with the numbers of the JSON Lines before their rounding.
#[test]
fn features_in_parquet_equal_json_lines() {
    let folder = with_texts();
    let line = "bert features --checkpoint run --input texts.txt --layers -1,0";
    let found = lines(&folder.ok(line).stdout);
    folder.ok(&format!("{line} --format parquet --output rows.parquet"));
    let file = File::open(folder.at("rows.parquet")).expect("the file");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet").build().expect("a reader");
    let mut rows = 0;
    for batch in reader {
        let batch = batch.expect("rows");
        assert_eq!(
            batch.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(),
            ["line", "position", "token", "layer_-1", "layer_0"]
        );
        let numbers = batch.column(0).as_primitive::<Int64Type>();
        let positions = batch.column(1).as_primitive::<Int32Type>();
        for row in 0..batch.num_rows() {
            let feature = &found[numbers.value(row) as usize]["features"][positions.value(row) as usize];
            assert_eq!(feature["token"], json!(batch.column(2).as_string::<i32>().value(row)));
            for (layer, index) in [-1, 0].into_iter().enumerate() {
                assert_eq!(feature["layers"][layer]["index"], json!(index));
                let values = batch.column(3 + layer).as_fixed_size_list().value(row);
                let values = values.as_primitive::<Float32Type>();
                assert_eq!(values.len(), 16);
                for (at, value) in values.values().iter().enumerate() {
                    let rounded = number(feature, &format!("/layers/{layer}/values/{at}"));
                    assert!((rounded - f64::from(*value)).abs() <= 5.000_001e-7);
                }
            }
            rows += 1;
        }
    }
    assert_eq!(rows, found.iter().map(|line| tokens(line).len()).sum::<usize>());
}

#[test]
fn features_select_layers_and_reject_invalid_ones() {
    let folder = with_texts();
    // Without --layers, a model with two layers gives both.
    let all = lines(&folder.ok("bert features --checkpoint run --input texts.txt").stdout);
    let layers = |line: &Value| line["features"][0]["layers"].as_array().map(Vec::len);
    assert!(all.iter().all(|line| layers(line) == Some(2)), "{all:?}");

    for (flags, code, message) in [
        ("--layers 2", 2, "--layers: the model has no layer 2; its layers are 0 to 1, or -2 to -1"),
        ("--layers -1,-1", 2, "--layers: layer -1 is given twice"),
        ("--layers 0 --format parquet", 2, "--output <FILE>"),
        ("--layers 0 --max-seq-length 65", 4, "the model has 64 positions"),
        ("--layers 0 --max-seq-length 4", 2, "invalid value '4'"),
    ] {
        folder.refused(&format!("bert features --checkpoint run --input texts.txt {flags}"), code, message);
    }
    folder.write("latin1.txt", b"good\ncaf\xe9\n");
    folder.refused(
        "bert features --checkpoint run --input latin1.txt --layers 0 --output out.jsonl",
        3,
        "latin1.txt:2: invalid UTF-8",
    );
    assert!(!folder.at("out.jsonl").exists());
}
