//! Opens and locks the output folder, and takes the steps that end with a committed data set.
//!
//! Only this process writes to a locked [`Output`]; parts of a build share the folder, each with its own lock. Files
//! are made in a hidden work folder and moved to their names at the end. The manifest is written last. After a failure
//! the work folder stays if there is something to keep, and the same command continues from there. A folder that holds
//! anything else is refused and left as it is.

pub(crate) mod card;
pub(crate) mod part_receipt;
pub(crate) mod work_folder;

use std::fs;
use std::path::{Path, PathBuf};

use crate::builder::output::card::CARD;
use crate::builder::output::work_folder::{Identity, Work};
use crate::config::part::{Owner, Part, owner_of};
use crate::dataset::manifest::{MANIFEST, Manifest, VOCABULARY};
use crate::error::{Error, ManifestError, OutputError, Result};
use crate::shard::writer::is_shard_name;
use bert_storage::{FileSystem, LOCK, OutputLock, create_folder, is_temporary, remove_temporaries};

/// The receipt that says that former files are cleared and everything in the work folder is complete.
const COMMITTING: &str = "commit.json";

/// An output folder, locked.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    files: &'a dyn FileSystem,
    pub(crate) folder: PathBuf,
    pub(crate) work: Work<'a>,
    /// Where the parts have the tokenized text.
    text: PathBuf,
    /// Whether the folder was made for this build.
    created: bool,
    _locks: Vec<OutputLock>,
}

fn names_in(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read folder", folder))? {
        let name = entry.map_err(Error::io("read folder", folder))?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// The first name that belongs to somebody else.
fn find_foreign(names: &[String]) -> Option<&String> {
    // Shards, a vocabulary and a data card are ours only beside a manifest, or what a build leaves that did not end.
    let ours = names
        .iter()
        .any(|name| name == MANIFEST || matches!(owner_of(name), Some(Owner::Work(_) | Owner::Receipt(_))));
    names.iter().find(|name| {
        let known = owner_of(name).is_some() || is_temporary(name) || *name == MANIFEST;
        !(known || (ours && ([VOCABULARY, CARD].contains(&name.as_str()) || is_shard_name(name))))
    })
}

/// Refuses a folder that cannot be used. Changes nothing.
pub(crate) fn check(folder: &Path, overwrite: bool, part: Part, identity: &Identity) -> Result<()> {
    if folder.exists() && !folder.is_dir() {
        return Err(OutputError::NotAFolder { path: folder.to_owned() }.into());
    }
    if !folder.exists() {
        return Ok(());
    }
    let names = names_in(folder)?;
    if let Some(found) = find_foreign(&names) {
        return Err(OutputError::HoldsOtherData { path: folder.to_owned(), found: found.into() }.into());
    }
    let committing = folder.join(part.work_name()).join(COMMITTING).exists();
    if names.iter().any(|name| name == MANIFEST) {
        // A manifest that is not one of ours belongs to somebody else.
        match Manifest::read(folder) {
            Err(Error::Manifest(ManifestError::Invalid { .. })) => {
                return Err(
                    OutputError::HoldsOtherData { path: folder.to_owned(), found: MANIFEST.into() }.into()
                );
            }
            // It may be that of this very command, killed at its end.
            _ if !overwrite && !committing => {
                return Err(OutputError::Finished { path: folder.to_owned() }.into());
            }
            _ => {}
        }
    }
    for name in &names {
        let Some(Owner::Work(other) | Owner::Receipt(other)) = owner_of(name) else { continue };
        if other.of != part.of && !overwrite {
            return Err(OutputError::Unfinished {
                path: folder.to_owned(),
                option: "--parts".to_owned(),
                found: other.of.to_string(),
                expected: part.of.to_string(),
            }
            .into());
        }
        if name.starts_with(".build") {
            work_folder::check(&folder.join(name), identity, overwrite)?;
        }
    }
    Ok(())
}

impl Drop for Output<'_> {
    /// After a failure with nothing to go on from, nothing stays.
    fn drop(&mut self) {
        if self.work.is_kept() {
            return;
        }
        let _ = self.work.remove_all();
        if self.created && names_in(&self.folder).is_ok_and(|names| names == [LOCK]) {
            let _ = self.files.remove_dir_all(&self.folder);
        }
    }
}

impl<'a> Output<'a> {
    /// Makes the folder if need be, locks it, and opens its work folder: that of this build, or a new one.
    pub(crate) fn open(
        files: &'a dyn FileSystem,
        folder: &Path,
        scratch: Option<&Path>,
        overwrite: bool,
        part: Part,
        identity: Identity,
    ) -> Result<Self> {
        let created = !folder.exists();
        create_folder(files, folder)?;
        let mut locks = if part.is_whole() {
            vec![OutputLock::acquire_on(files, folder)?]
        } else {
            // Parts work side by side, each alone on its part.
            vec![
                OutputLock::share_on(files, folder)?,
                OutputLock::acquire_as(files, folder, &part.lock_name())?,
            ]
        };
        let text = scratch.unwrap_or(folder);
        if text != folder {
            create_folder(files, text)?;
            locks.push(OutputLock::acquire_as(files, text, &part.lock_name())?);
        }
        // Again under the lock: another process may just have finished here.
        check(folder, overwrite, part, &identity)?;
        if part.is_whole() {
            remove_temporaries(files, folder)?;
        }
        let name = part.work_name();
        let work = Work::open(files, &folder.join(&name), &text.join(name), identity)?;
        Ok(Self { files, folder: folder.to_owned(), work, text: text.to_owned(), created, _locks: locks })
    }

    /// Where a part has its share of the tokenized text.
    pub(crate) fn text_folder(&self, part: Part) -> PathBuf {
        self.text.join(part.work_name())
    }

    /// Whether an earlier run of this command got as far as moving its files.
    pub(crate) fn is_committing(&self) -> bool {
        self.work.path(COMMITTING).exists()
    }

    /// Where a finished file is: in the work folder, or under its name already.
    pub(crate) fn find(&self, name: &str) -> PathBuf {
        let work = self.work.path(name);
        if self.is_committing() && !work.exists() { self.folder.join(name) } else { work }
    }

    /// Where an earlier run of this command got as far as the manifest: what it says. Only the work folder is left
    /// then.
    pub(crate) fn committed(&self) -> Result<Option<Manifest>> {
        if !self.is_committing() || !Manifest::path(&self.folder).exists() {
            return Ok(None);
        }
        let manifest = Manifest::read(&self.folder)?;
        manifest.check_files(&self.folder)?;
        self.work.remove_all()?;
        self.work.keep();
        Ok(Some(manifest))
    }

    /// Moves the files to their names, writes the manifest and removes the work folder.
    pub(crate) fn commit(self, manifest: &Manifest) -> Result<()> {
        if !self.is_committing() {
            clear(self.files, &self.folder)?;
        }
        self.start_publishing()?;
        let names = manifest.shards.iter().map(|shard| shard.file.as_str()).chain([VOCABULARY, CARD]);
        self.publish(names)?;
        manifest.write_on(self.files, &self.folder)?;
        self.work.remove_all()?;
        self.work.keep();
        Ok(())
    }

    /// Says for good that from now on files move to their names.
    pub(crate) fn start_publishing(&self) -> Result<()> {
        if !self.is_committing() {
            self.work.write_receipt(COMMITTING, &self.work.identity)?;
            let work = self.work.path("");
            self.files.sync_folder(&work).map_err(Error::io("sync", &work))?;
        }
        Ok(())
    }

    /// Moves finished files to their names, as far as they are not there yet.
    pub(crate) fn publish<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<()> {
        for name in names {
            let (from, to) = (self.work.path(name), self.folder.join(name));
            if from.exists() {
                self.files.rename(&from, &to).map_err(Error::io("rename to", &to))?;
            }
        }
        self.files.sync_folder(&self.folder).map_err(Error::io("sync", &self.folder))
    }
}

/// Removes the tokenized text that parts left in their scratch folder.
///
/// # Errors
/// [`Error::Storage`].
pub fn clear_scratch(files: &dyn FileSystem, folder: &Path) -> Result<()> {
    for name in names_in(folder)? {
        let path = folder.join(&name);
        match owner_of(&name) {
            Some(Owner::Work(_)) => work_folder::remove_text(files, &path)?,
            Some(Owner::Lock(_) | Owner::Folder) => {
                files.remove_file(&path).map_err(Error::io("remove", &path))?
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes a former data set, its manifest first, so that no manifest ever speaks of missing shards, and what parts
/// left.
fn clear(files: &dyn FileSystem, folder: &Path) -> Result<()> {
    let manifest = folder.join(MANIFEST);
    if manifest.exists() {
        files.remove_file(&manifest).map_err(Error::io("remove", &manifest))?;
        files.sync_folder(folder).map_err(Error::io("sync", folder))?;
    }
    clear_beside(files, folder, &[])
}

/// Removes shards but those named, and what parts left.
pub(crate) fn clear_beside(files: &dyn FileSystem, folder: &Path, keep: &[&str]) -> Result<()> {
    for name in names_in(folder)? {
        let path = folder.join(&name);
        let removed = match owner_of(&name) {
            Some(Owner::Work(part)) if !part.is_whole() => files.remove_dir_all(&path),
            Some(Owner::Receipt(_) | Owner::Lock(_)) => files.remove_file(&path),
            None if is_shard_name(&name) && !keep.contains(&name.as_str()) => files.remove_file(&path),
            _ => Ok(()),
        };
        removed.map_err(Error::io("remove", &path))?;
    }
    files.sync_folder(folder).map_err(Error::io("sync", folder))
}
