//! Publishes a data set in an object store; readers see no data set until the manifest is written.
//!
//! The build works in a folder on disk. It writes a claim, `.build.json`, to the store. The claim names the build that
//! owns the shards. Each finished shard is uploaded and then deleted locally. The manifest is written last, and only if
//! no manifest exists yet. There are no locks: two processes with the same claim upload the same bytes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bert_storage::checksummed_json::{checksummed_json, read_checksummed};
use bert_storage::{Error, ObjectCache, if_found, is_url, objects, size};
use serde::{Deserialize, Serialize};

use crate::builder::output::card::CARD;
use crate::builder::output::scratch::folder_in;
use crate::config::check::conflict;
use crate::dataset::manifest::{MANIFEST, Manifest, ShardEntry, VOCABULARY};
use crate::error::{Result, finished_data_set};
use crate::shard::writer::is_shard_name;

/// The object that names the build to which the shards belong, until the manifest is written.
const CLAIM: &str = ".build.json";

#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    /// Digest of the options, vocabulary and text.
    build: String,
}

/// A data set in an object store.
#[derive(Debug)]
pub(crate) struct ObjectOutput {
    /// URL of the data set.
    pub(crate) url: PathBuf,
    overwrite: bool,
}

impl ObjectOutput {
    /// Returns the output for a URL, or `None` for a folder on disk.
    pub(crate) fn new(output: &Path, overwrite: bool) -> Option<Self> {
        is_url(output).then(|| Self { url: output.to_owned(), overwrite })
    }

    /// Returns the local folder in which the build works: a separate subfolder of the scratch folder. Parts share it,
    /// so `scratch` is required for them.
    pub(crate) fn work_folder(&self, scratch: Option<&Path>, is_part: bool) -> Result<PathBuf> {
        let folder = match scratch {
            Some(scratch) => scratch.to_owned(),
            None if is_part => {
                let reason = "the parts share a folder: add `.scratch DIR`";
                return conflict("part", "an `.output` in an object store", reason);
            }
            None => ObjectCache::user_folder("builds"),
        };
        folder_in(&folder, &self.url)
    }

    fn url_of(&self, name: &str) -> PathBuf {
        self.url.join(name)
    }

    /// Returns whether an object has this name.
    pub(crate) fn has(&self, name: &str) -> Result<bool> {
        Ok(self.size_of(name)?.is_some())
    }

    fn size_of(&self, name: &str) -> Result<Option<u64>> {
        let url = self.url_of(name);
        if_found(size(&url)).map_err(Error::io("read", &url))
    }

    /// Returns the manifest of a finished data set, unless it may be overwritten. Changes nothing.
    pub(crate) fn finished(&self) -> Result<Option<Manifest>> {
        if self.overwrite || !self.has(MANIFEST)? {
            return Ok(None);
        }
        Manifest::read(&self.url).map(Some)
    }

    /// Returns the error for a data set that another process has finished in the meantime.
    fn other_data_set(&self) -> Error {
        let differences = "another process has just finished it".to_owned();
        finished_data_set(&differences).at(&self.url)
    }

    fn holds_other_build(&self) -> Error {
        let advice = "repeat that command to finish it, or discard it with `.overwrite` (parts and engines: remove the files)";
        Error::usage(format!("this folder holds shards of another unfinished build: {advice}")).at(&self.url)
    }

    /// Claims the shards in the store for this build, or rejects the shards of another build. If a data set is
    /// overwritten, its manifest is removed first.
    pub(crate) fn claim(&self, build: &str) -> Result<()> {
        let url = self.url_of(CLAIM);
        let claim = Claim { build: build.to_owned() };
        let bytes = checksummed_json(&claim).into_bytes();
        let write_error = || Error::io("write", &url);
        while !objects::put_new(&url, bytes.clone()).map_err(write_error())? {
            match read_checksummed(&url) {
                // Another process has just finished its build.
                Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => continue,
                Err(error) if error.io_kind().is_some() => return Err(error),
                Ok(json) if serde_json::from_slice::<Claim>(&json).is_ok_and(|found| found == claim) => {
                    return Ok(());
                }
                _ if !self.overwrite => return Err(self.holds_other_build()),
                _ => {
                    self.remove(MANIFEST)?;
                    return objects::put(&url, bytes).map_err(write_error());
                }
            }
        }
        if self.overwrite {
            self.remove(MANIFEST)?;
        } else if self.has(MANIFEST)? {
            // Another build has finished since the first check.
            self.remove(CLAIM)?;
            return Err(self.other_data_set());
        }
        Ok(())
    }

    /// Returns whether a shard of this build is in the store.
    pub(crate) fn has_shard(&self, entry: &ShardEntry) -> Result<bool> {
        Ok(self.size_of(&entry.file)? == Some(entry.bytes))
    }

    /// Uploads a finished file and then deletes it from disk.
    pub(crate) fn upload(&self, file: &Path, name: &str) -> Result<()> {
        let url = self.url_of(name);
        objects::upload(file, &url).map_err(Error::io("upload to", &url))?;
        std::fs::remove_file(file).map_err(Error::io("remove", file))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let url = self.url_of(name);
        objects::put(&url, bytes.to_vec()).map_err(Error::io("write", &url))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let url = self.url_of(name);
        objects::remove(&url).map_err(Error::io("remove", &url))?;
        Ok(())
    }

    /// Uploads the remaining files of the data set, the manifest last, and removes files of earlier data sets.
    pub(crate) fn commit(&self, manifest: &Manifest, vocabulary: &[u8], card: &str) -> Result<()> {
        self.put(VOCABULARY, vocabulary)?;
        self.put(CARD, card.as_bytes())?;
        manifest.check_files(&self.url)?;
        let url = self.url_of(MANIFEST);
        let text = manifest.to_checksummed_json(&self.url)?.into_bytes();
        let is_new = objects::put_new(&url, text).map_err(Error::io("write", &url))?;
        // The manifest may be from an attempt of this process whose response was lost, or from another process that did
        // the same work.
        if !is_new && Manifest::read(&self.url)?.shards != manifest.shards {
            return Err(self.other_data_set());
        }
        self.clear_other_shards(manifest)
    }

    /// Removes the claim and the shards of an earlier data set.
    pub(crate) fn clear_other_shards(&self, manifest: &Manifest) -> Result<()> {
        self.remove(CLAIM)?;
        let keep: Vec<&str> = manifest.shards.iter().map(|shard| shard.file.as_str()).collect();
        let listed = objects::list(&self.url).map_err(Error::io("read folder", &self.url))?;
        let names = listed.iter().filter_map(|(url, _)| url.strip_prefix(&self.url).ok()?.to_str());
        names
            .filter(|name| is_shard_name(name) && !keep.contains(name))
            .try_for_each(|name| self.remove(name))
    }
}
