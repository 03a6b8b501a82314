//! Writes a text of single letters and its vocabulary, for unit tests that need a whole build.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::BuildConfig;

/// Writes three sentences as `documents` equal documents into the folder; returns a build of them into its `data`.
pub(crate) fn lettered(folder: &Path, documents: usize) -> BuildConfig {
    let text = folder.join("text.txt");
    let vocab = folder.join("vocab.txt");
    std::fs::write(&text, "a b c d e.\nf g h i j k.\nl m n.\n\n".repeat(documents)).unwrap();
    let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."].map(String::from).into_iter();
    let words: Vec<String> = words.chain(('a'..='n').map(String::from)).collect();
    std::fs::write(&vocab, words.join("\n")).unwrap();
    BuildConfig {
        input: vec![text],
        vocab: Some(vocab),
        output: Some(folder.join("data")),
        max_seq_length: 16,
        max_predictions_per_seq: Some(3),
        dupe_factor: 4,
        ..BuildConfig::default()
    }
}

/// Returns every file of a folder except the lock.
pub(crate) fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let entries = entries.filter(|path| path.file_name().unwrap() != ".lock");
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    entries.map(|path| (name(&path), std::fs::read(path).unwrap())).collect()
}
