//! `config.json` of a model.

use std::fs;

use serde_json::json;

use super::check;
use crate::common::Folder;

#[test]
fn damaged_configurations_are_rejected() {
    let folder = Folder::with_data();
    let case = |name: &str, key: &str, value: serde_json::Value| {
        let mut config = folder.config();
        config[key] = value;
        folder.write(name, config.to_string());
    };
    case("words.json", "vocab_size", json!(1u64 << 40));
    case("wide.json", "hidden_size", json!(1 << 20));
    case("layers.json", "num_hidden_layers", json!(1 << 24));
    case("negative.json", "hidden_size", json!(-16));
    case("float.json", "hidden_size", json!(16.5));
    case("text.json", "hidden_size", json!("16"));
    case("huge.json", "hidden_size", json!(1e300));
    case("zero.json", "num_hidden_layers", json!(0));
    folder.write("deep.json", "[".repeat(100_000));
    folder.write("latin1.json", b"{\"a\": \"\xe9\"}");
    fs::File::create(folder.at("large.json")).expect("a file").set_len(1 << 30).expect("a sparse file");
    let checked = check(
        &folder,
        "pretrain --data data --steps 1 --output out --model",
        &[
            (
                "words.json",
                4,
                "model configuration: `vocab_size` is 1099511627776, but may be 16777216 at most",
            ),
            (
                "wide.json",
                4,
                "model configuration: `num_hidden_layers` is 2: the model would have about ... parameters",
            ),
            (
                "layers.json",
                4,
                "model configuration: `num_hidden_layers` is 16777216: the model would have about ...",
            ),
            ("negative.json", 4, "model configuration: `hidden_size` ..."),
            ("float.json", 4, "model configuration: `hidden_size` ..."),
            ("text.json", 4, "model configuration: `hidden_size` ..."),
            ("huge.json", 4, "model configuration: `hidden_size` ..."),
            ("zero.json", 4, "model configuration: `num_hidden_layers` is 0, but must be at least 1"),
            ("deep.json", 3, "deep.json: not valid JSON: ..."),
            ("latin1.json", 3, "latin1.json: not valid JSON: ..."),
            ("large.json", 1, "large.json: larger than 1 MiB"),
        ],
    );
    assert_eq!(checked, 11);
}
