//! The table of an experiment: numbers with their form on paper, in all forms of `--format`.

use bert_tasks::Metric;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::output::table::{Column, Table, Tabular};

/// A column: its key in JSON and its heading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    pub(super) is_number: bool,
}

/// Returns a column of text.
pub(super) const fn text(key: &'static str, name: &'static str) -> Heading {
    Heading { key, name, is_number: false }
}

/// Returns a column of numbers.
pub(super) const fn number(key: &'static str, name: &'static str) -> Heading {
    Heading { key, name, is_number: true }
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    /// A value and its form in the table.
    Number(Option<f64>, String),
}

impl Cell {
    /// Returns a value with this number of decimals, or a dash.
    pub(super) fn number(value: Option<f64>, decimals: usize) -> Self {
        Self::Number(value, value.map_or("-".to_string(), |value| format!("{value:.decimals$}")))
    }

    /// Returns a score in the form of its metric: fractions in per cent, in JSON as fractions.
    pub(super) fn score(metric: Metric, value: Option<f64>) -> Self {
        Self::Number(value, metric.cell(value))
    }

    /// Returns a count.
    pub(super) fn count(value: usize) -> Self {
        Self::number(Some(value as f64), 0)
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

/// The rows under their headings. In JSON a list of objects.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) headings: Vec<Heading>,
    pub(super) rows: Vec<Vec<Cell>>,
}

/// A row as an object.
struct Row<'a>(&'a [Heading], &'a [Cell]);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (heading, cell) in self.0.iter().zip(self.1) {
            map.serialize_entry(heading.key, cell)?;
        }
        map.end()
    }
}

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.rows.len()))?;
        self.rows.iter().try_for_each(|row| list.serialize_element(&Row(&self.headings, row)))?;
        list.end()
    }
}

/// The result of an experiment: `experiment.json`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Results {
    /// Name of the experiment.
    pub(super) experiment: &'static str,
    /// Title of the page.
    pub(super) title: String,
    /// The question and the source.
    pub(super) about: String,
    /// Model folders.
    pub(super) checkpoints: Vec<String>,
    /// Seconds that the experiment was estimated to take; null if nothing was trained.
    pub(super) estimated_seconds: Option<f64>,
    /// Seconds that it took.
    pub(super) seconds: f64,
    /// The table.
    pub(super) rows: Rows,
    /// Sentences below the table.
    pub(super) notes: Vec<String>,
    /// Warnings.
    pub(super) warnings: Vec<String>,
}

/// The results of an experiment and the parts of its page below the table.
pub(super) struct Report {
    pub(super) results: Results,
    pub(super) body: maud::Markup,
}

impl Tabular for Results {
    fn table(&self) -> Table {
        let column = |heading: &Heading| {
            if heading.is_number { Column::number(heading.name) } else { Column::text(heading.name) }
        };
        let row = |cells: &Vec<Cell>| cells.iter().map(|cell| cell.shown().to_string()).collect();
        Table {
            columns: self.rows.headings.iter().map(column).collect(),
            rows: self.rows.rows.iter().map(row).collect(),
            notes: self.notes.clone(),
            warnings: self.warnings.clone(),
        }
    }
}

impl Results {
    /// Formats the table for a terminal: columns of equal width, notes and warnings below.
    pub(super) fn text(&self) -> String {
        let Table { columns, rows, notes, warnings } = self.table();
        let width = |at: usize| {
            let cells = rows.iter().map(|row| row[at].chars().count());
            cells.chain([columns[at].name.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns.len()).map(width).collect();
        let line = |cells: &[&str]| {
            let padded = cells.iter().zip(&columns).zip(&widths).map(|((cell, column), width)| {
                if column.is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
        };
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let mut lines = vec![self.title.clone(), line(&names)];
        lines.extend(rows.iter().map(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>())));
        lines.extend(notes);
        lines.extend(warnings.iter().map(|text| format!("warning: {text}")));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let headings = vec![text("task", "task"), number("mean", "mean"), number("sd", "SD")];
        let row = |sd| {
            let score = |value| Cell::score(Metric::Accuracy, value);
            vec![Cell::from("rte"), score(Some(0.5625)), score(sd)]
        };
        Results {
            experiment: "small-models",
            title: "A title".into(),
            about: String::new(),
            checkpoints: Vec::new(),
            estimated_seconds: None,
            seconds: 1.0,
            rows: Rows { headings, rows: vec![row(Some(0.01)), row(None)] },
            notes: vec!["a note".into()],
            warnings: vec!["careful".into()],
        }
    }

    #[test]
    fn json_has_all_digits_and_keys() {
        let json = serde_json::to_value(results()).unwrap();
        assert_eq!(json["rows"][0], serde_json::json!({ "task": "rte", "mean": 0.5625, "sd": 0.01 }));
        assert_eq!(json["rows"][1]["sd"], serde_json::Value::Null);
    }

    #[test]
    fn text_is_aligned() {
        let expected = "A title\ntask  mean   SD\nrte   56.2  1.0\nrte   56.2    -\na note\nwarning: careful";
        assert_eq!(results().text(), expected);
    }
}
