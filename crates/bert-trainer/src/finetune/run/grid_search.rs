//! Trains one run per seed for every configuration of a grid, and keeps the runs of the best configuration.

use std::path::Path;

use bert_model::BertConfig;
use serde_json::Value;

use crate::error::Error;
use crate::finetune::config::grid::{Cell, CellReport, GridReport};
use crate::finetune::events::FinetuneEvent;
use crate::finetune::model::adapters::TrainedParameters;
use crate::finetune::model::initial_model::start_model;
use crate::finetune::model::pretrained::Setup;
use crate::finetune::objectives::holdout::TrainingParts;
use crate::finetune::objectives::{Answered, Objective, Part};
use crate::finetune::output::Output;
use crate::finetune::output::report::{EpochReport, FinetuneReport, RunReport};
use crate::finetune::run::resume::SavedRuns;
use crate::finetune::run::train_seed::{Course, State, is_better, reported, run_seed};
use crate::training::stop_flag::{StopFlag, StopRequested};
use bert_tasks::statistics::{SeedRun, SeedSummary};

/// A run's untrained model and its configuration.
type Fresh<O> = (<O as Objective>::Model, BertConfig);

/// The finished runs of a configuration.
pub(crate) struct Runs<O: Objective> {
    /// All runs, in the order of the seeds.
    pub(crate) finished: Vec<(RunReport, Answered<O>)>,
    /// The best run's model and its configuration.
    model: Option<O::Model>,
    pub(crate) model_config: BertConfig,
    /// Seed and score of the best run.
    best: (u64, f64),
}

impl<O: Objective> Runs<O> {
    /// Scores a single run whose last state is final.
    ///
    /// # Errors
    /// [`StopRequested`].
    pub(crate) fn of_one(
        objective: &O,
        seed: u64,
        model: O::Model,
        model_config: BertConfig,
        history: Vec<EpochReport>,
        stop: &StopFlag,
    ) -> Result<Self, StopRequested> {
        let epoch = history.last().map_or(0.0, |last| last.epoch);
        let state = State::new(objective, model, epoch, Part::Dev, stop)?;
        let course = Course { history, stopped_early: false, diverged: false };
        let (report, answers, model) = reported(objective, seed, state, None, course, stop)?;
        let finished = vec![(report, answers)];
        Ok(Self { finished, model: Some(model), model_config, best: (seed, f64::NAN) })
    }

    /// Returns the best run's model.
    ///
    /// # Errors
    /// [`FolderProblem::CheckpointCorrupt`](crate::FolderProblem::CheckpointCorrupt) when an earlier process saved it
    /// and it is missing now.
    pub(crate) fn model(&self, output: &Path) -> Result<&O::Model, Error> {
        let reason = format!(
            "the model of seed {} is missing, although its run is complete; train it again without --resume",
            self.best.0
        );
        self.model.as_ref().ok_or_else(|| Error::corrupt(output, reason))
    }
}

/// Trains every configuration and keeps the runs of the one that is best on the held-out part of train (ties go to the
/// first); keeps only the scores of the others. `first` is the first run's model, loaded before the output folder was
/// created. `saved` holds the runs finished by an earlier process.
///
/// # Errors
/// The errors of a run.
pub(crate) fn run_cells<'a, O: Objective>(
    cells: &'a [Cell],
    first: Fresh<O>,
    saved: &SavedRuns<'_>,
    objective: &O,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<(&'a Cell, Runs<O>, Option<GridReport>), Error> {
    let (metric, mut first) = (cells[0].config.task.spec().primary, Some(first));
    let mut reports: Vec<CellReport> = Vec::new();
    let mut chosen: Option<(usize, Runs<O>)> = None;
    for (number, cell) in cells.iter().enumerate() {
        // Loading messages are the same for every cell, so report them once.
        let mut silent = |event| match event {
            FinetuneEvent::Warning(_) if number > 0 => {}
            event => tell(event),
        };
        let runs = run_seeds(objective, (number, cell), &mut first, saved, stop, &mut silent)?;
        let scores: Vec<f64> = runs.finished.iter().map(|(run, _)| run.deciding(metric)).collect();
        let report = CellReport::new(cell, &scores);
        if cells.len() > 1 {
            tell(FinetuneEvent::CellDone { cell: number + 1, cells: cells.len(), report: report.clone() });
        }
        let mean = report.statistics.mean;
        reports.push(report);
        let better = chosen.as_ref().is_none_or(|(best, _)| is_better(mean, reports[*best].statistics.mean));
        let worse = if better { chosen.replace((number, runs)) } else { Some((number, runs)) };
        if let Some((cell, runs)) = worse {
            saved.run(cell, runs.best.0).forget_model()?;
        }
    }
    let (best, runs) = chosen.expect("there is at least one cell");
    reports[best].chosen = true;
    let held_out_examples = objective.sets().training.held_out;
    let grid = (cells.len() > 1).then_some(GridReport { metric, held_out_examples, cells: reports });
    Ok((&cells[best], runs, grid))
}

fn run_seeds<O: Objective>(
    objective: &O,
    (number, cell): (usize, &Cell),
    first: &mut Option<Fresh<O>>,
    saved_runs: &SavedRuns<'_>,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<Runs<O>, Error> {
    let config = &cell.config;
    let mut all = Vec::new();
    let mut best: Option<Runs<O>> = None;
    for &seed in config.seeds.iter() {
        let (model, model_config) = match first.take() {
            Some(first) => first,
            None => start_model(objective, seed, tell)?,
        };
        let mut saved = saved_runs.run(number, seed);
        let before = saved.finished::<O>(&model, tell)?;
        let is_new = before.is_none();
        let (report, answers, model) = match before {
            Some(before) => before,
            None => {
                let (report, answers, model) =
                    run_seed((objective, cell), seed, model, &mut saved, stop, tell)?;
                (report, answers, Some(model))
            }
        };
        let score = report.deciding(config.task.spec().primary);
        let is_best = best.as_ref().is_none_or(|best| is_better(score, best.best.1));
        if let (true, Some(model)) = (is_new, &model) {
            saved.finish::<O>(&report, &answers, model, is_best)?;
        }
        all.push((report, answers));
        if is_best {
            let runs = Runs { finished: Vec::new(), model, model_config, best: (seed, score) };
            if let Some(worse) = best.replace(runs) {
                saved_runs.run(number, worse.best.0).forget_model()?;
            }
        }
    }
    Ok(Runs { finished: all, ..best.expect("there is at least one seed") })
}

/// Writes the results of a cell: the answers to dev and to the file of `--predict`, the best model, and the report.
///
/// # Errors
/// When a file cannot be written; otherwise as [`Runs::model`].
pub(crate) fn write_output<O: Objective>(
    objective: &O,
    output: &Output,
    (cell, grid): (&Cell, Option<GridReport>),
    runs: Runs<O>,
    identity: Value,
) -> Result<FinetuneReport, Error> {
    let (sets, Setup { config, opened, .. }) = (objective.sets(), objective.setup());
    let model = runs.model(output.folder().path())?;
    objective.write_dev_labels(output)?;
    for (run, answers) in &runs.finished {
        let stem = format!("seed-{}/dev_", run.seed);
        objective.write(output, &stem, objective.part(Part::Dev), &answers[&Part::Dev])?;
    }
    if let Some(set) = &sets.to_predict {
        // The runs are finished: a stop waits until their results are written.
        let answers = objective.answer(model, set, &StopFlag::new()).expect("no signal sets this flag");
        objective.write(output, "", set, &answers)?;
    }
    objective.save_model(output, model, &runs.model_config)?;

    let summary = |part: Part| {
        let answers: Vec<&O::Answers> = runs.finished.iter().map(|(_, answers)| &answers[&part]).collect();
        let run = |((report, _), answers): (&(RunReport, _), &&O::Answers)| SeedRun {
            seed: report.seed,
            scores: report.scores(part).expect("scored with the part").clone(),
            degenerate: objective.is_degenerate(answers),
        };
        let of_runs = runs.finished.iter().zip(&answers).map(run).collect();
        objective.summary(objective.part(part), of_runs, &answers)
    };
    let if_there = |part| objective.has(part).then(|| summary(part));
    let (dev, training) = (summary(Part::Dev), sets.training);
    let report = FinetuneReport {
        resolved: cell.resolved.clone(),
        grid,
        fusion: objective.fusion(model)?,
        start: opened.start_name.clone(),
        parameters: TrainedParameters::new(config, model, opened.model.num_hidden_layers),
        train_examples: training.trained_on,
        training,
        identity,
        dev_digest: O::digest(objective.part(Part::Dev)),
        is_sample: sets.is_sample,
        warnings: warnings(objective, &runs, &dev, training),
        dev,
        dev_mismatched: if_there(Part::DevMismatched),
        test: if_there(Part::Test),
        runs: runs.finished.iter().map(|(report, _)| report.clone()).collect(),
        model: config.output.join("model"),
        config: config.clone(),
    };
    output.folder().write_json("report.json", &report)?;
    Ok(report)
}

/// Returns the warnings for the report.
fn warnings<O: Objective>(
    objective: &O,
    runs: &Runs<O>,
    dev: &SeedSummary,
    training: TrainingParts,
) -> Vec<String> {
    let of_runs = runs.finished.iter().flat_map(|(report, answers)| {
        let diverged = report.diverged.then(|| {
            "the run has diverged: its training loss ended far above the loss of random guessing; use a lower \
             --learning-rate or more warm-up"
                .to_string()
        });
        let remark = objective.remark(&answers[&Part::Dev]);
        diverged.into_iter().chain(remark).map(|text| format!("seed {}: {text}", report.seed))
    });
    let notes = objective.setup().opened.notes.iter().chain(&objective.sets().notes).cloned();
    of_runs.chain(dev.warnings()).chain(training.warning()).chain(notes).collect()
}
