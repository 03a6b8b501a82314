//! Commits the finished parts of a build as one data set.
//!
//! The parts have left their shards and receipts in one folder. The merge checks that all parts are present and belong
//! to one build, that every shard matches its receipt, and that the parts together contain every document and row
//! exactly once. It then writes the manifest, with the same bytes as a build on one machine.

use std::path::Path;

use bert_storage::{Class, Disk, LOCK, StagedFolder, on_disk};

use crate::builder::output::card::{CARD, card};
use crate::builder::output::clear_other_shards;
use crate::builder::output::object_output::ObjectOutput;
use crate::builder::output::scratch::{clear_text, folder_in};
use crate::builder::part_receipt::PartReceipt;
use crate::config::hold_out::held_out_folder;
use crate::config::part::{Owner, Part, owner_of};
use crate::dataset::manifest::{MANIFEST, Manifest, VOCABULARY};
use crate::dataset::verify::{ShardProgress, each_shard};
use crate::error::{Error, Result, missing_option, other_part, parts_missing};

/// Merges the parts in a folder into a data set and reports progress. Reads the shards on all threads of rayon's pool.
/// If the parts were already merged, only their leftover files are removed.
///
/// # Errors
/// Fails when the folder has no parts, when parts are missing or unfinished, when a file of a part is missing or
/// damaged, when the parts differ, or when a document or row was lost or duplicated. The parts are then left unchanged.
pub fn merge(folder: &Path, progress: &mut dyn FnMut(ShardProgress)) -> Result<Manifest> {
    merge_with_scratch(folder, None, progress)
}

/// Runs [`merge`] for parts that used a scratch folder, and removes the text that they left there; files of other
/// builds stay. Parts whose shards are in an object store always use a scratch folder.
///
/// # Errors
/// Fails as [`merge`] does.
pub fn merge_with_scratch(
    output: &Path,
    scratch: Option<&Path>,
    progress: &mut dyn FnMut(ShardProgress),
) -> Result<Manifest> {
    let output = &*on_disk(output);
    let scratch = scratch.map(on_disk);
    if let Some(scratch) = &scratch {
        // If the scratch folder does not exist, its name is a mistake.
        std::fs::metadata(scratch).map_err(Error::io("read folder", scratch))?;
    }
    if let Some(objects) = ObjectOutput::new(output, true) {
        let reason = "the parts of a build into an object store keep their receipts there";
        let scratch = scratch.ok_or_else(|| missing_option("scratch", reason))?;
        let manifest = merge_objects(&objects, &scratch, progress)?;
        if has_held_out(&manifest) {
            merge_with_scratch(&held_out_folder(output), Some(&scratch), progress)?;
        }
        return Ok(manifest);
    }
    let staged = StagedFolder::new(&Disk, output);
    // This check runs before the lock is taken, because the lock file would be a change of the folder.
    find(&staged)?;
    let lock = staged.lock(LOCK)?;
    let manifest = merge_locked(&staged, progress)?;
    if let Some(scratch) = &scratch {
        clear_text(&StagedFolder::new(&Disk, &folder_in(scratch, output)?))?;
    }
    drop(lock);
    // The held-out data set may be merged already, or have no parts yet.
    let held_out = held_out_folder(output);
    if has_held_out(&manifest) && matches!(find(&StagedFolder::new(&Disk, &held_out)), Ok(Some(_))) {
        merge_with_scratch(&held_out, scratch.as_deref(), progress)?;
    }
    Ok(manifest)
}

/// Returns whether documents are held out of a data set.
fn has_held_out(training: &Manifest) -> bool {
    training.config.hold_out.is_some() && !training.config.held_out
}

fn merge_locked(staged: &StagedFolder<'_>, progress: &mut dyn FnMut(ShardProgress)) -> Result<Manifest> {
    let folder = staged.path();
    staged.remove_temporaries()?;
    let Some(parts) = find(staged)? else { return finish(staged) };
    let receipts = match read_parts(folder, parts) {
        // An earlier merge was stopped after it wrote the manifest, while it removed the receipts.
        Err(error) if is_unfinished(&error) && staged.has(MANIFEST)? => return finish(staged),
        receipts => receipts?,
    };
    let manifest = Manifest::from_parts(receipts)?;
    manifest.check(&Manifest::path(folder))?;
    check_shards(&manifest, folder, parts, progress)?;
    manifest.check_files(folder).map_err(damage_of(Part { index: 1, count: parts }))?;
    staged.write_bytes(CARD, card(&manifest).as_bytes())?;
    manifest.write(staged)?;
    finish(staged)
}

fn merge_objects(
    objects: &ObjectOutput,
    scratch: &Path,
    progress: &mut dyn FnMut(ShardProgress),
) -> Result<Manifest> {
    let url = objects.url.as_path();
    let staged = StagedFolder::new(&Disk, &objects.work_folder(Some(scratch), true)?);
    let exists = staged.exists()?;
    let is_committed = objects.has(MANIFEST)?;
    if !exists && is_committed {
        return Manifest::read(url);
    }
    if !exists {
        find(&staged)?;
    }
    let lock = staged.lock(LOCK)?;
    let found = find(&staged).and_then(|found| match found {
        Some(parts) => Ok((parts, read_parts(staged.path(), parts)?)),
        None => Err(no_parts(staged.path())),
    });
    if is_committed && found.as_ref().err().is_some_and(is_unfinished) {
        // An earlier merge was stopped after it wrote the manifest, while it removed the receipts.
        let manifest = Manifest::read(url)?;
        objects.clear_other_shards(&manifest)?;
        staged.remove_unlocking(vec![lock])?;
        return Ok(manifest);
    }
    let (parts, receipts) = found?;
    let manifest = Manifest::from_parts(receipts)?;
    manifest.check(&Manifest::path(url))?;
    check_shards(&manifest, url, parts, progress)?;
    let path = staged.path_of(VOCABULARY);
    let vocabulary = std::fs::read(&path).map_err(Error::io("read", &path))?;
    objects.commit(&manifest, &vocabulary, &card(&manifest))?;
    staged.remove_unlocking(vec![lock])?;
    Ok(manifest)
}

/// Compares the digest of every shard, in a folder or a store, with its receipt.
fn check_shards(
    manifest: &Manifest,
    location: &Path,
    parts: usize,
    progress: &mut dyn FnMut(ShardProgress),
) -> Result<()> {
    let compared = each_shard(manifest, |shard| manifest.check_digest(location, shard), progress);
    let whole = Part { index: 1, count: parts };
    compared
        .into_iter()
        .enumerate()
        .try_for_each(|(shard, compared)| compared.map_err(damage_of(whole.for_segment(shard))))
}

fn no_parts(folder: &Path) -> Error {
    Error::data("this folder has no parts of a build").absent().at(folder)
}

/// Returns whether an error says that parts are missing.
fn is_unfinished(error: &Error) -> bool {
    error.class() == Class::Data && error.is_absent()
}

/// Returns a function that adds to an error which part has to rebuild the damaged file.
fn damage_of(part: Part) -> impl FnOnce(Error) -> Error {
    let Part { index, count } = part;
    move |error| match error.class() {
        Class::Data => Error::data(format!(
            "part {index} is damaged: build it again with `.part {index}` `.parts {count}`, then merge"
        ))
        .because(error),
        _ => error,
    }
}

/// Removes the files of the parts from a committed data set and returns its manifest.
fn finish(folder: &StagedFolder<'_>) -> Result<Manifest> {
    let manifest = Manifest::read(folder.path())?;
    manifest.check_files(folder.path())?;
    let keep: Vec<&str> = manifest.shards.iter().map(|shard| shard.file.as_str()).collect();
    clear_other_shards(folder, &keep)?;
    Ok(manifest)
}

/// Returns the total number of parts to merge, of which some may have no receipt; `None` for a data set that was already
/// merged.
fn find(folder: &StagedFolder<'_>) -> Result<Option<usize>> {
    let (mut parts, mut tokenized): (Option<usize>, Option<usize>) = (None, None);
    for name in folder.names()? {
        match owner_of(&name) {
            Some(Owner::Receipt(part)) => {
                if parts.is_some_and(|parts| parts != part.count) {
                    return Err(other_part(part.index, "`.parts`"));
                }
                parts = Some(part.count);
            }
            Some(Owner::Work(part)) if !part.is_whole() => tokenized = Some(part.count),
            _ => {}
        }
    }
    match (parts, tokenized) {
        (Some(parts), _) => Ok(Some(parts)),
        _ if folder.has(MANIFEST)? => Ok(None),
        // All parts may have tokenized their text, but none has written its shards.
        (None, Some(parts)) => Err(parts_missing(parts, &(1..=parts).collect::<Vec<_>>())),
        (None, None) => Err(no_parts(folder.path())),
    }
}

/// Reads the receipts of all parts and checks that they belong together.
fn read_parts(folder: &Path, parts: usize) -> Result<Vec<PartReceipt>> {
    let mut receipts: Vec<PartReceipt> = Vec::new();
    let mut missing = Vec::new();
    for index in 1..=parts {
        let part = Part { index, count: parts };
        match PartReceipt::read(folder, part).map_err(damage_of(part))? {
            Some(receipt) => receipts.push(receipt),
            None => missing.push(index),
        }
    }
    if !missing.is_empty() {
        return Err(parts_missing(parts, &missing));
    }
    for (index, receipt) in (1..).zip(&receipts) {
        let first = &receipts[0];
        let own = receipt.shards.iter().all(|shard| Part { index, count: parts }.has(shard.shard as usize));
        let checks = [
            (receipt.part == index && receipt.parts == parts, "number"),
            (
                receipt.identity == first.identity
                    && receipt.config.without_paths() == first.config.without_paths(),
                "options",
            ),
            (receipt.vocabulary == first.vocabulary, "vocabulary"),
            (receipt.build == first.build && receipt.counts == first.counts, "text"),
            (own, "shards"),
        ];
        if let Some((_, what)) = checks.into_iter().find(|(same, _)| !same) {
            return Err(other_part(index, what));
        }
    }
    Ok(receipts)
}
