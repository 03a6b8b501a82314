//! The output of a fine-tuning: writes the predictions, the models and the report.

pub(crate) mod card;
pub(crate) mod report;
pub(crate) mod selection;

use std::path::PathBuf;

use bert_inference::{StopFlag, seed_folder};
use bert_storage::commit;
use bert_tasks::{SeedRun, SeedSummary};
use bert_training::Error;
use serde_json::Value;

use crate::data::datasets::Part;
use crate::files::folder::{MODEL, OutputFolder};
use crate::files::model_card::CardOptions;
use crate::kinds::FinetuneTask;
use crate::model::adapters::TrainedParameters;
use crate::output::card::card_of_finetuning;
use crate::output::report::FinetuneReport;
use crate::output::selection::SelectionReport;
use crate::run::grid_search::CellRuns;
use crate::run::resume::SavedRuns;
use crate::run::run_report::FinishedRun;
use crate::setup::Setup;

/// Writes the results of a configuration: the answers to dev and to the file of `--predict`, the best model, with
/// `--keep-seeds` the models of all runs, and the report.
pub(crate) fn write_output<T: FinetuneTask>(
    task: &T,
    output: &OutputFolder,
    runs: CellRuns<'_, T>,
    saved: &SavedRuns<'_>,
    identity: Value,
) -> Result<FinetuneReport, Error> {
    let (sets, Setup { config, checkpoint, .. }) = (task.sets(), task.setup());
    let model = runs.model(output.folder().path())?;
    write_files(task, output, &runs, model)?;
    let seed_models = write_seed_models(task, output, &runs, saved)?;
    let dev = summary(task, &runs, Part::Dev);
    let training = sets.training;
    let summary_of = |part| task.has(part).then(|| summary(task, &runs, part));
    let report = FinetuneReport {
        resolved: runs.cell.resolved.clone(),
        defaults: checkpoint.chosen_defaults(config, Some(task.items())),
        grid: runs.grid.clone(),
        fusion: task.fusion(model)?,
        commit: commit().to_owned(),
        start: checkpoint.name.clone(),
        parameters: TrainedParameters::new(config, model, checkpoint.model_config.num_hidden_layers),
        train_examples: training.trained_on,
        training,
        identity,
        dev_digest: T::digest(task.part(Part::Dev)),
        selection: SelectionReport::new(config, runs.finished.iter().map(|run| &run.report)),
        shared_texts: sets.shared_texts.clone(),
        is_sample: sets.is_sample,
        warnings: warnings(task, &runs, &dev),
        dev,
        dev_mismatched: summary_of(Part::DevMismatched),
        test: summary_of(Part::Test),
        runs: runs.finished.iter().map(|run| run.report.clone()).collect(),
        model: config.output.join(MODEL),
        seed_models,
        config: config.clone(),
    };
    let card = card_of_finetuning(&report).render(&CardOptions::default());
    output.write(&format!("{MODEL}/README.md"), |out| out.write_all(card.as_bytes()))?;
    output.folder().write_json("report.json", &report)?;
    Ok(report)
}

/// Writes the answers of all runs and the best run's model.
fn write_files<T: FinetuneTask>(
    task: &T,
    output: &OutputFolder,
    runs: &CellRuns<'_, T>,
    model: &T::Model,
) -> Result<(), Error> {
    task.write_dev_labels(output)?;
    for run in &runs.finished {
        let prefix = format!("{}/dev_", seed_folder(run.report.seed));
        task.write_answers(output, &prefix, task.part(Part::Dev), &run.answers[&Part::Dev])?;
    }
    if let Some(set) = &task.sets().to_predict {
        // The runs are finished: a stop waits until their results are written.
        let answers = task.answer(model, set, &StopFlag::new()).expect("no signal sets this flag");
        task.write_answers(output, "", set, &answers)?;
    }
    task.save_model(output, "", model, &runs.model_config)
}

/// Writes the models of all runs with `--keep-seeds`, and returns their folders.
fn write_seed_models<T: FinetuneTask>(
    task: &T,
    output: &OutputFolder,
    runs: &CellRuns<'_, T>,
    saved: &SavedRuns<'_>,
) -> Result<Vec<PathBuf>, Error> {
    let config = task.setup().config;
    let kept = runs.finished.iter().filter(|_| config.keep_seeds);
    let write = |run: &FinishedRun<T>| {
        let folder = seed_folder(run.report.seed);
        let model = runs.model_of(run, saved, output.folder().path())?;
        task.save_model(output, &format!("{folder}/"), &model, &runs.model_config)?;
        Ok(config.output.join(folder).join(MODEL))
    };
    kept.map(write).collect()
}

/// Returns the summary of the runs on a part.
fn summary<T: FinetuneTask>(task: &T, runs: &CellRuns<'_, T>, part: Part) -> SeedSummary {
    let answers: Vec<&T::Answers> = runs.finished.iter().map(|run| &run.answers[&part]).collect();
    let seed_runs = runs.finished.iter().map(|run| SeedRun {
        seed: run.report.seed,
        scores: run.report.scores(part).expect("scored with the part").clone(),
        degenerate: task.is_degenerate(task.part(part), &run.answers[&part]),
    });
    task.summary(task.part(part), seed_runs.collect(), &answers)
}

/// Returns the warnings for the report.
fn warnings<T: FinetuneTask>(task: &T, runs: &CellRuns<'_, T>, dev: &SeedSummary) -> Vec<String> {
    let run_warnings = runs.finished.iter().flat_map(|run| {
        let diverged = run.report.diverged.then(|| {
            "the run has diverged: its training loss ended far above the loss of random guessing; use a lower \
             --learning-rate or more warm-up"
                .to_string()
        });
        let remark = task.remark(&run.answers[&Part::Dev]);
        diverged.into_iter().chain(remark).map(|text| format!("seed {}: {text}", run.report.seed))
    });
    let sets = task.sets();
    let notes = task.setup().checkpoint.notes.iter().chain(&sets.notes).cloned();
    // Warnings about truncated texts come before advice about the learning rate.
    notes.chain(run_warnings).chain(dev.warnings()).chain(sets.training.warning()).collect()
}
