//! Experiments whose table has the scores of each setting: small-models, from-scratch, learning-rates, features,
//! adapters, fusion and multi-task.

use std::path::PathBuf;

use bert_finetuning::FinetuneReport;
use bert_inference::StopFlag;
use bert_reports::compare::{Comparison, collect, compare_sides};
use bert_tasks::Task;
use maud::html;

use super::args::Args;
use super::definition::Experiment;
use super::plan::{PlannedRun, Planner, folders_of};
use super::table::{Cell, Heading, Report, Results, Rows, number, text};
use super::train::{Timing, check_output, train};

/// The columns of the table.
const HEADINGS: [Heading; 12] = [
    text("checkpoint", "checkpoint"),
    text("task", "task"),
    text("setting", "setting"),
    text("metric", "metric on dev"),
    number("seeds", "seeds"),
    number("mean", "mean"),
    number("sd", "SD"),
    number("low", "95 % low"),
    number("high", "95 % high"),
    number("best_constant", "best constant"),
    number("trained_share", "trained (%)"),
    text("published", "published (%)"),
];

/// Trains all settings and returns their scores.
///
/// # Errors
/// As [`train`].
pub(super) fn run(args: &Args, experiment: &Experiment, stop: &StopFlag) -> anyhow::Result<Option<Report>> {
    check_output(args)?;
    let mut planner = Planner::new(args, experiment)?;
    let plan = planner.plan(false)?;
    let Some(timing) = train(args, &plan, stop)? else { return Ok(None) };
    let (rows, mut warnings) = rows(&planner, &plan)?;
    let mut notes = planner.notes.clone();
    notes.extend(general_notes(&planner, &plan)?);
    notes.push("95 % interval of the mean: over examples and seeds.".to_string());
    notes.extend(comparisons(&planner, &plan)?);
    warnings.dedup();
    let results = results(&planner, timing, Rows { headings: HEADINGS.to_vec(), rows }, notes, warnings);
    Ok(Some(Report { results, body: html! {} }))
}

/// Puts the results together.
pub(super) fn results(
    planner: &Planner<'_>,
    timing: Timing,
    rows: Rows,
    notes: Vec<String>,
    warnings: Vec<String>,
) -> Results {
    let experiment = planner.experiment;
    Results {
        experiment: experiment.name,
        title: experiment.title.clone(),
        about: experiment.about.clone(),
        checkpoints: planner.models.iter().map(|model| model.given.display().to_string()).collect(),
        estimated_seconds: timing.estimated_seconds,
        seconds: timing.seconds,
        rows,
        notes,
        warnings,
    }
}

/// The rows of a table and the warnings about them.
type RowsAndWarnings = (Vec<Vec<Cell>>, Vec<String>);

fn rows(planner: &Planner<'_>, plan: &[PlannedRun]) -> anyhow::Result<RowsAndWarnings> {
    let mut rows = Vec::new();
    let mut warnings = Vec::new();
    for model in 0..planner.models.len() {
        for task in tasks_in(plan) {
            for setting in &planner.experiment.settings {
                let folders = folders_of(plan, model, &setting.name, &task);
                if folders.is_empty() {
                    continue;
                }
                let (row, warned) = score_row(planner, model, &task, &setting.name, &folders)?;
                rows.push(row);
                warnings.extend(warned);
            }
        }
    }
    Ok((rows, warnings))
}

/// Returns the tasks of a plan in their order.
pub(super) fn tasks_in(plan: &[PlannedRun]) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    for config in plan.iter().flat_map(PlannedRun::configs) {
        if !tasks.contains(&config.task) {
            tasks.push(config.task.clone());
        }
    }
    tasks
}

/// Returns the row of the fine-tunings in `folders`, which have different seeds, and its warnings.
fn score_row(
    planner: &Planner<'_>,
    model: usize,
    task: &Task,
    setting: &str,
    folders: &[PathBuf],
) -> anyhow::Result<(Vec<Cell>, Vec<String>)> {
    let dev = collect(folders)?.groups.swap_remove(0).dev;
    let metric = task.spec().primary;
    let statistics = dev.metrics.iter().find(|of| of.metric == metric).map(|of| of.statistics);
    let interval = dev.interval.filter(|interval| interval.metric == metric);
    let share = FinetuneReport::read(&folders[0])?.parameters.share;
    let score = |value| Cell::score(metric, value);
    let row = vec![
        planner.models[model].given.display().to_string().into(),
        task.to_string().into(),
        setting.into(),
        metric.heading().into(),
        Cell::count(dev.runs.len()),
        score(statistics.map(|of| of.mean)),
        score(statistics.and_then(|of| of.sd)),
        score(interval.map(|of| of.low)),
        score(interval.map(|of| of.high)),
        score(dev.majority_baseline.get(metric)),
        Cell::number(Some(100.0 * share), 2),
        planner.experiment.published(task, setting).unwrap_or("-").into(),
    ];
    let warnings = dev.warnings().into_iter().map(|text| format!("{task}, {setting}: {text}"));
    Ok((row, warnings.collect()))
}

/// Returns the remarks on examples, samples and selection that hold for the table.
pub(super) fn general_notes(planner: &Planner<'_>, plan: &[PlannedRun]) -> anyhow::Result<Vec<String>> {
    let mut notes = Vec::new();
    for task in tasks_in(plan) {
        let config = plan.iter().flat_map(PlannedRun::configs).find(|config| config.task == task);
        let Some(config) = config else { continue };
        let report = FinetuneReport::read(&config.output)?;
        let sample = if report.is_sample { "; samples, not the official files" } else { "" };
        let trained = report.train_examples;
        let all = report.training.in_file;
        let dev = report.dev.examples;
        let reduced = if trained < all { " (reduced)" } else { "" };
        notes.push(format!(
            "{task}: trained on {trained} of {all} examples{reduced}, scored on {dev}{sample}"
        ));
    }
    if planner.experiment.settings.iter().any(|setting| !setting.flags.contains("--select last")) {
        notes.push("The best epoch on dev is scored, which is slightly optimistic.".to_string());
    }
    Ok(notes)
}

/// Returns the paired comparisons of the experiment as sentences.
pub(super) fn comparisons(planner: &Planner<'_>, plan: &[PlannedRun]) -> anyhow::Result<Vec<String>> {
    let mut sentences = Vec::new();
    for model in 0..planner.models.len() {
        for task in tasks_in(plan) {
            for pair in &planner.experiment.compare {
                let of = |setting| folders_of(plan, model, setting, &task);
                let first = of(&pair.first);
                let second = of(&pair.second);
                if !first.is_empty() && !second.is_empty() {
                    let comparison = compare_sides(&first, &second)?;
                    sentences.push(sentence(&task, &pair.first, &pair.second, &comparison));
                }
            }
        }
    }
    Ok(sentences)
}

/// Describes a comparison; positive differences favour the first setting.
fn sentence(task: &Task, first: &str, second: &str, comparison: &Comparison) -> String {
    let test = comparison.test;
    let verdict = match (test.low > 0.0, test.high < 0.0) {
        (true, _) => "higher",
        (_, true) => "lower",
        _ => "no difference is shown",
    };
    format!(
        "{task}: {first} minus {second} {}, 95 % interval {} to {}, p = {:.4}: {verdict}.",
        test.metric.difference(test.difference),
        test.metric.difference(test.low),
        test.metric.difference(test.high),
        test.p
    )
}
