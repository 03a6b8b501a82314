//! Builds the report page of a pre-training run.

use std::path::Path;

use bert_model::BertConfig;
use bert_pages::{Curve, Line, chart, figures, grouped, page, smooth, table, thin, tiles};
use maud::{Markup, html};

use super::findings::findings;
use super::record::RunRecord;
use super::{Report, findings_list, settings};
use crate::error::Error;
use crate::evaluation::{Evaluation, EvaluationRecord};
use crate::pretrain::StepMetrics;

/// Maximum number of points of a curve; longer ones are averaged over intervals.
const POINTS: usize = 400;

/// Published results: source, training, masked-LM accuracy, masked-LM loss, next-sentence accuracy.
const REFERENCES: [[&str; 5]; 4] = [
    [
        "BERT-base (Devlin et al.; google-research/bert#90)",
        "1,000,000 steps of 256",
        ".70 to .72",
        "1.4",
        ".97 to .98",
    ],
    ["SciBERT base, length 512 (allenai/scibert#32)", "800,000 steps", ".719", "1.29", ".994"],
    ["BERT-large, the target of MLPerf", "", ".720", "", ""],
    ["BERT-base, 720 M words (google-research/bert#649)", "90,000 steps of 896", ".60 to .63", "", ""],
];

/// Returns the page of a pre-training run, with the curves of `others` for comparison.
///
/// # Errors
/// When the files of a run cannot be read.
pub fn pretraining_page(run: &Path, others: &[&Path]) -> Result<Report, Error> {
    let run = RunRecord::read(run)?.with_baselines();
    let others = others.iter().map(|path| RunRecord::read(path)).collect::<Result<Vec<_>, _>>()?;
    let findings = findings(&run);
    let body = html! {
        (tiles(&first_figures(&run)))
        h2 { "Is it working?" }
        (findings_list(&findings))
        h2 { "Masked LM loss" }
        (masked_lm_chart(&run, &others))
        (explain_loss(&run))
        @if run.has_next_sentence() {
            h2 { "Next sentence loss" }
            (next_sentence_chart(&run, &others))
        }
        h2 { "Held out" }
        (held_out_table(&run))
        (references())
        h2 { "Learning rate" }
        (plain_chart(&run, "learning rate", |m| m.learning_rate))
        h2 { "Gradient norm" }
        (plain_chart(&run, "norm before clipping", |m| m.gradient_norm))
        (settings(&run.settings))
    };
    let title = format!("Pre-training: {}", run.folder.display());
    Ok(Report { html: page(&title, &body), findings })
}

fn first_figures(run: &RunRecord) -> Vec<(&'static str, String, String)> {
    let done = run.metrics.last().map_or(0, |m| m.step);
    let steps =
        run.setting("steps").map_or_else(String::new, |steps| format!("of {}", grouped(steps as u64)));
    let mut tiles = vec![("steps", grouped(done), steps)];
    if let Some(last) = run.last_evaluation() {
        let e = &last.evaluation;
        let perplexity = format!("nats held out; perplexity {:.1}", e.masked_lm_loss.exp());
        tiles.push(("masked LM loss", format!("{:.3}", e.masked_lm_loss), perplexity));
        if e.masked_lm_nats_per_character.is_finite() {
            let value = format!("{:.3}", e.masked_lm_nats_per_character);
            tiles.push(("nats per character", value, "held out; compares vocabularies".into()));
        }
        let counting = run.baselines.map_or_else(String::new, |counts| {
            let [words, neighbours] = [counts.word_frequencies, counts.neighbours];
            let (words, neighbours) = (words.masked_lm_accuracy, neighbours.masked_lm_accuracy);
            format!("; word frequencies {words:.3}, neighbours' counts {neighbours:.3}")
        });
        tiles.push((
            "masked LM accuracy",
            format!("{:.3}", e.masked_lm_accuracy),
            format!("held out{counting}"),
        ));
        if run.has_next_sentence() {
            let larger = e.random_next.max(1.0 - e.random_next);
            let guess = format!("held out; guessing {larger:.3}");
            tiles.push(("next sentence accuracy", format!("{:.3}", e.next_sentence_accuracy), guess));
        }
    } else if let Some(last) = run.metrics.last() {
        tiles.push((
            "masked LM loss",
            format!("{:.3}", last.masked_lm_loss),
            "nats, last training batch".into(),
        ));
    }
    let model = run.settings["identity"]["model"].as_object().cloned();
    if let Some(config) = model.and_then(|json| BertConfig::from_json(json).ok()) {
        let millions = config.pretraining_parameter_count() as f64 / 1e6;
        let shape = format!("{} layers, {} wide", config.num_hidden_layers, config.hidden_size);
        tiles.push(("parameters", format!("{millions:.2} M"), shape));
    }
    if let Some(batch) = run.setting("batch_size") {
        let sequences = batch * run.timing.len() as f64;
        let (seconds, waiting) = run.seconds(1);
        let remark =
            format!("{:.0} s; {:.1} % waiting for data", seconds, 100.0 * waiting / seconds.max(1e-9));
        tiles.push(("sequences a second", format!("{:.1}", sequences / seconds.max(1e-9)), remark));
        let seen = grouped((batch * done as f64) as u64);
        let passes = run
            .instances
            .map(|n| format!("{:.2} passes over {}", batch * done as f64 / n as f64, grouped(n)));
        tiles.push(("sequences seen", seen, passes.unwrap_or_default()));
    }
    tiles
}

fn masked_lm_chart(run: &RunRecord, others: &[RunRecord]) -> Markup {
    let mut levels = vec![("uniform guess", run.uniform_loss())];
    if let Some(counts) = run.baselines {
        levels.push(("word frequencies", counts.word_frequencies.masked_lm_loss));
        levels.push(("neighbours' counts", counts.neighbours.masked_lm_loss));
    }
    let curves = loss_curves(run, others, |m| m.masked_lm_loss, |e| e.masked_lm_loss);
    chart("step", "masked LM loss (nats)", &curves, &levels)
}

fn next_sentence_chart(run: &RunRecord, others: &[RunRecord]) -> Markup {
    let curves = loss_curves(run, others, |m| m.next_sentence_loss, |e| e.next_sentence_loss);
    chart("step", "next sentence loss (nats)", &curves, &[("a fair coin", 2f64.ln())])
}

/// Renders the training loss (pale, and smoothed), the held-out loss, and the same for other runs.
fn loss_curves(
    run: &RunRecord,
    others: &[RunRecord],
    training: impl Fn(&StepMetrics) -> f64,
    held_out: impl Fn(&Evaluation) -> f64,
) -> Vec<Curve> {
    const OTHERS: [&str; 3] = ["var(--soft)", "var(--good)", "var(--warn)"];
    let steps = thin(&run.curve(&training), POINTS);
    let smoothed = smooth(&steps, (steps.len() / 20).max(1));
    let mut curves = vec![
        Curve::new("", "var(--a)", Line::Pale, steps),
        Curve::new("training, smoothed", "var(--a)", Line::Plain, smoothed),
        Curve::new("held out", "var(--b)", Line::Marked, run.held_out(&held_out)),
    ];
    for (other, color) in others.iter().zip(OTHERS.iter().cycle()) {
        let points = match other.evaluations.len() {
            0 | 1 => smooth(&thin(&other.curve(&training), POINTS), POINTS / 20),
            _ => other.held_out(&held_out),
        };
        curves.push(Curve::new(other.folder.display().to_string(), color, Line::Broken, points));
    }
    curves
}

fn plain_chart(run: &RunRecord, y: &str, value: impl Fn(&StepMetrics) -> f64) -> Markup {
    let points = thin(&run.curve(value), POINTS);
    chart("step", y, &[Curve::new("", "var(--a)", Line::Plain, points)], &[])
}

fn explain_loss(run: &RunRecord) -> Markup {
    html! {
        p.note {
            "Uniform guess: the logarithm of the vocabulary's size, where random weights begin. "
            @if run.baselines.is_some() {
                "Word frequencies: the held-out loss of a model that ignores the context. Neighbours' counts: that of a table \
                 of the training text, which knows how often each token followed the one on the left and preceded the one \
                 on the right."
            } @else {
                "The levels of word frequencies and of neighbours' counts are drawn where training and held-out data still \
                 lie where they were."
            }
        }
        p.note {
            "The plateau: many runs rest at word frequencies, small models for thousands of steps. To use the token before \
             a mask, attention must look one position back, and between random position embeddings there is no such \
             direction; it has to be found first. Batch size, learning rate and masks change little about that. \
             --initialization neighbours and --initialization counts begin with heads that look at the neighbours."
        }
        p.note {
            "Losses per token are comparable between runs of one vocabulary only: a larger vocabulary cuts the same text \
             into fewer, harder tokens. Nats per character compare across vocabularies, on the same held-out text."
        }
    }
}

fn held_out_table(run: &RunRecord) -> Markup {
    if run.evaluations.is_empty() {
        return html! { p.note { "Nothing was held out: give --eval-data." } };
    }
    let header = [
        "step",
        "masked LM loss",
        "nats per character",
        "accuracy",
        "next sentence loss",
        "accuracy",
        "instances",
    ];
    let best = run.best_evaluation().map(|best| best.step);
    let row = |record: &EvaluationRecord| {
        let e = &record.evaluation;
        let step = grouped(record.step) + if Some(record.step) == best { " (lowest loss)" } else { "" };
        let values = [
            e.masked_lm_loss,
            e.masked_lm_nats_per_character,
            e.masked_lm_accuracy,
            e.next_sentence_loss,
            e.next_sentence_accuracy,
        ];
        let values = values.map(|x| if x.is_finite() { format!("{x:.4}") } else { "–".into() });
        figures(&step, values.into_iter().chain([grouped(e.instances)]))
    };
    table(&header, run.evaluations.iter().map(row))
}

fn references() -> Markup {
    let header = ["", "training", "masked LM accuracy", "masked LM loss", "next sentence accuracy"];
    html! {
        details {
            summary { "What others reached, with vocabularies of 30,000 word pieces" }
            (table(&header, REFERENCES.map(|[name, values @ ..]| figures(name, values))))
            p.note { "An accuracy above 0.8 on little text means that it is known by heart." }
        }
    }
}
