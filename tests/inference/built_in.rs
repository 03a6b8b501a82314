//! The built-in models: the default of commands without a checkpoint, and the larger one.

use std::path::Path;

use serde_json::json;

use crate::common::{Folder, ended, entailment, number};

#[test]
fn built_in_model_fills_masks_and_fine_tunes() {
    let folder = Folder::new();
    folder.write("glue/RTE/train.tsv", entailment(0, 24));
    folder.write("glue/RTE/dev.tsv", entailment(24, 12));
    let ok = |line: &str| {
        let output = folder.command(line).env("XDG_CACHE_HOME", folder.at("cache")).output();
        let ended = ended(line, output.expect("the program starts"));
        assert_eq!(ended.code, Some(0), "{line}\n{}", ended.stderr);
        ended
    };
    let filled = ok("bert fill-mask 'Paris is the capital of [MASK].' --top-k 5 --json").json();
    let words: Vec<&str> = filled["masks"][0]["words"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|word| word["word"].as_str())
        .collect();
    assert!(words.contains(&"france"), "{words:?}");
    assert_eq!(folder.names("cache/bert/models").len(), 1);

    let line = "finetune --task rte --data glue --seeds 1 --num-train-epochs 1 --max-seq-length 32 --output rte --json";
    let report = ok(line).json();
    assert_eq!(report["config"]["checkpoint"], json!("tiny-en"));
    assert!(number(&report, "/parameters/all") > 1e6);

    // Results name the model, not its folder in the cache of this computer.
    assert_eq!(report["start"], json!("tiny-en"));
    ok(&line.replace("--output rte", "--adapter lora --output lora"));
    let adapter = folder.json("lora/model/adapter_config.json").remove(0);
    assert_eq!(adapter["base_model_name_or_path"], json!("tiny-en"));
    ok("bert predict --checkpoint lora --input glue/RTE/dev.tsv");

    let filled = ok(
        "bert fill-mask --checkpoint mini-en 'He opened the [MASK] and went into the room.' --top-k 3 --json",
    )
    .json();
    assert!(filled.to_string().contains("\"door\""), "{filled}");
    assert_eq!(folder.names("cache/bert/models").len(), 2);
    ok("bert inspect mini-en").stdout_has("4 layers, hidden size 256");

    // A path with this name takes precedence.
    folder.write("tiny-en/config.json", "{}");
    let refused = folder.run("bert fill-mask 'a [MASK]'");
    assert_ne!(refused.code, Some(0), "{}", refused.stdout);
}

#[test]
fn model_cards_have_the_digests() {
    for model in ["tiny-en", "mini-en"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models").join(model);
        let read = |name: &str| std::fs::read(folder.join(name)).expect("a file of the model");
        let card = String::from_utf8(read("README.md")).expect("UTF-8");
        let weights = read("model.safetensors");
        for digest in [&weights, &read("vocab.txt")].map(|bytes| bert_storage::digest_bytes(bytes)) {
            assert!(card.contains(&digest), "the card of {model} does not name {digest}");
        }
        assert!(card.contains(&format!("{} bytes", weights.len())), "{model}");
    }
}
