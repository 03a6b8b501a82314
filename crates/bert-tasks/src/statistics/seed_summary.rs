//! Summarizes the runs of several seeds on one task and their variation.
//!
//! Scores of fine-tuning on small sets vary by several percentage points between seeds, and some runs never leave the
//! majority class; a mean alone hides both. The summary therefore lists every run, mean, SD, median, minimum and
//! maximum, the number of degenerate runs, the majority baseline, and the sampling error of the dev set.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::interval::{Interval, confidence_interval};
use crate::{Kind, Label, Metric, Scores, Statistics, Task, binomial_standard_error};

/// The scores of one seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeedRun {
    /// The seed.
    pub seed: u64,
    /// Scores on the evaluated set.
    pub scores: Scores,
    /// Whether all predictions of the run were the same ([`crate::is_degenerate`]), although the labels differ.
    pub degenerate: bool,
}

/// Statistics of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MetricSummary {
    /// The metric.
    pub metric: Metric,
    /// Statistics over all runs, degenerate ones included.
    #[serde(flatten)]
    pub statistics: Statistics,
}

/// A row of the table of a [`SeedSummary`].
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryRow {
    /// The seed, the name of the statistic, `majority`, or `baseline`.
    pub name: String,
    /// Values in the order of the metrics, as text.
    pub cells: Vec<String>,
    /// A remark on the run; may be empty.
    pub note: &'static str,
}

/// The summary over seeds. Its `Display` is a table with fractions in per cent; the fields are fractions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeedSummary {
    /// The task.
    pub task: Task,
    /// Examples in the evaluated set.
    pub examples: usize,
    /// Each run, in the order given.
    pub runs: Vec<SeedRun>,
    /// Statistics by metric, in the task's order.
    pub metrics: Vec<MetricSummary>,
    /// Standard error of one accuracy on a set of this size, at the mean accuracy; `None` for tasks without an
    /// accuracy, and at 0 and 100 %, where the formula gives 0.
    pub binomial_standard_error: Option<f64>,
    /// Confidence interval of the main metric's mean, if the answers are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// Number of degenerate runs.
    pub degenerate_runs: usize,
    /// Scores of a constant answer ([`SeedSummary::baseline_answer`]); empty for tags.
    pub majority_baseline: Scores,
}

impl SeedSummary {
    /// Returns the task's main metric, with its statistics if all runs have it.
    pub fn main(&self) -> (Metric, Option<Statistics>) {
        let metric = self.task.spec().primary;
        let found = self.metrics.iter().find(|summary| summary.metric == metric);
        (metric, found.map(|summary| summary.statistics))
    }

    /// Summarizes runs that were scored on the same `examples` examples, by the metrics that all runs have (earlier
    /// reports lack some).
    ///
    /// # Panics
    /// Panics if there are no runs.
    pub fn new(task: &Task, examples: usize, runs: Vec<SeedRun>, majority_baseline: Scores) -> Self {
        let statistics = |metric| {
            let value = |run: &SeedRun| run.scores.get(metric).expect("scores of this task");
            Statistics::new(&runs.iter().map(value).collect::<Vec<f64>>())
        };
        let have = |metric: &&Metric| runs.iter().all(|run| run.scores.get(**metric).is_some());
        let metrics: Vec<MetricSummary> = (task.spec().metrics.iter().filter(have))
            .map(|&metric| MetricSummary { metric, statistics: statistics(metric) })
            .collect();
        let accuracy = metrics.iter().find(|m| m.metric == Metric::Accuracy);
        SeedSummary {
            task: task.clone(),
            examples,
            binomial_standard_error: accuracy
                .map(|m| binomial_standard_error(m.statistics.mean, examples))
                .filter(|error| *error > 0.0),
            interval: None,
            degenerate_runs: runs.iter().filter(|run| run.degenerate).count(),
            metrics,
            runs,
            majority_baseline,
        }
    }

    /// Returns the summary with the confidence interval of the main metric, computed from each run's answers to the
    /// examples with these labels.
    ///
    /// # Panics
    /// Panics if a run lacks an answer.
    #[must_use]
    pub fn with_interval(self, labels: &[Label], answers: &[&[Label]]) -> Self {
        let interval = confidence_interval(self.task.spec().primary, labels, answers);
        Self { interval, ..self }
    }

    /// Returns warnings about runs whose answers are all the same, and about a mean that is at most two standard
    /// errors above the majority-class baseline; the standard error is the larger of the standard errors of these two
    /// accuracies.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.degenerate_runs > 0 {
            warnings.push(format!(
                "{} of {} runs predict one answer for all examples: they have not learnt the task. Use another \
                 --learning-rate, more epochs or more warm-up.",
                self.degenerate_runs,
                self.runs.len()
            ));
        }
        let accuracy = self.metrics.iter().find(|m| m.metric == Metric::Accuracy);
        let majority = self.majority_baseline.get(Metric::Accuracy);
        if let (Some(accuracy), Some(majority)) = (accuracy, majority) {
            let mean = accuracy.statistics.mean;
            // If every answer is right, the error of the mean is 0, so the baseline's error is used.
            let error = [mean, majority].map(|share| binomial_standard_error(share, self.examples));
            let error = error[0].max(error[1]);
            if mean <= majority + 2.0 * error {
                warnings.push(format!(
                    "The mean accuracy ({:.1} %) is not above the majority class ({:.1} %) by two standard \
                     errors of {:.1} %: it may be chance.",
                    100.0 * mean,
                    100.0 * majority,
                    100.0 * error
                ));
            }
        }
        warnings
    }

    /// Returns the headings of the metrics.
    pub fn headings(&self) -> Vec<String> {
        self.metrics.iter().map(|m| m.metric.heading()).collect()
    }

    /// Returns the answer that the baseline gives to all examples.
    pub fn baseline_answer(&self) -> &'static str {
        match self.task.spec().kind {
            Kind::Classification => "the most frequent class of these examples",
            Kind::Regression { .. } => "the mean score of the training set",
            Kind::Spans { .. } => "no answer",
            Kind::Tags => "no entity",
        }
    }

    /// Returns the table rows for the seeds, their statistics and the baseline.
    pub fn rows(&self) -> Vec<SummaryRow> {
        let cells =
            |scores: &Scores| self.metrics.iter().map(|m| m.metric.cell(scores.get(m.metric))).collect();
        let mut rows = Vec::new();
        for run in &self.runs {
            let note = if run.degenerate { "degenerate: one answer for all examples" } else { "" };
            rows.push(SummaryRow { name: run.seed.to_string(), cells: cells(&run.scores), note });
        }
        let mut statistic = |name: &str, value: fn(&Statistics) -> Option<f64>| {
            let values = self.metrics.iter().map(|m| m.metric.cell(value(&m.statistics)));
            rows.push(SummaryRow { name: name.to_string(), cells: values.collect(), note: "" });
        };
        statistic("mean", |s| Some(s.mean));
        statistic("sd", |s| s.sd);
        statistic("median", |s| Some(s.median));
        statistic("min", |s| Some(s.min));
        statistic("max", |s| Some(s.max));
        if self.majority_baseline.iter().next().is_some() {
            let is_classification = self.task.spec().kind == Kind::Classification;
            let name = if is_classification { "majority" } else { "baseline" }.to_string();
            rows.push(SummaryRow {
                name,
                cells: cells(&self.majority_baseline),
                note: self.baseline_answer(),
            });
        }
        rows
    }
}

impl fmt::Display for SeedSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seeds = self.runs.len();
        let plural = if seeds == 1 { "" } else { "s" };
        writeln!(f, "{}: {} examples, {seeds} seed{plural}", self.task, self.examples)?;
        let headings = self.headings();
        let width = headings.iter().map(|heading| heading.len() + 2).max().unwrap_or(0).max(10);
        let mut row = |name: &str, values: &[String], note: &str| {
            let values: String = values.iter().map(|value| format!("{value:>width$}")).collect();
            writeln!(f, "{}", format!("  {name:<10}{values}  {note}").trim_end())
        };
        row("seed", &headings, "")?;
        self.rows().iter().try_for_each(|of| row(&of.name, &of.cells, of.note))?;
        if let Some(interval) = &self.interval {
            writeln!(f, "{}", interval.describe(seeds))?;
        }
        if let Some(error) = self.binomial_standard_error {
            writeln!(f, "sampling error of one accuracy: {:.1} % (binomial)", 100.0 * error)?;
        }
        write!(f, "degenerate runs: {} of {}", self.degenerate_runs, self.runs.len())?;
        self.warnings().iter().try_for_each(|text| write!(f, "\nwarning: {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, accuracy: f64, degenerate: bool) -> SeedRun {
        SeedRun { seed, scores: [(Metric::Accuracy, accuracy)].into_iter().collect(), degenerate }
    }

    fn summary() -> SeedSummary {
        let runs = vec![run(1, 0.6, false), run(2, 0.52, true), run(3, 0.65, false)];
        let baseline = [(Metric::Accuracy, 0.52)].into_iter().collect();
        SeedSummary::new(&Task::Rte, 100, runs, baseline)
    }

    #[test]
    fn statistics_computed_by_hand() {
        let s = Statistics::new(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!((s.mean, s.median, s.min, s.max), (2.5, 2.5, 1.0, 4.0));
        // Squares 2.25 + .25 + .25 + 2.25 = 5, divided by 3.
        assert!((s.sd.unwrap() - (5.0f64 / 3.0).sqrt()).abs() < 1e-15);
        let one = Statistics::new(&[0.5]);
        assert_eq!((one.mean, one.median, one.sd), (0.5, 0.5, None));
    }

    #[test]
    fn table_is_formatted() {
        assert_eq!(
            summary().to_string(),
            "\
rte: 100 examples, 3 seeds
  seed        accuracy (%)
  1                   60.0
  2                   52.0  degenerate: one answer for all examples
  3                   65.0
  mean                59.0
  sd                   6.6
  median              60.0
  min                 52.0
  max                 65.0
  majority            52.0  the most frequent class of these examples
sampling error of one accuracy: 4.9 % (binomial)
degenerate runs: 1 of 3
warning: 1 of 3 runs predict one answer for all examples: they have not learnt the task. Use another \
--learning-rate, more epochs or more warm-up.
warning: The mean accuracy (59.0 %) is not above the majority class (52.0 %) by two standard errors of 5.0 %: \
it may be chance."
        );
    }

    #[test]
    fn degenerate_and_chance_results_print_a_warning() {
        let warnings = summary().warnings();
        assert!(warnings[0].starts_with("1 of 3 runs predict one answer for all examples"), "{warnings:?}");
        // 0.59 against 0.52 + 2 * 0.049.
        assert!(
            warnings[1].starts_with("The mean accuracy (59.0 %) is not above the majority class (52.0 %)")
        );
        let baseline = [(Metric::Accuracy, 0.4)].into_iter().collect();
        assert!(SeedSummary::new(&Task::Rte, 100, vec![run(1, 0.6, false)], baseline).warnings().is_empty());
        // Three of three right answers, where guessing the larger class gives two: the baseline's error is 27.2 %.
        let baseline = [(Metric::Accuracy, 2.0 / 3.0)].into_iter().collect();
        let few = SeedSummary::new(&Task::Rte, 3, vec![run(1, 1.0, false)], baseline).warnings();
        assert!(few[0].contains("by two standard errors of 27.2 %: it may be chance"), "{few:?}");
        let all = SeedSummary::new(&Task::Rte, 3, vec![run(1, 1.0, false)], Scores::default());
        assert_eq!(all.binomial_standard_error, None, "an error of 0 is not known");
    }

    #[test]
    fn json_round_trip() {
        let summary = summary();
        let json = serde_json::to_string(&summary).unwrap();
        assert!(json.contains(r#""metrics":[{"metric":"accuracy","mean":0.59"#));
        assert_eq!(serde_json::from_str::<SeedSummary>(&json).unwrap(), summary);
    }

    #[test]
    fn a_regression_has_no_binomial_error() {
        let scores: Scores = [(Metric::Pearson, 0.5), (Metric::Spearman, 0.4)].into_iter().collect();
        let run = SeedRun { seed: 1, scores: scores.clone(), degenerate: false };
        let summary = SeedSummary::new(&Task::Stsb, 10, vec![run], scores);
        assert!(
            summary
                .to_string()
                .contains("  baseline      0.5000    0.4000  the mean score of the training set\n")
        );
        assert_eq!(summary.binomial_standard_error, None);
        assert!(summary.to_string().contains("1 seed\n"));
        assert!(summary.to_string().contains("  sd                 -         -\n"));
        let json = serde_json::to_string(&summary).unwrap();
        assert_eq!(serde_json::from_str::<SeedSummary>(&json).unwrap(), summary);
    }
}
