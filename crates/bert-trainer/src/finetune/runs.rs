//! The runs of one configuration, one per seed, and of several configurations those that are kept.

use std::path::Path;

use bert_model::{BertConfig, BertForSequenceClassification};

use super::grid::{Cell, CellReport, GridReport};
use super::saved::SavedRuns;
use super::seed_run::{Shared, run_seed};
use super::{FinetuneEvent, RunReport, Splits, run_report, start_model};
use crate::error::Error;
use crate::stop::StopFlag;

/// What every configuration starts from.
pub(super) struct Start<'a> {
    /// The folder of the checkpoint.
    pub(super) folder: &'a Path,
    /// The first run's model, made before the output was.
    pub(super) first: Option<(BertForSequenceClassification, BertConfig)>,
    /// What was done before.
    pub(super) saved: &'a SavedRuns<'a>,
}

/// The finished runs of a configuration.
pub(super) struct Runs {
    /// Each, in the order of the seeds.
    pub(super) reports: Vec<RunReport>,
    /// The model of the best, and its configuration.
    model: Option<BertForSequenceClassification>,
    pub(super) model_config: BertConfig,
    /// Seed and score of the best.
    best: (u64, f64),
}

impl Runs {
    /// The model of the best.
    ///
    /// # Errors
    /// [`Error::CheckpointCorrupt`] when it was saved in an earlier process and is gone.
    pub(super) fn model(&self, output: &Path) -> Result<&BertForSequenceClassification, Error> {
        let reason = format!(
            "the model of seed {}, which was finished, is gone; without --resume it is made again",
            self.best.0
        );
        let path = || output.to_path_buf();
        self.model.as_ref().ok_or_else(|| Error::CheckpointCorrupt { path: path(), reason })
    }
}

/// Runs every configuration and keeps the runs of the one that is best on what is held out of train, of equals the
/// first; of the others the scores alone.
///
/// # Errors
/// Those of a run.
pub(super) fn run_cells<'a>(
    cells: &'a [Cell],
    mut start: Start<'_>,
    splits: &Splits,
    device: &burn::tensor::Device,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<(&'a Cell, Runs, Option<GridReport>), Error> {
    let metric = cells[0].config.task.spec().primary;
    let mut reports: Vec<CellReport> = Vec::new();
    let mut chosen: Option<(usize, Runs)> = None;
    for (number, cell) in cells.iter().enumerate() {
        let shared = Shared {
            config: &cell.config,
            resolved: &cell.resolved,
            train: &splits.train.features,
            dev: &splits.dev.features,
            dev_labels: &splits.dev.labels,
            held_out: splits.held_out.as_ref().map(|split| (&split.features, split.labels.as_slice())),
            device,
        };
        // What is said of the start is the same for every cell.
        let mut silent = |event| match event {
            FinetuneEvent::Warning(_) if number > 0 => {}
            event => tell(event),
        };
        let runs = run_seeds(&shared, number, &mut start, splits, stop, &mut silent)?;
        let score =
            |run: &RunReport| run.held_out.as_ref().unwrap_or(&run.dev).get(metric).unwrap_or(f64::NAN);
        let report = CellReport::new(cell, &runs.reports.iter().map(score).collect::<Vec<f64>>());
        if cells.len() > 1 {
            tell(FinetuneEvent::CellDone { cell: number + 1, cells: cells.len(), report: report.clone() });
        }
        let mean = report.statistics.mean;
        reports.push(report);
        let better = chosen.as_ref().is_none_or(|(best, _)| is_better(mean, reports[*best].statistics.mean));
        let worse = if better { chosen.replace((number, runs)) } else { Some((number, runs)) };
        if let Some((cell, runs)) = worse {
            start.saved.run(cell, runs.best.0).forget_model()?;
        }
    }
    let (best, runs) = chosen.expect("there is at least one cell");
    reports[best].chosen = true;
    let held_out_examples = splits.training.held_out;
    let grid = (cells.len() > 1).then_some(GridReport { metric, held_out_examples, cells: reports });
    Ok((&cells[best], runs, grid))
}

fn run_seeds(
    shared: &Shared<'_>,
    cell: usize,
    start: &mut Start<'_>,
    splits: &Splits,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<Runs, Error> {
    let Shared { config, device, .. } = *shared;
    let mut reports: Vec<RunReport> = Vec::new();
    let mut best: Option<Runs> = None;
    for &seed in config.seeds.iter() {
        let (model, model_config) = match start.first.take() {
            Some(first) => first,
            None => start_model(config, start.folder, seed, device, tell)?,
        };
        let mut saved = start.saved.run(cell, seed);
        let before = saved.finished(&model, tell)?;
        let is_new = before.is_none();
        let (report, model) = match before {
            Some(before) => before,
            None => {
                let finished = run_seed(shared, seed, model, &mut saved, stop, tell)?;
                (run_report(shared, splits, seed, &finished), Some(finished.model))
            }
        };
        let score = report.held_out.as_ref().unwrap_or(&report.dev);
        let score = score.get(config.task.spec().primary).unwrap_or(f64::NAN);
        let is_best = best.as_ref().is_none_or(|best| is_better(score, best.best.1));
        if let (true, Some(model)) = (is_new, &model) {
            saved.finish(&report, model, is_best)?;
        }
        reports.push(report);
        if is_best {
            let runs = Runs { reports: Vec::new(), model, model_config, best: (seed, score) };
            if let Some(worse) = best.replace(runs) {
                start.saved.run(cell, worse.best.0).forget_model()?;
            }
        }
    }
    Ok(Runs { reports, ..best.expect("there is at least one seed") })
}

/// Of equals the first stays, and a score that is not defined never does.
fn is_better(score: f64, best: f64) -> bool {
    score > best || (best.is_nan() && !score.is_nan())
}
