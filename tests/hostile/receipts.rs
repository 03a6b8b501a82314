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

#[test]
fn refused() {
    let folder = with_parts();
    let line = format!("{BUILD} --input train.txt --vocab vocab.txt --num-shards 3 --parts 2 --part 1");
    folder.ok(&format!("{line} --random-seed 7 --output seed"));
    folder.ok(&format!("{line} --dupe-factor 3 --output passes"));
    let text = folder.read("train.txt");
    folder.write("train.txt", [&text[..], b"\nOne more.\nAnd one.\n"].concat());
    folder.ok(&format!("{line} --output text"));
    folder.write("train.txt", text);
    let copy = |name: &str| folder.copy("good", name);
    // The first part of another build together with the second part of this one.
    for other in ["seed", "passes", "text"] {
        let receipt = folder.read(&format!("{other}/{FIRST}"));
        std::fs::remove_dir_all(folder.at(other)).expect("removed");
        copy(other);
        folder.write(&format!("{other}/{FIRST}"), receipt);
    }
    let good = folder.sealed(&format!("good/{FIRST}"));
    let case = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut receipt = good.clone();
        change(&mut receipt);
        copy(name);
        folder.write(&format!("{name}/{FIRST}"), bert_storage::sealed::sealed(&receipt));
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
    let damaged = |problem: String| {
        format!("part 1 is damaged: make it again with --part 1 --parts 2, then merge: {problem}")
    };
    let unsafe_name =
        |name: &str, file: &str| damaged(format!("{name}/{FIRST}: it names {file:?}, which is not ..."));
    let contradiction = |name: &str| {
        damaged(format!("{name}/{FIRST}: one of the counts of instances contradicts the other values"))
    };
    let broken = |name: &str| damaged(format!("{name}/{FIRST}: damaged: ..."));
    let rows = [
        ("seed", "part 2 does not belong to the others: it has other options".to_string()),
        ("passes", "part 2 does not belong to the others: it has other options".to_string()),
        ("text", "part 2 does not belong to the others: it has other text".to_string()),
        ("parent", unsafe_name("parent", "../good/train-00000-of-00003.parquet")),
        ("absolute", unsafe_name("absolute", "/etc/passwd")),
        ("words", unsafe_name("words", "../vocab.txt")),
        ("second", "part 1 does not belong to the others: it has other number".to_string()),
        ("many", unsafe_name("many", "train-00000-of-00003.parquet")),
        ("none", unsafe_name("none", "train-00000-of-00003.parquet")),
        ("lengths", contradiction("lengths")),
        ("masks", contradiction("masks")),
        ("tokens", contradiction("tokens")),
        ("long", damaged("long/.part-00001-of-00002.json: its options are not valid for a build: --max-seq-length is ...".to_string())),
        ("bytes", "bytes/manifest.json: the sum of the shards' bytes is 18446744073709551615, but must be ...".to_string()),
        ("rows", "the law of conservation is broken: the number of rows in the shards is ..., but must be 18446744073709551615; ...".to_string()),
        ("shard-rows", "the law of conservation is broken: the number of rows in the shards is 18446744073709551615, but must be ...; nothing was...".to_string()),
        ("instances", contradiction("instances")),
        ("digest", damaged("digest/train-00000-of-00003.parquet: BLAKE3 ..., the manifest says 000...".to_string())),
        ("more", damaged("more/.part-00001-of-00002.json: not the receipt of a part that this program made: unknown field `run`, ...".to_string())),
        ("edited", broken("edited")),
        ("unsealed", broken("unsealed")),
        ("binary", broken("binary")),
        ("gone", "part 2 is damaged: make it again with --part 2 --parts 2, then merge: gone/train-00001-of-00003.parquet: missing, though ...".to_string()),
    ];
    let rows: Vec<Row<'_>> = rows.iter().map(|(name, said)| (*name, 3, said.as_str())).collect();
    assert_eq!(check(&folder, "bert merge", &rows), 23);
    // None of these attempts changed the parts, and the merge succeeds.
    folder.ok("bert merge good");
    assert!(folder.snapshot("good") == folder.snapshot("data"));
}

/// Checks that bit flips in a sample of the bytes, and every truncation, are detected.
#[test]
fn flips_and_cuts() {
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
            let ended = folder.run("bert merge good");
            assert_eq!(ended.code, Some(3), "byte {at}: {}", ended.stderr);
            assert!(ended.stderr.contains(FIRST), "byte {at}: {}", ended.stderr);
            tried += 1;
        }
    }
    assert!(tried >= 80, "{tried}");
    folder.write(&name, &good);
    assert!(before == folder.snapshot("good"), "something changed");
    folder.ok("bert merge good");
}
