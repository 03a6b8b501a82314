//! The form of a table in a terminal: aligned columns that fit its width.
//!
//! Where the terminal is too narrow, texts are wrapped between words, and then columns are left out, those with the largest
//! priority number first. A line below the table names them.

use textwrap::wrap;
use unicode_width::UnicodeWidthStr;

use super::Table;
use crate::output::terminal::{between_words, wrapped};

/// Spaces between two columns.
const GAP: usize = 2;
/// Minimum width of a wrapped column of text.
const MIN_TEXT: usize = 18;

/// The columns that fit a width.
struct Layout {
    /// The indices of the columns, in their order.
    columns: Vec<usize>,
    /// The widths of the columns.
    widths: Vec<usize>,
    /// The indices of the columns that do not fit.
    hidden: Vec<usize>,
}

impl Table {
    /// Formats the table for a terminal with `width` columns: title, verdict, caption, rows, notes and warnings.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let (columns, caption) = self.divided();
        let layout = self.layout(columns, width);
        let header: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let mut lines: Vec<String> = Vec::new();
        let mut add = |text: &str| {
            if !text.is_empty() {
                lines.push(wrapped(text, width));
            }
        };
        [&self.title, &self.verdict, &caption].into_iter().for_each(|text| add(text));
        for row in std::iter::once(&header).chain(&self.rows) {
            self.row_lines(&layout, row).iter().for_each(|line| add(line));
        }
        let hidden: Vec<&str> = layout.hidden.iter().map(|&at| self.columns[at].name.as_str()).collect();
        if !hidden.is_empty() {
            add(&format!("not shown, for lack of width: {} (see --format csv)", hidden.join(", ")));
        }
        self.notes.iter().for_each(|note| add(note));
        self.warnings.iter().for_each(|warning| add(&format!("warning: {warning}")));
        if let Some(second) = &self.second {
            add(&format!("\n{}", second.text(width)));
        }
        lines.join("\n")
    }

    /// Returns the columns that fit a width, with their widths.
    fn layout(&self, mut columns: Vec<usize>, width: usize) -> Layout {
        let mut hidden = Vec::new();
        loop {
            let mut widths: Vec<usize> = columns.iter().map(|&at| self.widest(at)).collect();
            let least: Vec<usize> = columns.iter().map(|&at| self.narrowest(at)).collect();
            let excess = |widths: &[usize]| {
                (widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)).saturating_sub(width)
            };
            while excess(&widths) > 0 {
                let wide = (0..widths.len()).filter(|&at| widths[at] > least[at]);
                let Some(widest) = wide.max_by_key(|&at| widths[at]) else { break };
                widths[widest] -= 1;
            }
            let last = (1..columns.len()).max_by_key(|&at| (self.columns[columns[at]].priority, at));
            match last {
                Some(last) if excess(&widths) > 0 => hidden.push(columns.remove(last)),
                _ => return Layout { columns, widths, hidden },
            }
        }
    }

    /// Returns the texts of a column, the heading first.
    fn texts(&self, column: usize) -> impl Iterator<Item = &str> {
        let cells = self.rows.iter().map(move |row| row[column].as_str());
        std::iter::once(self.columns[column].name.as_str()).chain(cells)
    }

    /// Returns the width of a column without wrapping.
    fn widest(&self, column: usize) -> usize {
        self.texts(column).map(UnicodeWidthStr::width).max().unwrap_or(0)
    }

    /// Returns the minimum width of a column. It fits the longest word and all numbers, and is large enough to read a
    /// text.
    fn narrowest(&self, column: usize) -> usize {
        let words = self.texts(column).flat_map(str::split_whitespace);
        let word = words.map(UnicodeWidthStr::width).max().unwrap_or(0);
        let numbers = self.texts(column).skip(1).map(UnicodeWidthStr::width).max().unwrap_or(0);
        let is_number = self.columns[column].is_number();
        let least = if is_number { numbers } else { MIN_TEXT.min(self.widest(column)) };
        word.max(least)
    }

    /// Returns the lines of a row.
    fn row_lines(&self, layout: &Layout, row: &[String]) -> Vec<String> {
        let cells = layout.columns.iter().zip(&layout.widths);
        let cells: Vec<Vec<_>> = cells.map(|(&at, &width)| wrap(&row[at], between_words(width))).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let line = |number: usize| {
            let mut line = String::new();
            for ((cell, &width), &at) in cells.iter().zip(&layout.widths).zip(&layout.columns) {
                let text = cell.get(number).map_or("", |text| text);
                let padding = " ".repeat(width.saturating_sub(text.width()));
                let (before, after) = if self.columns[at].is_number() {
                    (padding.as_str(), "")
                } else {
                    ("", padding.as_str())
                };
                line.extend([before, text, after, &" ".repeat(GAP)]);
            }
            line.trim_end().to_string()
        };
        (0..height).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Column;
    use super::*;

    fn table() -> Table {
        let row = |setting: &str, mean: &str, published: &str| {
            [setting, mean, "1.5", published].map(String::from).to_vec()
        };
        Table {
            title: "A title".into(),
            columns: vec![
                Column::text("setting"),
                Column::number("mean"),
                Column::number("SD").with_priority(2),
                Column::text("published").with_priority(1),
            ],
            rows: vec![row("tuned", "61.3", "a report, on the test set"), row("frozen", "9.0", "-")],
            notes: vec!["a note".into()],
            warnings: vec!["careful".into()],
            ..Table::default()
        }
    }

    #[test]
    fn wide_terminals_show_all_columns() {
        let expected = "A title\nsetting  mean   SD  published\ntuned    61.3  1.5  a report, on the test set\n\
                        frozen    9.0  1.5  -\na note\nwarning: careful";
        assert_eq!(table().text(usize::MAX), expected);
    }

    #[test]
    fn narrow_terminals_wrap_texts_and_hide_columns() {
        let expected = "A title\nsetting  mean   SD  published\ntuned    61.3  1.5  a report, on the\n                    \
                        test set\nfrozen    9.0  1.5  -\na note\nwarning: careful";
        assert_eq!(table().text(40), expected);
        let narrow = table().text(20);
        assert!(narrow.contains("setting  mean\ntuned    61.3\n"), "{narrow}");
        let words: Vec<&str> = narrow.split_whitespace().collect();
        assert!(words.join(" ").contains("SD, published"), "{narrow}");
        for width in [20, 30, 40, 60] {
            assert!(table().text(width).lines().all(|line| line.width() <= width), "{width}");
        }
    }
}
