//! `bert minimal-pairs` and `bert nearest`.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Folder, number};

/// Returns the probability that `fill-mask` gives to a word at the first `[MASK]` of a text.
fn probability(folder: &Folder, text: &str, word: &str) -> f64 {
    let filled = folder.ok(&format!("bert fill-mask '{text}' --top-k 8000 --json")).json();
    let words = filled["masks"][0]["words"].as_array().expect("a list");
    let found = words.iter().find(|row| row["word"] == json!(word));
    number(found.unwrap_or_else(|| panic!("{word} in {text}")), "/probability")
}

#[test]
fn sentence_scores_mask_each_word_from_left() {
    let folder = Folder::new();
    folder.write(
        "pairs.jsonl",
        r#"{"sentence_good": "rivers flow", "sentence_bad": "unhappily flow", "UID": 7}"#,
    );
    let scored = folder.ok("bert minimal-pairs --input pairs.jsonl --by UID --pairs --json").json();
    let pair = &scored["pairs"][0];
    assert_eq!((&pair["row"], &pair["phenomenon"]), (&json!(1), &json!("7")));

    let logs = |texts: &[(&str, &str)]| -> f64 {
        texts.iter().map(|(text, word)| probability(&folder, text, word).ln()).sum()
    };
    let good = logs(&[("[MASK] flow", "rivers"), ("rivers [MASK]", "flow")]);
    assert!((number(pair, "/good_nats") - good).abs() < 1e-4, "{pair} {good}");

    // The pieces of a word to the right of the masked one are masked too: un ##ha ##pp ##ily.
    let bad = logs(&[
        ("[MASK] [MASK] [MASK] [MASK] flow", "un"),
        ("un [MASK] [MASK] [MASK] flow", "##ha"),
        ("unha [MASK] [MASK] flow", "##pp"),
        ("unhapp [MASK] flow", "##ily"),
        ("unhappily [MASK]", "flow"),
    ]);
    assert!((number(pair, "/bad_nats") - bad).abs() < 1e-4, "{pair} {bad}");
}

#[test]
fn accuracy_is_given_for_each_phenomenon() {
    let folder = Folder::new();
    let pairs = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora/minimal-pairs");
    let line = format!("bert minimal-pairs --input '{}' --by phenomenon --json", pairs.display());
    let scored = folder.ok(&line).json();
    let rows = scored["phenomena"].as_array().expect("a list");
    assert_eq!(rows.len(), 11);
    let all = rows.last().expect("a row");
    assert_eq!((&all["phenomenon"], &all["pairs"]), (&json!("all"), &json!(200)));
    let figure = |row: &Value, name: &str| number(row, &format!("/{name}"));
    for row in rows {
        let accuracy = figure(row, "accuracy");
        assert!(figure(row, "low") <= accuracy && accuracy <= figure(row, "high"), "{row}");
    }
    // A model of English knows more than a coin.
    assert!(figure(all, "low") > 50.0, "{all}");
    let pronouns = rows.iter().find(|row| row["phenomenon"] == json!("case-of-pronouns"));
    assert!(figure(pronouns.expect("a row"), "accuracy") >= 90.0, "{pronouns:?}");
}

#[test]
fn files_of_a_folder_are_phenomena() {
    let folder = Folder::new();
    folder.write("blimp/case.tsv", "sentence_good\tsentence_bad\nHe is here.\tHim is here.\n");
    folder.write("blimp/order.csv", "sentence_good,sentence_bad\nThe old man.,Man old the.\n");
    folder.write("blimp/README.md", "About the pairs\n");
    let scored = folder.ok("bert minimal-pairs --input blimp --json").json();
    let names: Vec<&str> = scored["phenomena"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|row| row["phenomenon"].as_str())
        .collect();
    assert_eq!(names, ["case", "order", "all"]);

    folder.write("wrong.jsonl", "{\"sentence_good\": \"a\"}\n");
    folder.refused("bert minimal-pairs --input wrong.jsonl", 3, "sentence_bad");
    folder.write("empty/README.md", "");
    folder.refused("bert minimal-pairs --input empty", 1, "no .jsonl, .tsv, .csv or .parquet file");
}

#[test]
fn nearest_words_and_sentences_are_found() {
    let folder = Folder::new();
    let texts = |result: &Value, query: usize| -> Vec<String> {
        let found = result["models"][0]["queries"][query]["neighbours"].as_array().expect("a list");
        found.iter().filter_map(|row| row["text"].as_str().map(str::to_string)).collect()
    };
    let found = folder.ok("bert nearest --checkpoint mini-en king unhappiness --json").json();
    let kings = texts(&found, 0);
    assert!(kings.len() == 10 && kings.contains(&"queen".to_string()), "{kings:?}");
    assert!(!kings.contains(&"king".to_string()), "{kings:?}");
    assert_eq!(found["models"][0]["queries"][1]["pieces"][0], json!("un"));

    folder
        .write("texts.txt", "The ship sank in the storm.\n\nHe ate bread and cheese.\nThe King of Spain.\n");
    let found =
        folder.ok("bert nearest 'He ate bread and cheese.' --input texts.txt --top-k 2 --json").json();
    assert_eq!(texts(&found, 0)[0], "He ate bread and cheese.");
    let cosine = number(&found, "/models/0/queries/0/neighbours/0/cosine");
    assert!((cosine - 1.0).abs() < 1e-5, "{cosine}");
    let cut = folder.ok("bert nearest bread --input texts.txt --max-seq-length 5");
    cut.stderr_has("3 of 4 texts of the input (75.0 %) are cut to --max-seq-length 5");
    folder.refused("bert nearest '\u{2603}'", 2, "cannot spell");
}
