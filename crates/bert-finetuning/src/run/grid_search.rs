//! Trains one run per seed for every configuration of a grid, and keeps the runs of the best configuration.

use std::path::Path;

use bert_inference::Error;
use bert_inference::compute::stop_flag::{StopFlag, StopRequested};
use bert_model::BertConfig;

use crate::config::grid::{Cell, CellReport, GridReport};
use crate::data::datasets::Part;
use crate::events::FinetuneEvent;
use crate::model::initial_model::{InitialModel, initial_model};
use crate::run::resume::SavedRuns;
use crate::run::run_report::{EpochReport, FinishedRun};
use crate::run::train_seed::{RunHistory, ScoredModel, finished_run, is_better, train_seed};
use crate::scoring::TaskScoring;

/// The finished runs of a configuration.
pub(crate) struct CellRuns<T: TaskScoring> {
    /// Index of the configuration in the grid.
    cell: usize,
    /// All runs, in the order of the seeds; only the best run has its model.
    pub(crate) finished: Vec<FinishedRun<T>>,
    pub(crate) model_config: BertConfig,
    /// Index of the best run.
    best: usize,
}

/// The best configuration of a grid and its runs.
pub(crate) struct GridResult<'a, T: TaskScoring> {
    pub(crate) cell: &'a Cell,
    pub(crate) runs: CellRuns<T>,
    /// The scores of all configurations; `None` if there is one only.
    pub(crate) grid: Option<GridReport>,
}

impl<T: TaskScoring> CellRuns<T> {
    /// Scores a single run whose last state is final.
    pub(crate) fn single(
        task: &T,
        seed: u64,
        model: T::Model,
        model_config: BertConfig,
        epochs: Vec<EpochReport>,
        stop: &StopFlag,
    ) -> Result<Self, StopRequested> {
        let epoch = epochs.last().map_or(0.0, |last| last.epoch);
        let dev = ScoredModel::new(task, model, epoch, Part::Dev, stop)?;
        let history = RunHistory { epochs, stopped_early: false, diverged: false };
        let finished = vec![finished_run(task, seed, dev, None, history, stop)?];
        Ok(Self { cell: 0, finished, model_config, best: 0 })
    }

    fn best_seed(&self) -> u64 {
        self.finished[self.best].report.seed
    }

    /// Returns the best run's model.
    ///
    /// # Errors
    /// [`FolderProblem::FileCorrupt`](bert_inference::FolderProblem::FileCorrupt) when an earlier process saved it
    /// and it is missing now.
    pub(crate) fn model(&self, output: &Path) -> Result<&T::Model, Error> {
        let reason = format!(
            "the model of seed {} is missing, although its run is complete; train it again without --resume",
            self.best_seed()
        );
        self.finished[self.best].model.as_ref().ok_or_else(|| Error::corrupt_file(output, reason))
    }
}

/// Trains every configuration and keeps the runs of the one that is best on the held-out part of train (ties go to the
/// first); keeps only the scores of the others. `first` is the first run's model, loaded before the output folder was
/// created. `saved` holds the runs finished by an earlier process.
pub(crate) fn train_grid<'a, T: TaskScoring>(
    task: &T,
    cells: &'a [Cell],
    first: InitialModel<T::Model>,
    saved: &SavedRuns<'_>,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<GridResult<'a, T>, Error> {
    let (metric, mut first) = (cells[0].config.task.spec().primary, Some(first));
    let mut reports: Vec<CellReport> = Vec::new();
    let mut best: Option<CellRuns<T>> = None;
    for (number, cell) in cells.iter().enumerate() {
        // Loading messages are the same for every cell, so report them once.
        let mut silent = |event| match event {
            FinetuneEvent::Warning(_) if number > 0 => {}
            event => on_event(event),
        };
        let runs = train_seeds(task, number, cell, &mut first, saved, stop, &mut silent)?;
        let scores = runs.finished.iter().map(|run| run.report.selection_score(metric));
        let report = CellReport::new(cell, &scores.collect::<Vec<f64>>());
        if cells.len() > 1 {
            on_event(FinetuneEvent::CellDone {
                cell: number + 1,
                cells: cells.len(),
                report: report.clone(),
            });
        }
        let mean = report.statistics.mean;
        reports.push(report);
        let is_best = best.as_ref().is_none_or(|best| is_better(mean, reports[best.cell].statistics.mean));
        let worse = if is_best { best.replace(runs) } else { Some(runs) };
        if let Some(worse) = worse {
            saved.run(worse.cell, worse.best_seed()).remove_model()?;
        }
    }
    let runs = best.expect("there is at least one cell");
    reports[runs.cell].chosen = true;
    let held_out_examples = task.sets().training.held_out;
    let grid = (cells.len() > 1).then_some(GridReport { metric, held_out_examples, cells: reports });
    Ok(GridResult { cell: &cells[runs.cell], runs, grid })
}

/// Trains one configuration from every seed and keeps the model of the best run.
fn train_seeds<T: TaskScoring>(
    task: &T,
    number: usize,
    cell: &Cell,
    first: &mut Option<InitialModel<T::Model>>,
    saved_runs: &SavedRuns<'_>,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<CellRuns<T>, Error> {
    let metric = cell.config.task.spec().primary;
    let mut finished: Vec<FinishedRun<T>> = Vec::new();
    let mut best: Option<usize> = None;
    let mut model_config = None;
    for &seed in cell.config.seeds.iter() {
        let initial = match first.take() {
            Some(first) => first,
            None => initial_model(task, seed, on_event)?,
        };
        model_config = Some(initial.config);
        let mut saved = saved_runs.run(number, seed);
        let earlier = saved.finished::<T>(&initial.model, on_event)?;
        let is_new = earlier.is_none();
        let mut run = match earlier {
            Some(run) => run,
            None => train_seed(task, cell, seed, initial.model, &mut saved, stop, on_event)?,
        };
        let score = run.report.selection_score(metric);
        let is_best =
            best.is_none_or(|best: usize| is_better(score, finished[best].report.selection_score(metric)));
        if is_new {
            saved.finish(&run, is_best)?;
        }
        if !is_best {
            run.model = None;
        } else if let Some(worse) = best.replace(finished.len()) {
            let worse = &mut finished[worse];
            worse.model = None;
            saved_runs.run(number, worse.report.seed).remove_model()?;
        }
        finished.push(run);
    }
    let (best, model_config) = best.zip(model_config).expect("there is at least one seed");
    Ok(CellRuns { cell: number, finished, model_config, best })
}
