//! Reads a fine-tuning while it is in progress.

use std::path::{Path, PathBuf};

use bert_finetuning::{FOLDER, FinetuneReport, PROGRESS, ProgressRecord, ProgressStep};
use bert_pages::{Curve, Line, chart_data, downsample, series_color, smooth};
use bert_storage::exists;
use bert_tasks::Scores;
use bert_training::Error;
use bert_training::metrics_log::LogTail;

use crate::finetuning::{finetuning_page, score_chart};
use crate::live::status::{LiveFigure, LiveState, LiveStatus, small_curve, state};
use crate::page::duration;

/// Maximum number of points of a curve.
const POINTS: usize = 400;
/// Number of steps over which the present loss and speed are averaged.
const RECENT: usize = 50;

/// The files of a fine-tuning.
pub(super) struct FinetuningWatch {
    folder: PathBuf,
    log: LogTail,
    records: Vec<ProgressRecord>,
    finished: Option<LiveStatus>,
}

impl FinetuningWatch {
    /// Returns whether a folder is a fine-tuning, finished or not.
    pub(super) fn is_one(folder: &Path) -> Result<bool, Error> {
        Ok(exists(&folder.join("report.json"))? || exists(&folder.join(FOLDER))?)
    }

    pub(super) fn new(folder: &Path) -> Self {
        let log = LogTail::new(&folder.join(FOLDER).join(PROGRESS));
        Self { folder: folder.to_path_buf(), log, records: Vec::new(), finished: None }
    }

    pub(super) fn status(&mut self, in_use: bool) -> Result<LiveStatus, Error> {
        if exists(&self.folder.join("report.json"))? && !in_use {
            if self.finished.is_none() {
                self.finished = Some(self.finished()?);
            }
            return Ok(self.finished.clone().expect("set above"));
        }
        self.log.read_into(&mut self.records)?;
        let step = |record: &ProgressRecord| match record {
            ProgressRecord::Step(step) => Some(*step),
            ProgressRecord::Scores { .. } => None,
        };
        let steps = present_steps(self.records.iter().filter_map(step));
        let last = steps.last().copied();
        let (step, total) = last.map_or((0, 0), |last| (last.step, last.steps));
        let (state, text) = match state(in_use, step, total) {
            // The report is missing, so other seeds or the report remain to be done.
            (LiveState::Finished, _) => (LiveState::Stopped, format!("stopped at step {step}")),
            other => other,
        };
        let text = last.map_or_else(|| text.clone(), |last| format!("{text}, {}", name(&last, &steps)));
        let losses: Vec<(f64, f64)> = steps.iter().map(|step| (step.step as f64, step.loss)).collect();
        Ok(LiveStatus {
            name: self.folder.display().to_string(),
            kind: "fine-tuning",
            state,
            state_text: text,
            step,
            steps: total,
            figures: self.figures(&steps, state),
            findings: Vec::new(),
            charts: self.charts(&steps),
            losses: small_curve(&losses),
        })
    }

    fn figures(&self, steps: &[ProgressStep], state: LiveState) -> Vec<LiveFigure> {
        let mut figures = Vec::new();
        let mut add = |name, value: String| figures.push(LiveFigure { name, value });
        let Some(last) = steps.last() else { return figures };
        let recent: Vec<&ProgressStep> =
            steps.iter().rev().take(RECENT).take_while(|step| run(step) == run(last)).collect();
        let mean = recent.iter().map(|step| step.loss).sum::<f64>() / recent.len() as f64;
        add("training loss", format!("{mean:.4}"));
        if let Some(scores) = self.records.iter().rev().find_map(scores_of) {
            for (metric, value) in scores.iter() {
                add("score", format!("{metric} {}", metric.with_unit(value)));
            }
        }
        let first = recent[recent.len() - 1];
        let seconds = last.second - recent[recent.len() - 1].second;
        if seconds > 0.0 && state == LiveState::Running {
            let per_step = seconds / (last.step - first.step).max(1) as f64;
            add("speed", format!("{:.1} steps/s", 1.0 / per_step));
            add("time left, this seed", duration((last.steps - last.step) as f64 * per_step));
        }
        figures
    }

    fn charts(&self, steps: &[ProgressStep]) -> Vec<serde_json::Value> {
        let by_run = steps.chunk_by(|a, b| run(a) == run(b));
        let curve = |(steps_of_run, number): (&[ProgressStep], usize)| {
            let points: Vec<_> = steps_of_run.iter().map(|step| (step.step as f64, step.loss)).collect();
            let points = smooth(&downsample(&points, POINTS), 5);
            Curve::new(name(&steps_of_run[0], steps), series_color(number), Line::Plain, points)
        };
        let curves: Vec<Curve> = by_run.zip(0..).map(curve).collect();
        if curves.is_empty() { Vec::new() } else { vec![chart_data("step", "training loss", &curves, &[])] }
    }

    /// Returns the status of a finished fine-tuning.
    fn finished(&self) -> Result<LiveStatus, Error> {
        let report = FinetuneReport::read(&self.folder)?;
        let page = finetuning_page(&self.folder)?;
        let (primary, statistics) = report.dev.main();
        let mean = statistics.map(|found| format!("{primary} {}", primary.with_unit(found.mean)));
        let steps = report.runs.last().and_then(|run| run.history.last()).map_or(0, |epoch| epoch.step);
        let figures = mean.map(|value| LiveFigure { name: "mean on dev", value }).into_iter();
        let seeds = LiveFigure { name: "seeds", value: report.runs.len().to_string() };
        let (axis, curves, levels) = score_chart(&report);
        Ok(LiveStatus {
            name: self.folder.display().to_string(),
            kind: "fine-tuning",
            state: LiveState::Finished,
            state_text: "finished".into(),
            step: steps,
            steps,
            figures: figures.chain([seeds]).collect(),
            findings: page.findings,
            charts: vec![chart_data("epoch", &axis, &curves, &levels)],
            losses: Vec::new(),
        })
    }
}

/// Returns the cell and the seed, which identify the run of a step.
fn run(step: &ProgressStep) -> (usize, u64) {
    (step.cell, step.seed)
}

/// Returns the name of a step's run; `all` contains the steps of all runs.
fn name(step: &ProgressStep, all: &[ProgressStep]) -> String {
    if all.iter().all(|step| step.cell == 1) {
        format!("seed {}", step.seed)
    } else {
        format!("configuration {}, seed {}", step.cell, step.seed)
    }
}

/// Returns the steps; if a resumed run repeated steps, only their last occurrences.
fn present_steps(all: impl Iterator<Item = ProgressStep>) -> Vec<ProgressStep> {
    let mut steps: Vec<ProgressStep> = Vec::new();
    for step in all {
        while steps.last().is_some_and(|last| run(last) == run(&step) && last.step >= step.step) {
            steps.pop();
        }
        steps.push(step);
    }
    steps
}

fn scores_of(record: &ProgressRecord) -> Option<&Scores> {
    match record {
        ProgressRecord::Scores { scores, .. } => Some(scores),
        ProgressRecord::Step(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_steps_replace_the_earlier_ones() {
        let step = |(cell, seed, step)| ProgressStep { cell, seed, step, steps: 4, loss: 1.0, second: 0.0 };
        let all = [(1, 1, 1), (1, 1, 2), (1, 1, 3), (1, 1, 2), (1, 1, 3), (1, 2, 1), (2, 2, 1)].map(step);
        let kept = present_steps(all.into_iter());
        let names: Vec<_> = kept.iter().map(|step| (step.cell, step.seed, step.step)).collect();
        assert_eq!(names, [(1, 1, 1), (1, 1, 2), (1, 1, 3), (1, 2, 1), (2, 2, 1)]);
        assert_eq!(name(&kept[4], &kept), "configuration 2, seed 2");
        assert_eq!(name(&kept[3], &kept[..4]), "seed 2");
    }

    #[test]
    fn a_finetuning_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!FinetuningWatch::is_one(folder.path()).unwrap());
        std::fs::create_dir(folder.path().join(FOLDER)).unwrap();
        assert!(FinetuningWatch::is_one(folder.path()).unwrap());
        let lines = "{\"cell\":1,\"seed\":1,\"step\":1,\"steps\":4,\"loss\":0.75,\"second\":1.0}\n\
                     {\"cell\":1,\"seed\":1,\"epoch\":1.0,\"scores\":{\"accuracy\":0.5}}\n";
        std::fs::write(folder.path().join(FOLDER).join(PROGRESS), lines).unwrap();
        let status = FinetuningWatch::new(folder.path()).status(false).unwrap();
        assert_eq!((status.state, status.step, status.steps), (LiveState::Stopped, 1, 4));
        assert_eq!(status.state_text, "stopped at step 1, seed 1");
        let values: Vec<&str> = status.figures.iter().map(|figure| figure.value.as_str()).collect();
        assert_eq!(values, ["0.7500", "accuracy 50.0 %"]);
    }
}
