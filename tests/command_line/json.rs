//! `--json` of every command: one JSON document with the documented keys.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::{Folder, QUICK, entailment};

const GUIDE: &str = include_str!("../../docs/command-line.md");

/// Returns the commands and keys in the guide's table; a key that may be absent ends with `?`.
fn documented() -> Vec<(String, Vec<String>)> {
    let table = GUIDE.split_once("| command | keys |\n| --- | --- |\n").expect("the table").1;
    let rows = table.lines().take_while(|line| line.starts_with("| "));
    let code = |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(String::from).collect() };
    rows.map(|row| {
        let (command, keys) = row.trim_matches('|').split_once(" | ").expect("two cells");
        (code(command).remove(0), code(keys))
    })
    .collect()
}

/// Returns a folder with the inputs of the documented commands.
fn folder() -> Folder {
    let folder = Folder::with_run();
    folder.add_built_in_data();
    folder.write("pairs.jsonl", r#"{"sentence_good": "He is here.", "sentence_bad": "Him is here."}"#);
    for name in ["RTE", "WNLI"] {
        let label = |rows: String| rows.replace("not_entailment", "0").replace("entailment", "1");
        let task = |rows: String| if name == "RTE" { rows } else { label(rows) };
        folder.write(&format!("glue/{name}/train.tsv"), task(entailment(0, 8)));
        folder.write(&format!("glue/{name}/dev.tsv"), task(entailment(8, 4)));
    }
    let flags = "--input train.txt --vocab vocab.txt --max-seq-length 32 --num-shards 2 --parts 2";
    for part in [1, 2] {
        folder.ok(&format!("make-pretrain-data {flags} --output parts --part {part}"));
    }
    folder
}

/// The documented commands with arguments, in an order in which each has its inputs.
fn lines() -> Vec<(&'static str, String)> {
    let tuned = "--data glue --task rte --num-train-epochs 1";
    [
        (
            "make-pretrain-data",
            "--input train.txt --vocab vocab.txt --dupe-factor 1 --output one".to_string(),
        ),
        ("make-pretrain-data --dry-run", "--input train.txt --vocab vocab.txt".to_string()),
        ("pretrain", format!("{QUICK} --steps 2 --output two")),
        ("pretrain --dry-run", format!("{QUICK} --steps 2 --output three")),
        ("finetune", format!("{tuned} --keep-seeds --output tuned")),
        ("bert quickstart", "--steps 1 --seeds 1 --output first".to_string()),
        ("bert make-vocab", "--input train.txt --vocab-size 300 --output small.txt".to_string()),
        ("bert init", "--model tiny --vocab vocab.txt --output fresh".to_string()),
        ("bert import", "fresh imported".to_string()),
        ("bert extend-vocab", "--checkpoint fresh --input train.txt --add 9 --output extended".to_string()),
        ("bert merge", "parts".to_string()),
        ("bert inspect", "data".to_string()),
        ("bert verify", "data".to_string()),
        ("bert devices", "--device flex".to_string()),
        ("bert evaluate", "--data of-tiny-en".to_string()),
        ("bert fill-mask", "'The river is [MASK].'".to_string()),
        ("bert attention", "'The river is long.'".to_string()),
        ("bert probe", "'The river is [MASK].' --replace river=sea".to_string()),
        ("bert probe --all-seeds", "--checkpoint tuned 'A river. ||| It.' --replace river=sea".to_string()),
        ("bert probe --saliency", "'The river is [MASK].'".to_string()),
        ("bert projector", "--words 50".to_string()),
        ("bert nearest", "river".to_string()),
        ("bert minimal-pairs", "--input pairs.jsonl --pairs".to_string()),
        ("bert recipes", String::new()),
        ("bert report", "run".to_string()),
        ("bert scores", "tuned".to_string()),
        ("bert scores --paired", "tuned tuned".to_string()),
        ("bert glue", "--data glue --tasks rte,wnli --output all".to_string()),
        ("bert multitask", "--data glue --tasks rte,wnli --output both".to_string()),
        ("bert experiment", String::new()),
        ("bert experiment masking", "--instances 1".to_string()),
        ("bert export", "run exported".to_string()),
    ]
    .into()
}

#[test]
fn json_has_the_documented_keys() {
    let folder = folder();
    let mut documented = documented();
    for (command, arguments) in lines() {
        let at = documented.iter().position(|(name, _)| name == command);
        let (_, keys) = documented.remove(at.unwrap_or_else(|| panic!("{command} is not documented")));
        let json: Value = folder.ok(&format!("{command} {arguments} --json")).json();
        let found: BTreeSet<&str> = json.as_object().expect("an object").keys().map(String::as_str).collect();
        let known: BTreeSet<&str> = keys.iter().map(|key| key.trim_end_matches('?')).collect();
        let required: BTreeSet<&str> =
            keys.iter().filter(|key| !key.ends_with('?')).map(String::as_str).collect();
        assert!(found.is_subset(&known), "{command}: {found:?} has undocumented keys, not in {known:?}");
        assert!(required.is_subset(&found), "{command}: {found:?} lacks keys of {required:?}");
    }
    assert!(documented.is_empty(), "no arguments for {documented:?}");
}

#[test]
fn verify_reports_damaged_files_in_json() {
    let folder = Folder::with_run();
    let shard = "data/train-00000-of-00003.parquet";
    let mut bytes = folder.read(shard);
    bytes[100] ^= 1;
    folder.write(shard, &bytes);
    let ended = folder.run("bert verify data --json");
    assert_eq!(ended.code, Some(3));
    let json = ended.json();
    assert_eq!(json["good"], false);
    let checks = json["checks"].as_array().expect("a list");
    let bad = checks.iter().filter(|check| !check["problem"].is_null()).map(|check| &check["name"]);
    assert_eq!(bad.collect::<Vec<_>>(), ["train-00000-of-00003.parquet"]);
    let run = folder.ok("bert verify run --json").json();
    assert_eq!((&run["good"], run["checks"].as_array().map(Vec::len)), (&true.into(), Some(3)));
}
