//! Builds the report page of a pre-training run.

use std::path::Path;

use bert_pages::{
    Curve, Figure, Head, Line, chart, chart_page, downsample, figures, grouped, series_color, smooth, table,
    tiles,
};
use bert_training::{Error, Evaluation, StepMetrics};
use maud::{Markup, html};

use crate::comparison::same_vocabulary;
use crate::filled_sentences::filled_sentences;
use crate::findings::{Finding, Severity, findings};
use crate::page::{Report, commit_words, duration, findings_list, folder_name, settings, split_verdict};
use crate::run_record::RunRecord;

/// Maximum number of points of a curve; a longer curve is averaged over intervals.
const POINTS: usize = 400;

/// Published results: source, training, masked-LM accuracy, masked-LM loss, next-sentence accuracy.
const REFERENCES: [[&str; 5]; 4] = [
    [
        "BERT-base (Devlin et al.; google-research/bert#90)",
        "1,000,000 steps of 256",
        "70 to 72",
        "1.4",
        "97 to 98",
    ],
    ["SciBERT base, length 512 (allenai/scibert#32)", "800,000 steps", "71.9", "1.29", "99.4"],
    ["BERT-large, the target of MLPerf", "", "72.0", "", ""],
    ["BERT-base, 720 M words (google-research/bert#649)", "90,000 steps of 896", "60 to 63", "", ""],
];

/// Returns the page of a pre-training run, with the curves of each run of `others` that has the same vocabulary.
///
/// # Errors
/// Fails when the files of a run cannot be read.
pub fn pretraining_page(run: &Path, others: &[&Path]) -> Result<Report, Error> {
    let run = RunRecord::read(run)?.with_baselines();
    let others = others.iter().map(|path| RunRecord::read(path)).collect::<Result<Vec<_>, _>>()?;
    let (others, incomparable): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|other| same_vocabulary(&run, other));
    let mut findings = findings(&run);
    findings.extend(incomparable.iter().map(not_comparable));
    let (verdict, others_found) = split_verdict(&findings);
    let body = html! {
        (verdict)
        (tiles(&tiles_of(&run)))
        div.split {
            div {
                h2 { "Curves" }
                div.charts {
                    (masked_lm_chart(&run, &others))
                    @if run.has_next_sentence() { (next_sentence_chart(&run, &others)) }
                    (plain_chart(&run, "learning rate", |m| m.learning_rate))
                    (plain_chart(&run, "gradient norm before clipping", |m| m.gradient_norm))
                }
                (explain_loss(&run))
            }
            div {
                (filled_sentences(&run))
                @if !others_found.is_empty() { h2 { "Findings" } (findings_list(&others_found)) }
                h2 { "Next" }
                (next_commands(&run.folder))
            }
        }
        h2 { "Held-out results" }
        (held_out_table(&run))
        (references())
        (settings(&run.settings))
    };
    let head = Head { title: &folder_name(&run.folder), about: &about(&run) };
    let html = chart_page(&head, &body);
    Ok(Report { html, findings })
}

/// Returns the subject in the head of the page: model, text, start, duration, computers, commit.
fn about(run: &RunRecord) -> Vec<String> {
    let model = &run.identity.model;
    let parameters = model.pretraining_parameter_count() as f64 / 1e6;
    let begun = run.start.started.replace('T', " ").replace('Z', " UTC");
    let machine = format!("{}, {}", run.start.hosts.join(", "), run.identity.precision.name());
    vec![
        format!(
            "Pre-training of {} layers with hidden size {} ({parameters:.1} M parameters)",
            model.num_hidden_layers, model.hidden_size
        ),
        run.text.as_ref().map_or_else(String::new, |text| format!("text: {text}")),
        if begun.is_empty() { begun } else { format!("begun {begun}") },
        format!("{} of training", duration(run.seconds(1).0)),
        machine.trim_start_matches(", ").to_string(),
        commit_words(&run.start.commit),
    ]
}

/// Renders the commands that use the weights of a run.
fn next_commands(run: &Path) -> Markup {
    let run = run.display();
    html! {
        pre {
            "bert fill-mask --checkpoint " (run) " \"...\"\nbert export " (run) " my-bert/\n"
            "bert finetune --task TASK --data DIR \\\n  --checkpoint " (run) " --output DIR"
        }
    }
}

/// Returns a finding that explains why the curves of another run are not drawn.
fn not_comparable(other: &RunRecord) -> Finding {
    let name = other.folder.display();
    let text = format!(
        "{name} has another vocabulary, so its losses per token are not drawn; bert report with both folders compares \
         nats per character."
    );
    Finding::new(Severity::Note, text)
}

fn tiles_of(run: &RunRecord) -> Vec<Figure<'static>> {
    let done = run.metrics.last().map_or(0, |m| m.step);
    let mut tiles = Vec::new();
    if let Some(last) = run.last_evaluation() {
        tiles.extend(held_out_tiles(run, &last.evaluation));
    } else if let Some(last) = run.metrics.last() {
        let loss = format!("{:.3}", last.masked_lm_loss);
        tiles.push(("masked LM loss", loss, "nats, last training batch".into()));
    }
    let batch = run.identity.batch_size;
    tiles.push(("steps", grouped(done), format!("of {}", grouped(run.identity.steps))));
    let (seconds, waiting) = run.seconds(1);
    let rate = (batch * run.timing.len() as u64) as f64 / seconds.max(1e-9);
    let mut remark = format!("{seconds:.0} s; {:.1} % waiting for data", 100.0 * waiting / seconds.max(1e-9));
    if let Some(utilization) = run.work.utilization(rate) {
        remark = format!("{remark}; {utilization}");
    }
    tiles.push(("sequences per second", format!("{rate:.1}"), remark));
    let passes = run.passes().zip(run.instances);
    let passes = passes.map(|(passes, instances)| format!("{passes:.2} passes over {}", grouped(instances)));
    tiles.push(("sequences seen", grouped(batch * done), passes.unwrap_or_default()));
    tiles
}

/// Returns the tiles with the losses and accuracies of the last evaluation.
fn held_out_tiles(run: &RunRecord, last: &Evaluation) -> Vec<Figure<'static>> {
    let perplexity = format!("nats, held-out; perplexity {:.1}", last.masked_lm_loss.exp());
    let mut tiles = vec![("masked LM loss", format!("{:.3}", last.masked_lm_loss), perplexity)];
    if last.masked_lm_nats_per_character.is_finite() {
        let value = format!("{:.3}", last.masked_lm_nats_per_character);
        tiles.push(("nats per character", value, "held-out; comparable across vocabularies".into()));
    }
    let baselines = run.baselines.map_or_else(String::new, |baselines| {
        let unigram = percent(baselines.unigram.masked_lm_accuracy);
        let bigram = percent(baselines.bigram.masked_lm_accuracy);
        format!("; unigram baseline {unigram}, bigram baseline {bigram}")
    });
    tiles.push(("masked LM accuracy", percent(last.masked_lm_accuracy), format!("held-out{baselines}")));
    if run.has_next_sentence() {
        let majority = percent(last.random_next.max(1.0 - last.random_next));
        let remark = format!("held-out; majority class {majority}");
        tiles.push(("next-sentence accuracy", percent(last.next_sentence_accuracy), remark));
    }
    tiles
}

/// Formats a fraction in per cent.
fn percent(fraction: f64) -> String {
    format!("{:.1} %", 100.0 * fraction)
}

fn masked_lm_chart(run: &RunRecord, others: &[RunRecord]) -> Markup {
    let mut levels = vec![("uniform", run.uniform_loss())];
    if let Some(counts) = run.baselines {
        levels.push(("unigram", counts.unigram.masked_lm_loss));
        levels.push(("bigram", counts.bigram.masked_lm_loss));
    }
    let curves = loss_curves(run, others, |m| m.masked_lm_loss, |e| e.masked_lm_loss);
    chart("step", "masked LM loss (nats)", &curves, &levels)
}

fn next_sentence_chart(run: &RunRecord, others: &[RunRecord]) -> Markup {
    let curves = loss_curves(run, others, |m| m.next_sentence_loss, |e| e.next_sentence_loss);
    chart("step", "next-sentence loss (nats)", &curves, &[("chance", 2f64.ln())])
}

/// Returns the training loss (pale, and smoothed), the held-out loss, and the same for other runs.
pub(crate) fn loss_curves(
    run: &RunRecord,
    others: &[RunRecord],
    training: impl Fn(&StepMetrics) -> f64,
    held_out: impl Fn(&Evaluation) -> f64,
) -> Vec<Curve> {
    let steps = downsample(&run.curve(&training), POINTS);
    let smoothed = smooth(&steps, (steps.len() / 20).max(1));
    let scale = run.step_scale();
    let curve =
        |name, number, line, points| Curve::new(name, series_color(number), line, points).with_scale(&scale);
    let mut curves = vec![
        curve("", 0, Line::Pale, steps),
        curve("training", 0, Line::Plain, smoothed),
        curve("held-out", 1, Line::Marked, run.held_out(&held_out)),
    ];
    for (other, number) in others.iter().zip(2..) {
        let points = match other.evaluations.len() {
            0 | 1 => smooth(&downsample(&other.curve(&training), POINTS), POINTS / 20),
            _ => other.held_out(&held_out),
        };
        let name = other.folder.display().to_string();
        let curve = Curve::new(name, series_color(number), Line::Dashed, points);
        curves.push(curve.with_scale(&other.step_scale()));
    }
    curves
}

fn plain_chart(run: &RunRecord, y: &str, value: impl Fn(&StepMetrics) -> f64) -> Markup {
    chart("step", y, &[plain_curve(run, value)], &[])
}

/// Returns the curve of a value of the steps.
pub(crate) fn plain_curve(run: &RunRecord, value: impl Fn(&StepMetrics) -> f64) -> Curve {
    let points = downsample(&run.curve(value), POINTS);
    Curve::new("", series_color(0), Line::Plain, points).with_scale(&run.step_scale())
}

fn explain_loss(run: &RunRecord) -> Markup {
    html! {
        details {
            summary { "How to read this" }
            (loss_explanations(run))
        }
    }
}

fn loss_explanations(run: &RunRecord) -> Markup {
    html! {
        p.note {
            "Uniform: the logarithm of the vocabulary size, where random weights begin. "
            @if run.baselines.is_some() {
                "Unigram: the held-out loss of a predictor that ignores the context and uses the token frequencies of \
                 the training text. Bigram: the held-out loss of a table with the counts of the previous and the next \
                 token in the training text."
            } @else {
                "The unigram and bigram baselines are drawn if the training and held-out data are still in the folders of the \
                 run."
            }
        }
        p.note {
            "The plateau: many runs stay at the unigram baseline, small models for thousands of steps. To use the token \
             before a mask, attention must look one position back. Random position embeddings have no such direction, so \
             it must be learnt first. Batch size, learning rate and masks change little. --initialization previous-next \
             and --initialization bigram start with heads that attend to the neighbouring tokens."
        }
        p.note {
            "Losses per token are comparable only between runs with the same vocabulary: a larger vocabulary splits the \
             same text into fewer, harder tokens. Nats per character are comparable across vocabularies, on the same \
             held-out text."
        }
    }
}

fn held_out_table(run: &RunRecord) -> Markup {
    if run.evaluations.is_empty() {
        return html! { p.note { "No held-out data: use --eval-data." } };
    }
    let header = [
        "step",
        "masked LM loss (nats)",
        "nats per character",
        "masked LM accuracy (%)",
        "next-sentence loss (nats)",
        "next-sentence accuracy (%)",
        "instances",
    ];
    let best = run.best_evaluation().map(|best| best.step);
    let row = |step: &str, e: &Evaluation| {
        let figure = |value: f64, text: String| if value.is_finite() { text } else { "–".into() };
        let nats = |value: f64| figure(value, format!("{value:.4}"));
        let percent = |value: f64| figure(value, format!("{:.1}", 100.0 * value));
        let values = [
            nats(e.masked_lm_loss),
            nats(e.masked_lm_nats_per_character),
            percent(e.masked_lm_accuracy),
            nats(e.next_sentence_loss),
            percent(e.next_sentence_accuracy),
        ];
        figures(step, values.into_iter().chain([grouped(e.instances)]))
    };
    let rows = run.evaluations.iter().flat_map(|record| {
        let step = grouped(record.step) + if Some(record.step) == best { " (lowest loss)" } else { "" };
        let parts = record.evaluation.parts.iter().map(|part| {
            row(&format!("{} ({:.0} %)", part.data.display(), 100.0 * part.share), &part.evaluation)
        });
        std::iter::once(row(&step, &record.evaluation)).chain(parts.collect::<Vec<_>>())
    });
    table(&header, rows)
}

fn references() -> Markup {
    let header =
        ["", "training", "masked LM accuracy (%)", "masked LM loss (nats)", "next-sentence accuracy (%)"];
    html! {
        details {
            summary { "Published results, with vocabularies of 30,000 word pieces" }
            (table(&header, REFERENCES.map(|[name, values @ ..]| figures(name, values))))
            p.note { "A masked LM accuracy above 80 % on a small text means that the model has memorized it." }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::run_record::example::run_json;

    #[test]
    fn page_has_all_tiles() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, record: Value| {
            std::fs::write(folder.path().join(name), format!("{record}\n")).unwrap();
        };
        write("run.json", run_json(8000, 0.002));
        write(
            "metrics.jsonl",
            json!({ "step": 1, "loss": 5.1, "masked_lm_loss": 4.4, "next_sentence_loss": 0.7,
            "learning_rate": 4e-4, "gradient_norm": null, "predictions": 514, "precision": "f32" }),
        );
        write("timing.jsonl", json!({ "step": 1, "seconds": 0.25, "waiting": 0.0 }));
        write(
            "evaluations.jsonl",
            json!({ "step": 1, "instances": 49, "predictions": 888, "masked_lm_loss": 4.9,
            "masked_characters": 2971, "masked_lm_nats_per_character": 1.46, "masked_lm_accuracy": 0.26,
            "next_sentence_loss": 0.67, "next_sentence_accuracy": 0.59, "random_next": 0.63 }),
        );
        let page = pretraining_page(folder.path(), &[]).unwrap().html;
        let found = page.split("<div class=\"tile\">").skip(1);
        let found: Vec<&str> = found.map(|tile| tile.split("<b>").next().unwrap()).collect();
        let tiles = [
            "masked LM loss",
            "nats per character",
            "masked LM accuracy",
            "next-sentence accuracy",
            "steps",
            "sequences per second",
            "sequences seen",
        ];
        assert_eq!(found, tiles);
    }
}
