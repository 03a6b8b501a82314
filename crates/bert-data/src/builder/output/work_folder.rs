//! The work folder: stores the progress of a build, so that the same command can continue after an interruption.
//!
//! Every finished file has a small JSON receipt. The [`Identity`] in the folder identifies the command to which the
//! folder belongs: the options that affect the output bytes, the digest of the vocabulary, and the versions of the
//! random streams and the format. The contents of the inputs are recorded in the receipts of the token store
//! (`builder::token_store`); the location of the inputs does not matter. Receipts need no fsync: each contains digests,
//! and files that do not match are rebuilt.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bert_storage::{StagedFolder, digest_bytes};
use bert_text::TEXT_VERSION;
use serde::{Deserialize, Serialize};

use crate::config::resolved::ResolvedConfig;
use crate::dataset::manifest::Manifest;
use crate::error::{Result, unfinished_build};
use crate::program::is_of_this_version;
use crate::shard::writer::{FORMAT_VERSION, STREAMS_VERSION};

const IDENTITY: &str = "identity.json";
/// The receipt that records that earlier files were removed and that the work folder is complete.
pub(crate) const COMMITTING: &str = "commit.json";

/// Name prefixes of the token store's files: the documents, their index, and the receipts of both.
pub(crate) const TEXT_FILES: [&str; 3] = ["documents", "index", "text"];

/// Returns whether a name belongs to a file of the tokenized text.
pub(crate) fn is_text_file(name: &str) -> bool {
    TEXT_FILES.iter().any(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with('-')))
}

/// The values that determine the bytes of a data set and are known before the text is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    format_version: u32,
    streams_version: u32,
    /// Version of the conversion of files to sentences.
    text_version: u32,
    /// Digest of the vocabulary.
    vocabulary: String,
    /// The options. The number of shards is 0 if it follows from the text; paths do not affect the identity.
    options: ResolvedConfig,
}

/// The options that are paths.
const PATHS: [&str; 2] = ["input", "vocab"];

/// Options whose defaults follow from other options. They are listed last among the differences of two builds.
const DERIVED: [&str; 7] = [
    "`.max_predictions_per_seq`",
    "`.do_whole_word_mask`",
    "`.dupe_factor`",
    "`.language`",
    "`.masking`",
    "`.num_shards`",
    "`.text_column`",
];

/// A difference between two builds: the name of the option and both values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    name: String,
    there: String,
    here: String,
}

impl Difference {
    /// Returns the difference between builds with equal options: their texts.
    pub(crate) fn text() -> Self {
        Self {
            name: "the text".to_owned(),
            there: "another text".to_owned(),
            here: "the text of `.input`".to_owned(),
        }
    }
}

/// Lists all differences in a sentence: first the options that a user gave, then derived ones.
pub(crate) fn all_differences(differences: &[Difference]) -> String {
    let is_derived = |difference: &&Difference| DERIVED.contains(&difference.name.as_str());
    let (derived, given): (Vec<_>, Vec<_>) = differences.iter().partition(is_derived);
    let sentences = given
        .into_iter()
        .chain(derived)
        .map(|Difference { name, there, here }| format!("{name} is {there}, not {here}"));
    sentences.collect::<Vec<_>>().join(", and ")
}

impl Identity {
    pub(crate) fn new(options: ResolvedConfig, vocabulary: &[u8]) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            streams_version: STREAMS_VERSION,
            text_version: TEXT_VERSION,
            vocabulary: digest_bytes(vocabulary),
            options,
        }
    }

    /// Returns a copy with the number of shards that follows from the text.
    pub(crate) fn with_shards(&self, num_shards: usize) -> Self {
        Self { options: ResolvedConfig { num_shards, ..self.options.clone() }, ..self.clone() }
    }

    /// Returns a digest of the identity.
    pub(crate) fn digest(&self) -> String {
        let relevant = Self { options: self.options.without_paths(), ..self.clone() };
        digest_bytes(serde_json::to_string_pretty(&relevant).expect("plain data").as_bytes())
    }

    /// Returns the differences from the build that made a data set.
    pub(crate) fn differences_from(&self, manifest: &Manifest) -> Vec<Difference> {
        // A data set does not record the version of the random streams; the version of the program determines it.
        let streams_version = if is_of_this_version(&manifest.program) { STREAMS_VERSION } else { 0 };
        let there = Self {
            format_version: manifest.format_version,
            streams_version,
            text_version: if is_of_this_version(&manifest.program) { TEXT_VERSION } else { 0 },
            vocabulary: manifest.vocabulary.blake3.clone(),
            options: manifest.config.clone(),
        };
        self.differences(&serde_json::to_value(there).expect("plain data"))
    }

    /// Returns the differences from another identity.
    fn differences(&self, other: &serde_json::Value) -> Vec<Difference> {
        let flat = |value: &serde_json::Value| -> Vec<(String, String)> {
            let mut flat = Vec::new();
            for (key, value) in value.as_object().into_iter().flatten() {
                match value.as_object() {
                    Some(options) => {
                        let named = |(key, value): (&String, &serde_json::Value)| {
                            (format!("`.{key}`"), value.to_string())
                        };
                        let relevant = options.iter().filter(|(key, _)| !PATHS.contains(&key.as_str()));
                        flat.extend(relevant.map(named));
                    }
                    None => flat.push((format!("the {}", key.replace('_', " ")), value.to_string())),
                }
            }
            flat
        };
        let here = flat(&serde_json::to_value(self).expect("plain data"));
        let there = flat(other);
        let value_of = |name: &str| there.iter().find(|(other, _)| other == name).map(|(_, value)| value);
        let difference = |(name, here): (String, String)| {
            let there = value_of(&name).map_or("not there", String::as_str).to_owned();
            (there != here).then_some(Difference { name, there, here })
        };
        here.into_iter().filter_map(difference).collect()
    }
}

/// The work folder of this build.
#[derive(Debug)]
pub(crate) struct WorkFolder<'a> {
    pub(crate) folder: StagedFolder<'a>,
    /// Folder of the tokenized text: the same folder, or one on another disk.
    pub(crate) text: StagedFolder<'a>,
    pub(crate) identity: Identity,
    /// Whether the folder contains work that is worth keeping after a failure.
    worth_keeping: AtomicBool,
}

/// Rejects a work folder that another command left, unless it may be discarded.
pub(crate) fn check(folder: &StagedFolder<'_>, identity: &Identity, overwrite: bool) -> Result<()> {
    let Some(found) = folder.read_checksummed(IDENTITY)? else { return Ok(()) };
    let differences = identity.differences(&found);
    if differences.is_empty() || overwrite {
        return Ok(());
    }
    let differences = all_differences(&differences);
    Err(unfinished_build(&differences).at(output_of(folder)))
}

/// Removes the tokenized text from a folder, and the folder if it is then empty. Other files stay.
pub(crate) fn remove_text(folder: &StagedFolder<'_>) -> Result<()> {
    folder.clear(is_text_file)?;
    folder.remove_if_empty()?;
    Ok(())
}

/// Returns the folder that contains a work folder.
fn output_of<'f>(work: &'f StagedFolder<'_>) -> &'f Path {
    work.path().parent().unwrap_or(work.path())
}

impl<'a> WorkFolder<'a> {
    /// Opens or creates the work folder of this build. Removes the work folder of another build first.
    pub(crate) fn open(folder: StagedFolder<'a>, text: StagedFolder<'a>, identity: Identity) -> Result<Self> {
        let same =
            folder.read_checksummed(IDENTITY)?.is_some_and(|found| identity.differences(&found).is_empty());
        let work = Self { folder, text, identity, worth_keeping: AtomicBool::new(same) };
        if work.has_text_elsewhere() {
            work.text.create()?;
        }
        if same {
            work.folder.remove_temporaries()?;
            return Ok(work);
        }
        if work.folder.exists()? {
            work.folder.remove_all()?;
        }
        work.folder.create()?;
        work.folder.write_checksummed_unsynced(IDENTITY, &work.identity)?;
        Ok(work)
    }

    fn has_text_elsewhere(&self) -> bool {
        self.text.path() != self.folder.path()
    }

    /// Returns the inputs named by the command that created the folder and by this command, if the two differ.
    pub(crate) fn other_inputs(&self) -> Result<Option<(String, String)>> {
        let Some(found) = self.folder.read_checksummed::<serde_json::Value>(IDENTITY)? else {
            return Ok(None);
        };
        let Some(found) = found.pointer("/options/input").map(ToString::to_string) else { return Ok(None) };
        let here = serde_json::to_string(&self.identity.options.input).expect("plain data");
        Ok((found != here).then_some((found, here)))
    }

    /// Removes the results of an earlier command on different text, and records the input names of this command.
    pub(crate) fn restart(&self) -> Result<()> {
        self.clear_text()?;
        self.clear_except(|_| false)?;
        self.text.create()?;
        self.folder.write_checksummed_unsynced(IDENTITY, &self.identity)
    }

    /// Returns the output folder.
    pub(crate) fn output(&self) -> &Path {
        output_of(&self.folder)
    }

    /// Returns the path of a file in the work folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path_of(name)
    }

    /// Marks the folder as worth keeping: the same command can continue from it.
    pub(crate) fn keep(&self) {
        self.worth_keeping.store(true, Ordering::Relaxed);
    }

    /// Marks the folder as not worth keeping.
    pub(crate) fn discard(&self) {
        self.worth_keeping.store(false, Ordering::Relaxed);
    }

    /// Returns whether the folder is kept after a failure: [`WorkFolder::keep`] was called, or the folder existed before.
    pub(crate) fn is_kept(&self) -> bool {
        self.worth_keeping.load(Ordering::Relaxed)
    }

    /// Removes everything except the identity and the files that `stays` selects.
    pub(crate) fn clear_except(&self, stays: fn(&str) -> bool) -> Result<()> {
        self.folder.clear(|name| name != IDENTITY && !stays(name))
    }

    fn clear_text(&self) -> Result<()> {
        if self.has_text_elsewhere() { remove_text(&self.text) } else { Ok(()) }
    }

    /// Removes the folder. The identity and the commit receipt are removed last, so that the same command can resume
    /// the removal.
    pub(crate) fn remove_all(&self) -> Result<()> {
        self.clear_text()?;
        self.clear_except(|name| name == COMMITTING)?;
        self.folder.remove_all()
    }
}
