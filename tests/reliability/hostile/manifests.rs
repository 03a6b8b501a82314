//! Manifests: names that point outside the folder, inconsistent counts, invalid checksums.

use serde_json::json;

use super::check;
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

#[test]
fn forged_manifests_are_rejected() {
    let folder = with_forged_manifests();
    check(
        &folder,
        "pretrain --model config.json --steps 1 --output out --data",
        r#"
        3 | parent | parent/manifest.json: it names "../data/train-00000-of-00003.parquet", which is not a plain file name
        3 | absolute | absolute/manifest.json: it names "/etc/passwd", which is not a plain file name
        3 | words | words/manifest.json: it names "../vocab.txt", which is not a plain file name
        3 | hidden | hidden/manifest.json: it names ".lock", which is not a plain file name
        3 | nul | nul/manifest.json: it names "a\0b", which is not a plain file name
        3 | itself | itself/manifest.json: it names "manifest.json", which is not a plain file name
        3 | gone | gone/train-00003-of-00003.parquet: this file is missing, but the manifest lists it
        3 | overflow | overflow/manifest.json: the sum of the shards' rows is 18446744073709551615, but must be ...
        3 | groups | groups/manifest.json: the row groups of a shard is 18446744073709551615, expected ...
        3 | rows | rows/manifest.json: the sum of the shards' rows is ..., expected 1
        3 | version | version/manifest.json: format version 99, but this program reads ...
        3 | more | more/manifest.json: not a valid manifest: unknown field `run`, ...
        3 | edited | edited/manifest.json: ...
        3 | unsealed | unsealed/manifest.json: it has no checksum...
        3 | binary | binary/manifest.json: not a valid manifest: expected value at line 1 column 1
        "#,
    );
}
