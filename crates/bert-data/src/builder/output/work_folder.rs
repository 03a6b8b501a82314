//! The work folder: keeps what a build has made so far, so that the same command can continue after a stop.
//!
//! Every finished file has a small JSON receipt. The [`Identity`] in the folder says which command it belongs to: the
//! options that decide the bytes, the vocabulary's digest, and the versions of the streams and the format. The contents
//! of the inputs are in the receipts of the token store (`builder::token_store`); where the inputs lie does not matter.
//! Receipts need no fsync: each holds digests, and what does not verify is made again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::config::resolved::ResolvedConfig;
use crate::dataset::manifest::{Manifest, PROGRAM};
use crate::error::{Locate, OutputProblem, Result};
use crate::shard::footer::{FORMAT_VERSION, STREAMS_VERSION};
use bert_storage::{StagedFolder, digest_bytes};

const IDENTITY: &str = "identity.json";
/// The receipt that says that former files are cleared and everything in the work folder is complete.
pub(crate) const COMMITTING: &str = "commit.json";

/// The beginnings of the names of the tokenized text's files: the documents, where each begins, the receipts of both.
pub(crate) const TEXT_FILES: [&str; 3] = ["documents", "index", "text"];

/// Whether a name belongs to a file of the tokenized text.
pub(crate) fn is_text_file(name: &str) -> bool {
    TEXT_FILES.iter().any(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with('-')))
}

/// The values that decide the bytes of a data set, as far as they are known before the text is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    format_version: u32,
    streams_version: u32,
    /// The vocabulary's digest.
    vocabulary: String,
    /// The options; the number of shards is 0 where it follows from the text, and the paths decide nothing.
    options: ResolvedConfig,
}

/// The options that are paths.
const PATHS: [&str; 2] = ["input", "vocab"];

/// Options that follow from others where they are not given. They are named last where a build differs from another.
const DERIVED: [&str; 7] = [
    "--max-predictions-per-seq",
    "--do-whole-word-mask",
    "--dupe-factor",
    "--language",
    "--masking",
    "--num-shards",
    "--text-column",
];

/// In what two builds differ: the name, and the values there and here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    name: String,
    there: String,
    here: String,
}

impl Difference {
    /// The difference of builds that have all options in common.
    pub(crate) fn text() -> Self {
        Self {
            name: "the text".to_owned(),
            there: "another one".to_owned(),
            here: "that of --input".to_owned(),
        }
    }
}

/// Names all differences in a sentence, those that a user gave before those that follow from them.
pub(crate) fn all_differences(differences: &[Difference]) -> String {
    let is_derived = |difference: &&Difference| DERIVED.contains(&difference.name.as_str());
    let (derived, given): (Vec<_>, Vec<_>) = differences.iter().partition(is_derived);
    let said = given
        .into_iter()
        .chain(derived)
        .map(|Difference { name, there, here }| format!("{name} is {there}, not {here}"));
    said.collect::<Vec<_>>().join(", and ")
}

impl Identity {
    pub(crate) fn new(options: ResolvedConfig, vocabulary: &[u8]) -> Self {
        let (format_version, streams_version) = (FORMAT_VERSION, STREAMS_VERSION);
        Self { format_version, streams_version, vocabulary: digest_bytes(vocabulary), options }
    }

    /// The same with the number of shards that the text decides.
    pub(crate) fn with_shards(&self, num_shards: usize) -> Self {
        Self { options: ResolvedConfig { num_shards, ..self.options.clone() }, ..self.clone() }
    }

    /// A short form of it.
    pub(crate) fn digest(&self) -> String {
        let decisive = Self { options: self.options.without_paths(), ..self.clone() };
        digest_bytes(serde_json::to_string_pretty(&decisive).expect("plain data").as_bytes())
    }

    /// In what it differs from the build that made a data set.
    pub(crate) fn differences_from(&self, manifest: &Manifest) -> Vec<Difference> {
        // A data set does not name the version of its streams; the version of the program decides it.
        let streams_version = if manifest.program == PROGRAM { STREAMS_VERSION } else { 0 };
        let there = Self {
            format_version: manifest.format_version,
            streams_version,
            vocabulary: manifest.vocabulary.blake3.clone(),
            options: manifest.config.clone(),
        };
        self.differences(&serde_json::to_value(there).expect("plain data"))
    }

    /// In what another identity differs.
    fn differences(&self, other: &serde_json::Value) -> Vec<Difference> {
        let flat = |value: &serde_json::Value| -> Vec<(String, String)> {
            let mut flat = Vec::new();
            for (key, value) in value.as_object().into_iter().flatten() {
                match value.as_object() {
                    Some(options) => {
                        let named = |(key, value): (&String, &serde_json::Value)| {
                            (format!("--{}", key.replace('_', "-")), value.to_string())
                        };
                        let decisive = options.iter().filter(|(key, _)| !PATHS.contains(&key.as_str()));
                        flat.extend(decisive.map(named));
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

/// A work folder that belongs to this build.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) folder: StagedFolder<'a>,
    /// Where the tokenized text is: in the same folder, or in one on another disk.
    pub(crate) text: StagedFolder<'a>,
    pub(crate) identity: Identity,
    /// Whether something in it is worth keeping after a failure.
    worth_keeping: AtomicBool,
}

/// Refuses a work folder that another command left, unless it may be discarded.
pub(crate) fn check(folder: &StagedFolder<'_>, identity: &Identity, overwrite: bool) -> Result<()> {
    let Some(found) = folder.noted(IDENTITY)? else { return Ok(()) };
    let differences = identity.differences(&found);
    if differences.is_empty() || overwrite {
        return Ok(());
    }
    let differences = all_differences(&differences);
    Err(OutputProblem::Unfinished { differences }.at(output_of(folder)).into())
}

/// Removes the tokenized text from a folder, and the folder if it has nothing else: what somebody else put there stays.
pub(crate) fn remove_text(folder: &StagedFolder<'_>) -> Result<()> {
    folder.clear(is_text_file)?;
    folder.remove_if_empty()?;
    Ok(())
}

/// The folder that a work folder is in.
fn output_of<'f>(work: &'f StagedFolder<'_>) -> &'f Path {
    work.path().parent().unwrap_or(work.path())
}

impl<'a> Work<'a> {
    /// Opens the work folder of this build, or makes it. Removes the work folder of another build first.
    pub(crate) fn open(folder: StagedFolder<'a>, text: StagedFolder<'a>, identity: Identity) -> Result<Self> {
        let same = folder.noted(IDENTITY)?.is_some_and(|found| identity.differences(&found).is_empty());
        let work = Self { folder, text, identity, worth_keeping: AtomicBool::new(same) };
        if work.has_text_elsewhere() {
            work.text.create()?;
        }
        if same {
            work.folder.remove_temporaries()?;
            return Ok(work);
        }
        if work.folder.is_there()? {
            work.folder.remove_all()?;
        }
        work.folder.create()?;
        work.folder.note(IDENTITY, &work.identity)?;
        Ok(work)
    }

    fn has_text_elsewhere(&self) -> bool {
        self.text.path() != self.folder.path()
    }

    /// The inputs as the command named them that began the folder, where it named others than this one does.
    pub(crate) fn other_inputs(&self) -> Result<Option<(String, String)>> {
        let Some(found) = self.folder.noted::<serde_json::Value>(IDENTITY)? else { return Ok(None) };
        let Some(found) = found.pointer("/options/input").map(ToString::to_string) else { return Ok(None) };
        let here = serde_json::to_string(&self.identity.options.input).expect("plain data");
        Ok((found != here).then_some((found, here)))
    }

    /// Removes the results of an earlier command on other text, and notes the names that this one gives the inputs.
    pub(crate) fn begin_anew(&self) -> Result<()> {
        self.clear_text()?;
        self.clear_but(|_| false)?;
        self.text.create()?;
        Ok(self.folder.note(IDENTITY, &self.identity)?)
    }

    /// The folder that it works for.
    pub(crate) fn output(&self) -> &Path {
        output_of(&self.folder)
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.at(name)
    }

    /// Says that there is something in the folder that the same command can use.
    pub(crate) fn keep(&self) {
        self.worth_keeping.store(true, Ordering::Relaxed);
    }

    /// Says that there is nothing in the folder worth keeping.
    pub(crate) fn discard(&self) {
        self.worth_keeping.store(false, Ordering::Relaxed);
    }

    /// Whether [`Work::keep`] was called, or the folder was there before.
    pub(crate) fn is_kept(&self) -> bool {
        self.worth_keeping.load(Ordering::Relaxed)
    }

    /// Removes everything but the identity and what is to stay.
    pub(crate) fn clear_but(&self, stays: fn(&str) -> bool) -> Result<()> {
        Ok(self.folder.clear(|name| name != IDENTITY && !stays(name))?)
    }

    fn clear_text(&self) -> Result<()> {
        if self.has_text_elsewhere() { remove_text(&self.text) } else { Ok(()) }
    }

    /// Removes the folder: last what says whose it is and whether its files have their names, so that the same command
    /// can continue to remove it.
    pub(crate) fn remove_all(&self) -> Result<()> {
        self.clear_text()?;
        self.clear_but(|name| name == COMMITTING)?;
        Ok(self.folder.remove_all()?)
    }
}
