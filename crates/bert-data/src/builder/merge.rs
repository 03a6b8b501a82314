//! Commits the finished parts of a build as one data set.
//!
//! The parts have left their shards and receipts in one folder. The merge checks that all parts are there and belong to
//! one build, that every shard is what its receipt says, and that over all parts nothing was lost or made twice. Then
//! it writes the manifest, with the same bytes that a build on one machine writes.

use std::path::Path;

use crate::builder::output::card::{CARD, card};
use crate::builder::output::clear_beside;
use crate::builder::output::part_receipt::PartReceipt;
use crate::config::part::{Owner, Part, owner_of};
use crate::dataset::manifest::Manifest;
use crate::dataset::verify::{ShardProgress, each_shard};
use crate::error::{Error, OutputError, PartError, Result};
use bert_storage::{Disk, FileSystem, OutputLock, remove_temporaries, write_atomic_on};

/// Makes the parts in a folder a data set.
///
/// # Errors
/// [`PartError::None`], [`PartError::Missing`], [`PartError::Differs`] or [`Error::NotConserved`];
/// [`FileDigest`](crate::ManifestError::FileDigest) and its like for a damaged shard; [`OutputError::Finished`] where
/// the folder has a manifest and no parts. The parts are then as they were.
pub fn merge(folder: &Path) -> Result<Manifest> {
    merge_on(&Disk, folder, &mut |_| {})
}

/// [`merge`] on a file system of choice, with progress. The shards are read on all threads of rayon's pool.
///
/// # Errors
/// As [`merge`].
pub fn merge_on(
    files: &dyn FileSystem,
    folder: &Path,
    progress: &mut dyn FnMut(ShardProgress),
) -> Result<Manifest> {
    let parts = find_parts(folder)?;
    let _lock = OutputLock::acquire_on(files, folder)?;
    remove_temporaries(files, folder)?;
    let receipts = match read_parts(folder, parts) {
        // An earlier merge was stopped after the manifest, while it removed the receipts.
        Err(Error::Part(PartError::Missing { .. })) if Manifest::path(folder).exists() => {
            return finish(files, folder);
        }
        receipts => receipts?,
    };
    let manifest = Manifest::of_parts(receipts)?;
    let compared = each_shard(&manifest, |shard| manifest.check_digest(folder, shard), progress);
    compared.into_iter().collect::<Result<()>>()?;
    manifest.check_files(folder)?;
    write_atomic_on(files, &folder.join(CARD), |out| out.write_all(card(&manifest).as_bytes()))?;
    manifest.write_on(files, folder)?;
    finish(files, folder)
}

/// Removes what the parts left beside a committed data set.
fn finish(files: &dyn FileSystem, folder: &Path) -> Result<Manifest> {
    let manifest = Manifest::read(folder)?;
    manifest.check_files(folder)?;
    let keep: Vec<&str> = manifest.shards.iter().map(|shard| shard.file.as_str()).collect();
    clear_beside(files, folder, &keep)?;
    Ok(manifest)
}

/// How many parts the receipts in a folder speak of.
fn find_parts(folder: &Path) -> Result<usize> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(PartError::None { path: folder.to_owned() }.into());
        }
        Err(source) => return Err(Error::io("read folder", folder)(source)),
    };
    let mut parts: Option<usize> = None;
    for entry in entries {
        let name = entry.map_err(Error::io("read folder", folder))?.file_name();
        let Some(Owner::Receipt(part)) = owner_of(&name.to_string_lossy()) else { continue };
        if parts.is_some_and(|parts| parts != part.of) {
            return Err(PartError::Differs { part: part.index, what: "--parts" }.into());
        }
        parts = Some(part.of);
    }
    match parts {
        Some(parts) => Ok(parts),
        None if Manifest::path(folder).exists() => {
            Err(OutputError::Finished { path: folder.to_owned() }.into())
        }
        None => Err(PartError::None { path: folder.to_owned() }.into()),
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
        let own =
            receipt.shards.iter().all(|shard| Part { index, of: parts }.has_shard(shard.shard as usize));
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
