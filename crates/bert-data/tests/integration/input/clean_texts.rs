//! Ordinary text of many kinds, which is read as it is and causes no warning; and text that does.

use std::path::{Path, PathBuf};

use bert_data::{BuildConfig, Layout, Nsp, VocabConfig, train_vocabulary};
use bert_text::{Format, Reading};

use crate::support::{golden, run};

/// Returns the texts with their names, each repeated to at least sixty lines in documents.
fn clean_texts() -> Vec<(String, String)> {
    let all = std::fs::read_to_string(golden("clean-texts.txt")).unwrap();
    let texts = all.split("=== ").filter(|text| !text.is_empty()).map(|text| {
        let (name, text) = text.split_once('\n').unwrap();
        let times = 60usize.div_ceil(text.lines().count());
        (name.to_owned(), format!("{}\n\n", text.trim_end()).repeat(times))
    });
    texts.collect()
}

/// Builds the documents of a text with a vocabulary of its own; returns the warnings.
fn warnings(folder: &Path, input: PathBuf) -> Vec<String> {
    let vocab = folder.join("vocab.txt");
    let options =
        VocabConfig::default().with_vocab_size(3000).with_strip_accents(false).with_min_frequency(1u64);
    let trained = train_vocabulary(std::slice::from_ref(&input), &options, &mut |_, _| {}).unwrap();
    std::fs::write(&vocab, trained.tokens.join("\n") + "\n").unwrap();
    let config = BuildConfig {
        layout: Layout::Documents,
        nsp: Nsp::Off,
        strip_accents: Some(false),
        overwrite: true,
        ..BuildConfig::new([input], vocab, folder.join("data"))
    };
    run(&config).unwrap().manifest.report.warnings
}

#[test]
fn clean_text_is_not_blamed() {
    let texts = clean_texts();
    assert!(texts.len() >= 40, "{}", texts.len());
    for (name, text) in texts {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.txt");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(Format::detect(&path, Reading::default()).unwrap(), Format::Text, "{name}");
        assert_eq!(warnings(folder.path(), path), [""; 0], "{name}");
    }
}

#[test]
fn clean_rows_are_not_blamed() {
    for (name, text) in clean_texts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let rows: String =
            text.split("\n\n").map(|row| format!("{}\n", serde_json::json!({ "text": row }))).collect();
        std::fs::write(&path, rows).unwrap();
        assert_eq!(warnings(folder.path(), path), [""; 0], "{name}");
    }
}
