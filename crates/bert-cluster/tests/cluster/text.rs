//! A text of generated sentences, and the digests of its builds.

use std::fs;
use std::path::{Path, PathBuf};

use bert_data::{BuildConfig, Manifest};

const WORDS: &str = "the a one two red blue old new cat dog house tree river stone song bird sings runs sleeps falls \
    sees holds and over under near far here there now then";

/// A folder with a text in a number of files, each with a number of documents.
pub struct Text {
    pub folder: tempfile::TempDir,
}

impl Text {
    pub fn new(files: usize, documents: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        let mut state = 1u64;
        let mut next = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % most
        };
        for file in 0..files {
            let mut text = String::new();
            for _ in 0..documents {
                for _ in 0..2 + next(12) {
                    let sentence: Vec<&str> = (0..3 + next(12)).map(|_| words[next(words.len())]).collect();
                    text += &sentence.join(" ");
                    text.push('\n');
                }
                text.push('\n');
            }
            fs::write(folder.path().join(format!("text-{file:02}.txt")), text).unwrap();
        }
        let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
        let vocabulary: Vec<&str> = special.into_iter().chain(words).collect();
        fs::write(folder.path().join("vocab.txt"), vocabulary.join("\n") + "\n").unwrap();
        Self { folder }
    }

    pub fn config(&self, output: &str) -> BuildConfig {
        let input = self.folder.path().join("text-*.txt");
        BuildConfig::new([input], self.folder.path().join("vocab.txt"), self.path(output))
            .with_max_seq_length(64)
            .with_num_shards(6)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Verifies a data set and returns the digests of its shards.
pub fn digests(folder: &Path) -> Vec<String> {
    assert!(bert_data::verify(folder, true).unwrap().is_good());
    Manifest::read(folder).unwrap().shards.into_iter().map(|shard| shard.blake3).collect()
}
