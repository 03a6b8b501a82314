//! Receipts, which the parts of a build leave for the merge.

use serde_json::{Value, json};

use super::{BUILD, Row, check};
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

/// Returns each copy with the message of its error.
fn expected() -> Vec<(&'static str, String)> {
    let damaged = |problem: String| {
        format!("part 1 is damaged: build it again with --part 1 --parts 2, then merge: {problem}")
    };
    let unsafe_name =
        |name: &str, file: &str| damaged(format!("{name}/{FIRST}: it names {file:?}, which is not ..."));
    let contradiction = |name: &str| {
        damaged(format!("{name}/{FIRST}: one of the counts of instances contradicts the other values"))
    };
    let broken = |name: &str| damaged(format!("{name}/{FIRST}: damaged: ..."));
    vec![
        ("seed", "part 2 does not match the other parts: it has other options".to_string()),
        ("passes", "part 2 does not match the other parts: it has other options".to_string()),
        ("text", "part 2 does not match the other parts: it has other text".to_string()),
        ("parent", unsafe_name("parent", "../good/train-00000-of-00003.parquet")),
        ("absolute", unsafe_name("absolute", "/etc/passwd")),
        ("words", unsafe_name("words", "../vocab.txt")),
        ("second", "part 1 does not match the other parts: it has other number".to_string()),
        ("many", unsafe_name("many", "train-00000-of-00003.parquet")),
        ("none", unsafe_name("none", "train-00000-of-00003.parquet")),
        ("lengths", contradiction("lengths")),
        ("masks", contradiction("masks")),
        ("tokens", contradiction("tokens")),
        ("long", damaged("long/.part-00001-of-00002.json: its options are not valid for a build: --max-seq-length is ...".to_string())),
        ("bytes", "bytes/manifest.json: the sum of the shards' bytes is 18446744073709551615, but must be ...".to_string()),
        ("rows", "an invariant of the build is broken: the number of rows in the shards is ..., but must be 18446744073709551615; ...".to_string()),
        ("shard-rows", "an invariant of the build is broken: the number of rows in the shards is 18446744073709551615, but must be ...; nothing was...".to_string()),
        ("instances", contradiction("instances")),
        ("digest", damaged("digest/train-00000-of-00003.parquet: BLAKE3 digest ..., but the manifest says 000...".to_string())),
        ("more", damaged("more/.part-00001-of-00002.json: not a valid receipt of a part: unknown field `run`, ...".to_string())),
        ("edited", broken("edited")),
        ("unsealed", broken("unsealed")),
        ("binary", broken("binary")),
        ("gone", "part 2 is damaged: build it again with --part 2 --parts 2, then merge: gone/train-00001-of-00003.parquet: this file is missing, but ...".to_string()),
    ]
}

#[test]
fn damaged_receipts_are_rejected() {
    let folder = with_parts();
    add_parts_of_other_builds(&folder);
    add_damaged_receipts(&folder);
    let rows = expected();
    let rows: Vec<Row<'_>> = rows.iter().map(|(name, text)| (*name, 3, text.as_str())).collect();
    assert_eq!(check(&folder, "bert merge", &rows), 23);
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
