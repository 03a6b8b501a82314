//! `bert verify` checks the files of a data folder or of a run's checkpoints against their digests.

use std::path::PathBuf;

use bert_inference::checkpoint::{CheckpointFolder, verify};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::output::progress::Progress;
use crate::output::table::{Column, FormatArgs, Table, print_table};
use crate::process::threads::ThreadArgs;

/// Check the files of a data folder or a run against their digests.
///
/// For a run, all its checkpoints are checked.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Data folder or its URL, pre-training run, or checkpoint.
    folder: PathBuf,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    format: FormatArgs,

    /// Hide the progress on stderr.
    #[arg(long)]
    quiet: bool,
}

/// The result as JSON.
#[derive(Serialize)]
struct Verified {
    good: bool,
    checks: Vec<Check>,
}

/// Returns a table with a row for each check.
fn table(checks: &[Check]) -> Table {
    let row = |Check { name, rows, problem }: &Check| {
        let rows = rows.map(|rows| rows.to_string()).unwrap_or_default();
        vec![name.clone(), rows, problem.clone().unwrap_or_else(|| "good".to_owned())]
    };
    Table {
        columns: vec![Column::text("checked"), Column::number("rows"), Column::text("result")],
        rows: checks.iter().map(row).collect(),
        ..Table::default()
    }
}

/// A checked file or checkpoint, or the recount of all rows.
#[derive(Serialize)]
struct Check {
    name: String,
    /// Number of rows that were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    problem: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    if args.folder.join("COMMITTED.json").exists() {
        verify(&args.folder)?;
        let name = args.folder.display().to_string();
        return show(args, vec![Check { name, rows: None, problem: None }]);
    }
    if args.folder.join("checkpoints").is_dir() {
        return checkpoints(args);
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
    let files = verification.files.iter().map(|checked| Check {
        name: checked.file.clone(),
        rows: (checked.rows > 0).then_some(checked.rows),
        problem: checked.problem.as_ref().map(ToString::to_string),
    });
    let recount = verification.recount.iter().map(|recount| Check {
        name: "invariants".to_string(),
        rows: Some(recount.rows),
        problem: recount.problem.as_ref().map(ToString::to_string),
    });
    let checks = files.chain(recount).collect();
    let verified = Verified { good: verification.is_good(), checks };
    print_table(args.format, &verified, table(&verified.checks), |_| verification.to_string())?;
    verification.into_problem().map_or(Ok(()), |problem| Err(problem.into()))
}

fn show(args: &Args, checks: Vec<Check>) -> anyhow::Result<()> {
    let good = checks.iter().all(|check| check.problem.is_none());
    let verified = Verified { good, checks };
    print_table(args.format, &verified, table(&verified.checks), |_| {
        let line = |check: &Check| match &check.problem {
            None => format!("good  {}", check.name),
            Some(problem) => format!("bad   {problem}"),
        };
        if verified.checks.is_empty() {
            "this run has no checkpoints yet".to_string()
        } else {
            verified.checks.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    })
}

fn checkpoints(args: &Args) -> anyhow::Result<()> {
    let folder = CheckpointFolder::in_run(&args.folder);
    let mut checks = Vec::new();
    let mut first_problem = None;
    for step in folder.steps()? {
        let path = folder.path(step);
        let problem = verify(&path).err();
        let text = problem.as_ref().map(ToString::to_string);
        checks.push(Check { name: path.display().to_string(), rows: None, problem: text });
        first_problem = first_problem.or(problem);
    }
    show(args, checks)?;
    first_problem.map_or(Ok(()), |problem| Err(problem.into()))
}
