//! Renders a page that compares runs, or fine-tunings: results, the settings that differ, and the curves in common
//! charts.
//!
//! Losses per token of models with different vocabularies are not drawn over each other, because their tokens differ.
//! Curves of nats per character of the same held-out text are drawn over each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bert_finetuning::FinetuneReport;
use bert_pages::{
    Cell, Curve, Head, Line, chart, chart_page, downsample, figures, grouped, series_color, smooth, table,
    verdict,
};
use bert_storage::exists;
use bert_tasks::Interval;
use bert_training::Error;
use bert_training::identity::RUN;
use maud::{Markup, html};
use serde_json::Value;

use crate::compare::named_warnings;
use crate::findings::{Finding, Severity, findings};
use crate::page::{Report, findings_list, no_run};
use crate::run_record::RunRecord;

/// Maximum number of points of a curve.
const POINTS: usize = 400;

/// Returns the page that compares the runs and fine-tunings in `folders`.
///
/// # Errors
/// Fails when a folder is neither a run nor a fine-tuning, or when its files cannot be read.
pub fn comparison_page(folders: &[&Path]) -> Result<Report, Error> {
    let mut runs = Vec::new();
    let mut tunings = Vec::new();
    for folder in folders {
        if exists(&folder.join(RUN))? {
            runs.push(RunRecord::read(folder)?);
        } else if exists(&folder.join("report.json"))? {
            tunings.push((folder.display().to_string(), FinetuneReport::read(folder)?));
        } else {
            return Err(no_run(folder));
        }
    }
    let mut notes = warnings(&runs);
    notes.extend(tuning_warnings(&tunings));
    let body = html! {
        (verdict("plain", &best(&runs, &tunings), ""))
        @if !runs.is_empty() {
            h2 { "Pre-training runs" }
            (results_table(&runs))
            (findings_list(&notes))
            @if runs.len() > 1 { (settings_table(&runs.iter().map(run_settings).collect::<Vec<_>>())) }
            (loss_charts(&runs, &mut notes))
        }
        @if !tunings.is_empty() {
            (finetunings(&tunings))
            @if runs.is_empty() { (findings_list(&notes)) }
        }
    };
    let title = format!("Comparison of {} runs", folders.len());
    Ok(Report { html: chart_page(&Head { title: &title, about: &[] }, &body), findings: notes })
}

/// Returns a sentence with the best run and the best fine-tuning.
fn best(runs: &[RunRecord], tunings: &[(String, FinetuneReport)]) -> String {
    let loss = |run: &RunRecord| {
        let loss = run.last_evaluation()?.evaluation.masked_lm_nats_per_character;
        loss.is_finite().then_some(loss)
    };
    let runs = runs.iter().filter_map(|run| Some((run, loss(run)?)));
    let lowest = runs.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(run, loss)| {
        format!("{} has the lowest held-out loss: {loss:.3} nats per character.", run.folder.display())
    });
    let scores = tunings.iter().filter_map(|(name, report)| {
        let (primary, statistics) = report.dev.main();
        Some((name, primary, statistics?.mean))
    });
    let is_one_set = tunings.iter().all(|(_, report)| has_dev_set_of(report, &tunings[0].1));
    let highest =
        scores.filter(|_| is_one_set).max_by(|a, b| a.2.total_cmp(&b.2)).map(|(name, primary, mean)| {
            format!("{name} has the highest mean {primary} on dev: {}.", primary.with_unit(mean))
        });
    let sentences: Vec<String> = lowest.into_iter().chain(highest).collect();
    if sentences.is_empty() {
        "These results have no common figure to compare.".into()
    } else {
        sentences.join(" ")
    }
}

/// Returns whether two fine-tunings were scored on the same examples of the same task.
fn has_dev_set_of(report: &FinetuneReport, other: &FinetuneReport) -> bool {
    report.dev.task == other.dev.task && report.dev_digest == other.dev_digest
}

/// Returns warnings about dev sets that differ from the first one, and about texts that scored sets share with training
/// sets.
fn tuning_warnings(tunings: &[(String, FinetuneReport)]) -> Vec<Finding> {
    let Some((first_name, first)) = tunings.first() else { return Vec::new() };
    let warnings = |(name, report): &(String, FinetuneReport)| {
        let other = (!has_dev_set_of(report, first)).then(|| {
            format!("{name} has another dev set than {first_name}, so their scores are not comparable")
        });
        other.into_iter().chain(named_warnings(name, report)).collect::<Vec<_>>()
    };
    tunings.iter().flat_map(warnings).map(|text| Finding::new(Severity::Warning, text)).collect()
}

/// Returns the warnings about each run.
fn warnings(runs: &[RunRecord]) -> Vec<Finding> {
    let run_findings = |run: &RunRecord| {
        let name = run.folder.display().to_string();
        let warnings = findings(run).into_iter().filter(|finding| finding.severity == Severity::Warning);
        warnings.map(|finding| Finding::new(Severity::Warning, format!("{name}: {}", finding.text))).collect()
    };
    runs.iter().flat_map(|run| -> Vec<Finding> { run_findings(run) }).collect()
}

fn results_table(runs: &[RunRecord]) -> Markup {
    let header = [
        "run",
        "steps",
        "sequences",
        "held-out masked LM loss (nats)",
        "nats per character",
        "masked LM accuracy (%)",
        "next-sentence accuracy (%)",
        "parameters (M)",
        "hours",
    ];
    let row = |run: &RunRecord| {
        let figure = |value: Option<f64>, digits: usize| {
            value
                .filter(|value| value.is_finite())
                .map_or("–".to_string(), |value| format!("{value:.digits$}"))
        };
        let last = run.last_evaluation().map(|record| &record.evaluation);
        let steps = run.metrics.last().map_or(0, |m| m.step);
        let next_sentence =
            last.filter(|_| run.has_next_sentence()).map(|e| 100.0 * e.next_sentence_accuracy);
        figures(
            &run.folder.display().to_string(),
            [
                format!("{} of {}", grouped(steps), grouped(run.identity.steps)),
                grouped(steps * run.identity.batch_size),
                figure(last.map(|e| e.masked_lm_loss), 4),
                figure(last.map(|e| e.masked_lm_nats_per_character), 4),
                figure(last.map(|e| 100.0 * e.masked_lm_accuracy), 1),
                figure(next_sentence, 1),
                figure(Some(run.identity.model.pretraining_parameter_count() as f64 / 1e6), 2),
                figure(Some(run.seconds(1).0 / 3600.0), 2),
            ],
        )
    };
    table(&header, runs.iter().map(row))
}

/// The name of a run, and its settings by name.
type Settings = (String, BTreeMap<String, String>);

fn run_settings(run: &RunRecord) -> Settings {
    let mut settings = BTreeMap::new();
    flatten("", &run.settings["identity"], &mut settings);
    (run.folder.display().to_string(), settings)
}

/// Adds every value of a JSON document except null to `out`, with its path as the key.
fn flatten(prefix: &str, value: &Value, out: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            flatten(&path, value, out);
        }),
        Value::Null => {}
        Value::String(text) => {
            out.insert(prefix.to_string(), short(text));
        }
        other => {
            out.insert(prefix.to_string(), other.to_string());
        }
    }
}

/// Returns the first characters of a digest; other texts are returned as they are.
fn short(text: &str) -> String {
    let is_digest = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest { format!("{}...", &text[..10]) } else { text.to_string() }
}

/// Renders the settings whose values are not the same in all runs.
fn settings_table(runs: &[Settings]) -> Markup {
    let names: BTreeSet<&String> = runs.iter().flat_map(|(_, settings)| settings.keys()).collect();
    let value = |settings: &BTreeMap<String, String>, name: &str| settings.get(name).cloned();
    let differs =
        |name: &&&String| runs.iter().any(|(_, other)| value(other, name) != value(&runs[0].1, name));
    let differing: Vec<&&String> = names.iter().filter(differs).collect();
    let header: Vec<&str> =
        ["setting"].into_iter().chain(runs.iter().map(|(name, _)| name.as_str())).collect();
    let row = |name: &&&String| -> Vec<Cell> {
        let values = runs.iter().map(|(_, settings)| value(settings, name).unwrap_or_else(|| "–".into()));
        [(**name).clone()].into_iter().chain(values).map(Cell::Text).collect()
    };
    html! {
        h3 { "Settings that differ" }
        @if differing.is_empty() {
            p.note { "None: all settings that affect the results are equal." }
        } @else {
            (table(&header, differing.iter().map(row)))
        }
    }
}

/// Renders the curves of all runs in common charts. If the vocabularies differ, losses per token are left out, and the
/// reason is shown and added to `notes`.
fn loss_charts(runs: &[RunRecord], notes: &mut Vec<Finding>) -> Markup {
    let vocabularies: BTreeSet<&str> = runs.iter().map(|run| run.identity.vocabulary.as_str()).collect();
    let comparable = vocabularies.len() == 1;
    let refusal = "The runs have different vocabularies, so their losses per token are not drawn over each other: a \
                   larger vocabulary splits the same text into fewer, harder tokens. Compare nats per character on the \
                   same held-out text.";
    if !comparable {
        notes.push(Finding::new(Severity::Note, refusal.to_string()));
    }
    let per_character = curves(runs, |run| run.held_out(|e| e.masked_lm_nats_per_character), Line::Marked);
    let training = |run: &RunRecord| {
        let steps = downsample(&run.curve(|m| m.masked_lm_loss), POINTS);
        smooth(&steps, (steps.len() / 20).max(1))
    };
    html! {
        @if !comparable { p.warning { (refusal) } }
        div.charts {
            @if comparable {
                (chart("step", "held-out masked LM loss (nats)", &curves(runs, |run| run.held_out(|e| e.masked_lm_loss), Line::Marked), &[]))
                (chart("step", "training masked LM loss, smoothed (nats)", &curves(runs, training, Line::Plain), &[]))
            }
            (chart("step", "held-out nats per character", &per_character, &[]))
        }
    }
}

/// Returns whether losses per token of two runs can be compared.
pub(super) fn same_vocabulary(a: &RunRecord, b: &RunRecord) -> bool {
    a.identity.vocabulary == b.identity.vocabulary
}

fn curves(runs: &[RunRecord], points: impl Fn(&RunRecord) -> Vec<(f64, f64)>, line: Line) -> Vec<Curve> {
    let curve = |(run, number): (&RunRecord, usize)| {
        let name = run.folder.display().to_string();
        Curve::new(name, series_color(number), line, points(run)).with_scale(&run.step_scale())
    };
    runs.iter().zip(0..).map(curve).collect()
}

/// Renders the scores and settings of fine-tunings.
fn finetunings(tunings: &[(String, FinetuneReport)]) -> Markup {
    let row = |(name, report): &(String, FinetuneReport)| -> Vec<Cell> {
        let (primary, statistics) = report.dev.main();
        let figure =
            |value: Option<f64>| Cell::Figure(value.map_or("–".into(), |value| primary.with_unit(value)));
        vec![
            name.as_str().into(),
            Cell::Text(report.dev.task.to_string()),
            Cell::Text(primary.to_string()),
            figure(statistics.map(|s| s.mean)),
            figure(statistics.and_then(|s| s.sd)),
            Cell::Text(report.dev.interval.as_ref().map_or("–".into(), Interval::range)),
            figure(statistics.map(|s| s.max)),
            Cell::Figure(report.dev.runs.len().to_string()),
            Cell::Text(report.start_text()),
        ]
    };
    let settings = |(name, report): &(String, FinetuneReport)| -> Settings {
        let mut settings = BTreeMap::new();
        let values = serde_json::json!({ "config": report.config, "resolved": report.resolved });
        flatten("", &values["config"], &mut settings);
        flatten("", &values["resolved"], &mut settings);
        settings.remove("output");
        (name.clone(), settings)
    };
    let tasks: BTreeSet<String> = tunings.iter().map(|(_, report)| report.dev.task.to_string()).collect();
    html! {
        h2 { "Fine-tunings" }
        (table(&["run", "task", "metric", "mean on dev", "SD", "95 % interval", "max", "seeds", "started from"], tunings.iter().map(row)))
        @if tasks.len() > 1 { p.note { "Scores of different tasks are not comparable." } }
        p.note { "A paired test of two fine-tunings of one task: bert scores A B --paired." }
        @if tunings.len() > 1 { (settings_table(&tunings.iter().map(settings).collect::<Vec<_>>())) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run_record::example::run_json;

    fn write_run(folder: &Path, vocab_size: u64, learning_rate: f64) {
        let write =
            |name: &str, value: Value| std::fs::write(folder.join(name), format!("{value}\n")).unwrap();
        std::fs::create_dir_all(folder).unwrap();
        write(RUN, run_json(vocab_size, learning_rate));
        write(
            "metrics.jsonl",
            json!({ "step": 1, "loss": 5.1, "masked_lm_loss": 4.4, "next_sentence_loss": 0.7,
            "learning_rate": 4e-4, "gradient_norm": 1.0, "predictions": 514, "precision": "f32" }),
        );
        write(
            "evaluations.jsonl",
            json!({ "step": 1, "instances": 49, "predictions": 888, "masked_lm_loss": 4.9,
            "masked_lm_accuracy": 0.26, "next_sentence_loss": 0.67, "next_sentence_accuracy": 0.59,
            "random_next": 0.63, "masked_characters": 2971, "masked_lm_nats_per_character": 1.46 }),
        );
    }

    fn compared(vocab_size: u64, learning_rate: f64) -> Report {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        write_run(&a, 8000, 0.002);
        write_run(&b, vocab_size, learning_rate);
        comparison_page(&[&a, &b]).unwrap()
    }

    #[test]
    fn only_differing_settings_are_shown() {
        let page = compared(8000, 0.004).html;
        assert!(page.contains("<td>learning_rate</td><td>0.002</td><td>0.004</td>"), "{page}");
        assert!(!page.contains("<td>warmup_steps</td>"), "{page}");
        assert!(page.contains("training masked LM loss, smoothed"), "{page}");
        assert!(compared(8000, 0.002).html.contains("all settings that affect the results are equal"));
    }

    #[test]
    fn losses_of_different_vocabularies_are_not_overlaid() {
        let Report { html, findings } = compared(4000, 0.002);
        assert!(html.contains("The runs have different vocabularies"), "{html}");
        assert!(!html.contains("training masked LM loss, smoothed"), "no curves of losses");
        assert!(html.contains("held-out nats per character"), "{html}");
        assert!(findings.iter().any(|finding| finding.text.contains("different vocabularies")));
    }
}
