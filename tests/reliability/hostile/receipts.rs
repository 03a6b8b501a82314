//! Receipts, which the parts of a build leave for the merge.

use serde_json::{Value, json};

use super::{BUILD, check};
use crate::common::Folder;

const FIRST: &str = ".part-00001-of-00002.json";

/// Returns a folder `good` with both parts of a build, not merged.
fn with_parts() -> Folder {
    let folder = Folder::with_data();
    for part in [1, 2] {
        folder.ok(&format!(
            "{BUILD} --input train.txt --vocab vocab.txt --num-shards 3 --output good --part {part} --parts 2"
        ));
    }
    folder
}

/// Adds copies of the parts in which the first part is from another build.
fn add_parts_of_other_builds(folder: &Folder) {
    let line = format!("{BUILD} --input train.txt --vocab vocab.txt --num-shards 3 --parts 2 --part 1");
    folder.ok(&format!("{line} --random-seed 7 --output seed"));
    folder.ok(&format!("{line} --dupe-factor 3 --output passes"));
    let text = folder.read("train.txt");
    folder.write("train.txt", [&text[..], b"\nOne more.\nAnd one.\n"].concat());
    folder.ok(&format!("{line} --output text"));
    folder.write("train.txt", text);
    // The first part of another build together with the second part of this one.
    for other in ["seed", "passes", "text"] {
        let receipt = folder.read(&format!("{other}/{FIRST}"));
        std::fs::remove_dir_all(folder.at(other)).expect("removed");
        folder.copy("good", other);
        folder.write(&format!("{other}/{FIRST}"), receipt);
    }
}

/// Adds copies of the parts whose receipt is damaged or forged.
fn add_damaged_receipts(folder: &Folder) {
    let copy = |name: &str| folder.copy("good", name);
    let good = folder.checksummed(&format!("good/{FIRST}"));
    let case = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut receipt = good.clone();
        change(&mut receipt);
        copy(name);
        folder.write(&format!("{name}/{FIRST}"), bert_storage::checksummed_json::checksummed_json(&receipt));
    };
    case("parent", &|receipt| {
        receipt["shards"][0]["entry"]["file"] = json!("../good/train-00000-of-00003.parquet")
    });
    case("absolute", &|receipt| receipt["shards"][0]["entry"]["file"] = json!("/etc/passwd"));
    case("words", &|receipt| receipt["vocabulary"]["file"] = json!("../vocab.txt"));
    case("second", &|receipt| receipt["part"] = json!(2));
    case("many", &|receipt| receipt["shards"][0]["shard"] = json!(u64::MAX));
    case("none", &|receipt| receipt["config"]["num_shards"] = json!(0));
    case("lengths", &|receipt| receipt["made"]["counters"]["lengths"] = json!([]));
    case("masks", &|receipt| receipt["made"]["counters"]["mask_tokens"] = json!(u64::MAX));
    case("tokens", &|receipt| receipt["made"]["counters"]["tokens"] = json!(u64::MAX));
    case("long", &|receipt| receipt["config"]["max_seq_length"] = json!(1u64 << 50));
    case("bytes", &|receipt| receipt["shards"][0]["entry"]["bytes"] = json!(u64::MAX));
    case("rows", &|receipt| receipt["made"]["tally"]["rows"]["count"] = json!(u64::MAX));
    case("shard-rows", &|receipt| receipt["shards"][0]["rows"]["count"] = json!(u64::MAX));
    case("instances", &|receipt| receipt["made"]["counters"]["instances"] = json!(u64::MAX));
    case("digest", &|receipt| receipt["shards"][0]["entry"]["blake3"] = json!("0".repeat(64)));
    case("more", &|receipt| receipt["run"] = json!("rm -r"));
    copy("edited");
    folder.write(
        &format!("edited/{FIRST}"),
        folder.text(&format!("good/{FIRST}")).replacen("\"part\"", "\"tart\"", 1),
    );
    copy("unsealed");
    folder.write(&format!("unsealed/{FIRST}"), good.to_string());
    copy("binary");
    folder.write(&format!("binary/{FIRST}"), b"\x80\x02}q\0.");
    copy("gone");
    std::fs::remove_file(folder.at("gone/train-00001-of-00003.parquet")).expect("removed");
}

#[test]
fn damaged_receipts_are_rejected() {
    let folder = with_parts();
    add_parts_of_other_builds(&folder);
    add_damaged_receipts(&folder);
    let damaged = "part 1 is damaged: build it again with --part 1 --parts 2, then merge";
    let unequal = format!("{FIRST}: one of the counts of instances contradicts the other values");
    let first_shard = "\"train-00000-of-00003.parquet\", which is not ...";
    let table = format!(
        r#"
        3 | seed | part 2 does not match the other parts: it has other options
        3 | passes | part 2 does not match the other parts: it has other options
        3 | text | part 2 does not match the other parts: it has other text
        3 | parent | {damaged}: parent/{FIRST}: it names "../good/train-00000-of-00003.parquet", which is not ...
        3 | absolute | {damaged}: absolute/{FIRST}: it names "/etc/passwd", which is not ...
        3 | words | {damaged}: words/{FIRST}: it names "../vocab.txt", which is not ...
        3 | second | part 1 does not match the other parts: it has other number
        3 | many | {damaged}: many/{FIRST}: it names {first_shard}
        3 | none | {damaged}: none/{FIRST}: it names {first_shard}
        3 | lengths | {damaged}: lengths/{unequal}
        3 | masks | {damaged}: masks/{unequal}
        3 | tokens | {damaged}: tokens/{unequal}
        3 | long | {damaged}: long/{FIRST}: its options are not valid for a build: --max-seq-length is ...
        3 | bytes | bytes/manifest.json: the sum of the shards' bytes is 18446744073709551615, but must be ...
        3 | rows | an invariant of the build is broken: the number of rows in the shards is ..., but must be 18446744073709551615; ...
        3 | shard-rows | an invariant of the build is broken: the number of rows in the shards is 18446744073709551615, but must be ...; nothing was...
        3 | instances | {damaged}: instances/{unequal}
        3 | digest | {damaged}: digest/train-00000-of-00003.parquet: BLAKE3 digest ..., but the manifest says 000...
        3 | more | {damaged}: more/{FIRST}: not a valid receipt of a part: unknown field `run`, ...
        3 | edited | {damaged}: edited/{FIRST}: it...
        3 | unsealed | {damaged}: unsealed/{FIRST}: it...
        3 | binary | {damaged}: binary/{FIRST}: it...
        3 | gone | part 2 is damaged: build it again with --part 2 --parts 2, then merge: gone/train-00001-of-00003.parquet: this file is missing, but ...
        "#
    );
    check(&folder, "bert merge", &table);
    // None of these attempts changed the parts, and the merge succeeds.
    folder.ok("bert merge good");
    assert!(folder.snapshot("good") == folder.snapshot("data"));
}

/// Checks that bit flips in a sample of the bytes, and every truncation, are detected.
#[test]
fn flipped_and_truncated_receipts_are_rejected() {
    let folder = with_parts();
    let name = format!("good/{FIRST}");
    let good = folder.read(&name);
    let before = folder.snapshot("good");
    let mut tried = 0;
    for at in (0..good.len()).step_by(good.len() / 40) {
        let mut flipped = good.clone();
        flipped[at] ^= 1 << (at % 8);
        for bytes in [&flipped[..], &good[..at]] {
            folder.write(&name, bytes);
            folder.refused("bert merge good", 3, FIRST);
            tried += 1;
        }
    }
    assert!(tried >= 80, "{tried}");
    folder.write(&name, &good);
    assert!(before == folder.snapshot("good"), "something changed");
    folder.ok("bert merge good");
}
