//! Commits the finished parts of a build as one data set.
//!
//! The parts have left their shards and receipts in one folder. The merge checks that all parts are there and belong to
//! one build, that every shard is what its receipt says, and that over all parts nothing was lost or made twice. Then
//! it writes the manifest, with the same bytes that a build on one machine writes.

use std::path::Path;

use crate::builder::output::card::{CARD, card};
use crate::builder::output::object_output::ObjectOutput;
use crate::builder::output::part_receipt::PartReceipt;
use crate::builder::output::{clear_beside, clear_scratch};
use crate::config::part::{Owner, Part, owner_of};
use crate::dataset::manifest::{MANIFEST, Manifest, VOCABULARY};
use crate::dataset::verify::{ShardProgress, each_shard};
use crate::error::{Error, Locate, ManifestProblem, OptionError, OutputProblem, PartError, Result};
use bert_storage::{Disk, LOCK, StagedFolder, on_disk};

/// Makes the parts in a folder a data set, with progress. The shards are read on all threads of rayon's pool.
///
/// # Errors
/// [`ManifestProblem::NoParts`], [`PartError::Missing`], [`PartError::Differs`] or [`Error::NotConserved`];
/// [`FileDigest`](crate::ManifestProblem::FileDigest) and its like for a damaged shard; [`OutputProblem::Finished`]
/// where the folder has a manifest and no parts. The parts are then as they were.
pub fn merge(folder: &Path, progress: &mut dyn FnMut(ShardProgress)) -> Result<Manifest> {
    let folder = &*on_disk(folder);
    let staged = StagedFolder::new(&Disk, folder);
    let parts = find_parts(&staged)?;
    let _lock = staged.lock(LOCK)?;
    staged.remove_temporaries()?;
    let receipts = match read_parts(folder, parts) {
        // An earlier merge was stopped after the manifest, while it removed the receipts.
        Err(Error::Part(PartError::Missing { .. })) if Manifest::path(folder).exists() => {
            return finish(&staged);
        }
        receipts => receipts?,
    };
    let manifest = Manifest::of_parts(receipts)?;
    let compared = each_shard(&manifest, |shard| manifest.check_digest(folder, shard), progress);
    compared.into_iter().collect::<Result<()>>()?;
    manifest.check_files(folder)?;
    staged.write_bytes(CARD, card(&manifest).as_bytes())?;
    manifest.write(&staged)?;
    finish(&staged)
}

/// [`merge`] for parts that had a scratch folder: what they left there is removed. Parts whose shards are in an object store
/// always had one.
///
/// # Errors
/// As [`merge`].
pub fn merge_with_scratch(
    output: &Path,
    scratch: Option<&Path>,
    progress: &mut dyn FnMut(ShardProgress),
) -> Result<Manifest> {
    let Some(objects) = ObjectOutput::of(output, true) else {
        let manifest = merge(output, progress)?;
        scratch.map_or(Ok(()), clear_scratch)?;
        return Ok(manifest);
    };
    let reason = "what the parts of a build into an object store know of each other is there";
    let scratch = scratch.ok_or(OptionError::Missing { option: "scratch", reason })?;
    merge_objects(&objects, scratch, progress)
}

fn merge_objects(
    objects: &ObjectOutput,
    scratch: &Path,
    progress: &mut dyn FnMut(ShardProgress),
) -> Result<Manifest> {
    let url = objects.url.as_path();
    let folder = objects.work_folder(Some(scratch), true)?;
    let staged = StagedFolder::new(&Disk, &folder);
    if !folder.exists() {
        find_parts(&staged)?;
    }
    let _lock = staged.lock(LOCK)?;
    if objects.has(MANIFEST)? && find_parts(&staged).and_then(|parts| read_parts(&folder, parts)).is_err() {
        // An earlier merge was stopped after the manifest, while it removed the receipts.
        let manifest = Manifest::read(url)?;
        objects.clear_beside(&manifest)?;
        staged.remove_all()?;
        return Ok(manifest);
    }
    let manifest = Manifest::of_parts(read_parts(&folder, find_parts(&staged)?)?)?;
    let compared = each_shard(&manifest, |shard| manifest.check_digest(url, shard), progress);
    compared.into_iter().collect::<Result<()>>()?;
    let path = staged.at(VOCABULARY);
    let vocabulary = std::fs::read(&path).map_err(Error::io("read", &path))?;
    objects.commit(&manifest, &vocabulary, &card(&manifest))?;
    staged.remove_all()?;
    Ok(manifest)
}

/// Removes what the parts left beside a committed data set.
fn finish(folder: &StagedFolder<'_>) -> Result<Manifest> {
    let manifest = Manifest::read(folder.path())?;
    manifest.check_files(folder.path())?;
    let keep: Vec<&str> = manifest.shards.iter().map(|shard| shard.file.as_str()).collect();
    clear_beside(folder, &keep)?;
    Ok(manifest)
}

/// How many parts the receipts in a folder speak of.
fn find_parts(folder: &StagedFolder<'_>) -> Result<usize> {
    let mut parts: Option<usize> = None;
    for name in folder.names()? {
        let Some(Owner::Receipt(part)) = owner_of(&name) else { continue };
        if parts.is_some_and(|parts| parts != part.of) {
            return Err(PartError::Differs { part: part.index, what: "--parts" }.into());
        }
        parts = Some(part.of);
    }
    match parts {
        Some(parts) => Ok(parts),
        None if folder.has(MANIFEST) => Err(OutputProblem::Finished.at(folder.path()).into()),
        None => Err(ManifestProblem::NoParts.at(folder.path()).into()),
    }
}

/// The receipts of all parts, which belong together.
fn read_parts(folder: &Path, parts: usize) -> Result<Vec<PartReceipt>> {
    let mut receipts: Vec<PartReceipt> = Vec::new();
    let mut missing = None;
    for index in 1..=parts {
        match PartReceipt::read(folder, Part { index, of: parts })? {
            Some(receipt) => receipts.push(receipt),
            None => missing = missing.or(Some(index)),
        }
    }
    if let Some(missing) = missing {
        return Err(PartError::Missing { found: receipts.len(), parts, missing }.into());
    }
    for (index, receipt) in (1..).zip(&receipts) {
        let first = &receipts[0];
        let own = receipt.shards.iter().all(|shard| Part { index, of: parts }.has(shard.shard as usize));
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
            return Err(PartError::Differs { part: index, what }.into());
        }
    }
    Ok(receipts)
}
