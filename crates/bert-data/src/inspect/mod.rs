//! Summarizes the contents of a finished data folder.
//!
//! [`inspect`] returns the manifest, the counts and some instances as text. The result can be serialized or printed.

pub mod page;
pub mod stages;
pub mod training_text;

use std::fmt;
use std::path::{Path, PathBuf};

use bert_tokenization::Vocabulary;
use serde::Serialize;

use crate::config::Layout;
use crate::dataset::DataSet;
use crate::dataset::manifest::Manifest;
use crate::dataset::render::{InstanceText, render_first};
use crate::dataset::stored_rows::StoredRows;
use crate::error::{Error, Result};
use crate::inspect::training_text::texts_of_shard;

/// The contents of a data folder.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Inspection {
    /// The folder.
    pub folder: PathBuf,
    /// The manifest.
    pub manifest: Manifest,
    /// Instances as text; if the loader masks, with the masks of epoch 0.
    pub instances: Vec<String>,
    /// The most frequent tokens of the text that was read, with their counts.
    pub frequent_tokens: Vec<(String, u64)>,
}

/// Reads a data folder: its manifest and the first `instances` rows.
///
/// # Errors
/// Fails as [`DataSet::open`] and [`StoredRows::row`] do.
pub fn inspect(folder: &Path, instances: usize) -> Result<Inspection> {
    let data = &DataSet::open(folder)?;
    let manifest = data.manifest();
    let vocabulary = data.vocabulary();
    let mut counts = vec![0u64; vocabulary.len()];
    // If documents are stored, only the first shard is read.
    let shards = if manifest.config.layout == Layout::Documents { 1 } else { manifest.shards.len() };
    let mut counted = 0;
    for shard in 0..shards {
        if counted < COUNTED_TOKENS {
            texts_of_shard(data, shard, &mut |ids| {
                ids.iter().for_each(|&id| counts[id as usize] += 1);
                counted += ids.len();
                counted < COUNTED_TOKENS
            })?;
        }
    }
    let frequent_tokens = frequent(&counts, vocabulary, 20);
    let instances = render_first(data, instances as u64)?;
    Ok(Inspection { folder: folder.to_owned(), manifest: manifest.clone(), instances, frequent_tokens })
}

/// Maximum number of inputs that are shown.
const MAX_INPUTS: usize = 100;
/// Approximate number of tokens that are counted.
const COUNTED_TOKENS: usize = 1 << 20;

/// Returns the most frequent tokens and their counts.
fn frequent(counts: &[u64], vocabulary: &Vocabulary, count: usize) -> Vec<(String, u64)> {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|&id| (std::cmp::Reverse(counts[id]), id));
    order.truncate(count);
    let entry = |id: usize| (vocabulary.token(id as u32).to_owned(), counts[id]);
    order.into_iter().filter(|&id| counts[id] > 0).map(entry).collect()
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let manifest = &self.manifest;
        writeln!(f, "{}", self.folder.display())?;
        writeln!(f, "built by {}, format {}", manifest.program, manifest.format_version)?;
        let file = |f: &mut fmt::Formatter<'_>, name: &str, size: String, digest: &str| {
            writeln!(f, "{name} ({size}, {})", digest.get(..16).unwrap_or(digest))
        };
        for input in manifest.inputs.iter().take(MAX_INPUTS) {
            let size = format!("{} lines, {} bytes", input.lines, input.bytes);
            file(f, &format!("input {}", input.path), size, &input.blake3)?;
        }
        if manifest.inputs.len() > MAX_INPUTS {
            writeln!(f, "and {} more inputs", manifest.inputs.len() - MAX_INPUTS)?;
        }
        let vocabulary = &manifest.vocabulary;
        file(f, &vocabulary.file, format!("{} tokens", vocabulary.size), &vocabulary.blake3)?;
        for shard in &manifest.shards {
            file(f, &shard.file, format!("{} rows, {} bytes", shard.rows, shard.bytes), &shard.blake3)?;
        }
        writeln!(f, "\n{}", manifest.report)?;
        let words: Vec<String> =
            self.frequent_tokens.iter().map(|(token, count)| format!("{token} {count}")).collect();
        writeln!(f, "frequent tokens: {}", words.join(", "))?;
        self.instances.iter().enumerate().try_for_each(|(index, text)| writeln!(f, "\n#{index}: {text}"))
    }
}

/// Returns the row with this number, counted across all shards from 0, as text.
///
/// # Errors
/// Fails as [`DataSet::open`] and [`StoredRows::row`] do, and when the requested instance does not exist.
pub fn inspect_instance(folder: &Path, index: u64) -> Result<String> {
    let data = &DataSet::open(folder)?;
    let manifest = data.manifest();
    if index >= manifest.instances {
        return Err(Error::usage(format!(
            "`.index` is {index}, but the instances are numbered from 0 to {}",
            manifest.instances.saturating_sub(1)
        )));
    }
    let mut rows = StoredRows::new(data);
    Ok(InstanceText::new(rows.row(index)?, data.vocabulary(), manifest.config.nsp).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_do_not_occur_are_not_frequent() {
        let words = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n".to_vec();
        let vocabulary = Vocabulary::from_bytes(words, Path::new("vocab.txt")).unwrap();
        let counts = [0, 1, 4, 4, 0, 7, 0];
        let named = |entries: &[(&str, u64)]| -> Vec<(String, u64)> {
            entries.iter().map(|&(token, count)| (token.to_owned(), count)).collect()
        };
        let all = [("the", 7), ("[CLS]", 4), ("[SEP]", 4), ("[UNK]", 1)];
        assert_eq!(frequent(&counts, &vocabulary, 20), named(&all));
        assert_eq!(frequent(&counts, &vocabulary, 2), named(&all[..2]));
    }
}
