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
    check(
        &folder,
        "pretrain --data data --steps 1 --output out --model",
        "
        4 | words.json | words.json: model configuration: `vocab_size` is 1099511627776, but may be 16777216 at most
        4 | wide.json | wide.json: model configuration: `num_hidden_layers` is 2: the model would have about ... parameters
        4 | layers.json | layers.json: model configuration: `num_hidden_layers` is 16777216: the model would have about ...
        4 | negative.json | negative.json: model configuration: `hidden_size` ...
        4 | float.json | float.json: model configuration: `hidden_size` ...
        4 | text.json | text.json: model configuration: `hidden_size` ...
        4 | huge.json | huge.json: model configuration: `hidden_size` ...
        4 | zero.json | zero.json: model configuration: `num_hidden_layers` is 0, but must be at least 1
        3 | deep.json | deep.json: not valid JSON: ...
        3 | latin1.json | latin1.json: not valid JSON: ...
        1 | large.json | cannot read large.json: it is larger than 1048576 bytes
        ",
    );
}
