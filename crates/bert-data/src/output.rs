//! The output folder: what may be there before a build, and the steps that end with a committed data set.
//!
//! In goes a folder's path, out comes an [`Output`] that this process alone writes to. Files are made in a hidden
//! work folder and moved to their names at the end; the manifest is written last. A folder with anything in it that
//! is not ours is refused, and nothing is changed. Not for the files' content.

use std::fs;
use std::path::{Path, PathBuf};

use crate::card::CARD;
use crate::error::{Error, Result};
use crate::files::{Disk, FileSystem, LOCK, OutputLock, is_temporary, remove_temporaries};
use crate::manifest::{MANIFEST, Manifest, VOCABULARY};
use crate::shard::is_shard_name;

/// The work folder inside the output folder.
const WORK: &str = ".build";

/// An output folder, locked.
#[derive(Debug)]
pub(crate) struct Output {
    folder: PathBuf,
    work: PathBuf,
    _lock: OutputLock,
}

/// Refuses a folder that cannot be used. Changes nothing.
pub(crate) fn check(folder: &Path, overwrite: bool) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(_) if folder.exists() && !folder.is_dir() => {
            return Err(Error::OutputNotAFolder { path: folder.to_owned() });
        }
        Err(source) => return Err(Error::io("read folder", folder)(source)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(Error::io("read folder", folder))?.file_name());
    }
    names.sort();
    let has = |name: &str| names.iter().any(|other| other == name);
    // Shards, a vocabulary and a data card are ours only beside a manifest or the work folder of a build that did not end.
    let ours = has(MANIFEST) || has(WORK);
    let foreign = names.iter().find(|name| match name.to_str() {
        Some(LOCK | WORK | MANIFEST) => false,
        Some(name) if is_temporary(name) => false,
        Some(name) => !(ours && ([VOCABULARY, CARD].contains(&name) || is_shard_name(name))),
        None => true,
    });
    if let Some(found) = foreign {
        return Err(Error::OutputHoldsOtherData { path: folder.to_owned(), found: found.into() });
    }
    if has(MANIFEST) {
        // A manifest that is not one of ours belongs to somebody else.
        let readable = Manifest::read(folder);
        match readable {
            Err(Error::ManifestInvalid { .. }) => {
                return Err(Error::OutputHoldsOtherData { path: folder.to_owned(), found: MANIFEST.into() });
            }
            _ if !overwrite => return Err(Error::OutputFinished { path: folder.to_owned() }),
            _ => {}
        }
    }
    Ok(())
}

impl Drop for Output {
    /// After a failure nothing but the lock file stays; after a commit the work folder is gone already.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.work);
    }
}

impl Output {
    /// Makes the folder if need be, locks it, and clears what an unfinished build left.
    pub(crate) fn open(folder: &Path, overwrite: bool) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::io("create folder", folder))?;
        let lock = OutputLock::acquire(folder)?;
        // Again under the lock: another process may just have finished here.
        check(folder, overwrite)?;
        remove_temporaries(&Disk, folder)?;
        let work = folder.join(WORK);
        if work.exists() {
            fs::remove_dir_all(&work).map_err(Error::io("remove", &work))?;
        }
        fs::create_dir(&work).map_err(Error::io("create folder", &work))?;
        Ok(Self { folder: folder.to_owned(), work, _lock: lock })
    }

    /// The folder in which the files are made.
    pub(crate) fn work(&self) -> &Path {
        &self.work
    }

    /// The path of a file while it is made.
    pub(crate) fn work_path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// Moves the files to their names, writes the manifest and removes the work folder.
    pub(crate) fn commit(self, manifest: &Manifest) -> Result<()> {
        self.clear()?;
        let names = manifest.shards.iter().map(|shard| shard.file.as_str()).chain([VOCABULARY, CARD]);
        for name in names {
            let to = self.folder.join(name);
            Disk.rename(&self.work_path(name), &to).map_err(Error::io("rename to", &to))?;
        }
        Disk.sync_folder(&self.folder).map_err(Error::io("sync", &self.folder))?;
        manifest.write(&self.folder)?;
        fs::remove_dir_all(&self.work).map_err(Error::io("remove", &self.work))
    }

    /// Removes a former data set, its manifest first, so that no manifest ever speaks of missing shards.
    fn clear(&self) -> Result<()> {
        let manifest = self.folder.join(MANIFEST);
        if manifest.exists() {
            Disk.remove_file(&manifest).map_err(Error::io("remove", &manifest))?;
            Disk.sync_folder(&self.folder).map_err(Error::io("sync", &self.folder))?;
        }
        for entry in fs::read_dir(&self.folder).map_err(Error::io("read folder", &self.folder))? {
            let entry = entry.map_err(Error::io("read folder", &self.folder))?;
            if entry.file_name().to_str().is_some_and(is_shard_name) {
                Disk.remove_file(&entry.path()).map_err(Error::io("remove", &entry.path()))?;
            }
        }
        Ok(())
    }
}
