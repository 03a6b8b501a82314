//! Runs the plan of an experiment; finished runs are checked and kept.

use std::path::Path;
use std::time::Instant;

use bert_finetuning::{check_finished, multitask};
use bert_inference::StopFlag;
use bert_storage::{Disk, LOCK, OutputLock, StagedFolder, reject_url, write_json_atomic};
use bert_training::mismatch;

use super::args::Args;
use super::definition::Experiment;
use super::estimate::Estimator;
use super::plan::{PlannedRun, Work};
use super::table::Results;
use crate::commands::training::finetune::{View, tune};
use crate::output::files::check_new_folder;
use crate::output::progress::{duration, print_note_unless, print_stderr};
use crate::output::stdout::print_result;

/// The plan and its estimate as JSON.
#[derive(serde::Serialize)]
struct DryRun {
    estimated_seconds: f64,
    folders: Vec<String>,
}

/// File that names the experiment of an output folder, written before the first run.
const STARTED: &str = "started.json";

#[derive(PartialEq, serde::Serialize, serde::Deserialize)]
struct Started {
    experiment: String,
}

impl Started {
    /// Returns the record of the experiment that these flags select.
    fn new(args: &Args) -> Self {
        // Every flag is listed, so that a new flag requires a decision here on whether it makes a different
        // experiment.
        let Args {
            name,
            // Each fine-tuning compares these flags with its saved options, if they affect it.
            checkpoint: _,
            data: _,
            seeds: _,
            max_train_examples: _,
            flags: _,
            // More tasks only add fine-tunings.
            tasks: _,
            // The instances that these flags select are computed again.
            input: _,
            instances: _,
            max_seq_length: _,
            // The results do not depend on these flags.
            output: _,
            dry_run: _,
            threads: _,
            format: _,
            run: _,
        } = args;
        Self { experiment: name.clone().unwrap_or_default() }
    }
}

/// Estimates the time of a plan, prints it, and runs the plan. Returns results without rows, with the estimated and
/// the measured time, or `None` after a dry run.
///
/// # Errors
/// Fails when the output folder has other files, and as [`bert_finetuning::finetune`] does.
pub(super) fn train(
    args: &Args,
    experiment: &Experiment,
    plan: &[PlannedRun],
    stop: &StopFlag,
) -> anyhow::Result<Option<Results>> {
    let quiet = args.run.quiet;
    let left: Vec<&PlannedRun> = plan.iter().filter(|run| !run.is_finished()).collect();
    let mut results = Results::new(args, experiment);
    if !left.is_empty() {
        let seconds = Estimator::new(stop)?.seconds(plan)?;
        results.estimated_seconds = Some(seconds);
        if args.dry_run {
            let folders = left.iter().map(|run| run.output().display().to_string()).collect();
            let result = DryRun { estimated_seconds: seconds, folders };
            print_result(args.format.is_json(), &result, |result| {
                let time = duration(result.estimated_seconds);
                format!("{}\nestimated time: {time} for {} folders", result.folders.join("\n"), left.len())
            })?;
            return Ok(None);
        }
        let time = duration(seconds);
        let count = left.len();
        let note = format!("estimated time: {time} for {count} runs, measured with short runs");
        print_note_unless(quiet, note);
    }
    let _lock = args.output.as_deref().map(locked).transpose()?;
    if let Some(output) = &args.output {
        write_json_atomic(&output.join(STARTED), &Started::new(args))?;
    }
    let started = Instant::now();
    for (number, run) in plan.iter().enumerate() {
        if run.is_finished() {
            run.configs().iter().try_for_each(|config| check_finished(config).map(drop))?;
            continue;
        }
        if !quiet {
            print_stderr(&format!("{} of {}: {}", number + 1, plan.len(), run.output().display()));
        }
        run_one(args, run, stop)?;
    }
    results.seconds = started.elapsed().as_secs_f64();
    Ok(Some(results))
}

/// Locks the output folder, and removes the temporary files that a killed experiment left.
fn locked(output: &Path) -> anyhow::Result<OutputLock> {
    let folder = StagedFolder::new(&Disk, output);
    folder.create()?;
    let lock = folder.lock(LOCK)?;
    folder.remove_temporaries()?;
    Ok(lock)
}

fn run_one(args: &Args, run: &PlannedRun, stop: &StopFlag) -> anyhow::Result<()> {
    let resume = args.run.resume && run.output().exists();
    match &run.work {
        Work::Single(config) => {
            tune(config, resume, args.run.quiet, stop)?;
        }
        Work::Together(config) => {
            let mut view = View::new(&config.tasks[0], args.run.quiet);
            multitask(config, resume.into(), stop, &mut |event| view.show(&event))?;
        }
    }
    Ok(())
}

/// Rejects an output folder with files, unless the same experiment continues in it.
///
/// # Errors
/// Fails when the folder is not empty and `--resume` is not given, or when its files belong to a different experiment.
pub(super) fn check_output(args: &Args) -> anyhow::Result<()> {
    let Some(output) = args.output.as_deref() else { return Ok(()) };
    reject_url(output)?;
    if args.run.resume {
        return check_started(&output.join(STARTED), &Started::new(args));
    }
    check_new_folder(output, "choose another --output, or continue with --resume")
}

/// Checks that the file, if it exists, names this experiment.
fn check_started(file: &Path, new: &Started) -> anyhow::Result<()> {
    if !file.exists() {
        return Ok(());
    }
    let started: Started = serde_json::from_slice(&std::fs::read(file)?)
        .map_err(|error| bert_inference::damaged(file, error))?;
    if started == *new {
        return Ok(());
    }
    let folder = file.parent().unwrap_or(file).display();
    Err(mismatch(vec![format!(
        "{folder}: the experiment was {}, now it is {}; choose another --output",
        started.experiment, new.experiment
    )])
    .into())
}
