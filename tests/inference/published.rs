//! Published checkpoints in every form: `bert import`, `bert inspect`, and the commands that read them directly.

use std::path::Path;

use crate::common::Folder;

/// Copies a folder of `tests/golden/import`, with the vocabulary of the golden files.
fn add(folder: &Folder, name: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/import");
    for entry in std::fs::read_dir(golden.join(name)).expect("a golden folder") {
        let path = entry.expect("an entry").path();
        let file = path.file_name().expect("a name").to_str().expect("Unicode");
        folder.write(&format!("{name}/{file}"), std::fs::read(&path).expect("a file"));
    }
    folder
        .write(&format!("{name}/vocab.txt"), std::fs::read(golden.join("google/vocab.txt")).expect("words"));
}

#[test]
fn sources_without_weights_are_refused() {
    let folder = Folder::new();
    folder.write("empty/notes.txt", "nothing");
    folder.refused(
        "bert import empty out",
        4,
        "no model.safetensors in this folder, nor weights of PyTorch or TensorFlow",
    );
    folder.refused("bert import none out", 4, "none: this folder does not exist");
    folder.refused(
        "bert import google/bert out",
        4,
        "google/bert: no folder has this name, and it is not in the cache",
    );
}

const FULL: [&str; 4] = ["google", "pytorch", "pytorch-legacy", "parts"];

#[test]
fn imports_of_all_forms_have_equal_weights() {
    let folder = Folder::new();
    for name in FULL {
        add(&folder, name);
        let printed = folder.ok(&format!("bert import {name} of-{name} --json")).json();
        assert_eq!((&printed["class"], &printed["words"]), (&"BertForPreTraining".into(), &59.into()));
        assert_eq!(printed["fresh"], serde_json::json!([]));
        assert!(
            folder.read(&format!("of-{name}/model.safetensors"))
                == folder.read("of-google/model.safetensors")
        );
        assert_eq!(folder.names(&format!("of-{name}")).len(), 7, "{name}");
    }
    // A prefix or a file names the weights, too; the configuration and the words are next to them.
    for source in ["google/bert_model.ckpt", "google/bert_model.ckpt.index", "pytorch/pytorch_model.bin"] {
        folder.ok(&format!("bert import {source} again"));
        assert!(folder.read("again/model.safetensors") == folder.read("of-google/model.safetensors"));
        std::fs::remove_dir_all(folder.at("again")).expect("removed");
    }
    folder.refused("bert import google/vocab.txt out", 4, "this is a file");
}

#[test]
fn file_of_the_current_folder_is_imported() {
    let folder = Folder::new();
    add(&folder, "pytorch");
    for file in folder.names("pytorch") {
        folder.write(&file, folder.read(&format!("pytorch/{file}")));
    }
    folder.ok("bert import pytorch_model.bin new");
    folder.ok("bert import pytorch reference");
    assert!(folder.read("new/model.safetensors") == folder.read("reference/model.safetensors"));
    assert_eq!(folder.names("new"), folder.names("reference"));
}

#[test]
fn commands_read_every_form() {
    let folder = Folder::new();
    folder.write("new.txt", "the river flows into a sea\n");
    for name in FULL {
        add(&folder, name);
        let run = |command: &str, model: &str| folder.ok(&command.replace("MODEL", model)).stdout;
        folder.ok(&format!("bert import {name} of-{name}"));
        for command in [
            "bert features --input new.txt --checkpoint MODEL",
            "bert fill-mask 'the [MASK] flows' --checkpoint MODEL",
        ] {
            assert_eq!(run(command, name), run(command, &format!("of-{name}")), "{name}: {command}");
        }
    }
    folder.write("train.txt", crate::common::articles(0, 8));
    folder.ok("make-pretrain-data --input train.txt --vocab google --max-seq-length 16 --max-predictions-per-seq 3 --output data");
    let steps = "pretrain --data data --steps 1 --batch-size 8 --init-checkpoint";
    let losses = FULL.map(|name| {
        folder.ok(&format!("{steps} {name} --output run-{name}"));
        folder.json(&format!("run-{name}/metrics.jsonl")).remove(0)["loss"].clone()
    });
    assert!(losses.iter().all(|loss| *loss == losses[0] && loss.is_number()), "{losses:?}");
}

#[test]
fn inspect_shows_the_uses_of_a_folder() {
    let folder = Folder::new();
    let rows = |name: &str| -> Vec<String> {
        add(&folder, name);
        let printed = folder.ok(&format!("bert inspect {name} --json")).json();
        let uses = printed["uses"].as_array().expect("a list").clone();
        uses.iter().map(|row| row["state"].as_str().expect("text").to_string()).collect()
    };
    let task = "no: the folder has no head of a task; fine-tune it first";
    let head = "no: the folder has no masked-LM head";
    assert_eq!(rows("google"), ["yes", "yes", "yes", "yes", "yes", task]);
    let fresh = "with --fresh-heads, which initializes 7 tensors";
    assert_eq!(rows("pytorch-encoder"), ["yes", "yes", head, head, fresh, task]);
    let nsp = "with data of --nsp off";
    let both = format!("with --fresh-heads, which initializes 4 tensors, or {nsp}");
    let pooler = "yes; the pooler is initialized at random";
    assert_eq!(rows("masked-lm"), [pooler, "yes", "yes", nsp, &both, task]);
    let tied = "no: the decoder is not tied to the word embeddings";
    let fresh = "with --fresh-heads, which uses the word embeddings as the decoder";
    assert_eq!(rows("untied"), ["yes", "yes", tied, tied, fresh, task]);
    assert_eq!(rows("classifier")[5], "3 labels");
    let printed = folder.ok("bert inspect google");
    printed.stdout_has("google: BertForPreTraining in a TensorFlow checkpoint\n");
    printed.stdout_has("bert fill-mask              yes\n");
    folder.refused("bert inspect google --index 3", 1, "this is a model");
}

#[test]
fn fresh_heads_are_initialized_and_listed() {
    let folder = Folder::new();
    for (name, fresh) in [("encoder", 7), ("masked-lm", 4)] {
        add(&folder, name);
        let ended = folder.ok(&format!("bert import {name} of-{name} --fresh-heads --json"));
        let printed = ended.json();
        assert_eq!(printed["class"], "BertForPreTraining");
        let listed = printed["fresh"].as_array().expect("a list");
        assert_eq!(listed.len(), fresh, "{name}: {listed:?}");
        ended.stderr_has("initialized at random: ");
        ended.stderr_has(listed[0].as_str().expect("a name"));
        folder.ok(&format!("bert fill-mask --checkpoint of-{name} 'the [MASK]'"));
        assert_eq!(
            folder.json(&format!("of-{name}/config.json"))[0]["architectures"][0],
            "BertForPreTraining"
        );
    }
    let both = ["encoder", "masked-lm"].map(|name| folder.tensors(&format!("of-{name}/model.safetensors")));
    let encoder = "bert.encoder.layer.1.output.dense.weight";
    assert!(both[0][encoder] == both[1][encoder]);
    let head = "cls.predictions.transform.dense.weight";
    assert!(both[0][head] != both[1][head], "one is fresh, the other was read");
}

#[test]
fn untied_decoder_is_left_out_of_an_import() {
    let folder = Folder::new();
    add(&folder, "untied");
    folder.refused("bert fill-mask --checkpoint untied 'the [MASK]'", 4, "BERT ties both");
    let ended = folder.ok("bert import untied tied");
    ended.stderr_has("not written: cls.predictions.decoder.weight");
}
