//! Manifests and receipts with valid checksums, but with options and counts that no build writes: each is refused before it
//! is used.

use serde_json::{Value, json};

use super::check;
use crate::common::Folder;

/// Name of a copy, a function that forges its manifest, and the message without its path.
type Forged<'a> = (&'a str, &'a dyn Fn(&mut Value), &'a str);

/// Checks that every program that reads the data set refuses it with exit code 3.
fn refused(folder: &Folder, data: &str, cases: &[Forged<'_>]) {
    let good = folder.checksummed(&format!("{data}/manifest.json"));
    let mut table = String::new();
    for (name, forge, problem) in cases {
        let mut manifest = good.clone();
        forge(&mut manifest);
        folder.copy(data, name);
        folder.write(
            &format!("{name}/manifest.json"),
            bert_storage::checksummed_json::checksummed_json(&manifest),
        );
        table += &format!("3 | {name} | {name}/manifest.json: {problem}\n");
    }
    for command in ["bert verify", "bert inspect", "bert evaluate --checkpoint run --data"] {
        check(folder, command, &table);
    }
}

#[test]
fn invalid_build_options_are_rejected() {
    let folder = Folder::with_run();
    let option =
        |key: &'static str, value: Value| move |manifest: &mut Value| manifest["config"][key] = value.clone();
    let out_of_range = |problem: &str| format!("its options are not valid for a build: {problem}");
    let length = out_of_range("--max-seq-length is ..., but must be between 8 and 65535");
    let cases: [Forged<'_>; 8] = [
        ("no-length", &option("max_seq_length", json!(0)), &length),
        ("short", &option("max_seq_length", json!(2)), &length),
        ("long", &option("max_seq_length", json!(1u64 << 50)), &length),
        (
            "no-masks",
            &option("max_predictions_per_seq", json!(0)),
            &out_of_range("--max-predictions-per-seq is 0, ..."),
        ),
        (
            "all-masks",
            &option("masked_lm_prob", json!(1e9)),
            &out_of_range("--masked-lm-prob is 1000000000, ..."),
        ),
        ("negative", &option("short_seq_prob", json!(-1)), &out_of_range("--short-seq-prob is -1, ...")),
        (
            "ngram",
            &option("max_ngram", json!(1u64 << 40)),
            &out_of_range("--max-ngram is 1099511627776, ..."),
        ),
        ("passes", &option("dupe_factor", json!(u64::MAX)), &out_of_range("--dupe-factor is ...")),
    ];
    refused(&folder, "data", &cases);
}

/// Returns a function that sets the numbers of rows of the first two shards.
fn first_rows(rows: [u64; 2]) -> impl Fn(&mut Value) {
    move |manifest| {
        manifest["shards"][0]["rows"] = json!(rows[0]);
        manifest["shards"][1]["rows"] = json!(rows[1]);
    }
}

#[test]
fn contradictory_counts_are_rejected() {
    let folder = Folder::with_run();
    let of_report =
        |key: &'static str, value: Value| move |manifest: &mut Value| manifest["report"][key] = value.clone();
    let between = |what: &str| format!("{what} is ..., but must be between ...");
    let sum = between("the sum of the shards' rows");
    let cases: [Forged<'_>; 9] = [
        ("sum", &first_rows([u64::MAX, 1]), &sum),
        ("large", &first_rows([1 << 60, 1]), &sum),
        (
            "bytes",
            &|manifest| manifest["shards"][0]["bytes"] = json!(u64::MAX),
            &between("the sum of the shards' bytes"),
        ),
        (
            "length",
            &of_report("max_seq_length", json!(1u64 << 60)),
            "max_seq_length in the report is ..., expected 32",
        ),
        (
            "masked",
            &of_report("masked_tokens", json!(0)),
            "the sum of the masked tokens by replacement is ...",
        ),
        ("labels", &of_report("random_next", json!(1u64 << 60)), &between("the number of rows with label 1")),
        (
            "lengths",
            &of_report("length_histogram", json!([])),
            "the list of lengths contradicts the other values",
        ),
        (
            "invariants",
            &|manifest| manifest["invariants"]["tokens"] = json!(1),
            "the number of tokens in the invariants...",
        ),
        ("share", &of_report("omitted_fraction", json!(-7)), "omitted_fraction contradicts the other values"),
    ];
    refused(&folder, "data", &cases);
}

#[test]
fn forged_document_manifests_are_rejected() {
    let folder = Folder::with_run();
    let flags = "--max-seq-length 32 --max-predictions-per-seq 5 --layout documents";
    folder.ok(&format!("make-pretrain-data --input train.txt --vocab vocab.txt {flags} --output documents"));
    let cases: [Forged<'_>; 4] = [
        (
            "short",
            &|manifest| manifest["config"]["max_seq_length"] = json!(2),
            "its options are not valid for a build: --max-seq-length is 2, ...",
        ),
        (
            "masked",
            &|manifest| manifest["config"]["masking"] = json!("static"),
            "masking or dupe_factor contradicts the other values",
        ),
        (
            "many",
            &|manifest| {
                manifest["instances"] = json!(1u64 << 60);
                manifest["report"]["instances"] = json!(1u64 << 60);
            },
            "the number of instances is 1152921504606846976, but must be between 1 and 281474976710656",
        ),
        (
            "none",
            &|manifest| manifest["instances"] = json!(0),
            "the number of instances is 0, but must be between ...",
        ),
    ];
    refused(&folder, "documents", &cases);
}

/// Checks that colours and other terminal escape sequences in names and tokens are escaped.
#[test]
fn escape_sequences_are_printed_escaped() {
    let folder = Folder::with_data();
    let mut manifest = folder.checksummed("data/manifest.json");
    let hostile = "a\u{1b}[31mb\u{9b}2J";
    manifest["program"] = json!(hostile);
    manifest["inputs"][0]["path"] = json!(hostile);
    manifest["report"]["warnings"] = json!([hostile]);
    folder.write("data/manifest.json", bert_storage::checksummed_json::checksummed_json(&manifest));
    manifest[hostile] = json!(1);
    folder.copy("data", "bad");
    folder.write("bad/manifest.json", bert_storage::checksummed_json::checksummed_json(&manifest));
    for (line, code) in [("bert inspect data", 0), ("bert inspect data --json", 0), ("bert verify bad", 3)] {
        let ended = folder.run(line);
        assert_eq!(ended.code, Some(code), "{line}: {}", ended.stderr);
        let printed = ended.stdout + &ended.stderr;
        assert!(printed.contains(r"a\u001b[31mb\u009b2J"), "{line}: {printed:?}");
        assert!(!printed.contains(['\u{1b}', '\u{9b}']), "{line}: {printed:?}");
    }
}
