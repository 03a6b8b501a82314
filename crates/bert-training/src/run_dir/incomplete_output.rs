//! Fills an output folder file by file, with a marker as long as it is incomplete.
//!
//! A locked marker `.unfinished` is in the folder until the folder is complete. If a process was killed, the next
//! process deletes the files that the killed process left with its marker, so the same command works again.
//! Pre-training runs and checkpoints do not need this: runs are resumed, and checkpoints appear by one rename.

use bert_storage::{OutputLock, StagedFolder};

use crate::error::{Error, output_exists};

const MARKER: &str = ".unfinished";
/// Folder of the event files for TensorBoard, which are kept when a stopped fine-tuning is resumed.
const EVENT_FILES: &str = "tensorboard";

/// The names of the files that belong to an output folder, and the name of the file that is written last.
#[derive(Clone, Copy)]
pub struct Contents {
    /// The name of the file that is written last.
    pub last: &'static str,
    /// Function that returns whether a file name belongs to the output.
    pub is_ours: fn(&str) -> bool,
}

/// A folder being filled. If it is dropped before [`OutputGuard::finish`], its files are deleted.
pub struct OutputGuard<'a> {
    /// The folder.
    pub folder: StagedFolder<'a>,
    contents: Contents,
    _locked: OutputLock,
}

impl<'a> OutputGuard<'a> {
    /// Starts to fill a folder that is new, empty or incomplete; hidden files in it are ignored.
    pub fn begin(folder: StagedFolder<'a>, contents: Contents, hint: &'static str) -> Result<Self, Error> {
        Self::check_free(&folder, contents, hint)?;
        folder.create()?;
        let locked = folder.lock(MARKER)?;
        folder.sync()?;
        folder.remove_temporaries()?;
        let unfinished = Self { folder, contents, _locked: locked };
        unfinished.clear()?;
        Ok(unfinished)
    }

    /// Checks that a folder is new, empty or incomplete. It writes nothing, so it can be called before long work.
    pub fn check_free(
        folder: &StagedFolder<'_>,
        contents: Contents,
        hint: &'static str,
    ) -> Result<(), Error> {
        let left_over = folder.has(MARKER)? && !folder.has(contents.last)?;
        let is_foreign = |name: &String| {
            is_visible(name) && name != EVENT_FILES && !(left_over && (contents.is_ours)(name))
        };
        if folder.names()?.iter().any(is_foreign) {
            Err(output_exists(folder.path(), "other files", hint))
        } else {
            Ok(())
        }
    }

    /// Deletes the marker, after the last file is written.
    pub fn finish(self) -> Result<(), Error> {
        unmark(&self.folder)
    }

    fn clear(&self) -> bert_storage::Result<()> {
        self.folder.clear(|name| is_visible(name) && (self.contents.is_ours)(name))
    }
}

impl Drop for OutputGuard<'_> {
    fn drop(&mut self) {
        // If the check fails, the folder may be complete, so it is kept. A marker that cannot be deleted is ignored:
        // the next process accepts a folder with a marker.
        if self.folder.has(self.contents.last).is_ok_and(|is_complete| !is_complete) && self.clear().is_ok() {
            let _ = self.folder.remove(MARKER);
        }
    }
}

/// Deletes the marker of a complete folder, which a killed process has left.
///
/// # Errors
/// Fails when the folder cannot be changed.
pub fn unmark(folder: &StagedFolder<'_>) -> Result<(), Error> {
    folder.remove(MARKER)?;
    folder.sync()
}

/// Returns whether a folder has the marker of an incomplete output, which [`OutputGuard::finish`] deletes.
pub fn is_marked(folder: &StagedFolder<'_>) -> bert_storage::Result<bool> {
    folder.has(MARKER)
}

/// Returns whether a name is not hidden.
pub(crate) fn is_visible(name: &str) -> bool {
    !name.starts_with('.')
}
