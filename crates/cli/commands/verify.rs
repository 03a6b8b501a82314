//! `bert verify` checks the files of a data folder or of a run's checkpoints against their digests.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bert_trainer::run_dir::checkpoint::{CheckpointFolder, verify};
use clap::Args as ClapArgs;

use crate::exit::print;
use crate::progress::Progress;

/// Check every file of a data folder, or every checkpoint of a run, against its digest.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Data folder or its URL, pre-training run, or checkpoint.
    folder: PathBuf,

    /// Hide the progress on stderr.
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
///
/// # Errors
/// Returns the error of the first file that does not match its digest.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.folder.join("COMMITTED.json").exists() {
        verify(&args.folder)?;
        return print(&format!("good  {}", args.folder.display()));
    }
    if args.folder.join("checkpoints").is_dir() {
        return checkpoints(&args.folder);
    }
    if args.folder.join("config.json").exists() {
        anyhow::bail!(
            "{}: this model has no digests to verify (it was exported, fine-tuned or downloaded); data folders, runs and \
             checkpoints have digests",
            args.folder.display()
        );
    }
    let mut progress = Progress::new("verify", 0, args.quiet);
    let verification = bert_data::verify_with(&args.folder, true, &mut |at| progress.set_shards(at))?;
    drop(progress);
    print(verification.to_string().trim_end())?;
    verification.into_problem().map_or(Ok(()), |problem| Err(problem.into()))
}

fn checkpoints(run: &Path) -> anyhow::Result<()> {
    let folder = CheckpointFolder::of_run(run);
    let mut text = String::new();
    let mut first_problem = None;
    for step in folder.steps()? {
        let path = folder.path(step);
        match verify(&path) {
            Ok(_) => writeln!(text, "good  {}", path.display())?,
            Err(error) => {
                writeln!(text, "bad   {error}")?;
                first_problem.get_or_insert(error);
            }
        }
    }
    if text.is_empty() {
        text.push_str("this run has no checkpoints yet");
    }
    print(text.trim_end())?;
    first_problem.map_or(Ok(()), |problem| Err(problem.into()))
}
