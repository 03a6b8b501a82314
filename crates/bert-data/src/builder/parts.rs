//! Makes one part of a build, as `--part` and `--parts` say; `builder::merge` makes a data set of all parts.
//!
//! A part first tokenizes its share of the text, then makes its shards, and ends with a receipt. Started again, it
//! compares its files with the receipt and makes again those that are missing or damaged.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use crate::builder::output::part_receipt::PartReceipt;
use crate::builder::output::work_folder::is_text_file;
use crate::builder::output::{Opened, Output};
use crate::builder::prepare::{Prepared, prepare};
use crate::builder::progress::{BuildProgress, BuildStage};
use crate::builder::token_store::Division;
use crate::builder::write_shards::{has_digest, is_note};
use crate::config::BuildConfig;
use crate::config::part::Part;
use crate::dataset::manifest::{Manifest, VOCABULARY};
use crate::error::{Error, Locate, OutputProblem, Result};
use crate::parallel::share_out;
use bert_storage::{Disk, FileSystem, digest_bytes};

/// The result of a part of a build.
#[derive(Clone, Debug)]
pub struct PartOutcome {
    /// The folder that the parts share.
    pub output: PathBuf,
    /// Shards that this part made; none where there are more parts than shards.
    pub shards: usize,
    /// Their rows.
    pub rows: u64,
    /// Whether the part was finished before.
    pub was_finished: bool,
}

/// The share of the text that a part of a build tokenized.
#[derive(Clone, Debug)]
pub struct PartText {
    /// The folder that the parts share.
    pub output: PathBuf,
    /// Documents in this part's share of the text; 0 where the data set is finished and the text is gone.
    pub documents: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Whether the data set was finished before.
    pub was_finished: bool,
}

/// Makes one part of a data set, as `--part` and `--parts` say; [`crate::merge`] makes a data set of all
/// parts.
///
/// # Errors
/// Any [`Error`]; the part is then not finished.
pub fn build_part(config: &BuildConfig, progress: &mut dyn FnMut(BuildProgress)) -> Result<PartOutcome> {
    build_part_on(&Disk, config, progress)
}

/// [`build_part`] on a file system of choice.
///
/// # Errors
/// As [`build_part`].
pub fn build_part_on(
    files: &dyn FileSystem,
    config: &BuildConfig,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<PartOutcome> {
    config.output()?;
    build_prepared_part(files, &prepare(config)?, progress)
}

pub(crate) fn build_prepared_part(
    files: &dyn FileSystem,
    prepared: &Prepared<'_>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<PartOutcome> {
    let part = prepared.config.part()?;
    let output = match prepared.open(files)? {
        Opened::Output(output) => *output,
        Opened::Finished(manifest) => return part_of(&manifest, prepared),
    };
    let outcome = |receipt: &PartReceipt, was_finished| PartOutcome {
        output: output.path().to_owned(),
        shards: receipt.shards.len(),
        rows: receipt.shards.iter().map(|shard| shard.entry.rows).sum(),
        was_finished,
    };
    if let Some(receipt) = finished_before(prepared, &output, part, progress)? {
        return Ok(outcome(&receipt, true));
    }
    let made = prepared.make(&output, progress)?;
    output.work.folder.write_bytes(VOCABULARY, prepared.vocabulary.bytes())?;
    output.start_publishing()?;
    output.publish(made.shards.iter().map(|shard| shard.entry.file.as_str()).chain([VOCABULARY]))?;
    made.write(&output.folder)?;
    // Other parts read the text. The notes are for a part whose shards are damaged later.
    output.work.clear_but(is_text_or_note)?;
    output.work.keep();
    Ok(outcome(&made, false))
}

/// Returns what a part made of a data set that is finished.
fn part_of(manifest: &Manifest, prepared: &Prepared<'_>) -> Result<PartOutcome> {
    let part = prepared.config.part()?;
    let own = || (0..).zip(&manifest.shards).filter(|(shard, _)| part.has(*shard));
    Ok(PartOutcome {
        output: prepared.config.output()?.into_owned(),
        shards: own().count(),
        rows: own().map(|(_, shard)| shard.rows).sum(),
        was_finished: true,
    })
}

/// Returns the receipt of this part where an earlier run of the same command finished it. Where a file of it is damaged
/// or missing, the receipt is taken back: the part is made again, and files that hold are kept. Refuses a part of
/// another build.
fn finished_before(
    prepared: &Prepared<'_>,
    output: &Output<'_>,
    part: Part,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Option<PartReceipt>> {
    let receipt = match PartReceipt::read(output.folder.path(), part) {
        Err(Error::Manifest(_)) => {
            // A damaged receipt is as good as none. This part's own lock is held.
            output.take_back(part)?;
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
            if all_hold(prepared, output, &receipt, progress)? {
                output.work.clear_but(is_text_or_note)?;
                return Ok(Some(receipt));
            }
            output.take_back(part)?;
            return Ok(None);
        }
    }
    let found =
        if same_options { "a finished part of other text" } else { "a finished part of another build" };
    let differences = format!("--part is {found}, not {}", part.index);
    Err(OutputProblem::Unfinished { differences }.at(output.folder.path()).into())
}

/// Whether a file of a work folder stays when its part is finished.
fn is_text_or_note(name: &str) -> bool {
    is_text_file(name) || is_note(name)
}

/// Whether the files of a receipt have its digests. Removes the notes of shards that do not, so that they alone are made
/// again.
fn all_hold(
    prepared: &Prepared<'_>,
    output: &Output<'_>,
    receipt: &PartReceipt,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<bool> {
    let total = receipt.shards.len() as u64;
    let mut beat = || progress(BuildProgress { stage: BuildStage::Checking, done: 0, total });
    let mut workers = vec![(); prepared.pool.current_num_threads()];
    let shards = receipt.shards.iter().collect();
    let holds = |(): &mut (), shard| output.has_published(shard);
    let held = share_out(&prepared.pool, &mut workers, shards, &AtomicBool::new(false), holds, &mut beat)?;
    let vocabulary = digest_bytes(prepared.vocabulary.bytes());
    let all = held.iter().all(|holds| *holds) && has_digest(&output.folder.at(VOCABULARY), &vocabulary)?;
    if !all {
        // The shards have their names: they are looked for there. Those whose notes stay are kept.
        output.start_publishing()?;
        let lost = receipt.shards.iter().zip(held).filter(|(_, holds)| !*holds);
        lost.map(|(shard, _)| shard).try_for_each(|shard| shard.forget(&output.work.folder))?;
    }
    Ok(all)
}

/// Tokenizes the share of the text that is one part's, as `--part` and `--parts` say: what [`build_part`] does first,
/// and what it needs of every other part.
///
/// # Errors
/// Any [`Error`].
pub fn tokenize_part(config: &BuildConfig, progress: &mut dyn FnMut(BuildProgress)) -> Result<PartText> {
    config.output()?;
    let prepared = &prepare(config)?;
    let output = match prepared.open(&Disk)? {
        Opened::Output(output) => *output,
        Opened::Finished(_) => {
            let output = config.output()?.into_owned();
            return Ok(PartText { output, documents: 0, tokens: 0, was_finished: true });
        }
    };
    let text = Division::new(prepared)?.tokenize(prepared, &output.work, progress)?;
    output.work.keep();
    let (documents, tokens) = (text.documents, text.tokens);
    Ok(PartText { output: output.path().to_owned(), documents, tokens, was_finished: false })
}
