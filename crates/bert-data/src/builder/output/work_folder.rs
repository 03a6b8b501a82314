//! The work folder: keeps what a build has made so far, so that the same command can continue after a stop.
//!
//! Every finished file has a small JSON receipt. The [`Identity`] in the folder says which command it belongs to: the
//! options that decide the bytes, the vocabulary's digest, and the versions of the streams and the format. The contents
//! of the inputs are in the receipts of the token store (`builder::token_store`); where the inputs lie does not matter.
//! Receipts need no fsync: each holds digests, and what does not verify is made again.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::resolved::ResolvedConfig;
use crate::error::{Error, OutputError, Result};
use crate::shard::footer::FORMAT_VERSION;
use crate::shard::footer::STREAMS_VERSION;
use bert_storage::sealed::{read_sealed, sealed};
use bert_storage::{FileSystem, create_folder, digest_bytes, remove_temporaries};

const IDENTITY: &str = "identity.json";

/// What the names of the tokenized text's files begin with: the documents, where each begins, the receipts of both.
pub(crate) const TEXT_FILES: [&str; 3] = ["documents", "index", "text"];

/// Whether a name is that of a file of the tokenized text.
pub(crate) fn is_text_file(name: &str) -> bool {
    TEXT_FILES.iter().any(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with('-')))
}

/// What decides the bytes of a data set, as far as it is known before the text is read.
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

impl Identity {
    pub(crate) fn new(options: ResolvedConfig, vocabulary: &[u8]) -> Self {
        let (format_version, streams_version) = (FORMAT_VERSION, STREAMS_VERSION);
        Self { format_version, streams_version, vocabulary: digest_bytes(vocabulary), options }
    }

    /// A short form of it.
    pub(crate) fn digest(&self) -> String {
        let decisive = Self { options: self.options.without_paths(), ..self.clone() };
        digest_bytes(serde_json::to_string_pretty(&decisive).unwrap_or_default().as_bytes())
    }

    /// The first thing in which another identity differs: its name, and the values here and there.
    fn difference(&self, other: &serde_json::Value) -> Option<(String, String, String)> {
        let here = serde_json::to_value(self).unwrap_or_default();
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
        let there = flat(other);
        let value_of = |name: &str| there.iter().find(|(other, _)| other == name).map(|(_, value)| value);
        flat(&here).into_iter().find_map(|(name, value)| {
            let other = value_of(&name).map_or("not there", String::as_str);
            (other != value).then(|| (name, value, other.to_owned()))
        })
    }
}

/// A work folder that belongs to this build.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) files: &'a dyn FileSystem,
    folder: PathBuf,
    /// Where the tokenized text is: in the same folder, or in one on another disk.
    text: PathBuf,
    pub(crate) identity: Identity,
    /// Whether something in it is worth keeping after a failure.
    worth_keeping: AtomicBool,
}

/// The identity of a work folder; `None` where there is none or it cannot be read.
fn identity_in(folder: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&read_sealed(&folder.join(IDENTITY)).ok()?).ok()
}

/// Refuses a work folder that another command left, unless it may be discarded.
pub(crate) fn check(folder: &Path, identity: &Identity, overwrite: bool) -> Result<()> {
    let Some(found) = identity_in(folder) else { return Ok(()) };
    match identity.difference(&found) {
        Some((option, expected, found)) if !overwrite => {
            let path = folder.parent().unwrap_or(folder).to_owned();
            Err(OutputError::Unfinished { path, option, found, expected }.into())
        }
        _ => Ok(()),
    }
}

/// A receipt in a work folder; `None` where there is none whose seal holds.
pub(crate) fn read_receipt_at<T: DeserializeOwned>(folder: &Path, name: &str) -> Option<T> {
    serde_json::from_slice(&read_sealed(&folder.join(name)).ok()?).ok()
}

/// Removes the tokenized text from a folder, and the folder if it has nothing else.
pub(crate) fn remove_text(files: &dyn FileSystem, folder: &Path) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::io("read folder", folder))?,
    };
    for entry in entries {
        let entry = entry.map_err(Error::io("read folder", folder))?;
        if is_text_file(&entry.file_name().to_string_lossy()) {
            files.remove_file(&entry.path()).map_err(Error::io("remove", &entry.path()))?;
        }
    }
    // What somebody else put there stays.
    let _ = fs::remove_dir(folder);
    Ok(())
}

impl<'a> Work<'a> {
    /// Opens the work folder of this build, or makes it anew where there is none or another one, which is then removed.
    pub(crate) fn open(
        files: &'a dyn FileSystem,
        folder: &Path,
        text: &Path,
        identity: Identity,
    ) -> Result<Self> {
        let same = identity_in(folder).is_some_and(|found| identity.difference(&found).is_none());
        let worth_keeping = AtomicBool::new(same);
        let work = Self { files, folder: folder.to_owned(), text: text.to_owned(), identity, worth_keeping };
        if text != folder {
            create_folder(files, text)?;
        }
        if same {
            remove_temporaries(files, folder)?;
            return Ok(work);
        }
        if folder.exists() {
            files.remove_dir_all(folder).map_err(Error::io("remove", folder))?;
        }
        create_folder(files, folder)?;
        work.write_receipt(IDENTITY, &work.identity)?;
        Ok(work)
    }

    /// The inputs as the command named them that began the folder, where it named others than this one does.
    pub(crate) fn other_inputs(&self) -> Option<(String, String)> {
        let found = identity_in(&self.folder)?.get("options")?.get("input")?.to_string();
        let here = serde_json::to_string(&self.identity.options.input).unwrap_or_default();
        (found != here).then_some((found, here))
    }

    /// Removes what an earlier command left of other text, and goes on under the names that this one gives the inputs.
    pub(crate) fn begin_anew(&self) -> Result<()> {
        self.clear()?;
        create_folder(self.files, &self.text)?;
        self.write_receipt(IDENTITY, &self.identity)
    }

    /// The folder that it works for.
    pub(crate) fn output(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The path of a file of the tokenized text.
    pub(crate) fn text_path(&self, name: &str) -> PathBuf {
        self.text.join(name)
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

    /// Writes a receipt under its name in one step.
    pub(crate) fn write_receipt<T: Serialize>(&self, name: &str, receipt: &T) -> Result<()> {
        self.write_receipt_at(&self.folder, name, receipt)
    }

    /// Writes a receipt of the tokenized text.
    pub(crate) fn write_text_receipt<T: Serialize>(&self, name: &str, receipt: &T) -> Result<()> {
        self.write_receipt_at(&self.text, name, receipt)
    }

    fn write_receipt_at<T: Serialize>(&self, folder: &Path, name: &str, receipt: &T) -> Result<()> {
        let (path, temporary) = (folder.join(name), folder.join(format!("{name}.new")));
        let write = || {
            let mut file = self.files.create(&temporary)?;
            file.write_all(sealed(receipt).as_bytes())?;
            file.flush()
        };
        write().map_err(Error::io("write", &path))?;
        self.files.rename(&temporary, &path).map_err(Error::io("rename to", &path))
    }

    /// A receipt; `None` where there is none whose seal holds.
    pub(crate) fn read_receipt<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        read_receipt_at(&self.folder, name)
    }

    /// A receipt of the tokenized text.
    pub(crate) fn read_text_receipt<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        read_receipt_at(&self.text, name)
    }

    /// Removes a file; says whether it was there.
    pub(crate) fn remove(&self, name: &str) -> Result<bool> {
        let path = self.path(name);
        if !path.exists() {
            return Ok(false);
        }
        self.files.remove_file(&path).map_err(Error::io("remove", &path))?;
        Ok(true)
    }

    /// Removes everything but the identity and what is to stay.
    pub(crate) fn clear_but(&self, stays: fn(&str) -> bool) -> Result<()> {
        for entry in fs::read_dir(&self.folder).map_err(Error::io("read folder", &self.folder))? {
            let name = entry.map_err(Error::io("read folder", &self.folder))?.file_name();
            let name = name.to_string_lossy();
            if name != IDENTITY && !stays(&name) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    fn clear(&self) -> Result<()> {
        if self.text != self.folder {
            remove_text(self.files, &self.text)?;
        }
        self.clear_but(|_| false)
    }

    /// Removes the folder: the identity last, so that what is left of it is known as ours.
    pub(crate) fn remove_all(&self) -> Result<()> {
        self.clear()?;
        self.files.remove_dir_all(&self.folder).map_err(Error::io("remove", &self.folder))
    }
}
