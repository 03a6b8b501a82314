//! Manifests: names that point outside the folder, inconsistent counts, invalid checksums.

use serde_json::json;

use super::{Row, check};
use crate::common::Folder;

/// Returns a folder with copies of a data set whose manifest is damaged or forged.
fn with_forged_manifests() -> Folder {
    let folder = Folder::with_data();
    let good = folder.checksummed("data/manifest.json");
    let case = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut manifest = good.clone();
        change(&mut manifest);
        folder.copy("data", name);
        folder.write(
            &format!("{name}/manifest.json"),
            bert_storage::checksummed_json::checksummed_json(&manifest),
        );
    };
    case("parent", &|manifest| manifest["shards"][0]["file"] = json!("../data/train-00000-of-00003.parquet"));
    case("absolute", &|manifest| manifest["shards"][1]["file"] = json!("/etc/passwd"));
    case("words", &|manifest| manifest["vocabulary"]["file"] = json!("../vocab.txt"));
    case("hidden", &|manifest| manifest["vocabulary"]["file"] = json!(".lock"));
    case("nul", &|manifest| manifest["vocabulary"]["file"] = json!("a\0b"));
    case("itself", &|manifest| manifest["vocabulary"]["file"] = json!("manifest.json"));
    case("gone", &|manifest| manifest["shards"][2]["file"] = json!("train-00003-of-00003.parquet"));
    case("overflow", &|manifest| manifest["shards"][0]["rows"] = json!(u64::MAX));
    case("groups", &|manifest| manifest["shards"][0]["row_groups"] = json!(u64::MAX));
    case("rows", &|manifest| manifest["instances"] = json!(1));
    case("version", &|manifest| manifest["format_version"] = json!(99));
    case("more", &|manifest| manifest["run"] = json!("rm -r"));
    folder.copy("data", "edited");
    folder.write("edited/manifest.json", folder.text("data/manifest.json").replacen("text", "tent", 1));
    folder.copy("data", "unsealed");
    folder.write("unsealed/manifest.json", good.to_string());
    folder.copy("data", "binary");
    folder.write("binary/manifest.json", b"\x80\x02}q\0.");
    folder
}

/// Returns each copy with the message of its error.
fn expected() -> Vec<(&'static str, String)> {
    let unsafe_name = |name: &str, file: &str| {
        format!("{name}/manifest.json: it names {file:?}, which is not a plain file name")
    };
    vec![
        ("parent", unsafe_name("parent", "../data/train-00000-of-00003.parquet")),
        ("absolute", unsafe_name("absolute", "/etc/passwd")),
        ("words", unsafe_name("words", "../vocab.txt")),
        ("hidden", unsafe_name("hidden", ".lock")),
        ("nul", unsafe_name("nul", "a\0b")),
        ("itself", unsafe_name("itself", "manifest.json")),
        (
            "gone",
            "gone/train-00003-of-00003.parquet: this file is missing, but the manifest lists it".to_string(),
        ),
        (
            "overflow",
            "overflow/manifest.json: the sum of the shards' rows is 18446744073709551615, but must be ..."
                .to_string(),
        ),
        (
            "groups",
            "groups/manifest.json: the row groups of a shard is 18446744073709551615, expected ..."
                .to_string(),
        ),
        ("rows", "rows/manifest.json: the sum of the shards' rows is ..., expected 1".to_string()),
        ("version", "version/manifest.json: format version 99, but this program reads ...".to_string()),
        ("more", "more/manifest.json: not a valid manifest: unknown field `run`, ...".to_string()),
        ("edited", "edited/manifest.json: ...".to_string()),
        ("unsealed", "unsealed/manifest.json: damaged: it has no checksum...".to_string()),
        (
            "binary",
            "binary/manifest.json: not a valid manifest: expected value at line 1 column 1".to_string(),
        ),
    ]
}

#[test]
fn forged_manifests_are_rejected() {
    let folder = with_forged_manifests();
    let rows = expected();
    let rows: Vec<Row<'_>> = rows.iter().map(|(name, text)| (*name, 3, text.as_str())).collect();
    assert_eq!(check(&folder, "pretrain --model config.json --steps 1 --output out --data", &rows), 15);
}
