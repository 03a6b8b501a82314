//! Builds the report page of a fine-tuning.

use std::path::Path;

use bert_finetuning::{CellReport, EpochReport, FinetuneReport, FusionReport, GridReport, RunReport};
use bert_pages::{
    Cell, Curve, Figure, Head, Line, chart, chart_page, figures, grouped, series_color, table, tiles, verdict,
};
use bert_tasks::{Calibration, Interval, Kind, Metric, SeedSummary, Statistics, SummaryRow};
use bert_training::Error;
use maud::{Markup, html};

use crate::findings::{Finding, Severity};
use crate::page::{Report, commit_words, findings_list, folder_name, settings};

/// Maximum number of wrong answers shown, from the best run.
const ERRORS: usize = 20;

/// Returns the page of a fine-tuning.
///
/// # Errors
/// Fails when `report.json` cannot be read or was not written by this program.
pub fn finetuning_page(folder: &Path) -> Result<Report, Error> {
    let report = FinetuneReport::read(folder)?;
    let findings = findings(&report);
    let dev = &report.dev;
    let scored = [
        ("dev", Some(dev)),
        ("the mismatched dev set", report.dev_mismatched.as_ref()),
        ("test", report.test.as_ref()),
    ];
    let body = html! {
        (result(&report))
        (tiles(&tiles_of(&report)))
        (pretraining_link(folder, &report.start))
        (findings_list(&findings))
        (epoch_charts(&report))
        @for (title, summary) in scored {
            @if let Some(summary) = summary {
                h2 { "Scores on " (title) }
                (scores_table(summary))
            }
        }
        @if let Some(grid) = &report.grid { (grid_table(grid)) }
        @if let Some(fusion) = &report.fusion { (fusion_table(fusion)) }
        @if let Some(best) = report.best_run() {
            @if let Some(confusion) = &best.confusion {
                h2 { "Labels and predictions, seed " (best.seed) }
                (confusion_table(confusion, &dev.task.class_names().collect::<Vec<_>>()))
            }
            @if let Some(calibration) = &best.calibration {
                h2 { "Calibration, seed " (best.seed) }
                (calibration_chart(calibration))
            }
            (errors_table(folder, best.seed))
        }
        (settings(&serde_json::json!({ "config": report.config, "resolved": report.resolved })))
    };
    let title = format!("{}: {}", folder_name(folder), dev.task);
    let html = chart_page(&Head { title: &title, about: &about(&report) }, &body);
    Ok(Report { html, findings })
}

/// Returns the subject in the head of the page: starting model, examples, epochs, learning rate, commit.
fn about(report: &FinetuneReport) -> Vec<String> {
    vec![
        format!("Fine-tuning of {}", report.start_text()),
        format!("{} training examples", grouped(report.train_examples as u64)),
        format!("{} dev examples", grouped(report.dev.examples as u64)),
        format!(
            "{} epochs, learning rate {:e}",
            report.resolved.num_train_epochs, report.resolved.learning_rate
        ),
        commit_words(&report.commit),
    ]
}

/// Renders the score and its distance from the baseline in one sentence.
fn result(report: &FinetuneReport) -> Markup {
    let dev = &report.dev;
    let (primary, Some(Statistics { mean, .. })) = dev.main() else { return Markup::default() };
    let plural = if dev.runs.len() == 1 { "" } else { "s" };
    let over = format!("over {} seed{plural}", dev.runs.len());
    let majority = dev.majority_baseline.get(primary).map(|majority| {
        let points = primary.difference(mean - majority);
        format!(", {points} from the baseline ({}: {})", primary.with_unit(majority), dev.baseline_answer())
    });
    let text = format!(
        "The mean {primary} on dev is {} {over}{}.",
        primary.with_unit(mean),
        majority.unwrap_or_default()
    );
    let warnings = dev.warnings();
    let remark = warnings.first().cloned().or(dev.interval.as_ref().map(|it| it.describe(dev.runs.len())));
    verdict(if warnings.is_empty() { "good" } else { "warning" }, &text, &remark.unwrap_or_default())
}

/// Renders a link to the page of the pre-training run that a fine-tuning started from, if this is the folder of a run.
fn pretraining_link(folder: &Path, start: &Path) -> Markup {
    let run = start.ancestors().find(|path| path.join("run.json").is_file());
    let Some(address) = run.and_then(|run| relative_path(folder, run)) else { return Markup::default() };
    html! {
        p {
            "Started from the pre-training run " a href={ (address) "/report.html" } { (start.display()) }
            ". Its page is written by bert report."
        }
    }
}

/// Returns the path from one existing folder to another, with `/` between the names and all special characters escaped.
fn relative_path(from: &Path, to: &Path) -> Option<String> {
    let from = from.canonicalize().ok()?;
    let to = to.canonicalize().ok()?;
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| "..".to_string());
    let down = to.components().skip(common).map(|name| escaped(&name.as_os_str().to_string_lossy()));
    let parts: Vec<String> = up.chain(down).collect();
    Some(if parts.is_empty() { ".".to_string() } else { parts.join("/") })
}

/// Returns a name with percent-encoding for a URL.
fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let text = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(text).collect()
}

fn findings(report: &FinetuneReport) -> Vec<Finding> {
    let warnings = report.dev.warnings().into_iter().chain(report.training.warning());
    let mut findings: Vec<Finding> = warnings.map(|text| Finding::new(Severity::Warning, text)).collect();
    if report.selection.best_on.is_some() {
        let text = report.selection.to_string();
        findings.push(Finding::new(Severity::Note, format!("{}{}.", text[..1].to_uppercase(), &text[1..])));
    }
    let shared = report.shared_texts.iter().filter_map(|shared| shared.warning());
    findings.extend(shared.map(|text| Finding::new(Severity::Warning, format!("{text}."))));
    let stopped = report.runs.iter().filter(|run| run.stopped_early).count();
    if stopped > 0 {
        let text = format!("{stopped} of {} runs were stopped early by --patience.", report.runs.len());
        findings.push(Finding::new(Severity::Note, text));
    }
    if report.is_sample {
        let text = "Scored on samples, not on the official files: not comparable with published results.";
        findings.push(Finding::new(Severity::Note, text.into()));
    }
    findings
}

fn tiles_of(report: &FinetuneReport) -> Vec<Figure<'static>> {
    let mut tiles = score_tiles(&report.dev);
    let from = match report.start_text() {
        random if report.config.random_init => random,
        start => format!("started from {start}"),
    };
    tiles.push(("training examples", grouped(report.train_examples as u64), from));
    let [trained, all] = [report.parameters.trained, report.parameters.all].map(|count| count as u64);
    let remark = format!("{:.1} % of {}", 100.0 * trained as f64 / all as f64, grouped(all));
    tiles.push(("trained parameters", grouped(trained), remark));
    tiles
}

/// Returns the tiles about the scores on dev: mean, interval, baseline, standard error, degenerate runs.
fn score_tiles(dev: &SeedSummary) -> Vec<Figure<'static>> {
    let (primary, statistics) = dev.main();
    let mut tiles = Vec::new();
    if let Some(s) = statistics {
        let sd = s.sd.map_or("one seed".to_string(), |sd| {
            format!("SD {} over {} seeds", primary.with_unit(sd), dev.runs.len())
        });
        let median = primary.with_unit(s.median);
        tiles.push(("mean on dev", primary.with_unit(s.mean), format!("{primary}; median {median}; {sd}")));
    }
    if let Some(interval) = &dev.interval {
        let coverage = Interval::coverage(dev.runs.len()).to_string();
        tiles.push(("95 % interval of the mean", interval.range(), coverage));
    }
    if let Some(majority) = dev.majority_baseline.get(primary) {
        let remark = format!("{primary} of one answer: {}", dev.baseline_answer());
        tiles.push(("baseline", primary.with_unit(majority), remark));
    }
    if let Some(error) = dev.binomial_standard_error {
        let remark = format!("binomial, of an accuracy on {} examples", grouped(dev.examples as u64));
        tiles.push(("standard error", format!("{:.1} %", 100.0 * error), remark));
    }
    if dev.degenerate_runs > 0 {
        let remark = format!("of {}: one answer for all examples", dev.runs.len());
        tiles.push(("degenerate runs", dev.degenerate_runs.to_string(), remark));
    }
    tiles
}

/// Renders a table with a row per seed, then the statistics over seeds and the baseline.
fn scores_table(summary: &SeedSummary) -> Markup {
    let headings = summary.headings();
    let rows = summary.rows();
    let header: Vec<&str> = std::iter::once("seed").chain(headings.iter().map(String::as_str)).collect();
    let row = |SummaryRow { name, cells, note }: SummaryRow| {
        let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
        figures(&(name + &note), cells)
    };
    table(&header, rows.into_iter().map(row))
}

/// Renders a table with a row per configuration and its score on the held-out part of train.
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

/// Renders a table with a cell for each layer and adapter; a larger share is darker.
fn fusion_table(fusion: &FusionReport) -> Markup {
    let header: Vec<&str> = std::iter::once("").chain(fusion.adapters.iter().map(String::as_str)).collect();
    let row = |(layer, shares): (usize, &Vec<f64>)| {
        let shares = shares.iter().map(|&share| Cell::Shaded(format!("{share:.3}"), "var(--a)", share));
        std::iter::once(Cell::Text(format!("layer {layer}"))).chain(shares).collect()
    };
    html! {
        h2 { "Attention over the adapters" }
        p.note {
            "Mean attention weight of each adapter over the tokens of dev, best run. The regularizer adds "
            (format_args!("{:.4}", fusion.regularization)) " to the loss."
        }
        (table(&header, (1..).zip(&fusion.shares).map(row)))
        details {
            summary { "How to read this" }
            p.note {
                "Equal weights would be " (format_args!("{:.3}", 1.0 / fusion.adapters.len() as f64))
                ". A layer with a larger weight takes more of its output from that adapter."
            }
        }
    }
}

/// Renders the reliability diagram of the best run: accuracy by confidence.
fn calibration_chart(calibration: &Calibration) -> Markup {
    let percent = |share: f64| 100.0 * share;
    let points =
        calibration.bins.iter().map(|bin| (percent(bin.confidence), percent(bin.accuracy))).collect();
    let sure = vec![(0.0, 0.0), (100.0, 100.0)];
    let curves = [
        Curve::new("perfect", series_color(9), Line::Dashed, sure),
        Curve::new("this run", series_color(0), Line::Marked, points),
    ];
    html! {
        p.note {
            "Expected calibration error " (format_args!("{:.3}", calibration.expected_error)) " on the dev set."
        }
        div.charts { (chart("confidence (%)", "accuracy (%)", &curves, &[])) }
        details {
            summary { "How to read this" }
            p.note {
                "The error is the mean difference between confidence and accuracy. Points below the line are overconfident."
            }
        }
    }
}

/// The axis of a chart of scores, its curves and its levels.
pub(crate) type ScoreChart = (String, Vec<Curve>, Vec<(&'static str, f64)>);

/// Returns the chart of the score of every run over the epochs; fractions are in per cent.
pub(crate) fn score_chart(report: &FinetuneReport) -> ScoreChart {
    let primary = report.dev.task.spec().primary;
    let is_held_out = report.training.held_out > 0;
    let scale = if primary.heading().ends_with("(%)") { 100.0 } else { 1.0 };
    // The baseline of dev does not apply to the held-out part.
    let majority = report.dev.majority_baseline.get(primary).filter(|_| !is_held_out);
    let score = |epoch: &EpochReport| {
        let scores = if is_held_out { &epoch.held_out } else { &epoch.dev };
        scores.as_ref()?.get(primary).map(|score| scale * score)
    };
    let levels = majority.map(|value| ("baseline", scale * value)).into_iter().collect();
    (score_axis(primary, is_held_out), curves(&report.runs, score), levels)
}

/// Renders the score and the training loss of every run over the epochs.
fn epoch_charts(report: &FinetuneReport) -> Markup {
    let (axis, scores, levels) = score_chart(report);
    let loss = match report.dev.task.spec().kind {
        Kind::Regression { .. } => "training loss (squared error)",
        _ => "training loss (nats)",
    };
    html! {
        h2 { "Over the epochs" }
        div.charts {
            (chart("epoch", &axis, &scores, &levels))
            (chart("epoch", loss, &curves(&report.runs, |epoch| epoch.train_loss), &[]))
        }
    }
}

/// Returns the label of the axis of scores.
fn score_axis(primary: Metric, is_held_out: bool) -> String {
    format!("{} on {}", primary.heading(), if is_held_out { "held-out training examples" } else { "dev" })
}

/// Returns one curve per run: a value over the epochs for which it is known.
fn curves(runs: &[RunReport], value: impl Fn(&EpochReport) -> Option<f64>) -> Vec<Curve> {
    let curve = |(run, number): (&RunReport, usize)| {
        let points = run.history.iter().filter_map(|epoch| Some((epoch.epoch, value(epoch)?))).collect();
        Curve::new(format!("seed {}", run.seed), series_color(number), Line::Marked, points)
    };
    runs.iter().zip(0..).map(curve).collect()
}

/// Renders the confusion matrix, with labels as rows and predictions as columns.
fn confusion_table(rows: &[Vec<u64>], names: &[&str]) -> Markup {
    let row = |((class, counts), name): ((usize, &Vec<u64>), &&str)| {
        let cell = |(predicted, &count): (usize, &u64)| match (count, predicted == class) {
            (0, _) => Cell::Figure(grouped(count)),
            (_, true) => Cell::Shaded(grouped(count), "var(--good)", 0.22),
            (_, false) => Cell::Shaded(grouped(count), "var(--warn)", 0.22),
        };
        let correct = counts.get(class).copied().unwrap_or_default();
        let recall = 100.0 * correct as f64 / counts.iter().sum::<u64>().max(1) as f64;
        let mut cells = vec![Cell::from(*name)];
        cells.extend(counts.iter().enumerate().map(cell));
        cells.push(Cell::Figure(format!("{recall:.1}")));
        cells
    };
    let predicted: Vec<String> = names.iter().map(|name| format!("predicted {name}")).collect();
    let header: Vec<&str> =
        ["label"].into_iter().chain(predicted.iter().map(String::as_str)).chain(["recall (%)"]).collect();
    table(&header, rows.iter().enumerate().zip(names).map(row))
}

/// Renders the start of a run's `dev_errors.tsv`: the wrong answers with the highest confidence.
fn errors_table(folder: &Path, seed: u64) -> Markup {
    let file = format!("seed-{seed}/dev_errors.tsv");
    let text = std::fs::read_to_string(folder.join(&file)).unwrap_or_default();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let errors: Vec<&str> = lines.collect();
    if errors.is_empty() {
        return Markup::default();
    }
    let shown = errors.iter().take(ERRORS).map(|line| line.split('\t').map(Cell::from).collect());
    html! {
        h2 { "Errors, " (if header.contains(&"error") { "largest" } else { "highest confidence" }) " first" }
        p.note { (shown.len()) " of " (grouped(errors.len() as u64)) " in " (file) "." }
        (table(&header, shown))
    }
}

#[cfg(test)]
mod tests {
    use bert_tasks::{Label, Scores, SeedRun, Task};

    use super::*;
    use bert_finetuning::{FinetuneConfig, TrainedParameters, TrainingParts};

    /// Returns a report of one run with two of four answers correct.
    fn report() -> FinetuneReport {
        let config = FinetuneConfig::new(Task::Rte, "tiny-en", "rte").with_data("data");
        let scores: Scores = [(Metric::Accuracy, 0.5)].into_iter().collect();
        let run = SeedRun { seed: 1, scores: scores.clone(), degenerate: false };
        let labels = [0, 1, 0, 1].map(Label::Class);
        let answers = [0, 0, 1, 1].map(Label::Class);
        let dev = SeedSummary::new(&Task::Rte, 4, vec![run], scores.clone());
        let epoch = EpochReport {
            step: 4,
            epoch: 1.0,
            train_loss: Some(0.7),
            dev: Some(scores.clone()),
            held_out: None,
            masked_lm: None,
        };
        FinetuneReport {
            commit: "c".into(),
            resolved: config.resolve().unwrap(),
            defaults: Vec::new(),
            grid: None,
            fusion: None,
            start: "tiny-en".into(),
            parameters: TrainedParameters { trained: 1000, all: 2000, share: 0.5 },
            train_examples: 128,
            training: TrainingParts { in_file: 390, trained_on: 128, held_out: 0, subset_seed: 1 },
            identity: serde_json::json!({ "train": "digest" }),
            dev_digest: "digest".into(),
            shared_texts: Vec::new(),
            selection: serde_json::from_value(
                serde_json::json!({ "best_on": null, "epochs": 1, "metric": "accuracy",
                "selected": 0.5, "last_epoch": 0.5 }),
            )
            .unwrap(),
            is_sample: true,
            runs: vec![RunReport {
                seed: 1,
                epoch: 1.0,
                stopped_early: true,
                diverged: false,
                held_out: None,
                dev: scores,
                dev_mismatched: None,
                test: None,
                confusion: Some(vec![vec![1, 1], vec![1, 1]]),
                calibration: None,
                history: vec![epoch],
            }],
            dev: dev.with_interval(&labels, &[&answers]),
            dev_mismatched: None,
            test: None,
            warnings: Vec::new(),
            model: "rte/model".into(),
            seed_models: Vec::new(),
            config,
        }
    }

    fn page_of(report: &str) -> Report {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("report.json"), report).unwrap();
        finetuning_page(folder.path()).unwrap()
    }

    /// Returns the name and the value of each tile of a page.
    fn tiles_in(html: &str) -> Vec<(&str, &str)> {
        let tiles = html.split("<div class=\"tile\">").skip(1);
        tiles.map(|tile| tile.split("</b>").next().unwrap().split_once("<b>").unwrap()).collect()
    }

    #[test]
    fn page_has_all_tiles() {
        let page = page_of(&serde_json::to_string(&report()).unwrap());
        let tiles = [
            ("mean on dev", "50.0 %"),
            ("95 % interval of the mean", "6.1 % to 93.9 %"),
            ("baseline", "50.0 %"),
            ("standard error", "25.0 %"),
            ("training examples", "128"),
            ("trained parameters", "1,000"),
        ];
        assert_eq!(tiles_in(&page.html), tiles);
        assert!(page.html.contains("Labels and predictions, seed 1"));
        let findings: Vec<&str> = page.findings.iter().map(|finding| finding.text.as_str()).collect();
        for text in ["Trained on 128 of the 390", "1 of 1 runs were stopped early", "Scored on samples"] {
            assert!(findings.iter().any(|finding| finding.contains(text)), "{text}: {findings:?}");
        }
    }

    #[test]
    fn link_leads_to_the_pretraining_run() {
        let folder = tempfile::tempdir().unwrap();
        let [tuned, run] = ["out/tuned", "my run/checkpoints"].map(|name| folder.path().join(name));
        [&tuned, &run].into_iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
        assert_eq!(pretraining_link(&tuned, &run).into_string(), "", "no run.json");
        std::fs::write(folder.path().join("my run/run.json"), "{}").unwrap();
        let link = pretraining_link(&tuned, &run).into_string();
        assert!(link.contains("href=\"../../my%20run/report.html\""), "{link}");
    }

    #[test]
    fn unreadable_report_is_an_error_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            finetuning_page(folder.path()).unwrap_err().text().starts_with("no finished fine-tuning here")
        );
        let path = folder.path().join("report.json");
        std::fs::write(&path, "{\"runs\": 1}").unwrap();
        let error = finetuning_page(folder.path()).unwrap_err().to_string();
        assert!(error.contains("report.json") && error.contains("expected a sequence"), "{error}");
    }
}
