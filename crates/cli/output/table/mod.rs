//! Tables of results, and the forms in which they are printed: `--format text|markdown|csv|latex|html|json`.

mod results;

pub use self::results::evaluation_figures;

use anyhow::Context;
use bert_pages::{Cell, table_page};
use clap::ValueEnum;
use serde::Serialize;

use crate::output::progress::print_warning;
use crate::output::stdout::{print, print_json};

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

/// `--format` of a command that prints a table.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct FormatArgs {
    /// Form of the result. LaTeX needs the package booktabs; csv has no notes below the table.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: Format,
}

impl FormatArgs {
    /// Returns whether the result is text for a terminal.
    pub fn is_default(self) -> bool {
        self.format == Format::Text
    }

    /// Returns whether the result is JSON.
    pub fn is_json(self) -> bool {
        self.format == Format::Json
    }
}

/// Like [`FormatArgs`], for a command whose `--format` is the format of its input.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct OutputFormatArgs {
    /// Form of the result. LaTeX needs the package booktabs; csv has no notes below the table.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    output_format: Format,
}

impl From<OutputFormatArgs> for FormatArgs {
    fn from(args: OutputFormatArgs) -> Self {
        Self { format: args.output_format }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// Whether the column has numbers, which are aligned to the right.
    pub is_number: bool,
}

impl Column {
    /// Returns a column of text.
    pub fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_number: false }
    }

    /// Returns a column of numbers.
    pub fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_number: true }
    }
}

/// A table with notes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows: a cell for each column.
    pub rows: Vec<Vec<String>>,
    /// Sentences below the table.
    pub notes: Vec<String>,
    /// Warnings about the result, which are printed to stderr where the form has no place for them.
    pub warnings: Vec<String>,
}

/// A result that can be printed as a table.
pub trait Tabular {
    /// Returns the table.
    fn table(&self) -> Table;
}

/// Prints a result in the form that the flags select; `text` formats it for a terminal.
///
/// # Errors
/// As [`print()`].
pub fn print_table<T: Serialize + Tabular>(
    json: bool,
    format: FormatArgs,
    value: &T,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    let format = if json { Format::Json } else { format.format };
    let table = match format {
        Format::Json => return print_json(value),
        Format::Text => return print(text(value).trim_end()),
        _ => value.table(),
    };
    let printed = match format {
        Format::Markdown => table.markdown(),
        Format::Latex => table.latex(),
        Format::Html => table.html(),
        _ => {
            table.warnings.iter().for_each(print_warning);
            table.csv()?
        }
    };
    print(printed.trim_end())
}

impl Table {
    /// Returns a table of figures with their names.
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

    /// Returns the table in Markdown; notes are paragraphs below it.
    #[must_use]
    pub fn markdown(&self) -> String {
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let names = self.columns.iter().map(|column| in_markdown(&column.name)).collect();
        let rules = self.columns.iter().map(|column| if column.is_number { "---:" } else { "---" });
        let mut text = row(names) + &row(rules.map(String::from).collect());
        text.extend(self.rows.iter().map(|cells| row(cells.iter().map(|cell| in_markdown(cell)).collect())));
        text.extend(self.notes.iter().map(|note| format!("\n{}\n", in_markdown(note))));
        text.extend(self.warnings.iter().map(|warning| format!("\nwarning: {}\n", in_markdown(warning))));
        text
    }

    /// Returns the table as an HTML page. In a column of several numbers, the larger ones are darker.
    #[must_use]
    pub fn html(&self) -> String {
        let header: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let ranges: Vec<Option<(f64, f64)>> = (0..self.columns.len()).map(|at| self.range(at)).collect();
        let cell = |(at, text): (usize, &String)| match (
            self.columns[at].is_number,
            ranges[at],
            leading_number(text),
        ) {
            (true, Some((low, high)), Some(value)) => {
                Cell::Shaded(text.clone(), "var(--a)", 0.3 * (value - low) / (high - low))
            }
            (true, ..) => Cell::Figure(text.clone()),
            _ => Cell::Text(text.clone()),
        };
        let rows = self.rows.iter().map(|row| row.iter().enumerate().map(cell).collect());
        table_page("Results", &header, rows, &self.notes, &self.warnings)
    }

    /// Returns the smallest and the largest number of a column, if they differ.
    fn range(&self, column: usize) -> Option<(f64, f64)> {
        let values: Vec<f64> = self.rows.iter().filter_map(|row| leading_number(row.get(column)?)).collect();
        let low = values.iter().copied().min_by(f64::total_cmp)?;
        let high = values.iter().copied().max_by(f64::total_cmp)?;
        (low < high).then_some((low, high))
    }

    /// Returns the table as comma-separated values, without the notes.
    ///
    /// # Errors
    /// When a row has more or fewer cells than there are columns.
    pub fn csv(&self) -> anyhow::Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(self.columns.iter().map(|column| &column.name))?;
        self.rows.iter().try_for_each(|row| writer.write_record(row))?;
        let bytes = writer.into_inner().context("a buffer in memory")?;
        Ok(String::from_utf8(bytes)?)
    }

    /// Returns the table in LaTeX; notes are comments below it.
    #[must_use]
    pub fn latex(&self) -> String {
        let row = |cells: Vec<String>| format!("  {} \\\\\n", cells.join(" & "));
        let places: String =
            self.columns.iter().map(|column| if column.is_number { 'r' } else { 'l' }).collect();
        let names = self.columns.iter().map(|column| in_latex(&column.name)).collect();
        let mut text = format!("\\begin{{tabular}}{{{places}}}\n  \\toprule\n{}  \\midrule\n", row(names));
        text.extend(self.rows.iter().map(|cells| row(cells.iter().map(|cell| in_latex(cell)).collect())));
        text.push_str("  \\bottomrule\n\\end{tabular}\n");
        let comments = self.notes.iter().cloned();
        let comments = comments.chain(self.warnings.iter().map(|text| format!("warning: {text}")));
        text.extend(comments.map(|comment| format!("% {}\n", one_line(&comment))));
        text
    }
}

/// Returns the number at the start of a cell: of `61.3 ± 2.0` it is 61.3.
fn leading_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.trim_end_matches('%').parse().ok()
}

/// Replaces line breaks, which would end a row.
fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).collect::<Vec<_>>().join(" ")
}

/// Escapes text for a cell of a Markdown table.
fn in_markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in one_line(text).chars() {
        if matches!(character, '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Escapes text for LaTeX.
fn in_latex(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in one_line(text).chars() {
        match character {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', character]),
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '<' => escaped.push_str("\\textless{}"),
            '>' => escaped.push_str("\\textgreater{}"),
            '|' => escaped.push_str("\\textbar{}"),
            '"' => escaped.push_str("\\textquotedbl{}"),
            // At the start of a row, a bracket would be taken for the argument of the line break before it.
            '[' => escaped.push_str("{[}"),
            ']' => escaped.push_str("{]}"),
            // Two hyphens would become a dash.
            '-' if escaped.ends_with('-') => escaped.push_str("{}-"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            columns: vec![Column::text("setting"), Column::number("accuracy (%)")],
            rows: vec![
                vec!["a_b & c|d".to_string(), "60.0".to_string()],
                vec!["\"x\",\ny".to_string(), "-".to_string()],
            ],
            notes: vec!["50 % of it".to_string()],
            warnings: vec!["few seeds".to_string()],
        }
    }

    #[test]
    fn markdown_escapes_bars_and_line_breaks() {
        let expected = "| setting | accuracy (%) |\n| --- | ---: |\n| a\\_b & c\\|d | 60.0 |\n| \"x\", y | - |\n\n50 % of it\n\n\
                        warning: few seeds\n";
        assert_eq!(table().markdown(), expected);
    }

    #[test]
    fn latex_escapes_special_characters() {
        let expected = "\\begin{tabular}{lr}\n  \\toprule\n  setting & accuracy (\\%) \\\\\n  \\midrule\n  \
                        a\\_b \\& c\\textbar{}d & 60.0 \\\\\n  \\textquotedbl{}x\\textquotedbl{}, y & - \\\\\n  \\bottomrule\n\
                        \\end{tabular}\n% 50 % of it\n% warning: few seeds\n";
        assert_eq!(table().latex(), expected);
        assert_eq!(
            in_latex("\\~^{}$#<>[a]"),
            "\\textbackslash{}\\textasciitilde{}\\textasciicircum{}\\{\\}\\$\\#\\textless{}\\textgreater{}{[}a{]}"
        );
        assert_eq!(in_latex("--json -1"), "-{}-json -1");
    }

    #[test]
    fn html_shades_the_larger_numbers() {
        let mut table = table();
        table.rows[1][1] = "61.0 ± 2.0".to_string();
        let html = table.html();
        assert!(html.contains("a_b &amp; c|d</td>") && html.contains(">few seeds</p>"), "{html}");
        assert!(html.contains("var(--a) 0%,transparent)\">60.0<"), "{html}");
        assert!(html.contains("var(--a) 30%,transparent)\">61.0 ± 2.0<"), "{html}");
    }

    #[test]
    fn csv_quotes_and_reads_back() {
        let text = table().csv().unwrap();
        assert_eq!(text, "setting,accuracy (%)\na_b & c|d,60.0\n\"\"\"x\"\",\ny\",-\n");
        let mut uneven = table();
        uneven.rows[0].pop();
        assert!(uneven.csv().is_err());
    }
}
