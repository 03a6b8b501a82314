//! Defines the metrics, ordered maps of their values, and statistics of values.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// A metric. Most metrics are fractions, correlations range from -1 to 1, and 1 is best for both. Errors have the unit
/// of the scores, and 0 is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Fraction of correct predictions.
    Accuracy,
    /// F1 of class 1; for answers, F1 of words; for tags, F1 of entities.
    F1,
    /// Mean of the F1 of every class.
    #[serde(rename = "macro_f1")]
    MacroF1,
    /// Matthews correlation for two classes.
    Matthews,
    /// Pearson correlation.
    Pearson,
    /// Spearman rank correlation.
    Spearman,
    /// Fraction of answers that match exactly.
    #[serde(rename = "exact_match")]
    ExactMatch,
    /// Fraction of predicted entities that are correct.
    Precision,
    /// Fraction of true entities that are predicted.
    Recall,
    /// Root mean squared error.
    Rmse,
    /// Mean absolute error.
    Mae,
}

impl Metric {
    /// Returns whether the metric is a fraction of examples, words or entities; tables show fractions in per cent.
    fn is_fraction(self) -> bool {
        use Metric::{Accuracy, ExactMatch, F1, MacroF1, Precision, Recall};
        matches!(self, Accuracy | ExactMatch | F1 | MacroF1 | Precision | Recall)
    }

    /// Returns the least and the greatest value; `None` for an error, which has no greatest value.
    pub(crate) fn bounds(self) -> Option<(f64, f64)> {
        match self {
            Self::Rmse | Self::Mae => None,
            Self::Matthews | Self::Pearson | Self::Spearman => Some((-1.0, 1.0)),
            _ => Some((0.0, 1.0)),
        }
    }

    /// Returns the heading of a table column: the name, with `(%)` for a fraction.
    pub fn heading(self) -> String {
        if self.is_fraction() { format!("{self} (%)") } else { self.to_string() }
    }

    /// Formats a value below a [`Metric::heading`]: fractions in per cent with one decimal, others with four decimals,
    /// and a missing value as a dash.
    pub fn cell(self, value: Option<f64>) -> String {
        match value {
            None => "-".to_string(),
            Some(value) if self.is_fraction() => format!("{:.1}", 100.0 * value),
            Some(value) => format!("{value:.4}"),
        }
    }

    /// Formats a value with its unit.
    pub fn with_unit(self, value: f64) -> String {
        let cell = self.cell(Some(value));
        if self.is_fraction() { format!("{cell} %") } else { cell }
    }

    /// Formats a difference of two values with its sign and unit.
    pub fn difference(self, value: f64) -> String {
        let sign = if value < 0.0 { "" } else { "+" };
        // Adding zero removes the sign of a negative zero.
        format!("{sign}{}", self.with_unit(value + 0.0))
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Values by metric, in the order of the task's specification. In JSON, they are a map: `{"f1": 0.81, ...}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Scores(IndexMap<Metric, f64>);

impl Scores {
    /// Returns the value of `metric`, if present.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.0.get(&metric).copied()
    }

    /// Returns all values in order.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, f64)> {
        self.0.iter().map(|(&metric, &value)| (metric, value))
    }
}

impl FromIterator<(Metric, f64)> for Scores {
    fn from_iter<I: IntoIterator<Item = (Metric, f64)>>(values: I) -> Self {
        Scores(values.into_iter().collect())
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (metric, value)) in self.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{metric} {}", metric.with_unit(value))?;
        }
        Ok(())
    }
}

/// Statistics of one value over runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation (divisor n - 1); `None` for one run.
    pub sd: Option<f64>,
    /// Median; for an even number of runs, the mean of the middle two.
    pub median: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

impl Statistics {
    /// Computes the statistics of `values`.
    ///
    /// # Panics
    /// Panics if `values` is empty.
    pub fn new(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "no runs to summarize");
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Statistics {
            mean,
            sd: (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()),
            median,
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_the_metric_order() {
        let scores: Scores = [(Metric::F1, 0.5), (Metric::Accuracy, 0.25)].into_iter().collect();
        let json = serde_json::to_string(&scores).unwrap();
        assert_eq!(json, r#"{"f1":0.5,"accuracy":0.25}"#);
        assert_eq!(serde_json::from_str::<Scores>(&json).unwrap(), scores);
        assert_eq!(scores.to_string(), "f1 50.0 %, accuracy 25.0 %");
        assert_eq!(scores.get(Metric::Accuracy), Some(0.25));
        assert_eq!(scores.get(Metric::Pearson), None);
        assert!(serde_json::from_str::<Scores>(r#"{"bleu":1}"#).is_err());
        assert!(serde_json::from_str::<Scores>("[]").is_err());
        let json = serde_json::to_string(&Metric::MacroF1).unwrap();
        assert_eq!(json, format!("\"{}\"", Metric::MacroF1));
    }
}
