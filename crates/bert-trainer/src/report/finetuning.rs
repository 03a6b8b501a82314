//! Builds the report page of a fine-tuning.

use std::path::Path;

use bert_pages::{Cell, Curve, Line, chart, figures, grouped, page, table, tiles};
use maud::{Markup, display, html};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::findings::{Finding, Weight, note};
use super::{Report, findings_list, settings};
use crate::error::Error;
use crate::finetune::FusionReport;
use crate::finetune::config::grid::{CellReport, GridReport};
use crate::finetune::objectives::holdout::TrainingParts;
use crate::run_dir::report_file::ReportFile;
use bert_tasks::statistics::{Calibration, SeedSummary};

/// Maximum number of wrong answers shown, from the best run.
const ERRORS: usize = 20;

/// Colours of the runs, used cyclically.
const COLORS: [&str; 4] = ["var(--a)", "var(--b)", "var(--good)", "var(--soft)"];

/// Returns the page of a fine-tuning.
///
/// # Errors
/// When `report.json` cannot be read or was not written by this program.
pub fn finetuning_page(folder: &Path) -> Result<Report, Error> {
    let file = ReportFile::read(folder)?;
    let (dev, report) = (file.dev()?, &file.value);
    let findings = findings(report, &dev);
    let best = best_run(report, &dev);
    let (mismatched, test) = (file.summary("dev_mismatched")?, file.summary("test")?);
    let scored =
        [("dev", Some(&dev)), ("the mismatched dev set", mismatched.as_ref()), ("test", test.as_ref())];
    let body = html! {
        (tiles(&first_figures(report, &dev)))
        (findings_list(&findings))
        @for (title, summary) in scored {
            @if let Some(summary) = summary {
                h2 { "Scores on " (title) }
                (scores_table(summary))
            }
        }
        @if let Some(grid) = part(report, "grid") { (grid_table(&grid)) }
        @if let Some(fusion) = part(report, "fusion") { (fusion_table(&fusion)) }
        (course(report, &dev))
        (confusion_table(best, dev.task.spec().class_names))
        @if let Some(calibration) = part(best, "calibration") {
            h2 { "Calibration, seed " (display(&best["seed"])) }
            (calibration_chart(&calibration))
        }
        (errors_table(folder, best))
        (settings(&serde_json::json!({ "config": report["config"], "resolved": report["resolved"] })))
    };
    let title = format!("Fine-tuning: {} ({})", dev.task, folder.display());
    Ok(Report { html: page(&title, &body), findings })
}

/// Returns an optional part of a report: some fine-tunings and earlier versions do not have it.
fn part<T: DeserializeOwned>(report: &Value, name: &str) -> Option<T> {
    serde_json::from_value(report[name].clone()).ok()
}

/// Returns the items of a list; empty if the value is not a list.
fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn findings(report: &Value, dev: &SeedSummary) -> Vec<Finding> {
    let training = part(report, "training").and_then(|training: TrainingParts| training.warning());
    let warnings = dev.warnings().into_iter().chain(training);
    let mut findings: Vec<Finding> = warnings.map(|text| Finding { weight: Weight::Warning, text }).collect();
    let runs = items(&report["runs"]);
    let stopped = runs.iter().filter(|run| run["stopped_early"].as_bool() == Some(true)).count();
    if stopped > 0 {
        findings.extend(note(format!("{stopped} of {} runs were stopped early by --patience.", runs.len())));
    }
    if report["is_sample"].as_bool() == Some(true) {
        let text = "Scored on samples, not on the official files: not comparable with published results.";
        findings.extend(note(text.into()));
    }
    findings
}

fn first_figures(report: &Value, dev: &SeedSummary) -> Vec<(&'static str, String, String)> {
    let primary = dev.task.spec().primary;
    let mut tiles = Vec::new();
    if let Some(found) = dev.metrics.iter().find(|m| m.metric == primary) {
        let s = found.statistics;
        let sd = s.sd.map_or("one seed".to_string(), |sd| {
            format!("SD {} over {} seeds", primary.with_unit(sd), dev.runs.len())
        });
        tiles.push(("mean on dev", primary.with_unit(s.mean), format!("{primary}; {sd}")));
        let range = format!("{} to {}", primary.with_unit(s.min), primary.with_unit(s.max));
        tiles.push(("median", primary.with_unit(s.median), range));
    }
    if let Some(interval) = &dev.interval {
        let value = format!("{} to {}", primary.with_unit(interval.low), primary.with_unit(interval.high));
        let over = if dev.runs.len() == 1 { "examples" } else { "examples and seeds" };
        tiles.push(("95 % interval of the mean", value, format!("bootstrap over {over}")));
    }
    if let Some(majority) = dev.majority_baseline.get(primary) {
        tiles.push((
            "majority class",
            primary.with_unit(majority),
            format!("{primary} of one answer for all examples"),
        ));
    }
    if let Some(error) = dev.binomial_standard_error {
        let remark = format!("binomial, of an accuracy on {} examples", grouped(dev.examples as u64));
        tiles.push(("standard error", format!("{:.1} %", 100.0 * error), remark));
    }
    let remark = format!("of {}: one answer for all examples", dev.runs.len());
    tiles.push(("degenerate runs", dev.degenerate_runs.to_string(), remark));
    let examples = grouped(report["train_examples"].as_u64().unwrap_or_default());
    let start = report["start"].as_str().unwrap_or_default();
    let from = match report["config"]["random_init"].as_bool() {
        Some(true) => format!("random weights in the shape of {start}"),
        _ => format!("started from {start}"),
    };
    tiles.push(("training examples", examples, from));
    // Reports of earlier versions lack these numbers.
    if let (Some(trained), Some(all)) =
        (report["parameters"]["trained"].as_u64(), report["parameters"]["all"].as_u64())
    {
        let share = 100.0 * trained as f64 / all.max(1) as f64;
        let remark = format!("{share:.2} % of {}", grouped(all));
        tiles.push(("trained parameters", grouped(trained), remark));
    }
    tiles
}

/// Renders a row per seed, then the statistics over seeds and the baseline.
fn scores_table(summary: &SeedSummary) -> Markup {
    let (headings, rows) = (summary.headings(), summary.rows());
    let header: Vec<&str> = std::iter::once("seed").chain(headings.iter().map(String::as_str)).collect();
    let row = |(name, values, note): (String, Vec<String>, &str)| {
        let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
        figures(&(name + &note), values)
    };
    table(&header, rows.into_iter().map(row))
}

/// Renders a row per configuration, with its score on the held-out part of train.
fn grid_table(grid: &GridReport) -> Markup {
    let row = |cell: &CellReport| {
        let s = cell.statistics;
        let settings = [
            format!("{:e}", cell.learning_rate),
            cell.train_batch_size.to_string(),
            cell.num_train_epochs.to_string(),
        ];
        let scores = [Some(s.mean), s.sd, Some(s.median), Some(s.max)].map(|value| grid.metric.cell(value));
        figures(if cell.chosen { "chosen" } else { "" }, settings.into_iter().chain(scores))
    };
    let header = ["", "learning rate", "batch", "epochs", "mean", "sd", "median", "max"];
    html! {
        h2 {
            "Grid search: " (grid.metric.heading()) " on " (grid.held_out_examples) " examples held out of train"
        }
        (table(&header, grid.cells.iter().map(row)))
    }
}

/// Renders a cell for each layer and adapter; a larger share is darker.
fn fusion_table(fusion: &FusionReport) -> Markup {
    let header: Vec<&str> = std::iter::once("").chain(fusion.adapters.iter().map(String::as_str)).collect();
    let row = |(layer, shares): (usize, &Vec<f64>)| {
        let shares = shares.iter().map(|&share| Cell::Shaded(format!("{share:.3}"), "var(--a)", share));
        std::iter::once(Cell::Text(format!("layer {layer}"))).chain(shares).collect()
    };
    html! {
        h2 { "Attention over the adapters" }
        p.note {
            "Mean attention weight of each adapter over the tokens of dev, best run. Equal weights would be "
            (format_args!("{:.3}", 1.0 / fusion.adapters.len() as f64)) ". The regularizer adds "
            (format_args!("{:.4}", fusion.regularization)) " to the loss."
        }
        (table(&header, (1..).zip(&fusion.shares).map(row)))
    }
}

/// Renders the reliability diagram of the best run: accuracy by confidence.
fn calibration_chart(calibration: &Calibration) -> Markup {
    let points = calibration.bins.iter().map(|bin| (bin.confidence, bin.accuracy)).collect();
    let sure = vec![(0.0, 0.0), (1.0, 1.0)];
    let curves = [
        Curve::new("perfect calibration", "var(--soft)", Line::Dashed, sure),
        Curve::new("this run", "var(--a)", Line::Marked, points),
    ];
    html! {
        p.note {
            "Expected calibration error " (format_args!("{:.3}", calibration.expected_error)) ": the mean difference between \
             confidence and accuracy on the dev set. Points below the line are overconfident."
        }
        (chart("confidence", "accuracy", &curves, &[]))
    }
}

/// Renders dev score and training loss of every run over the epochs.
fn course(report: &Value, dev: &SeedSummary) -> Markup {
    let primary = dev.task.spec().primary;
    let curves = |value: &dyn Fn(&Value) -> Option<f64>| -> Vec<Curve> {
        let curve = |(run, color): (&Value, &&'static str)| {
            let history = items(&run["history"]).iter();
            let points = history.filter_map(|at| Some((at["epoch"].as_f64()?, value(at)?))).collect();
            Curve::new(format!("seed {}", run["seed"]), color, Line::Marked, points)
        };
        items(&report["runs"]).iter().zip(COLORS.iter().cycle()).map(curve).collect()
    };
    let held_out = report["training"]["held_out"].as_u64() > Some(0);
    // The majority baseline of dev does not apply to the held-out part.
    let majority = dev.majority_baseline.get(primary).filter(|_| !held_out);
    let levels: Vec<_> = majority.map(|value| ("majority class", value)).into_iter().collect();
    let set = if held_out { "held_out" } else { "dev" };
    let scored = match held_out {
        true => format!("{primary} on held-out training examples"),
        false => format!("{primary} on dev"),
    };
    let scores = curves(&|at| at[set][primary.to_string()].as_f64());
    let losses = curves(&|at| at["train_loss"].as_f64());
    html! {
        h2 { "Over the epochs" }
        (chart("epoch", &scored, &scores, &levels))
        (chart("epoch", "training loss", &losses, &[]))
    }
}

/// Returns the run whose model was kept: the first one with the highest main score.
fn best_run<'a>(report: &'a Value, dev: &SeedSummary) -> &'a Value {
    let primary = dev.task.spec().primary.to_string();
    let score = |run: &Value| run["dev"][&primary].as_f64().unwrap_or(f64::NEG_INFINITY);
    let better = |best: &'a Value, run: &'a Value| if score(run) > score(best) { run } else { best };
    items(&report["runs"]).iter().reduce(better).unwrap_or(&Value::Null)
}

/// Renders the confusion matrix, with labels as rows and predictions as columns.
fn confusion_table(run: &Value, names: &[&str]) -> Markup {
    let rows = items(&run["confusion"]);
    if rows.is_empty() {
        return Markup::default();
    }
    let row = |((class, row), name): ((usize, &Value), &&str)| {
        let counts: Vec<u64> = items(row).iter().filter_map(Value::as_u64).collect();
        let cell = |(predicted, &count): (usize, &u64)| match (count, predicted == class) {
            (0, _) => Cell::Figure(grouped(count)),
            (_, true) => Cell::Shaded(grouped(count), "var(--good)", 0.22),
            (_, false) => Cell::Shaded(grouped(count), "var(--warn)", 0.22),
        };
        let correct = counts.get(class).copied().unwrap_or_default();
        let recall = 100.0 * correct as f64 / counts.iter().sum::<u64>().max(1) as f64;
        let mut cells = vec![Cell::from(*name)];
        cells.extend(counts.iter().enumerate().map(cell));
        cells.push(Cell::Figure(format!("{recall:.1} %")));
        cells
    };
    let predicted: Vec<String> = names.iter().map(|name| format!("predicted {name}")).collect();
    let header: Vec<&str> =
        ["label"].into_iter().chain(predicted.iter().map(String::as_str)).chain(["recall"]).collect();
    html! {
        h2 { "Labels and predictions, seed " (display(&run["seed"])) }
        (table(&header, rows.iter().enumerate().zip(names).map(row)))
    }
}

/// Renders the start of `dev_errors.tsv`: the wrong answers of the best run with the highest confidence.
fn errors_table(folder: &Path, run: &Value) -> Markup {
    let file = format!("seed-{}/dev_errors.tsv", run["seed"]);
    let text = std::fs::read_to_string(folder.join(&file)).unwrap_or_default();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let errors: Vec<&str> = lines.collect();
    if errors.is_empty() {
        return Markup::default();
    }
    let shown = errors.iter().take(ERRORS).map(|line| line.split('\t').map(Cell::from).collect());
    html! {
        h2 { "Errors, highest confidence first" }
        p.note { (shown.len()) " of " (grouped(errors.len() as u64)) " in " (file) "." }
        (table(&header, shown))
    }
}
