//! Fills an output folder file by file, so that its last file shows that it is complete.
//!
//! A locked marker `.unfinished` is in the folder as long as it is not complete. When a process was killed, the
//! next one removes the files it left beside its marker, so the same command works again. Pre-training runs and
//! checkpoints do not need this: the former continue, the latter appear by one rename.

use bert_storage::{OutputLock, StagedFolder};

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
    pub(crate) folder: StagedFolder<'a>,
    contents: Contents,
    _locked: OutputLock,
}

impl<'a> Unfinished<'a> {
    /// Begins to fill a folder that is new, empty, or was left unfinished; hidden names in it do not count.
    pub(crate) fn begin(
        folder: StagedFolder<'a>,
        contents: Contents,
        hint: &'static str,
    ) -> Result<Self, Error> {
        Self::check_free(&folder, contents, hint)?;
        folder.create()?;
        let locked = folder.lock(MARKER)?;
        folder.sync()?;
        folder.remove_temporaries()?;
        let unfinished = Self { folder, contents, _locked: locked };
        unfinished.clear()?;
        Ok(unfinished)
    }

    /// Checks that a folder is new, empty, or was left unfinished. It writes nothing, so it may come before long work.
    pub(crate) fn check_free(
        folder: &StagedFolder<'_>,
        contents: Contents,
        hint: &'static str,
    ) -> Result<(), Error> {
        let left_over = folder.has(MARKER)? && !folder.has(contents.last)?;
        let is_foreign = |name: &String| is_visible(name) && !(left_over && (contents.is_ours)(name));
        match folder.names()?.iter().any(is_foreign) {
            true => Err(Error::output_exists(folder.path(), "other files", hint)),
            false => Ok(()),
        }
    }

    /// Takes the marker away: the last file is written.
    pub(crate) fn finish(self) -> Result<(), Error> {
        self.folder.remove(MARKER)?;
        Ok(self.folder.sync()?)
    }

    fn clear(&self) -> bert_storage::Result<()> {
        self.folder.clear(|name| is_visible(name) && (self.contents.is_ours)(name))
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // Where the file system does not say, the folder may be complete.
        if self.folder.has(self.contents.last).is_ok_and(|is_complete| !is_complete) && self.clear().is_ok() {
            let _ = self.folder.remove(MARKER);
        }
    }
}

/// Whether a folder was left before [`Unfinished::finish`].
///
/// # Errors
/// When that cannot be found out.
pub(crate) fn is_marked(folder: &StagedFolder<'_>) -> bert_storage::Result<bool> {
    folder.has(MARKER)
}

/// Whether a name is not hidden.
pub(crate) fn is_visible(name: &str) -> bool {
    !name.starts_with('.')
}
