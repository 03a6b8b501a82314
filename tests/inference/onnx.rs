//! `bert export --format onnx`: the graph of a golden model, and ONNX Runtime against transformers.

use std::path::{Path, PathBuf};
use std::process::Command;

use bert_model::{named_tensors_to_bytes, read_safetensors};

use crate::common::Folder;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Copies a golden model to `models/NAME`.
fn add(folder: &Folder, model: &str, name: &str) {
    for file in ["config.json", "model.safetensors"] {
        let bytes = std::fs::read(golden("import").join(model).join(file)).expect("a golden file");
        folder.write(&format!("models/{name}/{file}"), bytes);
    }
    folder.write(
        &format!("models/{name}/vocab.txt"),
        std::fs::read(golden("import/google/vocab.txt")).expect("words"),
    );
}

/// The labels of the example that reads an export with tract, and of `bert predict`.
#[test]
#[ignore = "needs a network and minutes: compiles tract"]
fn rust_example_gives_the_labels_of_predict() {
    let folder = Folder::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let data = root.join("corpora/entailment");
    let line = format!(
        "finetune --task rte --data {} --seeds 1 --num-train-epochs 1 --output tuned",
        data.display()
    );
    folder.ok(&line);
    folder.ok("bert export tuned onnx --format onnx");
    let dev = std::fs::read_to_string(data.join("dev.tsv")).expect("the corpus");
    let pairs: Vec<String> = dev
        .lines()
        .skip(1)
        .map(|row| row.split('\t').skip(1).take(2).collect::<Vec<_>>().join("\t"))
        .collect();
    folder.write("pairs.txt", pairs.join("\n"));
    let example = Command::new(env!("CARGO"))
        .args(["run", "--locked", "--quiet", "--manifest-path"])
        .arg(root.join("examples/onnx/Cargo.toml"))
        .args(["--target-dir".as_ref(), root.join("target/onnx").as_os_str()])
        .args(["--".as_ref(), folder.at("onnx").as_os_str()])
        .stdin(std::fs::File::open(folder.at("pairs.txt")).expect("the pairs"))
        .output();
    let found = String::from_utf8(example.expect("cargo starts").stdout).expect("labels");
    let dev = data.join("dev.tsv");
    let predicted = folder.ok(&format!("bert predict --checkpoint tuned --input {}", dev.display()));
    folder.write("predicted.jsonl", predicted.stdout);
    let predicted = folder.json("predicted.jsonl");
    let labels: Vec<&str> = predicted.iter().map(|row| row["label"].as_str().expect("a label")).collect();
    assert_eq!(found.lines().collect::<Vec<_>>(), labels);
}

/// The golden graph was compared with transformers by `tests/golden/check_onnx.py`.
#[test]
fn graph_has_the_golden_bytes() {
    let folder = Folder::new();
    add(&folder, "encoder", "encoder");
    let printed = folder.ok("bert export models/encoder graph --format onnx --json").json();
    assert_eq!((&printed["opset"], &printed["ir_version"]), (&17.into(), &8.into()));
    let expected = std::fs::read(golden("import/encoder.onnx")).expect("a golden file");
    assert!(folder.read("graph/model.onnx") == expected);
    let files = [
        "config.json",
        "model.onnx",
        "model_description.json",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ];
    assert_eq!(folder.names("graph"), files);
    folder.refused("bert export models/encoder out --format onnx --weights bf16", 2, "choose f32 or f16");
    folder.refused(
        "bert export models/encoder out --format onnx --license mit",
        2,
        "--license: is written to the card",
    );
}

/// Gives a copy of an encoder a head, in the class of the configuration.
fn with_head(folder: &Folder, name: &str, class: &str, head: &str, outputs: usize) {
    add(folder, "encoder", name);
    let path = folder.at(&format!("models/{name}/model.safetensors"));
    let tensors = read_safetensors(&path).expect("weights");
    let mut tensors: bert_model::NamedTensors =
        tensors.into_iter().map(|(name, tensor)| (format!("bert.{name}"), tensor)).collect();
    let has_pooler = class == "BertForSequenceClassification";
    tensors.retain(|name, _| has_pooler || !name.contains("pooler"));
    let values = (0..8 * outputs).map(|at| (at as f32).sin()).collect();
    tensors.insert(format!("{head}.weight"), (vec![outputs, 8], values));
    tensors.insert(format!("{head}.bias"), (vec![outputs], vec![0.25; outputs]));
    folder.write(&format!("models/{name}/model.safetensors"), named_tensors_to_bytes(&tensors));
    let mut config = folder.json(&format!("models/{name}/config.json")).remove(0);
    config["architectures"] = serde_json::json!([class]);
    config["num_labels"] = outputs.into();
    folder.write(&format!("models/{name}/config.json"), config.to_string());
}

#[test]
#[ignore = "needs Python with onnxruntime and transformers (BERT_PYTHON)"]
fn onnx_runtime_agrees_with_transformers() {
    let python = std::env::var("BERT_PYTHON").expect("an interpreter");
    let folder = Folder::new();
    add(&folder, "encoder", "encoder");
    add(&folder, "masked-lm", "masked-lm");
    with_head(&folder, "sequence", "BertForSequenceClassification", "classifier", 4);
    with_head(&folder, "token", "BertForTokenClassification", "classifier", 5);
    with_head(&folder, "answers", "BertForQuestionAnswering", "qa_outputs", 2);
    for name in ["encoder", "masked-lm", "sequence", "token", "answers"] {
        folder.ok(&format!("bert export models/{name} graphs/{name} --format onnx"));
        folder.ok(&format!("bert export models/{name} graphs/{name}-f16 --format onnx --weights f16"));
    }
    let script = golden("check_onnx.py");
    let output = Command::new(python).arg(script).arg(folder.at("graphs")).arg(folder.at("models")).output();
    let output = output.expect("Python starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.matches(" of its scale").count(), 2 * 2 * (2 + 1 + 1 + 1 + 2), "{text}");
}
