//! Builds one part of a data set (`--part`, `--parts`); `builder::merge` combines all parts into one data set.
//!
//! A part first tokenizes its share of the text, then writes its shards, and finally a receipt. When it is started
//! again, it compares its files with the receipt and rebuilds those that are missing or damaged.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use bert_storage::{Class, Disk, FileSystem, digest_bytes};

use crate::builder::output::work_folder::is_text_file;
use crate::builder::output::{Output, OutputState};
use crate::builder::part_receipt::PartReceipt;
use crate::builder::prepare::{BuildProgress, BuildStage, PreparedBuild, prepare};
use crate::builder::token_store::Division;
use crate::builder::write_shards::{WrittenShard, has_digest, is_shard_receipt, receipt_name};
use crate::config::BuildConfig;
use crate::dataset::manifest::{Manifest, VOCABULARY};
use crate::documents::selection::with_limit;
use crate::error::{Result, unfinished_build};
use crate::parallel::Workers;

/// The result of building one part.
#[derive(Clone, Debug)]
pub struct PartOutcome {
    /// The folder that the parts share.
    pub output: PathBuf,
    /// Number of shards that this part wrote; 0 if there are more parts than shards.
    pub shards: usize,
    /// Number of rows in the shards of this part.
    pub rows: u64,
    /// Whether the part was finished before.
    pub was_finished: bool,
}

/// The share of the text that one part of a build tokenized.
#[derive(Clone, Debug)]
pub struct PartText {
    /// The folder that the parts share.
    pub output: PathBuf,
    /// Number of documents in this part's share of the text; 0 if the data set is finished and the text was removed.
    pub documents: u64,
    /// Number of tokens in the documents of this part's share.
    pub tokens: u64,
    /// Whether the data set was finished before.
    pub was_finished: bool,
}

/// Builds one part of a data set (`--part`, `--parts`); [`crate::merge`] combines all parts into one data set.
///
/// # Errors
/// Fails as [`crate::build`] does; the part is then not finished.
pub fn build_part(config: &BuildConfig, progress: &mut dyn FnMut(BuildProgress)) -> Result<PartOutcome> {
    build_part_on(&Disk, config, progress)
}

/// Runs [`build_part`] on a custom file system.
///
/// # Errors
/// Fails as [`build_part`] does.
pub fn build_part_on(
    files: &dyn FileSystem,
    config: &BuildConfig,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<PartOutcome> {
    config.output()?;
    let config = &*with_limit(config)?;
    build_prepared_part(files, &prepare(config)?, progress)
}

pub(crate) fn build_prepared_part(
    files: &dyn FileSystem,
    prepared: &PreparedBuild<'_>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<PartOutcome> {
    let output = match prepared.open(files)? {
        OutputState::Open(output) => *output,
        OutputState::Finished(manifest) => return part_of(&manifest, prepared),
    };
    let outcome = |receipt: &PartReceipt, was_finished| PartOutcome {
        output: output.path().to_owned(),
        shards: receipt.shards.len(),
        rows: receipt.shards.iter().map(|shard| shard.entry.rows).sum(),
        was_finished,
    };
    if let Some(receipt) = finished_before(prepared, &output, progress)? {
        return Ok(outcome(&receipt, true));
    }
    let receipt = prepared.build(&output, progress)?;
    output.work.folder.write_bytes(VOCABULARY, prepared.vocabulary.bytes())?;
    output.start_publishing()?;
    output.publish(receipt.shards.iter().map(|shard| shard.entry.file.as_str()).chain([VOCABULARY]))?;
    receipt.write(&output.folder)?;
    // Other parts read the text that this part tokenized. The shard receipts are needed if a shard of this part is
    // damaged later.
    output.work.clear_except(is_text_or_receipt)?;
    output.work.keep();
    Ok(outcome(&receipt, false))
}

/// Returns the share of a part in a finished data set.
fn part_of(manifest: &Manifest, prepared: &PreparedBuild<'_>) -> Result<PartOutcome> {
    let own = || (0..).zip(&manifest.shards).filter(|(shard, _)| prepared.part.has(*shard));
    Ok(PartOutcome {
        output: prepared.config.output()?.into_owned(),
        shards: own().count(),
        rows: own().map(|(_, shard)| shard.rows).sum(),
        was_finished: true,
    })
}

/// Returns the receipt of this part if an earlier run of the same command finished it. If one of its files is damaged
/// or missing, withdraws the receipt: the part is then rebuilt and intact files are kept. Rejects a part of another
/// build.
fn finished_before(
    prepared: &PreparedBuild<'_>,
    output: &Output<'_>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Option<PartReceipt>> {
    let part = prepared.part;
    let receipt = match PartReceipt::read(output.folder.path(), part) {
        Err(error) if error.class() == Class::Data => {
            // A damaged receipt counts as missing. It can be removed, because this process holds the lock of the part.
            output.withdraw_receipt(part)?;
            return Ok(None);
        }
        receipt => receipt?,
    };
    let Some(receipt) = receipt else { return Ok(None) };
    let division = Division::new(prepared)?;
    let same_options = receipt.identity == output.work.identity.digest();
    if same_options && !division.is_changed(prepared, &output.work, progress)? {
        output.work.keep();
        division.tokenize(prepared, &output.work, progress)?;
        if division.store(prepared, output)?.build == receipt.build {
            if all_valid(prepared, output, &receipt, progress)? {
                output.work.clear_except(is_text_or_receipt)?;
                return Ok(Some(receipt));
            }
            output.withdraw_receipt(part)?;
            return Ok(None);
        }
    }
    let found =
        if same_options { "a finished part of different text" } else { "a finished part of another build" };
    let differences = format!("`.part` is {found}, not {}", part.index);
    Err(unfinished_build(&differences).at(output.folder.path()))
}

/// Returns whether a file stays in the work folder after its part is finished.
fn is_text_or_receipt(name: &str) -> bool {
    is_text_file(name) || is_shard_receipt(name)
}

/// Returns whether the files of a receipt match its digests. Removes the receipt of each shard that does not match, so
/// that only these shards are rebuilt.
fn all_valid(
    prepared: &PreparedBuild<'_>,
    output: &Output<'_>,
    receipt: &PartReceipt,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<bool> {
    let total = receipt.shards.len() as u64;
    let mut on_tick = || progress(BuildProgress { stage: BuildStage::Checking, done: 0, total });
    let mut workers = vec![(); prepared.pool.current_num_threads()];
    let shards = receipt.shards.iter().collect();
    // `has_digest` reads the whole file, also in a store.
    let check = |(): &mut (), shard: &WrittenShard| {
        has_digest(&output.path().join(&shard.entry.file), &shard.entry.blake3)
    };
    let stop = AtomicBool::new(false);
    let valid = Workers::new(&prepared.pool, &mut workers, &stop).map_all(shards, check, &mut on_tick)?;
    let vocabulary = digest_bytes(prepared.vocabulary.bytes());
    let all =
        valid.iter().all(|valid| *valid) && has_digest(&output.folder.path_of(VOCABULARY), &vocabulary)?;
    if !all {
        // The shards already have their final names and are looked up under these names. Shards whose receipts remain
        // are kept.
        output.start_publishing()?;
        let invalid = receipt.shards.iter().zip(valid).filter(|(_, valid)| !*valid);
        let mut receipts = invalid.map(|(shard, _)| receipt_name(shard.shard as usize));
        receipts.try_for_each(|name| output.work.folder.remove(&name).map(drop))?;
    }
    Ok(all)
}

/// Tokenizes one part's share of the text (`--part`, `--parts`). This is the first step of [`build_part`], which needs
/// it to be finished for every other part too.
///
/// # Errors
/// Fails as [`build_part`] does.
pub fn tokenize_part(config: &BuildConfig, progress: &mut dyn FnMut(BuildProgress)) -> Result<PartText> {
    config.output()?;
    let config = &*with_limit(config)?;
    let prepared = &prepare(config)?;
    let output = match prepared.open(&Disk)? {
        OutputState::Open(output) => *output,
        OutputState::Finished(_) => {
            let output = config.output()?.into_owned();
            return Ok(PartText { output, documents: 0, tokens: 0, was_finished: true });
        }
    };
    let text = Division::new(prepared)?.tokenize(prepared, &output.work, progress)?;
    output.work.keep();
    let documents = text.documents;
    let tokens = text.tokens;
    Ok(PartText { output: output.path().to_owned(), documents, tokens, was_finished: false })
}
