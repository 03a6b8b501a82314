//! Tables of results, and the forms in which they are printed: `--format text|markdown|csv|latex|html|json`.

mod forms;
mod in_terminal;
mod results;

pub use self::results::{
    collection_table, comparison_table, data_report_table, estimate_table, evaluation_figures,
    finetune_table, glue_table, multitask_table, outcome_table, seed_summary_table,
};

use clap::ValueEnum;
use serde::Serialize;

use crate::output::progress::print_warning;
use crate::output::stdout::{print, print_json, print_wrapped};
use crate::output::terminal::stdout_width;

/// The form of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for a terminal.
    #[default]
    Text,
    /// A Markdown table.
    Markdown,
    /// Comma-separated values with a header (RFC 4180).
    Csv,
    /// A LaTeX table for the package booktabs.
    Latex,
    /// An HTML page.
    Html,
    /// The same as --json.
    Json,
}

/// `--format` and `--json` of a command that prints a table.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct FormatArgs {
    /// Form of the result. LaTeX needs the package booktabs; csv has no notes below the table.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: Format,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl FormatArgs {
    /// Returns whether `--format` has its default value.
    pub fn is_default(self) -> bool {
        self.format == Format::Text
    }

    /// Returns whether the result is JSON.
    pub fn is_json(self) -> bool {
        self.json || self.format == Format::Json
    }
}

/// The content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Words.
    Text,
    /// Numbers that describe a row, such as the number of seeds.
    Count,
    /// Measured numbers.
    Number,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The kind of the content; numbers are aligned to the right.
    pub kind: ColumnKind,
    /// Columns with a larger number are left out first where the terminal is too narrow.
    pub priority: u8,
}

impl Column {
    /// Returns a column of text.
    pub fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: ColumnKind::Text, priority: 0 }
    }

    /// Returns a column of counts.
    pub fn count(name: impl Into<String>) -> Self {
        Self { kind: ColumnKind::Count, ..Self::text(name) }
    }

    /// Returns a column of measured numbers.
    pub fn number(name: impl Into<String>) -> Self {
        Self { kind: ColumnKind::Number, ..Self::text(name) }
    }

    /// Returns the column with this priority.
    #[must_use]
    pub fn with_priority(self, priority: u8) -> Self {
        Self { priority, ..self }
    }

    /// Returns whether the cells are numbers.
    pub fn is_number(&self) -> bool {
        self.kind != ColumnKind::Text
    }
}

/// A table with notes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The title; empty without one.
    pub title: String,
    /// The result in one sentence; empty without one.
    pub verdict: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows: a cell for each column.
    pub rows: Vec<Vec<String>>,
    /// Sentences below the table.
    pub notes: Vec<String>,
    /// Warnings about the result, which are printed to stderr where the form has no place for them.
    pub warnings: Vec<String>,
    /// A second table, which CSV leaves out.
    pub second: Option<Box<Table>>,
    /// The HTML page of the result, where it is more than the table.
    pub page: Option<String>,
}

/// Prints a result in the form that the flags select: `value` as JSON, the result of `text` as text, or `table` in
/// the other forms.
///
/// # Errors
/// Fails as [`print()`] does.
pub fn print_table(
    format: FormatArgs,
    value: &impl Serialize,
    table: Table,
    text: impl FnOnce(&Table) -> String,
) -> anyhow::Result<()> {
    let form = if format.json { Format::Json } else { format.format };
    let printed = match form {
        Format::Json => return print_json(value),
        Format::Text => return print_wrapped(text(&table).trim_end()),
        Format::Markdown => table.markdown(),
        Format::Latex => table.latex(),
        Format::Html => table.html(),
        Format::Csv => {
            table.warnings.iter().for_each(print_warning);
            table.csv()?
        }
    };
    print(printed.trim_end())
}

/// Formats a table for the terminal of standard output.
pub fn as_table(table: &Table) -> String {
    table.text(stdout_width())
}

/// Formats the p-value of a test with four decimals.
pub fn p_value(p: f64) -> String {
    if p < 1e-4 { "<0.0001".to_string() } else { format!("{p:.4}") }
}

impl Table {
    /// Returns a table with a row for each figure: its name and its value.
    #[must_use]
    pub fn from_figures(figures: Vec<(String, String)>) -> Self {
        Self {
            columns: vec![Column::text("figure"), Column::number("value")],
            rows: figures.into_iter().map(|(name, value)| vec![name, value]).collect(),
            ..Self::default()
        }
    }

    /// Returns the table of a text that has a figure on each line: its name, two spaces or more, and its value.
    #[must_use]
    pub fn from_lines(text: &str) -> Self {
        let figure = |line: &str| {
            let (name, value) = line.trim().split_once("  ").unwrap_or((line, ""));
            (name.to_owned(), value.trim().to_owned())
        };
        Self::from_figures(text.lines().map(figure).collect())
    }

    /// Returns the indices of the columns whose cells differ, and a caption with the other columns, such as `task rte,
    /// seeds 5`. Columns of measured numbers are never in the caption.
    fn divided(&self) -> (Vec<usize>, String) {
        let is_equal = |at: &usize| {
            let cell = |row: &Vec<String>| row.get(*at).cloned();
            self.rows.len() > 1
                && self.columns[*at].kind != ColumnKind::Number
                && self.rows.iter().all(|row| cell(row) == cell(&self.rows[0]))
        };
        let (equal, columns): (Vec<usize>, Vec<usize>) = (0..self.columns.len()).partition(is_equal);
        let caption = equal.iter().map(|&at| (&self.columns[at].name, &self.rows[0][at]));
        let caption = caption.filter(|(_, cell)| !cell.is_empty() && *cell != "-");
        let caption: Vec<String> = caption.map(|(name, cell)| format!("{name} {cell}")).collect();
        (columns, caption.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_columns_become_a_caption() {
        let row = |task: &str, seeds: &str, mean: &str| [task, seeds, mean].map(String::from).to_vec();
        let table = Table {
            columns: vec![Column::text("task"), Column::count("seeds"), Column::number("mean")],
            rows: vec![row("rte", "5", "60.0"), row("sst-2", "5", "60.0")],
            ..Table::default()
        };
        assert_eq!(table.divided(), (vec![0, 2], "seeds 5".to_string()));
        let one = Table { rows: table.rows[..1].to_vec(), ..table };
        assert_eq!(one.divided().0, [0, 1, 2], "a single row has no equal cells");
    }
}
