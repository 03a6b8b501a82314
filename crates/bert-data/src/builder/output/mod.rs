//! Opens and locks the output folder, and commits the finished data set.
//!
//! Only this process writes to a locked [`Output`]; the parts of a build share the folder, each with its own lock.
//! Files are written to a hidden work folder and renamed at the end. The manifest is written last. After a failure, the
//! work folder stays if it contains finished work, and the same command continues from there. A folder that contains
//! other files and nothing from a build is rejected and left unchanged.

pub(crate) mod card;
pub(crate) mod object_output;
pub(crate) mod scratch;
pub(crate) mod work_folder;

use std::path::{Path, PathBuf};

use bert_storage::{Class, FileSystem, LOCK, OutputLock, StagedFolder, on_disk};

use crate::builder::output::card::{CARD, card};
use crate::builder::output::object_output::ObjectOutput;
use crate::builder::output::scratch::{clear_text, folder_in};
use crate::builder::output::work_folder::{COMMITTING, Identity, WorkFolder};
use crate::builder::prepare::PreparedBuild;
use crate::config::hold_out::HELD_OUT_FOLDER;
use crate::config::part::{Owner, Part, owner_of};
use crate::dataset::manifest::{MANIFEST, Manifest, VOCABULARY};
use crate::error::{Error, Result, finished_data_set, holds_other_data, unfinished_build};
use crate::shard::writer::is_shard_name;

/// The result of opening the output.
#[derive(Debug)]
pub(crate) enum OutputState<'a> {
    /// A folder to work in.
    Open(Box<Output<'a>>),
    /// A finished data set, which is left unchanged.
    Finished(Box<Manifest>),
}

/// The output that a build requests.
pub(crate) struct Target<'a> {
    folder: StagedFolder<'a>,
    objects: Option<ObjectOutput>,
    /// Folder for the tokenized text, if it is a different folder.
    scratch: Option<PathBuf>,
    overwrite: bool,
    part: Part,
    identity: Identity,
}

impl<'a> Target<'a> {
    /// Returns the output that a build requests.
    pub(crate) fn new(
        files: &'a dyn FileSystem,
        prepared: &PreparedBuild<'_>,
        identity: Identity,
    ) -> Result<Self> {
        let overwrite = prepared.config.overwrite;
        let part = prepared.part;
        let mut path = prepared.config.output()?.into_owned();
        let mut scratch = prepared.config.scratch.as_deref().map(|scratch| on_disk(scratch).into_owned());
        let objects = ObjectOutput::new(&path, overwrite);
        if let Some(objects) = &objects {
            path = objects.work_folder(scratch.take().as_deref(), !part.is_whole())?;
        }
        Ok(Self { folder: StagedFolder::new(files, &path), objects, scratch, overwrite, part, identity })
    }

    /// Rejects an output that cannot be used. Returns the manifest of a finished data set as [`check`] does, in a
    /// folder or an object store. Changes nothing.
    pub(crate) fn finished(&self) -> Result<Option<Manifest>> {
        let Self { folder, objects, overwrite, part, identity, .. } = self;
        let found = check(folder, *overwrite, *part, identity)?;
        match objects {
            Some(objects) if !folder.inside(&part.work_name()).has(COMMITTING)? => objects.finished(),
            _ => Ok(found),
        }
    }

    /// Creates the folder if necessary, locks it, and opens or creates the work folder of this build. Returns the
    /// manifest of a finished data set instead, even if another process has just finished it.
    pub(crate) fn open(self) -> Result<OutputState<'a>> {
        if let Some(manifest) = self.finished()? {
            return Ok(OutputState::Finished(Box::new(manifest)));
        }
        let created = !self.folder.exists()?;
        self.folder.create()?;
        let locks = if self.part.is_whole() {
            vec![self.folder.lock(LOCK)?]
        } else {
            // Parts run concurrently, each with an exclusive lock on its own part.
            vec![self.folder.lock_shared()?, self.folder.lock(&self.part.lock_name())?]
        };
        // Checks again, because another process may have finished the data set before this one took the lock.
        if let Some(manifest) = self.finished()? {
            return Ok(OutputState::Finished(Box::new(manifest)));
        }
        let Self { folder, objects, scratch, part, identity, .. } = self;
        if part.is_whole() {
            folder.remove_temporaries()?;
        }
        let text = match scratch {
            Some(scratch) => StagedFolder::new(folder.files(), &folder_in(&scratch, folder.path())?),
            None => folder.clone(),
        };
        let name = part.work_name();
        let work = WorkFolder::open(folder.inside(&name), text.inside(&name), identity)?;
        Ok(OutputState::Open(Box::new(Output { folder, objects, work, text, created, locks })))
    }
}

/// A locked output folder.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    pub(crate) folder: StagedFolder<'a>,
    /// The object store in which the data set is published, if any.
    pub(crate) objects: Option<ObjectOutput>,
    pub(crate) work: WorkFolder<'a>,
    /// The folder in which the parts store the tokenized text.
    text: StagedFolder<'a>,
    /// Whether the folder was created for this build.
    created: bool,
    locks: Vec<OutputLock>,
}

/// Returns whether a name may be ignored: it is the folder of the held-out data set, a file that file systems or
/// desktops create in every folder, or a log that a scheduler writes to the output folder.
fn is_ignored_file(name: &str) -> bool {
    let is_job_log = |name: &str| {
        name.rsplit_once(['.']).is_some_and(|(stem, end)| {
            let number = end.strip_prefix(['o', 'e']).unwrap_or_default();
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number || (stem.starts_with("slurm-") && ["out", "err"].contains(&end))
        })
    };
    let known = [
        HELD_OUT_FOLDER,
        "lost+found",
        "Thumbs.db",
        "desktop.ini",
        "$RECYCLE.BIN",
        "System Volume Information",
    ];
    name.starts_with('.') || known.contains(&name) || is_job_log(name)
}

/// Returns the first file name that does not belong to a build, apart from ignored files; `None` if the folder
/// contains files of a build.
fn find_foreign(names: &[String]) -> Option<&String> {
    // Shards, a vocabulary and a data card belong to a build only in a folder with a manifest, a work folder or a
    // receipt. All other files in such a folder were added later and are kept.
    let ours = names
        .iter()
        .any(|name| name == MANIFEST || matches!(owner_of(name), Some(Owner::Work(_) | Owner::Receipt(_))));
    names.iter().find(|name| !ours && owner_of(name).is_none() && !is_ignored_file(name))
}

/// Rejects a folder that cannot be used. Returns the manifest of a finished data set in the folder, unless the data set
/// may be overwritten or an earlier run of this command was stopped while it committed the data set. Changes nothing.
fn check(
    folder: &StagedFolder<'_>,
    overwrite: bool,
    part: Part,
    identity: &Identity,
) -> Result<Option<Manifest>> {
    let path = folder.path();
    if folder.exists()? && !path.is_dir() {
        return Err(Error::usage("this output is not a folder; choose another `.output`").at(path));
    }
    let names = folder.names()?;
    if let Some(found) = find_foreign(&names) {
        return Err(holds_other_data(found).at(path));
    }
    let stays = !overwrite && !folder.inside(&part.work_name()).has(COMMITTING)?;
    if folder.has(MANIFEST)? {
        match Manifest::read(path) {
            // A file that cannot be parsed as a manifest was written by another program.
            Err(error) if error.cause::<serde_json::Error>().is_some() => {
                return Err(holds_other_data(MANIFEST).at(path));
            }
            Err(error) if stays && error.class() == Class::Data => {
                let differences = format!("its manifest cannot be used: {error}");
                return Err(finished_data_set(&differences).at(path));
            }
            // A damaged manifest may be replaced.
            Err(error) if error.class() == Class::Data => {}
            manifest => return Ok(Some(manifest?).filter(|_| stays)),
        }
    }
    for name in &names {
        let Some(Owner::Work(other) | Owner::Receipt(other)) = owner_of(name) else { continue };
        if other.count != part.count && !overwrite {
            let differences = format!("`.parts` is {}, not {}", other.count, part.count);
            return Err(unfinished_build(&differences).at(path));
        }
        if name.starts_with(".build") {
            work_folder::check(&folder.inside(name), identity, overwrite)?;
        }
    }
    Ok(None)
}

/// Removes the held-out data set of the training data that are replaced: its documents may be among the new training
/// data.
///
/// # Errors
/// Fails when another process uses that data set; the training data are then not replaced.
fn withdraw_held_out(folder: &StagedFolder<'_>) -> Result<()> {
    let held_out = folder.inside(HELD_OUT_FOLDER);
    if held_out.has(MANIFEST)? {
        let lock = held_out.lock(LOCK)?;
        clear(&held_out)?;
        held_out.clear(|name| [VOCABULARY, CARD].contains(&name))?;
        if held_out.names()? == [LOCK] {
            held_out.remove_unlocking(vec![lock])?;
        }
    }
    Ok(())
}

impl Drop for Output<'_> {
    /// Removes everything that this build created, if it failed without finished work. Errors of the removal are
    /// ignored, because a destructor cannot return them.
    fn drop(&mut self) {
        if self.work.is_kept() {
            return;
        }
        let _ = self.work.remove_all();
        if self.text.path() != self.folder.path() {
            let _ = self.text.remove_if_empty();
        }
        if self.created && self.folder.names().is_ok_and(|names| names == [LOCK]) {
            let _ = self.folder.remove_unlocking(std::mem::take(&mut self.locks));
        }
    }
}

impl<'a> Output<'a> {
    /// Returns the location of the data set: a folder or a URL.
    pub(crate) fn path(&self) -> &Path {
        self.objects.as_ref().map_or(self.folder.path(), |objects| objects.url.as_path())
    }

    /// Returns the folder with a part's share of the tokenized text.
    pub(crate) fn text_folder(&self, part: Part) -> StagedFolder<'a> {
        self.text.inside(&part.work_name())
    }

    /// Returns whether an earlier run of this command had started to move its files.
    pub(crate) fn is_committing(&self) -> Result<bool> {
        self.work.folder.has(COMMITTING)
    }

    /// Returns the path of a finished file: in the work folder, or under its final name if it was already moved.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf> {
        let is_named = self.is_committing()? && !self.work.folder.has(name)?;
        Ok(if is_named { self.folder.path_of(name) } else { self.work.path(name) })
    }

    /// Returns the manifest if an earlier run of this command already wrote it. In that case, only the work folder
    /// still has to be removed.
    pub(crate) fn committed(&mut self) -> Result<Option<Manifest>> {
        let there = || match &self.objects {
            Some(objects) => objects.has(MANIFEST),
            None => Ok(self.folder.has(MANIFEST)?),
        };
        if !self.is_committing()? || !there()? {
            return Ok(None);
        }
        let at = self.path();
        let manifest = Manifest::read(at)?;
        manifest.check_files(at)?;
        if let Some(objects) = &self.objects {
            objects.clear_other_shards(&manifest)?;
        }
        self.end()?;
        Ok(Some(manifest))
    }

    /// Moves the files to their final names, writes the manifest and removes the work folder.
    pub(crate) fn commit(mut self, manifest: &Manifest, vocabulary: &[u8]) -> Result<()> {
        if !manifest.config.held_out {
            withdraw_held_out(&self.folder)?;
        }
        if let Some(objects) = &self.objects {
            self.start_publishing()?;
            objects.commit(manifest, vocabulary, &card(manifest))?;
            return self.end();
        }
        self.work.folder.write_bytes(VOCABULARY, vocabulary)?;
        self.work.folder.write_bytes(CARD, card(manifest).as_bytes())?;
        if !self.is_committing()? {
            clear(&self.folder)?;
        }
        self.start_publishing()?;
        let names = manifest.shards.iter().map(|shard| shard.file.as_str()).chain([VOCABULARY, CARD]);
        self.publish(names)?;
        manifest.write(&self.folder)?;
        self.end()
    }

    /// Removes the work folder, and also its parent folder if the data set is in an object store.
    fn end(&mut self) -> Result<()> {
        self.work.remove_all()?;
        self.work.keep();
        if self.text.path() != self.folder.path() {
            // The folder is locked, so no other process is working on a part.
            clear_text(&self.text)?;
        }
        if self.objects.is_some() && self.folder.names()? == [LOCK] {
            self.folder.remove_unlocking(std::mem::take(&mut self.locks))?;
        }
        Ok(())
    }

    /// Records durably that files are moved to their final names from now on.
    pub(crate) fn start_publishing(&self) -> Result<()> {
        if !self.is_committing()? {
            self.work.folder.write_checksummed_unsynced(COMMITTING, &self.work.identity)?;
            self.work.folder.sync()?;
        }
        Ok(())
    }

    /// Removes the receipt of a part that has to be rebuilt.
    pub(crate) fn withdraw_receipt(&self, part: Part) -> Result<()> {
        self.folder.remove(&part.receipt_name())?;
        self.folder.sync()
    }

    /// Moves finished files to their final names, unless they were already moved.
    pub(crate) fn publish<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<()> {
        for name in names {
            if self.work.folder.has(name)? {
                self.folder.move_into(&self.work.path(name), name)?;
            }
        }
        self.folder.sync()
    }
}

/// Removes an earlier data set and files of parts. The manifest is removed first, so that no manifest ever refers to
/// missing shards.
fn clear(folder: &StagedFolder<'_>) -> Result<()> {
    if folder.remove(MANIFEST)? {
        folder.sync()?;
    }
    clear_other_shards(folder, &[])
}

/// Removes all shards except those in `keep`, and the files of parts.
pub(crate) fn clear_other_shards(folder: &StagedFolder<'_>, keep: &[&str]) -> Result<()> {
    folder.clear(|name| match owner_of(name) {
        Some(Owner::Work(part)) => !part.is_whole(),
        Some(Owner::Receipt(_) | Owner::Lock(_)) => true,
        Some(Owner::Folder) => false,
        None => is_shard_name(name) && !keep.contains(&name),
    })?;
    folder.sync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_and_scheduler_files_are_ignored() {
        for name in
            [".nfs0000a1", "lost+found", ".snapshot", ".DS_Store", "slurm-17_3.out", "job.o123", "job.e123"]
        {
            assert_eq!(find_foreign(&[name.to_owned()]), None, "{name}");
        }
        for name in [
            "thesis.tex",
            "notes.out",
            "model.o",
            "slurm-17.csv",
            "vocab.txt",
            "train-00000-of-00001.parquet",
        ] {
            assert_eq!(find_foreign(&[name.to_owned()]).map(String::as_str), Some(name));
            assert_eq!(
                find_foreign(&[".build".to_owned(), name.to_owned()]),
                None,
                "{name} next to a work folder"
            );
        }
    }
}
