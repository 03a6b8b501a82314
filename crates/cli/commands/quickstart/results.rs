//! The results of `bert quickstart`: as JSON, and as a table next to two baselines.

use std::path::{Path, PathBuf};

use bert_tasks::{Metric, SeedSummary};
use bert_training::{Baselines, Evaluation};
use serde::Serialize;

use crate::output::table::{Column, Table};

/// The results as JSON.
#[derive(Serialize)]
pub(super) struct Summary<'a> {
    pub(super) output: &'a Path,
    pub(super) seconds: f64,
    /// Evaluation of the initial weights on held-out text.
    pub(super) before: Evaluation,
    /// Evaluation after the pre-training.
    pub(super) after: Evaluation,
    pub(super) baselines: Baselines,
    /// Scores of the fine-tuning that begins with the pre-trained weights.
    pub(super) finetuned: SeedSummary,
    /// Scores of the fine-tuning that begins with random weights.
    pub(super) finetuned_without_pretraining: SeedSummary,
    pub(super) pages: [PathBuf; 3],
}

/// Returns the table that `--format` prints: a row for each figure.
pub(super) fn summary_table(results: &Summary<'_>) -> Table {
    let columns = COLUMNS.map(|(first, second)| Column::number(format!("{first} {second}")));
    let row = |Row { figure, values }: &Row| [vec![(*figure).to_owned()], values.to_vec()].concat();
    Table {
        columns: [Column::text("on held-out text")].into_iter().chain(columns).collect(),
        rows: rows(results).iter().map(row).collect(),
        ..Table::default()
    }
}

/// Returns the paths of the pages.
pub(super) fn pages(output: &Path) -> [PathBuf; 3] {
    ["data/train.html", "pretrain/report.html", "finetune/report.html"].map(|name| output.join(name))
}

/// Columns of the table: two baselines, and the model before and after the pre-training.
const COLUMNS: [(&str, &str); 4] =
    [("unigram", "baseline"), ("bigram", "baseline"), ("before", "training"), ("after", "training")];

/// A row of the table: a loss or an accuracy, and its values in the columns.
struct Row {
    figure: &'static str,
    values: [String; 4],
}

/// Returns the rows of the table.
fn rows(results: &Summary<'_>) -> [Row; 4] {
    let accuracy = |dev: &SeedSummary| {
        let metric = dev.metrics.iter().find(|m| m.metric == Metric::Accuracy);
        metric.map_or(f64::NAN, |m| m.statistics.mean)
    };
    let majority = results.finetuned.majority_baseline.get(Metric::Accuracy).unwrap_or(f64::NAN);
    let before = &results.before;
    let after = &results.after;
    let Baselines { unigram, bigram, .. } = results.baselines;
    let chance = before.random_next.max(1.0 - before.random_next);
    let loss = [unigram.masked_lm_loss, bigram.masked_lm_loss, before.masked_lm_loss, after.masked_lm_loss];
    let masked_lm_accuracy = [
        Some(unigram.masked_lm_accuracy),
        Some(bigram.masked_lm_accuracy),
        Some(before.masked_lm_accuracy),
        Some(after.masked_lm_accuracy),
    ];
    let next_sentence_accuracy =
        [Some(chance), None, Some(before.next_sentence_accuracy), Some(after.next_sentence_accuracy)];
    let untrained = &results.finetuned_without_pretraining;
    let subject_accuracy =
        [Some(majority), None, Some(accuracy(untrained)), Some(accuracy(&results.finetuned))];
    let percent = |figure, values: [Option<f64>; 4]| {
        let text =
            |share: Option<f64>| share.map_or_else(String::new, |share| format!("{:.1}", 100.0 * share));
        Row { figure, values: values.map(text) }
    };
    [
        Row { figure: "masked LM loss (nats)", values: loss.map(|value| format!("{value:.3}")) },
        percent("masked LM accuracy (%)", masked_lm_accuracy),
        percent("next-sentence accuracy (%)", next_sentence_accuracy),
        percent("subject accuracy (%)", subject_accuracy),
    ]
}

/// Renders the results next to the baselines.
pub(super) fn table(results: &Summary<'_>) -> String {
    let lines = rows(results).map(|Row { figure, values }| line(figure, &values));
    [
        line("", &COLUMNS.map(|(first, _)| first.to_owned())),
        line("on held-out text", &COLUMNS.map(|(_, second)| second.to_owned())),
        lines.join("\n"),
        String::new(),
        "unigram baseline: token frequencies of the training text for the masked LM,".into(),
        "the majority class for the other tasks. bigram baseline: counts of the previous".into(),
        "and the next token in the training text. before training: the initial weights,".into(),
        "which use these counts; for the subject, fine-tuned from random weights. after".into(),
        "training: pre-trained; for the subject, also fine-tuned.".into(),
        format!(
            "subject: mean of {} seeds on {} sentences;",
            results.finetuned.runs.len(),
            results.finetuned.examples
        ),
        format!(
            "standard error of one accuracy {:.1} %.",
            100.0 * results.finetuned.binomial_standard_error.unwrap_or(f64::NAN)
        ),
    ]
    .join("\n")
}

/// Formats a line of the table.
fn line(name: &str, values: &[String; 4]) -> String {
    let cells: String = values.iter().map(|value| format!("{value:>10}")).collect();
    format!("{name:<30}{cells}").trim_end().to_string()
}
