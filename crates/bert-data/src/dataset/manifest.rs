//! `manifest.json` describes the contents of a data folder. It is written last; its presence means that the data set is
//! complete.
//!
//! A reader can rely on a [`Manifest`]: the file has a checksum ([`bert_storage::checksummed_json`]), no file name
//! points outside the folder, the options are valid for a build, and the counts agree (`manifest_check`). It contains
//! the digests of the shards and the vocabulary, because parquet-rs writes no page checksums; [`crate::verify`]
//! compares them.
//!
//! With `"masking": "dynamic"` in `config`, the shards have the same columns, but `masked_lm_positions` and
//! `masked_lm_ids` are empty lists in every row (a row with masks is rejected) and `input_ids` are the original tokens.
//! The loader masks with the rules in `config` ([`crate::RowMasker`]).
//!
//! With `"layout": "documents"`, a row is a document ([`crate::shard::documents`]). `instances` and the counts of the
//! report refer to pass 0 with the seed of the data set. The loader applies all rules in `config`.
//!
//! With `"columns": "hf"`, the same rows have the columns that `transformers` expects ([`crate::shard::hf_columns`]).
//!
//! The data card, `README.md`, is not listed: it may be edited, because neither the builder nor the loader reads it.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bert_storage::checksummed_json::{MAX_BYTES, checksummed_json, verify_checksum};
use bert_storage::{StagedFolder, digest_bytes, digest_file, if_found, is_url, objects, read_limited, size};
use bert_text::InputEntry;
use bert_tokenization::{IdSpace, Vocabulary};
use serde::{Deserialize, Serialize};

use crate::config::resolved::ResolvedConfig;
use crate::config::{BuildConfig, Masking, Segmenter};
use crate::dataset::document_hashes::{DocumentHashes, SharedDocuments};
use crate::dataset::invariants::Invariants;
use crate::dataset::report::{DataReport, omitted_fraction};
use crate::error::{Error, Result};
use crate::shard::writer::FORMAT_VERSION;

/// The file name of the manifest.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The file name of the copy of the vocabulary.
pub(crate) const VOCABULARY: &str = "vocab.txt";

/// One Parquet file of the data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardEntry {
    /// File name inside the folder.
    pub file: String,
    /// Number of rows.
    pub rows: u64,
    /// Number of row groups.
    pub row_groups: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// BLAKE3 digest in hexadecimal.
    pub blake3: String,
}

/// The vocabulary that the ids belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VocabularyEntry {
    /// File name inside the folder.
    pub file: String,
    /// Number of tokens.
    pub size: usize,
    /// BLAKE3 digest in hexadecimal.
    pub blake3: String,
}

/// The contents of a data folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT_VERSION`] of the program that wrote the manifest.
    pub format_version: u32,
    /// Name, version and commit of the program that wrote the manifest.
    pub program: String,
    /// The options that were used, including the seed.
    pub config: ResolvedConfig,
    /// The input files.
    pub inputs: Vec<InputEntry>,
    /// The vocabulary, copied into the folder.
    pub vocabulary: VocabularyEntry,
    /// The Parquet files, in order.
    pub shards: Vec<ShardEntry>,
    /// Number of instances in all shards; with `--layout documents`, the number of instances in one pass.
    pub instances: u64,
    /// The invariants that were checked before this file was written: no document or row was lost or duplicated.
    pub invariants: Invariants,
    /// Hashes of the documents, for the comparison with other data sets.
    pub document_hashes: DocumentHashes,
    /// The report on the data.
    pub report: DataReport,
}

impl BuildConfig {
    /// Reads a configuration from JSON, or the configuration of a data set from its folder or its `manifest.json`.
    /// Missing keys get their defaults; unknown keys are rejected.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or when it is not valid JSON of the expected form.
    pub fn read(path: &Path) -> Result<Self> {
        let manifest = path.join(MANIFEST);
        let path = if path.is_dir() { manifest.as_path() } else { path };
        let text = read_limited(path, MAX_BYTES).map_err(Error::io("read", path))?;
        let invalid = |cause| Error::usage("not a valid configuration").at(path).because(cause);
        let mut value: serde_json::Value = serde_json::from_slice(&text).map_err(invalid)?;
        match value.get_mut("config") {
            None => serde_json::from_value(value).map_err(invalid),
            Some(config) => {
                let saved: ResolvedConfig = serde_json::from_value(config.take()).map_err(invalid)?;
                saved.options().map_err(invalid)
            }
        }
    }
}

#[derive(Deserialize)]
struct Version {
    format_version: u32,
}

impl Manifest {
    /// Returns the path of the manifest of a data folder.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join(MANIFEST)
    }

    /// Returns the path of a shard.
    pub fn shard_path(&self, folder: &Path, shard: usize) -> PathBuf {
        folder.join(&self.shards[shard].file)
    }

    /// Returns the path of the vocabulary.
    pub fn vocabulary_path(&self, folder: &Path) -> PathBuf {
        folder.join(&self.vocabulary.file)
    }

    /// Returns the BLAKE3 digest of the digests of all shards, in hexadecimal; it identifies the rows of the data set.
    pub fn shards_digest(&self) -> String {
        digest_bytes(self.shards.iter().map(|shard| shard.blake3.as_str()).collect::<String>().as_bytes())
    }

    /// Compares the documents of this data set with the documents of another one. Returns `None` if their tokens
    /// differ, because they have different vocabularies or tokenizer settings, or if no document can be compared.
    pub fn shared_documents(&self, other: &Self) -> Option<SharedDocuments> {
        let same_tokens = self.vocabulary.blake3 == other.vocabulary.blake3
            && self.config.tokenizer_settings() == other.config.tokenizer_settings();
        same_tokens.then(|| self.document_hashes.shared_with(&other.document_hashes)).flatten()
    }

    /// Returns the number of the first row of each shard, counted across all shards.
    pub fn first_rows(&self) -> Vec<u64> {
        let next =
            |before: &mut u64, shard: &ShardEntry| Some(std::mem::replace(before, *before + shard.rows));
        self.shards.iter().scan(0, next).collect()
    }

    /// Returns whether the shards have word marks ([`bert_tokenization::IdSpace`]): only if tokens are stored
    /// without masks and a segmenter found the words.
    pub fn has_marks(&self) -> bool {
        self.config.segmenter != Segmenter::None && self.config.masking == Masking::Dynamic
    }

    /// Returns the token ids in use in memory before masking.
    pub(crate) fn ids(&self) -> IdSpace {
        IdSpace { vocabulary: self.vocabulary.size, word_marks: self.config.segmenter != Segmenter::None }
    }

    /// Reads and checks the manifest of a data folder; reads no other file.
    ///
    /// # Errors
    /// Fails when the manifest is missing or cannot be read, when it is damaged or has a different format version, or
    /// when its values contradict each other.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = Self::path(folder);
        let bytes = match read_limited(&path, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let is_absent = !is_url(folder) && folder.try_exists().is_ok_and(|exists| !exists);
                let problem = if is_absent {
                    Error::data("this folder does not exist")
                } else {
                    Error::data("this folder has no manifest.json: the data set is not complete")
                };
                return Err(problem.at(folder));
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(
                    Error::data("this is a file, but a data set is a folder with a manifest.json").at(folder)
                );
            }
            Err(source) => return Err(Error::io("read", &path)(source)),
        };
        match verify_checksum(bytes.clone()) {
            Ok(json) => Self::parse(&path, &json),
            // Report a specific problem first: it is more informative than the checksum error.
            Err(source) => {
                let invalid = |source| Error::data("not a valid manifest").because(source).at(&path);
                let mut value: serde_json::Value = serde_json::from_slice(&bytes).map_err(invalid)?;
                value.as_object_mut().map(|object| object.remove("seal"));
                Self::parse(&path, value.to_string().as_bytes())?;
                Err(source.at(path))
            }
        }
    }

    fn parse(path: &Path, json: &[u8]) -> Result<Self> {
        let invalid = |source| Error::data("not a valid manifest").because(source).at(path);
        let version: Version = serde_json::from_slice(json).map_err(invalid)?;
        if version.format_version != FORMAT_VERSION {
            let found = version.format_version;
            let expected = FORMAT_VERSION;
            return Err(Error::data(format!(
                "format version {found}, but this program reads version {expected}"
            ))
            .at(path));
        }
        let mut manifest: Self = serde_json::from_slice(json).map_err(invalid)?;
        manifest.check(path)?;
        // `serde_json` may read a fraction with a different last bit, so the fraction is computed again.
        let Invariants { tokens, covered_tokens, .. } = manifest.invariants;
        manifest.report.omitted_fraction = omitted_fraction(tokens, covered_tokens);
        Ok(manifest)
    }

    /// Writes the manifest, which commits the data set.
    pub(crate) fn write(&self, folder: &StagedFolder<'_>) -> Result<()> {
        self.check(&folder.path_of(MANIFEST))?;
        folder.write_checksummed(MANIFEST, self)?;
        Ok(())
    }

    /// Returns the text of the manifest, for an object store.
    pub(crate) fn to_checksummed_json(&self, folder: &Path) -> Result<String> {
        self.check(&Self::path(folder))?;
        Ok(checksummed_json(self))
    }

    /// Compares the files in the folder with the manifest: presence, sizes and the digest of the vocabulary. Reads no
    /// shard.
    ///
    /// # Errors
    /// Fails when a file is missing, cannot be read or differs from the manifest; the error names the file, and for a
    /// difference the found and the expected value.
    pub(crate) fn check_files(&self, folder: &Path) -> Result<()> {
        self.check_vocabulary(folder)?;
        self.check_sizes(folder)
    }

    /// Compares the sizes of all shards with the manifest. Objects are listed with one request.
    pub(crate) fn check_sizes(&self, folder: &Path) -> Result<()> {
        if !is_url(folder) {
            return (0..self.shards.len()).try_for_each(|shard| self.check_size(folder, shard));
        }
        let listed = objects::list(folder).map_err(Error::io("read folder", folder))?;
        let listed: HashMap<_, _> = listed.into_iter().collect();
        (0..self.shards.len()).try_for_each(|shard| {
            self.compare_size(folder, shard, listed.get(&self.shard_path(folder, shard)).copied())
        })
    }

    fn compare_size(&self, folder: &Path, index: usize, found: Option<u64>) -> Result<()> {
        let path = self.shard_path(folder, index);
        let expected = self.shards[index].bytes;
        match found {
            Some(found) if found == expected => Ok(()),
            Some(found) => {
                Err(Error::data(format!("{found} bytes, but the manifest says {expected}")).at(path))
            }
            None => Err(Error::data("this file is missing, but the manifest lists it").at(path)),
        }
    }

    /// Reads the vocabulary and compares its digest and size with the manifest.
    ///
    /// # Errors
    /// Fails as [`Manifest::check_files`] does.
    pub(crate) fn check_vocabulary(&self, folder: &Path) -> Result<Vocabulary> {
        let path = self.vocabulary_path(folder);
        check_digest_of(&path, &self.vocabulary.blake3)?;
        let vocabulary = Vocabulary::read(&path)?;
        let found = vocabulary.len() as u64;
        let expected = self.vocabulary.size as u64;
        check_equal("the vocabulary's size", found, expected)
            .and_then(|()| self.check_replacements(&vocabulary))
            .map_err(|error| error.at(Self::path(folder)))?;
        Ok(vocabulary)
    }

    /// Compares the size of a shard with the manifest.
    ///
    /// # Errors
    /// Fails as [`Manifest::check_files`] does.
    pub(crate) fn check_size(&self, folder: &Path, index: usize) -> Result<()> {
        let path = self.shard_path(folder, index);
        let found = if_found(size(&path)).map_err(Error::io("read", &path))?;
        self.compare_size(folder, index, found)
    }

    /// Compares the digest of a shard with the manifest.
    ///
    /// # Errors
    /// Fails as [`Manifest::check_files`] does.
    pub(crate) fn check_digest(&self, folder: &Path, index: usize) -> Result<()> {
        check_digest_of(&self.shard_path(folder, index), &self.shards[index].blake3)
    }

    /// Compares the numbers of rows and row groups of a shard with the manifest.
    pub(crate) fn check_rows(&self, folder: &Path, index: usize, rows: u64, groups: u64) -> Result<()> {
        let path = self.shard_path(folder, index);
        let shard = &self.shards[index];
        check_equal("the shard's rows", rows, shard.rows)
            .and_then(|()| check_equal("the shard's row groups", groups, shard.row_groups))
            .map_err(|error| error.at(path))
    }
}

/// Compares two numbers of a manifest, or a number with a count.
pub(crate) fn check_equal(what: &'static str, found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::data(format!("{what} is {found}, expected {expected}")))
}

fn check_digest_of(path: &Path, expected: &str) -> Result<()> {
    let found = match digest_file(path) {
        Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => {
            return Err(Error::data("this file is missing, but the manifest lists it").at(path));
        }
        found => found?,
    };
    if found == expected {
        return Ok(());
    }
    Err(Error::data(format!("BLAKE3 digest {found}, but the manifest says {expected}")).at(path))
}
