//! Builds the report page of a fine-tuning.

use std::fmt::Write as _;
use std::path::Path;

use bert_data::html::{escape, grouped};
use serde_json::Value;

use super::calibration::calibration_figure;
use super::chart::{Chart, Curve, Level, Line};
use super::findings::{Finding, Weight};
use super::fusion::fusion_figure;
use super::grid::grid_table;
use super::{Report, findings_list, page, settings, table, tiles};
use crate::error::Error;
use crate::finetune::subset::TrainingParts;
use crate::json_file::read_json;
use crate::tasks::{Metric, SeedSummary};

/// Wrong answers shown, of the best run.
const ERRORS: usize = 20;

/// Colours of the runs, in turn.
const COLORS: [&str; 4] = ["var(--a)", "var(--b)", "var(--good)", "var(--soft)"];

/// The page of a fine-tuning.
///
/// # Errors
/// When `report.json` cannot be read or is not one of this program.
pub fn finetuning_page(folder: &Path) -> Result<Report, Error> {
    let path = folder.join("report.json");
    let report = read_json(&path)?;
    let summary = |split: &str| -> Result<Option<SeedSummary>, Error> {
        match &report[split] {
            Value::Null => Ok(None),
            value => serde_json::from_value(value.clone()).map(Some).map_err(|e| Error::CheckpointCorrupt {
                path: path.clone(),
                reason: format!("{split}: {e}"),
            }),
        }
    };
    let dev = summary("dev")?.ok_or_else(|| {
        let reason = "it has no scores on dev".to_string();
        Error::CheckpointCorrupt { path: path.clone(), reason }
    })?;
    let findings = findings(&report, &dev);
    let mut body = tiles(&first_figures(&report, &dev)) + &findings_list(&findings);
    for (title, split) in [("dev", "dev"), ("the mismatched dev set", "dev_mismatched"), ("test", "test")] {
        if let Some(summary) = summary(split)? {
            let _ = write!(body, "<h2>Scores on {title}</h2>\n{}", scores_table(&summary));
        }
    }
    body.push_str(&grid_table(&report));
    body.push_str(&fusion_figure(&report));
    body.push_str(&course(&report, &dev));
    let best = best_run(&report, &dev);
    body.push_str(&confusion_table(best, dev.task.spec().class_names));
    body.push_str(&calibration_figure(best));
    body.push_str(&errors_table(folder, best));
    body.push_str(&settings(
        &serde_json::json!({ "config": report["config"], "resolved": report["resolved"] }),
    ));
    let title = format!("Fine-tuning: {} ({})", dev.task, folder.display());
    Ok(Report { html: page(&title, &body), findings })
}

fn findings(report: &Value, dev: &SeedSummary) -> Vec<Finding> {
    let training = serde_json::from_value::<TrainingParts>(report["training"].clone()).ok();
    let warnings = dev.warnings().into_iter().chain(training.and_then(|training| training.warning()));
    let mut findings: Vec<Finding> = warnings.map(|text| Finding { weight: Weight::Warning, text }).collect();
    let runs = report["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stopped = runs.iter().filter(|run| run["stopped_early"].as_bool() == Some(true)).count();
    if stopped > 0 {
        let text = format!("{stopped} of {} runs were ended by --patience.", runs.len());
        findings.push(Finding { weight: Weight::Note, text });
    }
    if report["is_sample"].as_bool() == Some(true) {
        let text = "Scored on samples, not on the official files: not comparable with published figures."
            .to_string();
        findings.push(Finding { weight: Weight::Note, text });
    }
    findings
}

fn first_figures(report: &Value, dev: &SeedSummary) -> Vec<(&'static str, String, String)> {
    let primary = dev.task.spec().primary;
    let mut tiles = Vec::new();
    if let Some(found) = dev.metrics.iter().find(|m| m.metric == primary) {
        let s = found.statistics;
        let sd =
            s.sd.map_or("one seed".to_string(), |sd| format!("SD {sd:.4} over {} seeds", dev.runs.len()));
        tiles.push(("mean on dev", format!("{:.4}", s.mean), format!("{primary}; {sd}")));
        tiles.push(("median", format!("{:.4}", s.median), format!("from {:.4} to {:.4}", s.min, s.max)));
    }
    if let Some(interval) = &dev.interval {
        let value = format!("{:.3} to {:.3}", interval.low, interval.high);
        let over = if dev.runs.len() == 1 { "examples" } else { "examples and seeds" };
        tiles.push(("95 % interval of the mean", value, format!("bootstrap over {over}")));
    }
    if let Some(majority) = dev.majority_baseline.get(primary) {
        tiles.push((
            "majority class",
            format!("{majority:.4}"),
            format!("{primary} of one answer to everything"),
        ));
    }
    if let Some(error) = dev.binomial_standard_error {
        let remark = format!("binomial, of an accuracy on {} examples", grouped(dev.examples as u64));
        tiles.push(("standard error", format!("{error:.4}"), remark));
    }
    let remark = format!("of {}: one answer to everything", dev.runs.len());
    tiles.push(("degenerate runs", dev.degenerate_runs.to_string(), remark));
    let examples = grouped(report["train_examples"].as_u64().unwrap_or_default());
    let start = report["start"].as_str().unwrap_or_default();
    let from = match report["config"]["random_init"].as_bool() {
        Some(true) => format!("fresh weights in the shape of {start}"),
        _ => format!("started from {start}"),
    };
    tiles.push(("training examples", examples, from));
    // Reports of earlier versions do not say.
    if let (Some(trained), Some(all)) =
        (report["parameters"]["trained"].as_u64(), report["parameters"]["all"].as_u64())
    {
        let share = 100.0 * trained as f64 / all.max(1) as f64;
        let remark = format!("{share:.2} % of {}", grouped(all));
        tiles.push(("trained parameters", grouped(trained), remark));
    }
    tiles
}

/// A row per seed, then the statistics over them and the baseline.
fn scores_table(summary: &SeedSummary) -> String {
    let number = |value: Option<f64>| value.map_or("-".to_string(), |x| format!("{x:.4}"));
    let names: Vec<String> = summary.metrics.iter().map(|m| m.metric.to_string()).collect();
    let of = |scores: &crate::tasks::Scores| {
        summary.metrics.iter().map(|m| number(scores.get(m.metric))).collect::<Vec<String>>()
    };
    let mut rows = Vec::new();
    for run in &summary.runs {
        let degenerate = if run.degenerate { " (one answer to everything)" } else { "" };
        rows.push([vec![format!("seed {}{degenerate}", run.seed)], of(&run.scores)].concat());
    }
    let mut statistic = |name: &str, value: fn(&crate::tasks::Statistics) -> Option<f64>| {
        let values = summary.metrics.iter().map(|m| number(value(&m.statistics)));
        rows.push(std::iter::once(name.to_string()).chain(values).collect());
    };
    statistic("mean", |s| Some(s.mean));
    statistic("sd", |s| s.sd);
    statistic("median", |s| Some(s.median));
    statistic("min", |s| Some(s.min));
    statistic("max", |s| Some(s.max));
    rows.push([vec!["majority class".to_string()], of(&summary.majority_baseline)].concat());
    let header: Vec<&str> = std::iter::once("").chain(names.iter().map(String::as_str)).collect();
    table(&header, &rows)
}

/// Dev score and training loss of every run over the epochs.
fn course(report: &Value, dev: &SeedSummary) -> String {
    let primary = dev.task.spec().primary;
    let runs = report["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let curves = |value: &dyn Fn(&Value) -> Option<f64>| -> Vec<Curve> {
        let curve = |(run, color): (&Value, &&'static str)| {
            let history = run["history"].as_array().map(Vec::as_slice).unwrap_or_default();
            let points = history.iter().filter_map(|at| Some((at["epoch"].as_f64()?, value(at)?))).collect();
            Curve { name: format!("seed {}", run["seed"]), color, line: Line::Marked, points }
        };
        runs.iter().zip(COLORS.iter().cycle()).map(curve).collect()
    };
    let majority = dev.majority_baseline.get(primary);
    let held_out = report["training"]["held_out"].as_u64() > Some(0);
    // That of dev says little of what is held out.
    let majority = majority.filter(|_| !held_out);
    let levels = majority.map(|value| Level { name: "majority class".into(), value }).into_iter().collect();
    let set = if held_out { "held_out" } else { "dev" };
    let scores = curves(&|at| at[set][primary.to_string()].as_f64());
    let losses = curves(&|at| at["train_loss"].as_f64());
    let (y, loss) = (score_axis(primary, held_out), "training loss");
    format!(
        "<h2>Over the epochs</h2>\n{}{}",
        Chart { x: "epoch", y, curves: scores, levels }.svg(),
        Chart { x: "epoch", y: loss, curves: losses, levels: Vec::new() }.svg()
    )
}

fn score_axis(metric: Metric, held_out: bool) -> &'static str {
    match (metric, held_out) {
        (_, true) => "main score on what is held out",
        (Metric::Accuracy, _) => "accuracy on dev",
        (Metric::F1, _) => "F1 on dev",
        (Metric::MacroF1, _) => "macro F1 on dev",
        (Metric::Matthews, _) => "Matthews correlation on dev",
        (Metric::Pearson, _) => "Pearson correlation on dev",
        (Metric::Spearman, _) => "Spearman correlation on dev",
        (Metric::ExactMatch, _) => "exact match on dev",
        (Metric::Precision, _) => "precision on dev",
        (Metric::Recall, _) => "recall on dev",
    }
}

/// The run whose model was kept: the first of those with the highest main score.
fn best_run<'a>(report: &'a Value, dev: &SeedSummary) -> &'a Value {
    let primary = dev.task.spec().primary.to_string();
    let score = |run: &Value| run["dev"][&primary].as_f64().unwrap_or(f64::NEG_INFINITY);
    let runs = report["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let better = |best: &'a Value, run: &'a Value| if score(run) > score(best) { run } else { best };
    runs.iter().reduce(better).unwrap_or(&Value::Null)
}

/// How often each class was taken for each; of a binary task the four cells everybody looks for.
fn confusion_table(run: &Value, names: &[&str]) -> String {
    let Some(rows) = run["confusion"].as_array() else { return String::new() };
    let mut out = format!(
        "<h2>Labels and predictions, seed {}</h2>\n<div class=\"scroll\"><table>\n<tr><th>label</th>",
        run["seed"]
    );
    for name in names {
        let _ = write!(out, "<th class=\"n\">predicted {}</th>", escape(name));
    }
    out.push_str("<th class=\"n\">right</th></tr>\n");
    for ((class, row), name) in rows.iter().enumerate().zip(names) {
        let counts: Vec<u64> = row.as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        let all = counts.iter().sum::<u64>();
        let _ = write!(out, "<tr><td>{}</td>", escape(name));
        for (predicted, &count) in counts.iter().enumerate() {
            let kind = if predicted == class { "hit" } else { "miss" };
            let kind = if count == 0 { "" } else { kind };
            let _ = write!(out, "<td class=\"n {kind}\">{}</td>", grouped(count));
        }
        let right = counts.get(class).copied().unwrap_or_default();
        let _ = writeln!(out, "<td class=\"n\">{:.1} %</td></tr>", 100.0 * right as f64 / all.max(1) as f64);
    }
    out + "</table></div>\n"
}

/// The first of `dev_errors.tsv`: what the best run was surest of and wrong.
fn errors_table(folder: &Path, run: &Value) -> String {
    let file = format!("seed-{}/dev_errors.tsv", run["seed"]);
    let Ok(text) = std::fs::read_to_string(folder.join(&file)) else { return String::new() };
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let errors: Vec<&str> = lines.collect();
    if errors.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<h2>Errors, the surest first</h2>\n<p class=\"note\">{} of {} in {}.</p>\n<div class=\"scroll\"><table class=\"errors\">\n<tr>",
        errors.len().min(ERRORS),
        grouped(errors.len() as u64),
        escape(&file)
    );
    for name in header {
        let _ = write!(out, "<th>{}</th>", escape(name));
    }
    out.push_str("</tr>\n");
    for line in errors.iter().take(ERRORS) {
        out.push_str("<tr>");
        for cell in line.split('\t') {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out + "</table></div>\n"
}
