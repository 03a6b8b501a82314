//! The table of an experiment: numbers, each with its text in the table.

use bert_tasks::Metric;
use serde::{Serialize, Serializer};

use super::args::Args;
use super::definition::Experiment;
use crate::output::table::{Column, Table};

/// A key in JSON and its column of the table.
pub(super) type Heading = (&'static str, Column);

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    /// A value and its form in the table.
    Number(Option<f64>, String),
}

impl Cell {
    /// Returns a value with this number of decimals, or a dash if there is no value.
    pub(super) fn number(value: Option<f64>, decimals: usize) -> Self {
        Self::Number(value, value.map_or("-".to_string(), |value| format!("{value:.decimals$}")))
    }

    /// Returns a score in the form of its metric. The table has fractions in per cent; JSON has them as fractions.
    pub(super) fn score(metric: Metric, value: Option<f64>) -> Self {
        Self::Number(value, metric.cell(value))
    }

    /// Returns a count.
    pub(super) fn count(value: usize) -> Self {
        Self::number(Some(value as f64), 0)
    }

    /// Returns the value of the cell; `None` for text and for a missing value.
    pub(super) fn value(&self) -> Option<f64> {
        match self {
            Self::Text(_) => None,
            Self::Number(value, _) => *value,
        }
    }

    /// Returns the cell as text.
    pub(super) fn shown(&self) -> &str {
        let (Self::Text(text) | Self::Number(_, text)) = self;
        text
    }
}

impl<S: Into<String>> From<S> for Cell {
    fn from(text: S) -> Self {
        Self::Text(text.into())
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(value, _) => value.serialize(serializer),
        }
    }
}

/// The rows under their headings. In JSON, they are a list of objects.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    pub(super) headings: Vec<Heading>,
    pub(super) rows: Vec<Vec<Cell>>,
}

/// A row as an object.
struct Row<'a>(&'a [Heading], &'a [Cell]);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(self.1).map(|((key, _), cell)| (key, cell)))
    }
}

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().map(|row| Row(&self.headings, row)))
    }
}

/// The result of an experiment: `experiment.json`.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Results {
    /// Name of the experiment.
    pub(super) experiment: &'static str,
    /// Title of the page.
    pub(super) title: String,
    /// The result in one sentence.
    pub(super) verdict: String,
    /// The question, and the source of the published scores.
    pub(super) about: String,
    /// Model folders.
    pub(super) checkpoints: Vec<String>,
    /// Seconds that the experiment was estimated to take; null if nothing was trained.
    pub(super) estimated_seconds: Option<f64>,
    /// Seconds that the experiment took.
    pub(super) seconds: f64,
    /// The table.
    pub(super) rows: Rows,
    /// The paired comparisons; empty without any.
    pub(super) differences: Rows,
    /// Sentences below the table.
    pub(super) notes: Vec<String>,
    /// Warnings.
    pub(super) warnings: Vec<String>,
}

/// The results of an experiment, and the part of its page above the table.
pub(super) struct Report {
    pub(super) results: Results,
    pub(super) body: maud::Markup,
}

impl Results {
    /// Returns the results of an experiment without rows.
    pub(super) fn new(args: &Args, experiment: &Experiment) -> Self {
        Self {
            experiment: experiment.name,
            title: experiment.title.clone(),
            about: experiment.about.clone(),
            checkpoints: args.checkpoint.iter().map(|path| path.display().to_string()).collect(),
            ..Self::default()
        }
    }

    /// Returns the table with its notes.
    pub(super) fn table(&self) -> Table {
        let differences = Table { title: "Differences".into(), ..self.differences.table() };
        Table {
            title: self.title.clone(),
            verdict: self.verdict.clone(),
            notes: self.notes.clone(),
            warnings: self.warnings.clone(),
            second: (!differences.rows.is_empty()).then(|| Box::new(differences)),
            ..self.rows.table()
        }
    }
}

impl Rows {
    /// Returns the table without notes.
    fn table(&self) -> Table {
        let row = |cells: &Vec<Cell>| cells.iter().map(|cell| cell.shown().to_string()).collect();
        Table {
            columns: self.headings.iter().map(|(_, column)| column.clone()).collect(),
            rows: self.rows.iter().map(row).collect(),
            ..Table::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let headings = vec![
            ("task", Column::text("task")),
            ("mean", Column::number("mean")),
            ("sd", Column::number("SD")),
        ];
        let row = |sd| {
            let score = |value| Cell::score(Metric::Accuracy, value);
            vec![Cell::from("rte"), score(Some(0.5625)), score(sd)]
        };
        Results {
            experiment: "small-models",
            title: "A title".into(),
            verdict: "It works.".into(),
            seconds: 1.0,
            rows: Rows { headings, rows: vec![row(Some(0.01)), row(None)] },
            notes: vec!["a note".into()],
            warnings: vec!["careful".into()],
            ..Results::default()
        }
    }

    #[test]
    fn json_has_all_digits_and_keys() {
        let json = serde_json::to_value(results()).unwrap();
        assert_eq!(json["rows"][0], serde_json::json!({ "task": "rte", "mean": 0.5625, "sd": 0.01 }));
        assert_eq!(json["rows"][1]["sd"], serde_json::Value::Null);
    }

    #[test]
    fn the_verdict_precedes_the_table() {
        let expected =
            "A title\nIt works.\ntask rte\nmean   SD\n56.2  1.0\n56.2    -\na note\nwarning: careful";
        assert_eq!(results().table().text(80), expected);
    }
}
