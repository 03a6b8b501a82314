//! Replaces words and counts the predictions that flip.

use std::path::Path;

use bert_inference::{Error, Prediction, Probe, Prober};
use bert_training::probe_instances;
use serde::Serialize;

use crate::commands::evaluation::probe::args::Args;
use crate::commands::text_or_pair;
use crate::output::table::{Column, Table};

/// The changes of one model's predictions.
#[derive(Serialize)]
pub(super) struct Probes {
    changes: usize,
    pub(super) predictions: usize,
    flips: usize,
    probes: Vec<Probe>,
}

impl Probes {
    /// Applies all replacements to all texts, and returns the changes.
    ///
    /// # Errors
    /// Fails when a replacement cannot be applied, or when the model predicts nothing for the texts.
    pub(super) fn new(args: &Args, folder: &Path, prober: &Prober) -> anyhow::Result<Self> {
        let probes = match (&args.text, &args.input, &args.data) {
            (_, _, Some(data)) => {
                probe_instances(prober, folder, data, args.instances.unwrap_or(100), &args.replace)?
            }
            (_, Some(source), _) => {
                prober.source(&args.texts_of_input.texts(source, None)?, &args.replace)?
            }
            (text, ..) => prober.text(text_or_pair(text.as_deref().unwrap_or_default()), &args.replace)?,
        };
        let all = || probes.iter().flat_map(|probe| &probe.predictions);
        let predictions = all().count();
        let flips = all().filter(|prediction| prediction.flips).count();
        if predictions == 0 {
            let reason = match (probes.is_empty(), &args.text) {
                (true, Some(text)) => {
                    let words = prober.words_of(text_or_pair(text)).join(" ");
                    format!("the text has none of these words; its words are: {words}")
                }
                (true, None) => "none of these words is in any of the texts".to_string(),
                (false, _) => {
                    "the model has no classifier and the text no [MASK], so nothing is predicted: add a [MASK] to \
                     the text"
                        .to_string()
                }
            };
            return Err(Error::option("replace", reason).into());
        }
        Ok(Self { changes: probes.len(), predictions, flips, probes })
    }

    /// Returns the changes and the totals as text.
    pub(super) fn text(&self) -> String {
        let lines: Vec<String> = self.probes.iter().map(Probe::to_string).collect();
        format!("{}\n\n{}", lines.join("\n"), self.totals())
    }

    /// Returns the fraction of the predictions that flip.
    pub(super) fn flip_rate(&self) -> f64 {
        self.flips as f64 / self.predictions.max(1) as f64
    }

    /// Returns the numbers of changes, predictions and flips as text.
    pub(super) fn totals(&self) -> String {
        format!("changes {}, predictions {}, flips {}", self.changes, self.predictions, self.flips)
    }

    /// Returns a table with a row for each prediction.
    pub(super) fn table(&self) -> Table {
        let probability = |value: Option<f32>| value.map_or("-".to_string(), |value| format!("{value:.4}"));
        let mut rows = Vec::new();
        for Probe { source, text, position, word, replaced_by, predictions, .. } in &self.probes {
            for Prediction { of, truth, before, after, before_now, flips, .. } in predictions {
                let change =
                    [source.clone(), text.clone(), position.to_string(), word.clone(), replaced_by.clone()];
                let guesses =
                    [before, after].map(|guess| [guess.answer.clone(), probability(guess.probability)]);
                let truth = truth.clone().unwrap_or_default();
                let rest = [probability(*before_now), flips.to_string(), truth];
                let cells = [of.clone()].into_iter().chain(guesses.into_iter().flatten()).chain(rest);
                rows.push(change.into_iter().chain(cells).collect());
            }
        }
        let columns = vec![
            Column::text("source").with_priority(5),
            Column::text("text").with_priority(2),
            Column::count("position").with_priority(4),
            Column::text("word"),
            Column::text("replaced by"),
            Column::text("prediction of").with_priority(3),
            Column::text("before"),
            Column::number("p before"),
            Column::text("after"),
            Column::number("p after"),
            Column::number("p of the earlier answer after").with_priority(3),
            Column::text("flips"),
            Column::text("truth").with_priority(1),
        ];
        let percent = 100.0 * self.flip_rate();
        let verdict = format!("{} of {} predictions flip ({percent:.1} %).", self.flips, self.predictions);
        Table {
            title: "Replaced words".into(),
            verdict,
            columns,
            rows,
            notes: vec![self.totals()],
            ..Table::default()
        }
    }
}
