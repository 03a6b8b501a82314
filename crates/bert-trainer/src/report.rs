//! `report.html`: what a run or a fine-tuning did, on one self-contained page.
//!
//! In: the folder of a pre-training run (`run.json`, `metrics.jsonl`, `evaluations.jsonl`,
//! `timing.jsonl`) or of a fine-tuning (`report.json`). Out: a page with curves and tables that
//! loads nothing from outside; all text in it is escaped. Not for judging: the page shows the
//! figures and, beside them, what guessing would give.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

pub use bert_data::page::escape;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use crate::evaluation::Evaluation;
use crate::pretrain::{StepMetrics, StepTiming};

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2330; --soft: #6b7686; --line: #d9dee6; --paper: #fff; --a: #1f6feb; --b: #d1720a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7ebf0; --soft: #98a3b3; --line: #353d4a; --paper: #14181f; --a: #6aa5ff; --b: #f0a351; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem 1rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; }
td.n { text-align: right; }
p.note { color: var(--soft); max-width: 45rem; }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
code, pre { font: 13px ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
";

/// A whole page from a title and the HTML of its body.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n{body}\n</html>\n"
    )
}

/// A table of text cells; cells that are numbers are set right.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<table><tr>");
    for cell in header {
        let _ = write!(out, "<th>{}</th>", escape(cell));
    }
    out.push_str("</tr>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let class = if cell.parse::<f64>().is_ok() { " class=\"n\"" } else { "" };
            let _ = write!(out, "<td{class}>{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
    out
}

/// One line of a [`chart`].
pub struct Curve<'a> {
    /// What it is called in the legend.
    pub name: &'a str,
    /// CSS colour.
    pub color: &'a str,
    /// Points in x order.
    pub points: &'a [(f64, f64)],
}

/// Curves over steps as an SVG, with `levels` as dashed horizontal lines.
pub fn chart(curves: &[Curve<'_>], levels: &[(&str, f64)]) -> String {
    const WIDTH: f64 = 900.0;
    const HEIGHT: f64 = 300.0;
    const LEFT: f64 = 50.0;
    const TOP: f64 = 30.0; // the legend stands above
    const BOTTOM: f64 = 270.0;
    let xs = || curves.iter().flat_map(|c| c.points.iter().map(|p| p.0));
    let ys = || curves.iter().flat_map(|c| c.points.iter().map(|p| p.1)).chain(levels.iter().map(|l| l.1));
    let (x_max, y_max) = (xs().fold(1.0, f64::max), ys().fold(0.0, f64::max));
    let y_min = ys().fold(f64::INFINITY, f64::min);
    if !(x_max.is_finite() && y_max.is_finite() && y_min.is_finite()) {
        return String::from("<p class=\"note\">No points to draw.</p>\n");
    }
    let span = (y_max - y_min).max(1e-9);
    let (low, high) = (y_min - 0.05 * span, y_max + 0.05 * span);
    let px = |x: f64| LEFT + (WIDTH - LEFT - 10.0) * x / x_max;
    let py = |y: f64| BOTTOM - (BOTTOM - TOP) * (y - low) / (high - low);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n");
    for tick in 0..=4 {
        let y = low + (high - low) * f64::from(tick) / 4.0;
        let x = x_max * f64::from(tick) / 4.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"var(--line)\"/>\
             <text x=\"{1:.1}\" y=\"{0:.1}\" text-anchor=\"end\" dy=\"4\">{y:.2}</text>\
             <text x=\"{2:.1}\" y=\"288\" text-anchor=\"middle\">{x:.0}</text>",
            py(y),
            LEFT - 6.0,
            px(x).min(WIDTH - 20.0)
        );
    }
    for (name, y) in levels {
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"var(--soft)\" stroke-dasharray=\"4 4\"/>\
             <text x=\"{1:.1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text>",
            py(*y),
            WIDTH - 10.0,
            py(*y) - 4.0,
            escape(name)
        );
    }
    for (at, curve) in curves.iter().enumerate() {
        let mut path = String::new();
        for (i, (x, y)) in curve.points.iter().enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if i == 0 { "M" } else { "L" }, px(*x), py(*y));
        }
        let color = escape(curve.color);
        let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>");
        let x = LEFT + 140.0 * at as f64;
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" x2=\"{}\" y1=\"12\" y2=\"12\" stroke=\"{color}\" stroke-width=\"3\"/>\
             <text x=\"{}\" y=\"12\" dy=\"4\">{}</text>",
            x + 24.0,
            x + 30.0,
            escape(curve.name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// At most `most` points: means over equal stretches, so that a long noisy curve can be read.
pub fn thin(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let stretch = points.len().div_ceil(most.max(1)).max(1);
    let mean = |part: &[(f64, f64)]| {
        let sum = part.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
        (sum.0 / part.len() as f64, sum.1 / part.len() as f64)
    };
    points.chunks(stretch).map(mean).collect()
}

#[derive(serde::Deserialize)]
struct EvaluationRecord {
    step: u64,
    #[serde(flatten)]
    evaluation: Evaluation,
}

/// The page of a pre-training run.
///
/// # Errors
/// When the run's files cannot be read.
pub fn pretraining_page(run: &Path) -> Result<String, Error> {
    let metrics: Vec<StepMetrics> = read_lines(&run.join("metrics.jsonl"))?;
    let timing: Vec<StepTiming> = read_lines(&run.join("timing.jsonl"))?;
    let evaluations: Vec<EvaluationRecord> = read_lines(&run.join("evaluations.jsonl"))?;
    let settings = read_json(&run.join("run.json"))?;
    let curve = |value: fn(&StepMetrics) -> f64| -> Vec<(f64, f64)> {
        let points = metrics.iter().map(|m| (m.step as f64, value(m))).filter(|(_, y)| y.is_finite());
        thin(&points.collect::<Vec<_>>(), 300)
    };
    let held_out = |value: fn(&Evaluation) -> f64| -> Vec<(f64, f64)> {
        let points = evaluations.iter().map(|e| (e.step as f64, value(&e.evaluation)));
        points.filter(|(_, y)| y.is_finite()).collect()
    };
    let vocabulary = settings["identity"]["model"]["vocab_size"].as_f64().unwrap_or(1.0);
    let mut body = String::new();
    for (title, train, held, level) in [
        (
            "Masked LM loss (nats)",
            curve(|m| m.masked_lm_loss),
            held_out(|e| e.masked_lm_loss),
            ("uniform guess", vocabulary.ln()),
        ),
        (
            "Next sentence loss (nats)",
            curve(|m| m.next_sentence_loss),
            held_out(|e| e.next_sentence_loss),
            ("a fair coin", 2f64.ln()),
        ),
    ] {
        let curves = [
            Curve { name: "training", color: "var(--a)", points: &train },
            Curve { name: "held out", color: "var(--b)", points: &held },
        ];
        let _ = write!(body, "<h2>{title}</h2>\n{}", chart(&curves, &[level]));
    }
    body.push_str("<h2>Held out</h2>\n");
    let rows: Vec<Vec<String>> = evaluations.iter().map(evaluation_row).collect();
    let header = [
        "step",
        "masked LM loss",
        "masked LM accuracy",
        "next sentence loss",
        "next sentence accuracy",
        "instances",
    ];
    body.push_str(&table(&header, &rows));
    body.push_str("<h2>Gradient norm before clipping</h2>\n");
    let norm = curve(|m| m.gradient_norm);
    body.push_str(&chart(&[Curve { name: "gradient norm", color: "var(--a)", points: &norm }], &[]));
    let seconds: f64 = timing.iter().map(|t| t.seconds).sum();
    let waiting: f64 = timing.iter().map(|t| t.waiting).sum();
    let batch = settings["identity"]["batch_size"].as_f64().unwrap_or(0.0);
    let _ = writeln!(
        body,
        "<p class=\"note\">{} steps in {seconds:.0} s: {:.1} sequences a second; {:.2} % of the time waiting for \
         the data loader.</p>",
        timing.len(),
        batch * timing.len() as f64 / seconds.max(1e-9),
        100.0 * waiting / seconds.max(1e-9)
    );
    match metrics.iter().filter(|m| m.skipped).count() {
        0 => {}
        skipped => {
            let _ = writeln!(
                body,
                "<p class=\"note\">{skipped} steps were skipped: loss or gradient not finite.</p>"
            );
        }
    }
    body.push_str("<h2>Settings</h2>\n");
    let pretty = serde_json::to_string_pretty(&settings).expect("it was JSON");
    let _ = writeln!(body, "<pre>{}</pre>", escape(&pretty));
    Ok(page("Pre-training", &body))
}

/// The page of a fine-tuning.
///
/// # Errors
/// When `report.json` cannot be read.
pub fn finetuning_page(folder: &Path) -> Result<String, Error> {
    let report = read_json(&folder.join("report.json"))?;
    let mut body = String::new();
    for split in ["dev", "test"] {
        if report[split].is_object() {
            let _ = write!(
                body,
                "<h2>Scores on {split}</h2>\n{}",
                scores_table(&report[split], &report["runs"], split)
            );
        }
    }
    if report["is_sample"].as_bool() == Some(true) {
        body.push_str("<p class=\"note\">Scored on samples, not on the official files.</p>\n");
    }
    let _ = writeln!(
        body,
        "<p class=\"note\">{} training examples, started from <code>{}</code>.</p>",
        report["train_examples"],
        escape(report["start"].as_str().unwrap_or_default())
    );
    let settings = serde_json::json!({ "config": report["config"], "resolved": report["resolved"] });
    let pretty = serde_json::to_string_pretty(&settings).expect("it was JSON");
    let _ = writeln!(body, "<h2>Settings</h2>\n<pre>{}</pre>", escape(&pretty));
    let task = report["config"]["task"].as_str().unwrap_or_default();
    Ok(page(&format!("Fine-tuning: {task}"), &body))
}

/// A row per seed, then mean, SD and median over them, the sampling error and the baseline.
fn scores_table(summary: &Value, runs: &Value, split: &str) -> String {
    let empty = Vec::new();
    let metrics = summary["metrics"].as_array().unwrap_or(&empty);
    let names: Vec<&str> = metrics.iter().filter_map(|m| m["metric"].as_str()).collect();
    let number = |value: &Value| value.as_f64().map_or("-".to_string(), |x| format!("{x:.4}"));
    let mut rows = Vec::new();
    for run in runs.as_array().unwrap_or(&empty) {
        let mut row = vec![format!("seed {}", run["seed"])];
        row.extend(names.iter().map(|name| number(&run[split][name])));
        rows.push(row);
    }
    for statistic in ["mean", "sd", "median", "min", "max"] {
        let mut row = vec![statistic.to_string()];
        row.extend(metrics.iter().map(|m| number(&m[statistic])));
        rows.push(row);
    }
    let mut baseline = vec!["majority class".to_string()];
    baseline.extend(names.iter().map(|name| number(&summary["majority_baseline"][name])));
    rows.push(baseline);
    let header: Vec<&str> = std::iter::once("").chain(names.iter().copied()).collect();
    let error = number(&summary["binomial_standard_error"]);
    let note = format!(
        "<p class=\"note\">{} examples; one evaluation's binomial standard error of the accuracy: {error}; \
         runs that give one answer to everything: {}.</p>\n",
        summary["examples"], summary["degenerate_runs"]
    );
    table(&header, &rows) + &note
}

fn evaluation_row(record: &EvaluationRecord) -> Vec<String> {
    let e = &record.evaluation;
    let figures = [e.masked_lm_loss, e.masked_lm_accuracy, e.next_sentence_loss, e.next_sentence_accuracy];
    let mut row = vec![record.step.to_string()];
    row.extend(figures.iter().map(|x| format!("{x:.4}")));
    row.push(e.instances.to_string());
    row
}

pub(crate) fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Error> {
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let mut records = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|e| Error::io(path, e))?;
        // A run in progress may have half a line at the end.
        if let Ok(record) = serde_json::from_str(&line) {
            records.push(record);
        }
    }
    Ok(records)
}

pub(crate) fn read_json(path: &Path) -> Result<Value, Error> {
    let text = std::fs::read(path).map_err(|e| Error::io(path, e))?;
    serde_json::from_slice(&text)
        .map_err(|e| Error::CheckpointCorrupt { path: path.to_path_buf(), reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_everywhere() {
        let evil = "<script>alert('x')</script>\"&";
        let html = page(evil, &table(&[evil], &[vec![evil.to_string()]]))
            + &chart(&[Curve { name: evil, color: evil, points: &[(0.0, 1.0)] }], &[(evil, 2.0)]);
        assert!(!html.contains("<script"));
        assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;"));
    }

    #[test]
    fn a_page_loads_nothing_from_outside() {
        let html = page("t", &chart(&[], &[]));
        for word in ["http://", "https://", "src=", "href=", "url(", "@import"] {
            assert!(!html.contains(word), "{word}");
        }
    }

    #[test]
    fn thinning_keeps_means() {
        let points: Vec<(f64, f64)> = (0..10).map(|i| (f64::from(i), f64::from(i))).collect();
        assert_eq!(thin(&points, 5), [(0.5, 0.5), (2.5, 2.5), (4.5, 4.5), (6.5, 6.5), (8.5, 8.5)]);
        assert_eq!(thin(&points, 100), points);
        assert!(thin(&[], 5).is_empty());
    }
}
