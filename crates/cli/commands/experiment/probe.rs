//! The experiment probe: fine-tunes with several seeds and replaces the pronouns of the dev set.

use anyhow::Context;
use bert_finetuning::{FinetuneConfig, FinetuneReport};
use bert_inference::{InputText, ModelOptions, Prober, Replacement, StopFlag};
use bert_task_files::find_split;
use bert_tasks::{Example, Metric, Split, Statistics};
use maud::html;

use super::args::Args;
use super::definition::Experiment;
use super::plan::{PlannedRun, Planner, read_labelled};
use super::scored::{general_notes, tasks_in};
use super::table::{Cell, Heading, Report, Results, Rows};
use super::train::{check_output, train};
use crate::output::table::Column;

/// Returns the columns of the table.
fn headings() -> Vec<Heading> {
    vec![
        ("checkpoint", Column::text("checkpoint")),
        ("task", Column::text("task")),
        ("setting", Column::text("setting")),
        ("replacement", Column::text("replacement")),
        ("seeds", Column::count("seeds").with_priority(3)),
        ("changes", Column::count("changes").with_priority(1)),
        ("flips", Column::number("flips (%)")),
        ("sd", Column::number("SD").with_priority(1)),
        ("moved", Column::number("mean change of p").with_priority(2)),
        ("accuracy", Column::number("dev (%)").with_priority(1)),
        ("best_constant", Column::number("best constant").with_priority(2)),
    ]
}

/// Index of the column with the flips.
const FLIPS: usize = 6;

/// Trains with every setting, replaces words in the dev sets, and returns a report, or `None` after a dry run.
///
/// # Errors
/// Fails as [`train`] does, and when a model or a dev set cannot be read.
pub(super) fn run(args: &Args, experiment: &Experiment, stop: &StopFlag) -> anyhow::Result<Option<Report>> {
    check_output(args)?;
    let mut planner = Planner::new(args, experiment)?;
    let plan = planner.plan(true)?;
    let Some(results) = train(args, experiment, &plan, stop)? else { return Ok(None) };
    let mut rows = Vec::new();
    for model in 0..planner.models.len() {
        for task in tasks_in(&plan) {
            for setting in &experiment.settings {
                let runs: Vec<&PlannedRun> = plan
                    .iter()
                    .filter(|run| run.model == model && run.setting == setting.name)
                    .filter(|run| run.configs()[0].task == task)
                    .collect();
                let name = planner.models[model].given.display().to_string();
                let first = [name.as_str(), &task.to_string(), &setting.name].map(Cell::from);
                rows.extend(setting_rows(experiment, &first, &runs)?);
            }
        }
    }
    let mut notes = planner.notes.clone();
    notes.extend(general_notes(&planner, &plan)?);
    notes.push("changes: replaced words in the dev set, the same for every seed.".to_string());
    let rows = Rows { headings: headings(), rows };
    let results = Results { verdict: verdict(&rows.rows), rows, notes, ..results };
    Ok(Some(Report { results, body: html! {} }))
}

/// Returns a sentence about the replacement with the most flips.
fn verdict(rows: &[Vec<Cell>]) -> String {
    let flips = |row: &&Vec<Cell>| row[FLIPS].value().unwrap_or(-1.0);
    match rows.iter().filter(|row| flips(row) >= 0.0).max_by(|a, b| flips(a).total_cmp(&flips(b))) {
        Some(most) => format!(
            "{} flips most predictions: {} % of its {} changes, on {} with {} of {}.",
            most[3].shown(),
            most[FLIPS].shown(),
            most[5].shown(),
            most[1].shown(),
            most[2].shown(),
            most[0].shown()
        ),
        None => "None of the words occurs in the dev sets.".to_string(),
    }
}

/// The effect of one replacement on a model.
#[derive(Default)]
struct Effect {
    changes: usize,
    flips: usize,
    /// Sum of the absolute changes of the probability of the earlier answer.
    moved: f64,
}

impl Effect {
    fn share(&self, sum: f64) -> f64 {
        if self.changes == 0 { f64::NAN } else { sum / self.changes as f64 }
    }
}

/// Returns the rows of a setting, one for each replaced word and its replacement.
fn setting_rows(
    experiment: &Experiment,
    first: &[Cell; 3],
    runs: &[&PlannedRun],
) -> anyhow::Result<Vec<Vec<Cell>>> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let mut scores = Vec::new();
    let mut baseline = None;
    for run in runs {
        let report = FinetuneReport::read(run.output())?;
        scores.extend(report.runs.iter().filter_map(|run| run.dev.get(Metric::Accuracy)));
        baseline = report.dev.majority_baseline.get(Metric::Accuracy);
    }
    let mut rows = Vec::new();
    for (word, replaced_by) in pairs(experiment) {
        let effects = runs.iter().map(|run| effect(&run.configs()[0], &word, &replaced_by));
        let effects = effects.collect::<anyhow::Result<Vec<Effect>>>()?;
        let flips: Vec<f64> = effects.iter().map(|of| 100.0 * of.share(of.flips as f64)).collect();
        let moved: Vec<f64> = effects.iter().map(|of| of.share(of.moved)).collect();
        let Statistics { mean, sd, .. } = Statistics::new(&flips);
        let known = |value: f64| value.is_finite().then_some(value);
        let mut row = first.to_vec();
        row.extend([
            format!("{word} -> {replaced_by}").into(),
            Cell::count(runs.len()),
            Cell::count(effects[0].changes),
            Cell::number(known(mean), 1),
            Cell::number(sd.and_then(known), 1),
            Cell::number(known(Statistics::new(&moved).mean), 4),
            Cell::score(Metric::Accuracy, Some(Statistics::new(&scores).mean)),
            Cell::score(Metric::Accuracy, baseline),
        ]);
        rows.push(row);
    }
    Ok(rows)
}

/// Returns the words and their replacements.
fn pairs(experiment: &Experiment) -> Vec<(String, String)> {
    let of = |text: &String| {
        let (word, replacements) = text.split_once('=').unwrap_or((text, ""));
        let word = word.to_string();
        replacements.split(',').map(move |by| (word.clone(), by.to_string())).collect::<Vec<_>>()
    };
    experiment.replacements.iter().flat_map(of).collect()
}

/// Returns the effect of replacing a word wherever it occurs in the dev set of a fine-tuning. Texts that would get
/// too long are left out.
fn effect(config: &FinetuneConfig, word: &str, replaced_by: &str) -> anyhow::Result<Effect> {
    let options = ModelOptions::default().with_device(config.compute.device);
    let prober = Prober::open(&config.output.join("model"), options)?;
    let data = config.data.as_deref().context("a data folder")?;
    let dev = find_split(&config.task, data, Split::Dev)?;
    let examples = read_labelled(config, &dev.path)?;
    let replacement: Replacement = format!("{word}={replaced_by}").parse().map_err(anyhow::Error::msg)?;
    let mut effect = Effect::default();
    for Example { text_a, text_b, .. } in &examples {
        let text = InputText { first: text_a, second: text_b.as_deref() };
        let probes = match prober.text(text, std::slice::from_ref(&replacement)) {
            Err(error) if error.setting() == Some("replace") => continue,
            probes => probes?,
        };
        for prediction in probes.iter().flat_map(|probe| &probe.predictions) {
            effect.changes += 1;
            effect.flips += usize::from(prediction.flips);
            if let (Some(before), Some(now)) = (prediction.before.probability, prediction.before_now) {
                effect.moved += f64::from((before - now).abs());
            }
        }
    }
    Ok(effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_replacement_has_a_row() {
        let experiment = Experiment::named("probe").unwrap();
        let all = pairs(&experiment);
        assert_eq!(all.len(), 6);
        assert_eq!(all[1], ("he".to_string(), "they".to_string()));
    }
}
