//! Trains on a folder made with `--columns hf`, with our programs and with the `Trainer` of transformers.

use std::process::Command;

use serde_json::Value;

use crate::common::{Folder, QUICK, articles, number};

const DATA: &str = "make-pretrain-data --input train.txt --vocab vocab.txt --max-seq-length 32 --dupe-factor 1 --num-shards 2";

/// Returns a folder with `whole/`: a model without dropout, in transformers format.
fn folder() -> Folder {
    let folder = Folder::with_data();
    let mut config = folder.config();
    config["hidden_dropout_prob"] = 0.0.into();
    config["attention_probs_dropout_prob"] = 0.0.into();
    folder.write("config.json", config.to_string());
    folder.ok(&format!("pretrain {QUICK} --steps 2 --output run"));
    folder.ok("bert export run whole");
    folder.write("train.txt", articles(8, 4));
    folder.ok(&format!("{DATA} --output rows --columns reference"));
    folder.ok(&format!("{DATA} --output padded --columns hf"));
    folder
}

fn instances(folder: &Folder) -> usize {
    folder.checksummed("padded/manifest.json")["instances"].as_u64().expect("a number") as usize
}

/// Returns the loss of our first step over all rows in one batch.
fn first_loss(folder: &Folder, data: &str) -> f64 {
    let rows = instances(folder);
    folder.ok(&format!(
        "pretrain --data {data} --init-checkpoint whole --batch-size {rows} --steps 1 --output from-{data}"
    ));
    number(&folder.json(&format!("from-{data}/metrics.jsonl"))[0], "/loss")
}

#[test]
fn both_column_layouts_train_the_same() {
    let folder = folder();
    assert_eq!(first_loss(&folder, "rows").to_bits(), first_loss(&folder, "padded").to_bits());
    let shown = |data: &str| {
        let page = folder.ok(&format!("bert inspect {data} --instances 3")).stdout;
        page.split("frequent tokens").nth(1).expect("the second half").to_owned()
    };
    assert_eq!(shown("rows"), shown("padded"));
    folder.ok("bert verify padded");
    let evaluated =
        |data: &str| folder.ok(&format!("bert evaluate --checkpoint whole --data {data} --json")).json();
    assert_eq!(evaluated("rows"), evaluated("padded"));
}

/// Trains ten steps on the unchanged folder with the default collator.
const TRAIN: &str = r#"
import json, sys, torch
from datasets import disable_progress_bars, load_dataset
from transformers import BertForPreTraining, Trainer, TrainingArguments, default_data_collator
disable_progress_bars()
data, checkpoint, out = sys.argv[1:4]
rows = load_dataset(data, split="train", cache_dir="cache")
model = BertForPreTraining.from_pretrained(checkpoint)
arguments = TrainingArguments(
    out, max_steps=10, per_device_train_batch_size=len(rows), learning_rate=1e-3, logging_steps=1, report_to=[],
    save_strategy="no", use_cpu=True, disable_tqdm=True,
)
trainer = Trainer(model, arguments, train_dataset=rows)
assert trainer.data_collator is default_data_collator, trainer.data_collator
batch = next(iter(trainer.get_train_dataloader()))
kinds = {name: [str(values.dtype), list(values.shape)] for name, values in batch.items()}
with torch.no_grad():
    first = model(**batch).loss.item()
trainer.train()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

# What the data card shows, with a smaller model and fewer steps.
card = open(f"{data}/README.md", encoding="utf-8").read()
code = "".join(part.split("```")[0] for part in card.split("```python\n")[1:])
small = "vocab_size=words, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32"
for shown, here in [("path/of/this/folder", data), ("vocab_size=words", small), ("max_steps=10000", "max_steps=2")]:
    assert shown in code, code
    code = code.replace(shown, here)
exec(code)
print(json.dumps({"rows": len(rows), "kinds": kinds, "first": first, "losses": losses}))
"#;

#[test]
#[ignore = "needs Python with transformers, datasets and accelerate, named by BERT_PYTHON"]
fn transformers_trainer_reads_the_data_folder() {
    let folder = folder();
    let interpreter = std::env::var_os("BERT_PYTHON").expect("BERT_PYTHON names an interpreter");
    let mut command = Command::new(interpreter);
    command.current_dir(folder.at(".")).env("HF_HUB_OFFLINE", "1").env("HF_HOME", folder.at("hf"));
    let output = command.args(["-c", TRAIN, "padded", "whole", "out"]).output().expect("an interpreter");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8(output.stdout).expect("text");
    let theirs: Value = serde_json::from_str(stdout.lines().last().expect("a line")).expect("JSON");
    let rows = instances(&folder);
    assert_eq!(theirs["rows"], rows);
    for name in ["input_ids", "token_type_ids", "attention_mask", "labels"] {
        assert_eq!(theirs["kinds"][name], serde_json::json!(["torch.int64", [rows, 32]]), "{name}");
    }
    assert_eq!(theirs["kinds"]["next_sentence_label"], serde_json::json!(["torch.int64", [rows]]));
    assert_eq!(theirs["kinds"].as_object().expect("an object").len(), 5);

    let ours = first_loss(&folder, "padded");
    let first = number(&theirs, "/first");
    assert!((ours - first).abs() <= 1e-4, "ours {ours}, theirs {first}");
    let losses = theirs["losses"].as_array().expect("a list");
    assert_eq!(losses.len(), 10);
    assert!((number(&theirs, "/losses/0") - ours).abs() <= 1e-4, "{losses:?}");
    assert!(number(&theirs, "/losses/9") < number(&theirs, "/losses/0"), "{losses:?}");
    println!("first loss: ours {ours}, theirs {first}");
}
