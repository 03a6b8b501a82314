//! Fills an output folder file by file, so that its last file shows that it is complete.
//!
//! A locked marker `.unfinished` is in the folder as long as it is not complete. When a process was killed, the
//! next one removes the files it left beside its marker, so the same command works again. Pre-training runs and
//! checkpoints do not need this: the former continue, the latter appear by one rename.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use bert_storage::{FileSystem, create_folder, remove_temporaries};

use crate::error::Error;

const MARKER: &str = ".unfinished";

/// Names that a folder may hold, and the one that is written last.
#[derive(Clone, Copy)]
pub(crate) struct Contents {
    pub(crate) last: &'static str,
    pub(crate) is_ours: fn(&str) -> bool,
}

/// A folder in work. Dropped before [`Unfinished::finish`], it removes what was written.
pub(crate) struct Unfinished<'a> {
    files: &'a dyn FileSystem,
    folder: PathBuf,
    contents: Contents,
    _locked: File,
}

impl<'a> Unfinished<'a> {
    /// Begins to fill a folder that is new, empty, or was left unfinished; hidden names in it do not count.
    pub(crate) fn begin(
        files: &'a dyn FileSystem,
        folder: &Path,
        contents: Contents,
        hint: &'static str,
    ) -> Result<Self, Error> {
        let marker = folder.join(MARKER);
        let left_over = marker.exists() && !folder.join(contents.last).exists();
        let foreign = visible_names(folder).iter().any(|name| !(left_over && (contents.is_ours)(name)));
        if foreign {
            return Err(Error::OutputExists { path: folder.to_path_buf(), what: "other files", hint });
        }
        create_folder(files, folder)?;
        let io = |e| Error::io(&marker, e);
        let locked = files.open_lock(&marker).map_err(io)?;
        match locked.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(bert_storage::Error::InUse { path: folder.to_path_buf() }.into());
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        files.sync_folder(folder).map_err(|e| Error::io(folder, e))?;
        let unfinished = Self { files, folder: folder.to_path_buf(), contents, _locked: locked };
        remove_temporaries(files, folder)?;
        unfinished.clear()?;
        Ok(unfinished)
    }

    /// Takes the marker away: the last file is written.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let marker = self.folder.join(MARKER);
        self.files.remove_file(&marker).map_err(|e| Error::io(&marker, e))?;
        self.files.sync_folder(&self.folder).map_err(|e| Error::io(&self.folder, e))
    }

    fn clear(&self) -> Result<(), Error> {
        for name in visible_names(&self.folder).iter().filter(|name| (self.contents.is_ours)(name)) {
            let path = self.folder.join(name);
            let removed =
                if path.is_dir() { self.files.remove_dir_all(&path) } else { self.files.remove_file(&path) };
            removed.map_err(|e| Error::io(&path, e))?;
        }
        Ok(())
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.folder.join(self.contents.last).exists() && self.clear().is_ok() {
            let _ = self.files.remove_file(&self.folder.join(MARKER));
        }
    }
}

fn visible_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with('.')).collect()
}
