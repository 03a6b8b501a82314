//! The experiment forgetting: the masked-LM loss of the encoder after every epoch of fine-tuning, and the scores of a
//! first task after a second one.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bert_finetuning::{FinetuneConfig, FinetuneReport};
use bert_inference::{Classifier, DeviceName, ModelOptions, StopFlag};
use bert_model::read_pretrained_config;
use bert_pages::{Curve, Line, chart, series_color};
use bert_reports::{answered_labels, transplant_encoder};
use bert_task_files::find_split;
use bert_tasks::{Scores, Split, Statistics, Task, labels_of, score};
use bert_training::{ForgettingTest, MaskedLmScores};
use maud::html;

use super::args::Args;
use super::definition::{Experiment, Setting};
use super::held_out_text;
use super::plan::{PlannedRun, Planner, Work, folders_of, read_labelled};
use super::scored::{general_notes, tasks_in};
use super::table::{Cell, Heading, Report, Results, Rows};
use super::train::{check_output, train};
use crate::output::table::Column;

/// Returns the columns of the table.
fn headings() -> Vec<Heading> {
    vec![
        ("checkpoint", Column::text("checkpoint")),
        ("setting", Column::text("setting")),
        ("task", Column::text("task")),
        ("epoch", Column::count("epoch")),
        ("seeds", Column::count("seeds").with_priority(3)),
        ("masked_lm_loss", Column::number("masked-LM loss")),
        ("masked_lm_loss_sd", Column::number("SD of loss").with_priority(2)),
        ("masked_lm_accuracy", Column::number("masked-LM accuracy (%)").with_priority(1)),
        ("mean", Column::number("dev")),
        ("sd", Column::number("SD").with_priority(2)),
        ("best_constant", Column::number("best constant").with_priority(2)),
    ]
}

/// The setting whose model continues with another task.
const CONTINUED: &str = "whole-model";

/// Trains the settings and the sequences of two tasks, and returns a report of the forgetting, or `None` after a dry
/// run.
///
/// # Errors
/// Fails as [`train`] does, and when the checkpoint has no masked-LM head.
pub(super) fn run(args: &Args, experiment: &Experiment, stop: &StopFlag) -> anyhow::Result<Option<Report>> {
    check_output(args)?;
    let mut planner = Planner::new(args, experiment)?;
    let mut plan = planner.plan(true)?;
    // A dry run leaves nothing in the output folder.
    let scratch = tempfile::tempdir()?;
    let texts = (0..planner.models.len()).map(|model| {
        let inside = if args.dry_run { scratch.path() } else { planner.output };
        let folder = inside.join(format!("held-out-text-{}", model + 1));
        held_out_text::data(args, &planner.models[model].folder, &folder)
    });
    let texts = texts.collect::<anyhow::Result<Vec<PathBuf>>>()?;
    for run in &mut plan {
        if let Work::Single(config) = &mut run.work {
            config.forgetting_data = Some(texts[run.model].clone());
        }
    }
    plan.extend(sequences(&mut planner)?);
    let Some(results) = train(args, experiment, &plan, stop)? else { return Ok(None) };

    let mut rows = Vec::new();
    let mut curves = Vec::new();
    for (model, text) in texts.iter().enumerate() {
        let measured = Measured { planner: &planner, plan: &plan, model, text };
        let before = measured.before()?;
        rows.push(measured.row("checkpoint", 0, &[before], &[], None));
        measured.epochs(before.loss, &mut rows, &mut curves)?;
        measured.sequences(&mut rows)?;
        measured.together(&mut rows)?;
    }
    let mut notes = planner.notes.clone();
    notes.extend(general_notes(&planner, &plan)?);
    notes.push(
        "Without its adapter, the encoder of the setting adapter has the loss of the checkpoint.".to_string(),
    );
    let body = html! {
        h2 { "Masked-LM loss on held-out text" }
        (chart("epoch", "masked-LM loss (nats)", &curves, &[]))
        h2 { "All measurements" }
    };
    let rows = Rows { headings: headings(), rows };
    let results = Results { verdict: verdict(&rows.rows), rows, notes, ..results };
    Ok(Some(Report { results, body }))
}

/// Returns a sentence about the largest rise of the loss.
fn verdict(rows: &[Vec<Cell>]) -> String {
    let loss = |row: &Vec<Cell>| row[5].value().unwrap_or(f64::NAN);
    let Some(before) = rows.first() else { return String::new() };
    let Some(most) = rows.iter().max_by(|a, b| loss(a).total_cmp(&loss(b))) else { return String::new() };
    format!(
        "The masked-LM loss on held-out text rises from {} nats to at most {}, with {} on {}.",
        before[5].shown(),
        most[5].shown(),
        most[1].shown(),
        most[2].shown()
    )
}

/// Returns the name of a sequence of two tasks.
fn sequence_name(first: &Task, second: &Task) -> String {
    format!("{first}-then-{second}")
}

/// Returns the ordered pairs of different tasks.
fn ordered_pairs(tasks: &[Task]) -> Vec<(Task, Task)> {
    let pairs = tasks.iter().flat_map(|first| tasks.iter().map(move |second| (first, second)));
    pairs.filter(|(first, second)| first != second).map(|(a, b)| (a.clone(), b.clone())).collect()
}

/// Plans the training of every task from the model of every other task.
fn sequences(planner: &mut Planner<'_>) -> anyhow::Result<Vec<PlannedRun>> {
    let setting = planner.experiment.settings.iter().find(|setting| setting.name == CONTINUED);
    let setting: Setting = setting.context("the experiment has the setting that continues")?.clone();
    let mut plan = Vec::new();
    for model in 0..planner.models.len() {
        for (first, second) in ordered_pairs(&planner.tasks(&setting)) {
            for seed in planner.args.seeds.iter().copied() {
                let name = sequence_name(&first, &second);
                let folder = planner.folder(&format!("{name}-seed-{seed}"), model);
                let mut config = planner.config(&second, model, &setting, &[seed], &folder)?;
                config.checkpoint = planner.folder(&format!("{first}-{CONTINUED}-seed-{seed}"), model);
                plan.push(PlannedRun { model, setting: name, work: Work::Single(Box::new(config)) });
            }
        }
    }
    Ok(plan)
}

/// The finished runs of one checkpoint.
struct Measured<'a> {
    planner: &'a Planner<'a>,
    plan: &'a [PlannedRun],
    model: usize,
    /// The data folder of the held-out text.
    text: &'a Path,
}

impl Measured<'_> {
    /// Returns the masked-LM scores of the checkpoint.
    fn before(&self) -> anyhow::Result<MaskedLmScores> {
        masked_lm(&self.planner.models[self.model].folder, self.text)
    }

    /// Returns the masked-LM scores of the encoder of a fine-tuned model with the heads of the checkpoint.
    fn masked_lm_of(&self, tuned: &Path) -> anyhow::Result<MaskedLmScores> {
        let target = tempfile::tempdir()?;
        transplant_encoder(&tuned.join("model"), &self.planner.models[self.model].folder, target.path())?;
        masked_lm(target.path(), self.text)
    }

    /// Returns a row. `dev` has the score of each seed on the task, and `task` has the task with the score of a
    /// constant answer.
    fn row(
        &self,
        setting: &str,
        epoch: usize,
        losses: &[MaskedLmScores],
        dev: &[f64],
        task: Option<(&Task, f64)>,
    ) -> Vec<Cell> {
        let loss = Statistics::new(&losses.iter().map(|run| run.loss).collect::<Vec<_>>());
        let accuracy = Statistics::new(&losses.iter().map(|run| run.accuracy).collect::<Vec<_>>());
        let dev = (!dev.is_empty()).then(|| Statistics::new(dev));
        let score = |value: Option<f64>| match task {
            Some((task, _)) => Cell::score(task.spec().primary, value),
            None => Cell::number(None, 1),
        };
        vec![
            self.planner.models[self.model].given.display().to_string().into(),
            setting.into(),
            task.map_or("-".to_string(), |(task, _)| task.to_string()).into(),
            Cell::count(epoch),
            Cell::count(losses.len()),
            Cell::number(Some(loss.mean), 3),
            Cell::number(loss.sd, 3),
            Cell::number(Some(100.0 * accuracy.mean), 1),
            score(dev.map(|of| of.mean)),
            score(dev.and_then(|of| of.sd)),
            score(task.map(|(_, constant)| constant)),
        ]
    }

    /// Adds the rows and the curve of every setting and task, epoch by epoch.
    fn epochs(&self, before: f64, rows: &mut Vec<Vec<Cell>>, curves: &mut Vec<Curve>) -> anyhow::Result<()> {
        let settings = self.planner.experiment.settings.iter().filter(|setting| setting.together.is_none());
        for setting in settings {
            for task in tasks_in(self.plan) {
                let reports = reports(&folders_of(self.plan, self.model, &setting.name, &task))?;
                let Some(first) = reports.first() else { continue };
                let mut points = vec![(0.0, before)];
                for epoch in 0..first.runs[0].history.len() {
                    let entries = || reports.iter().map(|report| &report.runs[0].history[epoch]);
                    let losses: Vec<MaskedLmScores> = entries().filter_map(|at| at.masked_lm).collect();
                    let metric = task.spec().primary;
                    let dev = entries().filter_map(|at| at.dev.as_ref()?.get(metric)).collect::<Vec<_>>();
                    let about = Some((&task, constant(first)));
                    rows.push(self.row(&setting.name, epoch + 1, &losses, &dev, about));
                    let mean = losses.iter().map(|run| run.loss).sum::<f64>() / losses.len() as f64;
                    points.push((epoch as f64 + 1.0, mean));
                }
                let name = format!("{}, {task}", setting.name);
                curves.push(Curve::new(name, series_color(curves.len()), Line::Marked, points));
            }
        }
        Ok(())
    }

    /// Adds two rows for each sequence of two tasks: the scores of both tasks after the second was trained.
    fn sequences(&self, rows: &mut Vec<Vec<Cell>>) -> anyhow::Result<()> {
        for (first, second) in ordered_pairs(&tasks_in(self.plan)) {
            let name = sequence_name(&first, &second);
            let folders = folders_of(self.plan, self.model, &name, &second);
            let earlier = folders_of(self.plan, self.model, CONTINUED, &first);
            let (Some(_), Some(_)) = (folders.first(), earlier.first()) else { continue };
            let losses = folders.iter().map(|folder| self.masked_lm_of(folder));
            let losses = losses.collect::<anyhow::Result<Vec<_>>>()?;
            let scores = folders.iter().zip(&earlier).map(|(after, start)| {
                let target = tempfile::tempdir()?;
                transplant_encoder(&after.join("model"), &start.join("model"), target.path())?;
                let config = &FinetuneReport::read(start)?.config;
                Ok(dev_scores(target.path(), config)?.get(first.spec().primary).unwrap_or(f64::NAN))
            });
            let kept = scores.collect::<anyhow::Result<Vec<f64>>>()?;
            for (task, of, dev) in [(&first, &earlier, kept), (&second, &folders, last_scores(&folders)?)] {
                let constant = constant(&FinetuneReport::read(&of[0])?);
                rows.push(self.row(&name, 0, &losses, &dev, Some((task, constant))));
            }
        }
        Ok(())
    }

    /// Adds the rows of the multi-task runs.
    fn together(&self, rows: &mut Vec<Vec<Cell>>) -> anyhow::Result<()> {
        let settings = self.planner.experiment.settings.iter().filter(|setting| setting.together.is_some());
        for setting in settings {
            for task in tasks_in(self.plan) {
                let folders = folders_of(self.plan, self.model, &setting.name, &task);
                let Some(first) = folders.first() else { continue };
                let losses = folders.iter().map(|folder| self.masked_lm_of(folder));
                let losses = losses.collect::<anyhow::Result<Vec<_>>>()?;
                let constant = constant(&FinetuneReport::read(first)?);
                let dev = last_scores(&folders)?;
                rows.push(self.row(&setting.name, 0, &losses, &dev, Some((&task, constant))));
            }
        }
        Ok(())
    }
}

fn reports(folders: &[PathBuf]) -> anyhow::Result<Vec<FinetuneReport>> {
    Ok(folders.iter().map(|folder| FinetuneReport::read(folder)).collect::<Result<_, _>>()?)
}

/// Returns the score of a constant answer.
fn constant(report: &FinetuneReport) -> f64 {
    report.dev.majority_baseline.get(report.dev.task.spec().primary).unwrap_or(f64::NAN)
}

/// Returns the dev score of the first seed of each fine-tuning.
fn last_scores(folders: &[PathBuf]) -> anyhow::Result<Vec<f64>> {
    let score =
        |report: FinetuneReport| report.runs[0].dev.get(report.dev.task.spec().primary).unwrap_or(f64::NAN);
    Ok(reports(folders)?.into_iter().map(score).collect())
}

/// Returns the masked-LM scores of a pre-trained model on a data folder.
fn masked_lm(folder: &Path, text: &Path) -> anyhow::Result<MaskedLmScores> {
    let device = DeviceName::default().open()?;
    Ok(ForgettingTest::open(folder, &read_pretrained_config(folder)?, text, &device)?.before()?)
}

/// Returns the scores of a classifier on the dev set of a fine-tuning.
fn dev_scores(model: &Path, config: &FinetuneConfig) -> anyhow::Result<Scores> {
    let task = &config.task;
    let options =
        ModelOptions::default().with_max_length(config.max_seq_length).with_device(config.compute.device);
    let classifier = Classifier::open(model, options)?;
    let data = config.data.as_deref().context("a data folder")?;
    let dev = find_split(task, data, Split::Dev)?;
    let examples = read_labelled(config, &dev.path)?;
    let labels = labels_of(&examples).context("dev has labels")?;
    let answers = answered_labels(task, classifier.answer(&examples)?)?;
    Ok(score(task, &answers, &labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_follows_every_other() {
        let pairs = ordered_pairs(&[Task::Rte, Task::Sst2]);
        let names: Vec<String> = pairs.iter().map(|(a, b)| sequence_name(a, b)).collect();
        assert_eq!(names, ["rte-then-sst-2", "sst-2-then-rte"]);
        assert!(ordered_pairs(&[Task::Rte]).is_empty());
    }
}
