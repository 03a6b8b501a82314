//! Experiments whose table has the scores of each setting: small-models, from-scratch, learning-rates, features,
//! adapters, fusion and multi-task.

use std::path::PathBuf;

use bert_finetuning::FinetuneReport;
use bert_inference::StopFlag;
use bert_reports::{collect, compare_sides};
use bert_tasks::{PairedTest, Task};
use maud::html;

use super::args::Args;
use super::definition::{Experiment, SettingPair};
use super::plan::{PlannedRun, Planner, folders_of};
use super::table::{Cell, Heading, Report, Results, Rows};
use super::train::{check_output, train};
use crate::output::table::{Column, p_value};

/// Returns the columns of the table.
fn headings() -> Vec<Heading> {
    vec![
        ("checkpoint", Column::text("checkpoint")),
        ("task", Column::text("task")),
        ("setting", Column::text("setting")),
        ("metric", Column::text("metric on dev").with_priority(4)),
        ("seeds", Column::count("seeds").with_priority(3)),
        ("mean", Column::number("mean")),
        ("sd", Column::number("SD").with_priority(2)),
        ("low", Column::number("95 % low").with_priority(1)),
        ("high", Column::number("95 % high").with_priority(1)),
        ("best_constant", Column::number("best constant").with_priority(1)),
        ("trained_share", Column::number("trained parameters (%)").with_priority(5)),
    ]
}

/// Returns the columns of the paired comparisons.
fn differences() -> Vec<Heading> {
    vec![
        ("checkpoint", Column::text("checkpoint")),
        ("task", Column::text("task")),
        ("comparison", Column::text("comparison")),
        ("difference", Column::number("difference")),
        ("low", Column::number("95 % low").with_priority(1)),
        ("high", Column::number("95 % high").with_priority(1)),
        ("p", Column::number("p").with_priority(2)),
    ]
}

/// Trains with every setting, and returns a report of the scores, or `None` after a dry run.
///
/// # Errors
/// Fails as [`train`] does.
pub(super) fn run(args: &Args, experiment: &Experiment, stop: &StopFlag) -> anyhow::Result<Option<Report>> {
    check_output(args)?;
    let mut planner = Planner::new(args, experiment)?;
    let plan = planner.plan(false)?;
    let Some(results) = train(args, experiment, &plan, stop)? else { return Ok(None) };
    let (rows, mut warnings) = rows(&planner, &plan)?;
    let mut notes = planner.notes.clone();
    notes.extend(general_notes(&planner, &plan)?);
    notes.push("95 % interval of the mean: over examples and seeds.".to_string());
    notes.extend(
        experiment
            .published
            .iter()
            .map(|one| format!("published, {}, {}: {}", one.task, one.setting, one.figures)),
    );
    warnings.dedup();
    let rows = Rows { headings: headings(), rows };
    let compared = comparisons(&planner, &plan)?;
    let results = Results {
        verdict: verdict(&compared, &rows),
        differences: Rows { headings: differences(), rows: compared.iter().map(Compared::row).collect() },
        rows,
        notes,
        warnings,
        ..results
    };
    Ok(Some(Report { results, body: html! {} }))
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
                // Runs from random weights are a baseline with low scores by design, so there is no warning about them.
                if !setting.flags.contains("--random-init") {
                    warnings.extend(warned);
                }
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
    let (metric, statistics) = dev.main();
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
    ];
    let name = planner.models[model].given.display();
    let warnings = dev.warnings().into_iter().map(|text| format!("{name}, {task}, {setting}: {text}"));
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

/// A paired comparison of two settings; positive differences favour the first.
struct Compared {
    checkpoint: String,
    task: Task,
    pair: SettingPair,
    test: PairedTest,
}

impl Compared {
    /// Returns the row of the table.
    fn row(&self) -> Vec<Cell> {
        let PairedTest { metric, difference, low, high, p, .. } = self.test;
        let cell = |value: f64| Cell::Number(Some(value), metric.difference(value));
        vec![
            self.checkpoint.as_str().into(),
            self.task.to_string().into(),
            format!("{} minus {}", self.pair.first, self.pair.second).into(),
            cell(difference),
            cell(low),
            cell(high),
            Cell::Number(Some(p), p_value(p)),
        ]
    }
}

/// Returns the paired comparisons of the experiment.
fn comparisons(planner: &Planner<'_>, plan: &[PlannedRun]) -> anyhow::Result<Vec<Compared>> {
    let mut compared = Vec::new();
    for model in 0..planner.models.len() {
        for task in tasks_in(plan) {
            for pair in &planner.experiment.compare {
                let first = folders_of(plan, model, &pair.first, &task);
                let second = folders_of(plan, model, &pair.second, &task);
                if !first.is_empty() && !second.is_empty() {
                    compared.push(Compared {
                        checkpoint: planner.models[model].given.display().to_string(),
                        task: task.clone(),
                        pair: pair.clone(),
                        test: compare_sides(&first, &second)?.test,
                    });
                }
            }
        }
    }
    Ok(compared)
}

/// Returns the result in one sentence: the outcome of the comparisons, or else the range of the means.
fn verdict(compared: &[Compared], rows: &Rows) -> String {
    let mut pairs: Vec<&SettingPair> = Vec::new();
    for one in compared {
        if !pairs.contains(&&one.pair) {
            pairs.push(&one.pair);
        }
    }
    let sentence = |pair: &&SettingPair| {
        let tests_of_pair = || compared.iter().filter(move |one| one.pair == **pair);
        let names = |holds: fn(&PairedTest) -> bool| {
            let found = tests_of_pair().filter(|one| holds(&one.test));
            found.map(|one| format!("{} of {}", one.task, one.checkpoint)).collect::<Vec<_>>().join(", ")
        };
        let parts = [
            ("higher on", names(|test| test.low > 0.0)),
            ("lower on", names(|test| test.high < 0.0)),
            ("not shown to differ on", names(|test| test.low <= 0.0 && test.high >= 0.0)),
        ];
        let parts = parts.iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<String> = parts.map(|(word, names)| format!("{word} {names}")).collect();
        format!("Compared with {}, {} is {}.", pair.second, pair.first, parts.join("; "))
    };
    match pairs.is_empty() {
        true => format!("{} fine-tunings were scored; no pair of settings is tested.", rows.rows.len()),
        false => pairs.iter().map(sentence).collect::<Vec<_>>().join(" "),
    }
}
