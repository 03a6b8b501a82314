//! Describes how the scored epochs of a fine-tuning were selected.

use std::fmt;

use bert_tasks::Metric;
use serde::{Deserialize, Serialize};

use crate::config::{FinetuneConfig, Selection};
use crate::run::run_report::{EpochReport, RunReport};

/// The selection of the scored epoch of each run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SelectionReport {
    /// The set whose scores selected the epoch: `dev` or `held-out`; `None` for the last epoch.
    pub best_on: Option<String>,
    /// Maximum number of epochs from which one was selected.
    pub epochs: usize,
    /// Main metric.
    pub metric: Metric,
    /// Mean of the metric on dev over the runs, at the selected epochs.
    pub selected: f64,
    /// Mean of the metric on dev at the last epochs, if dev was scored there.
    pub last_epoch: Option<f64>,
}

impl SelectionReport {
    pub(crate) fn new<'a>(
        config: &FinetuneConfig,
        runs: impl Iterator<Item = &'a RunReport> + Clone,
    ) -> Self {
        let metric = config.task.spec().primary;
        let held_out = config.held_out_share().is_some();
        let scored =
            |epoch: &&EpochReport| if held_out { epoch.held_out.is_some() } else { epoch.dev.is_some() };
        let epochs = runs.clone().map(|run| run.history.iter().filter(scored).count());
        let last = |run: &RunReport| run.history.last()?.dev.as_ref()?.get(metric);
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let epochs = epochs.max().unwrap_or(0);
        Self {
            best_on: (config.select == Selection::Best && epochs > 1)
                .then(|| if held_out { "held-out" } else { "dev" }.to_string()),
            epochs,
            metric,
            selected: mean(runs.clone().filter_map(|run| run.dev.get(metric)).collect()),
            last_epoch: runs.map(last).collect::<Option<Vec<f64>>>().map(mean),
        }
    }

    /// Returns the selection as a short text, such as `best of 4 epochs on dev`.
    pub fn short(&self) -> String {
        match self.best_on.as_deref() {
            Some("dev") => format!("best of {} epochs on dev", self.epochs),
            Some(_) => format!("best of {} epochs on held-out examples", self.epochs),
            None => "last epoch".to_string(),
        }
    }
}

impl fmt::Display for SelectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "selected epochs: {}", self.short())?;
        let (Some("dev"), Some(last)) = (self.best_on.as_deref(), self.last_epoch) else { return Ok(()) };
        let Self { metric, selected, .. } = self;
        write!(
            f,
            ", so the score is a maximum over epochs; the mean of the last epochs is {} ({}). --select last or --holdout give a \
             score without this choice",
            metric.with_unit(last),
            metric.difference(last - selected)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::holdout::tests::config;

    fn run(scores: &[f64], selected: f64) -> RunReport {
        let scores_of = |value: f64| [(Metric::Accuracy, value)].into_iter().collect();
        let epoch = |(at, &value): (usize, &f64)| EpochReport {
            step: at as u64,
            epoch: at as f64,
            train_loss: None,
            dev: Some(scores_of(value)),
            held_out: None,
            masked_lm: None,
        };
        RunReport {
            seed: 1,
            epoch: 1.0,
            stopped_early: false,
            diverged: false,
            held_out: None,
            dev: scores_of(selected),
            dev_mismatched: None,
            test: None,
            confusion: None,
            calibration: None,
            history: scores.iter().enumerate().map(epoch).collect(),
        }
    }

    #[test]
    fn best_epochs_are_compared_with_the_last() {
        let runs = [run(&[0.5, 0.75, 0.7], 0.75), run(&[0.6, 0.65, 0.5], 0.65)];
        let text = SelectionReport::new(&config(&[]), runs.iter()).to_string();
        assert!(
            text.starts_with("selected epochs: best of 3 epochs on dev, so the score is a maximum"),
            "{text}"
        );
        assert!(text.contains("the mean of the last epochs is 60.0 % (-10.0 %)"), "{text}");
        let last = SelectionReport::new(&config(&["--select", "last"]), [run(&[0.7], 0.7)].iter());
        assert_eq!(last.to_string(), "selected epochs: last epoch");
    }
}
