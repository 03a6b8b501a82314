//! Opens and locks the output folder, and takes the steps that end with a committed data set.
//!
//! Only this process writes to a locked [`Output`]; parts of a build share the folder, each with its own lock. Files
//! are made in a hidden work folder and moved to their names at the end. The manifest is written last. After a failure
//! the work folder stays if there is something to keep, and the same command continues from there. A folder that holds
//! anything else is refused and left as it is.

pub(crate) mod card;
pub(crate) mod object_output;
pub(crate) mod part_receipt;
pub(crate) mod work_folder;

use std::path::{Path, PathBuf};

use crate::builder::output::card::{CARD, card};
use crate::builder::output::object_output::ObjectOutput;
use crate::builder::output::work_folder::{Identity, Work};
use crate::config::part::{Owner, Part, owner_of};
use crate::dataset::manifest::{MANIFEST, Manifest, VOCABULARY};
use crate::error::{Error, Locate, Located, ManifestProblem, OutputProblem, Result};
use crate::shard::writer::is_shard_name;
use bert_storage::{Disk, FileSystem, LOCK, OutputLock, StagedFolder, is_temporary};

/// The receipt that says that former files are cleared and everything in the work folder is complete.
const COMMITTING: &str = "commit.json";

/// An output folder, locked.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    pub(crate) folder: StagedFolder<'a>,
    /// Where the data set is published, if that is not the folder.
    pub(crate) objects: Option<ObjectOutput>,
    pub(crate) work: Work<'a>,
    /// Where the parts have the tokenized text.
    text: StagedFolder<'a>,
    /// Whether the folder was made for this build.
    created: bool,
    _locks: Vec<OutputLock>,
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
pub(crate) fn check(
    folder: &StagedFolder<'_>,
    overwrite: bool,
    part: Part,
    identity: &Identity,
) -> Result<()> {
    let path = folder.path();
    if path.exists() && !path.is_dir() {
        return Err(OutputProblem::NotAFolder.at(path).into());
    }
    let names = folder.names()?;
    if let Some(found) = find_foreign(&names) {
        return Err(OutputProblem::HoldsOtherData(found.to_owned()).at(path).into());
    }
    let committing = folder.inside(&part.work_name()).has(COMMITTING);
    if folder.has(MANIFEST) {
        // A manifest that is not one of ours belongs to somebody else.
        match Manifest::read(path) {
            Err(Error::Manifest(Located { problem: ManifestProblem::Invalid(_), .. })) => {
                return Err(OutputProblem::HoldsOtherData(MANIFEST.to_owned()).at(path).into());
            }
            // It may be that of this very command, killed at its end.
            _ if !overwrite && !committing => {
                return Err(OutputProblem::Finished.at(path).into());
            }
            _ => {}
        }
    }
    for name in &names {
        let Some(Owner::Work(other) | Owner::Receipt(other)) = owner_of(name) else { continue };
        if other.of != part.of && !overwrite {
            let option = "--parts".to_owned();
            let (found, expected) = (other.of.to_string(), part.of.to_string());
            return Err(OutputProblem::Unfinished { option, found, expected }.at(path).into());
        }
        if name.starts_with(".build") {
            work_folder::check(&folder.inside(name), identity, overwrite)?;
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
        if self.created && self.folder.names().is_ok_and(|names| names == [LOCK]) {
            let _ = self.folder.remove_all();
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
        objects: Option<ObjectOutput>,
    ) -> Result<Self> {
        let text = StagedFolder::new(files, scratch.unwrap_or(folder));
        let folder = StagedFolder::new(files, folder);
        let created = !folder.path().exists();
        folder.create()?;
        let mut locks = if part.is_whole() {
            vec![folder.lock(LOCK)?]
        } else {
            // Parts work side by side, each alone on its part.
            vec![folder.share()?, folder.lock(&part.lock_name())?]
        };
        if text.path() != folder.path() {
            text.create()?;
            locks.push(text.lock(&part.lock_name())?);
        }
        // Again under the lock: another process may just have finished here.
        check(&folder, overwrite, part, &identity)?;
        if let Some(objects) = &objects {
            objects.check(folder.inside(&part.work_name()).has(COMMITTING))?;
        }
        if part.is_whole() {
            folder.remove_temporaries()?;
        }
        let name = part.work_name();
        let work = Work::open(folder.inside(&name), text.inside(&name), identity)?;
        Ok(Self { folder, objects, work, text, created, _locks: locks })
    }

    /// Where the data set will be: a folder or a URL.
    pub(crate) fn path(&self) -> &Path {
        self.objects.as_ref().map_or(self.folder.path(), |objects| objects.url.as_path())
    }

    /// Where a part has its share of the tokenized text.
    pub(crate) fn text_folder(&self, part: Part) -> StagedFolder<'a> {
        self.text.inside(&part.work_name())
    }

    /// Whether an earlier run of this command got as far as moving its files.
    pub(crate) fn is_committing(&self) -> bool {
        self.work.folder.has(COMMITTING)
    }

    /// Where a finished file is: in the work folder, or under its name already.
    pub(crate) fn find(&self, name: &str) -> PathBuf {
        let work = self.work.path(name);
        if self.is_committing() && !work.exists() { self.folder.at(name) } else { work }
    }

    /// Where an earlier run of this command got as far as the manifest: what it says. Only the work folder is left
    /// then.
    pub(crate) fn committed(&self) -> Result<Option<Manifest>> {
        let there =
            || self.objects.as_ref().map_or(Ok(self.folder.has(MANIFEST)), |objects| objects.has(MANIFEST));
        if !self.is_committing() || !there()? {
            return Ok(None);
        }
        let at = self.path();
        let manifest = Manifest::read(at)?;
        manifest.check_files(at)?;
        if let Some(objects) = &self.objects {
            objects.clear_beside(&manifest)?;
        }
        self.end()?;
        Ok(Some(manifest))
    }

    /// Moves the files to their names, writes the manifest and removes the work folder.
    pub(crate) fn commit(self, manifest: &Manifest, vocabulary: &[u8]) -> Result<()> {
        if let Some(objects) = &self.objects {
            self.start_publishing()?;
            objects.commit(manifest, vocabulary, &card(manifest))?;
            return self.end();
        }
        self.work.folder.write_bytes(VOCABULARY, vocabulary)?;
        self.work.folder.write_bytes(CARD, card(manifest).as_bytes())?;
        if !self.is_committing() {
            clear(&self.folder)?;
        }
        self.start_publishing()?;
        let names = manifest.shards.iter().map(|shard| shard.file.as_str()).chain([VOCABULARY, CARD]);
        self.publish(names)?;
        manifest.write(&self.folder)?;
        self.end()
    }

    /// Removes the work folder, and the one that it is in where the data set is elsewhere.
    fn end(&self) -> Result<()> {
        self.work.remove_all()?;
        self.work.keep();
        if self.objects.is_some() && self.folder.names()? == [LOCK] {
            self.folder.remove_all()?;
        }
        Ok(())
    }

    /// Says for good that from now on files move to their names.
    pub(crate) fn start_publishing(&self) -> Result<()> {
        if !self.is_committing() {
            self.work.folder.note(COMMITTING, &self.work.identity)?;
            self.work.folder.sync()?;
        }
        Ok(())
    }

    /// Moves finished files to their names, as far as they are not there yet.
    pub(crate) fn publish<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<()> {
        for name in names {
            if self.work.folder.has(name) {
                self.folder.take(&self.work.path(name), name)?;
            }
        }
        Ok(self.folder.sync()?)
    }
}

/// Removes the tokenized text that parts left in their scratch folder.
///
/// # Errors
/// [`Error::Storage`].
pub(crate) fn clear_scratch(folder: &Path) -> Result<()> {
    // One that is not there was named by mistake.
    std::fs::metadata(folder).map_err(Error::io("read folder", folder))?;
    let folder = StagedFolder::new(&Disk, folder);
    for name in folder.names()? {
        if let Some(Owner::Work(_)) = owner_of(&name) {
            work_folder::remove_text(&folder.inside(&name))?;
        }
    }
    Ok(folder.clear(|name| matches!(owner_of(name), Some(Owner::Lock(_) | Owner::Folder)))?)
}

/// Removes a former data set, its manifest first, so that no manifest ever speaks of missing shards, and what parts
/// left.
fn clear(folder: &StagedFolder<'_>) -> Result<()> {
    if folder.remove(MANIFEST)? {
        folder.sync()?;
    }
    clear_beside(folder, &[])
}

/// Removes shards but those named, and what parts left.
pub(crate) fn clear_beside(folder: &StagedFolder<'_>, keep: &[&str]) -> Result<()> {
    folder.clear(|name| match owner_of(name) {
        Some(Owner::Work(part)) => !part.is_whole(),
        Some(Owner::Receipt(_) | Owner::Lock(_)) => true,
        Some(Owner::Folder) => false,
        None => is_shard_name(name) && !keep.contains(&name),
    })?;
    Ok(folder.sync()?)
}
