//! The answers of a model before its export, after it, and in transformers, sentence-transformers and ONNX Runtime: each
//! kind of model, at three trained lengths, on short and long texts and on texts with special tokens.
//!
//! The interpreter is named by `BERT_PYTHON`. The measured table is in `docs/guide/transformers.md`.

use std::process::Command;

use serde_json::{Value, json};

use crate::common::Folder;

const LENGTHS: [usize; 3] = [64, 128, 512];

/// Compares the answers in a file with the answers of other libraries; returns the script's JSON.
fn python(folder: &Folder, arguments: &[&str]) -> Value {
    let interpreter = std::env::var_os("BERT_PYTHON").expect("this test needs BERT_PYTHON, an interpreter");
    let mut command = Command::new(interpreter);
    command.current_dir(folder.root()).env("HF_HUB_OFFLINE", "1").env("HF_HOME", folder.root().join("hf"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/parity.py");
    let output = command.arg(script).args(arguments).output().expect("BERT_PYTHON is an interpreter");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the script prints JSON")
}

/// Texts shorter and longer than every length, and with special tokens.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = ["A river is a stream.", "Stones", "The [SEP] river [MASK] flows [CLS] on."]
        .map(str::to_string)
        .to_vec();
    for words in [30, 61, 62, 90, 125, 126, 127, 200, 509, 510, 511, 700] {
        texts.push(
            ["river", "old", "stone", "sea", "the"]
                .iter()
                .cycle()
                .take(words)
                .copied()
                .collect::<Vec<_>>()
                .join(" "),
        );
    }
    texts
}

/// Writes the texts, each with a second one if `pairs` is true.
fn write_texts(folder: &Folder, pairs: bool) {
    let texts = texts();
    let row = |(at, text): (usize, &String)| {
        let mut row = json!({ "text": text });
        if pairs {
            row["text_b"] = texts[texts.len() - 1 - at].as_str().into();
        }
        format!("{row}\n")
    };
    folder.write("texts.jsonl", texts.iter().enumerate().map(row).collect::<String>());
}

fn table(columns: &str, row: impl Fn(usize) -> String) -> String {
    format!("{columns}\n{}", (0..24).map(row).collect::<String>())
}

/// Writes the training files of every kind.
fn write_training(folder: &Folder) {
    let word = |at: usize| ["river", "stone", "sea"][at % 3];
    folder
        .write("classes.csv", table("text,label", |at| format!("the old {} {at},{}\n", word(at), word(at))));
    folder.write(
        "pairs.csv",
        table("a,b,label", |at| format!("the {},the {},{}\n", word(at), word(at / 3), word(at + at / 3))),
    );
    folder.write("scores.csv", table("a,b,score", |at| format!("the {},the sea,{}.5\n", word(at), at % 3)));
    let sentences: String = (0..24).map(|at| format!("the O\n{} B-LOC\nflows O\n\n", word(at))).collect();
    folder.write("tags.txt", sentences);
    let questions: Vec<Value> = (0..24)
        .map(|at| {
            let answer = json!([{"text": word(at), "answer_start": 8}]);
            let question = json!({"id": at.to_string(), "question": "what is old", "answers": answer});
            json!({"context": format!("the old {} flows to the town {at}", word(at)), "qas": [question]})
        })
        .collect();
    folder.write("questions.json", json!({"data": [{"paragraphs": questions}]}).to_string());
}

/// A kind of model: its name, the flags that train it, and the columns of its texts.
struct Kind {
    name: &'static str,
    train: &'static str,
    columns: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "classes",
        train: "--task table --train-file classes.csv --dev-file classes.csv --columns text,label",
        columns: "text",
    },
    Kind {
        name: "classes",
        train: "--task table --train-file pairs.csv --dev-file pairs.csv --columns a,b,label",
        columns: "text,text_b",
    },
    Kind {
        name: "scores",
        train: "--task table --train-file scores.csv --dev-file scores.csv --columns a,b,score --regression",
        columns: "text,text_b",
    },
    Kind { name: "tags", train: "--task conll --train-file tags.txt --dev-file tags.txt", columns: "text" },
    Kind {
        name: "questions",
        train: "--task squad --train-file questions.json --dev-file questions.json --max-query-length 8",
        columns: "text,text_b",
    },
];

/// Checks what the script found and prints it as a row of the table.
fn checked(name: &str, length: usize, found: &Value) {
    for (library, found) in found.as_object().expect("an object") {
        let worst = found["worst"].as_f64().expect("a number");
        println!("| {name} | {length} | {library} | {worst:.1e} | {} |", found["other"]);
        assert!(worst < 1e-4 && found["other"] == 0, "{name} at {length} in {library}: {found}");
    }
}

#[test]
#[ignore = "needs Python with transformers, sentence-transformers and ONNX Runtime (BERT_PYTHON)"]
fn tuned_models_answer_alike_everywhere() {
    for length in LENGTHS {
        let folder = Folder::new();
        write_training(&folder);
        for Kind { name, train, columns } in KINDS {
            write_texts(&folder, columns.contains(','));
            for output in ["tuned", "exported", "graph"] {
                let _ = std::fs::remove_dir_all(folder.at(output));
            }
            folder.ok(&format!(
                "finetune {train} --checkpoint tiny-en --max-seq-length {length} --num-train-epochs 3 --learning-rate \
                 1e-3 --precision f32 --allow-overlap --output tuned"
            ));
            folder.ok("bert export tuned exported");
            folder.ok("bert export exported graph --format onnx");
            if name == "questions" {
                // The script reads one window.
                let row = |text: &String| json!({ "text": text, "text_b": "the old river flows to the sea" });
                let rows = texts().iter().take(3).map(|text| format!("{}\n", row(text))).collect::<String>();
                folder.write("texts.jsonl", rows);
            }
            let predict = |model: &str| {
                let line =
                    format!("bert predict --checkpoint {model} --input texts.jsonl --columns {columns}");
                folder.ok(&line).stdout
            };
            let before = predict("tuned");
            assert_eq!(predict("exported"), before, "{name} at {length}");
            folder.write("answers.jsonl", before);
            checked(
                name,
                length,
                &python(&folder, &[name, "exported", "texts.jsonl", "answers.jsonl", "graph"]),
            );
            if name == "scores" {
                checked(
                    "cross-encoder",
                    length,
                    &python(&folder, &["cross-encoder", "exported", "texts.jsonl", "answers.jsonl"]),
                );
            }
        }
    }
}

#[test]
#[ignore = "needs Python with transformers, sentence-transformers and ONNX Runtime (BERT_PYTHON)"]
fn encoders_answer_alike_everywhere() {
    for length in LENGTHS {
        let folder = Folder::new();
        folder.ok("bert export tiny-en model");
        for (file, key) in [("tokenizer_config", "model_max_length"), ("model_description", "max_seq_length")]
        {
            let mut json = folder.json(&format!("model/{file}.json")).remove(0);
            json[key] = length.into();
            folder.write(&format!("model/{file}.json"), json.to_string());
        }
        folder.write("lines.txt", texts().join("\n"));
        for pooling in ["mean", "cls"] {
            for output in ["sentences", "graph"] {
                let _ = std::fs::remove_dir_all(folder.at(output));
            }
            let rows = texts()
                .iter()
                .map(|text| json!({"text": text, "pooling": pooling}).to_string() + "\n")
                .collect::<String>();
            folder.write("texts.jsonl", rows);
            folder.ok(&format!(
                "bert export model sentences --format sentence-transformers --pooling {pooling}"
            ));
            folder.ok("bert export model graph --format onnx --encoder-only");
            let features = |model: &str, pooling: &str| {
                let line =
                    format!("bert features --checkpoint {model} --input lines.txt --pooling {pooling}");
                folder.ok(&line).stdout
            };
            let before = features("model", pooling);
            assert_eq!(features("sentences", "model"), before);
            folder.write("answers.jsonl", before);
            let arguments = ["vectors", "sentences", "texts.jsonl", "answers.jsonl", "graph"];
            checked(pooling, length, &python(&folder, &arguments));
            checked(
                pooling,
                length,
                &python(&folder, &["sentences", "sentences", "texts.jsonl", "answers.jsonl"]),
            );
        }
        let masked = ["the river flows into the [MASK] .", "[MASK] is old"];
        let mut rows = String::new();
        let mut answers = String::new();
        for text in masked {
            rows += &(json!({ "text": text }).to_string() + "\n");
            let filled = folder.ok(&format!("bert fill-mask --checkpoint model '{text}' --json"));
            answers += &(filled.json().to_string() + "\n");
        }
        folder.write("texts.jsonl", rows);
        folder.write("answers.jsonl", answers);
        let _ = std::fs::remove_dir_all(folder.at("graph"));
        folder.ok("bert export model graph --format onnx");
        checked(
            "masks",
            length,
            &python(&folder, &["masks", "model", "texts.jsonl", "answers.jsonl", "graph"]),
        );
    }
}
