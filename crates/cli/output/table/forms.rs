//! The forms of a table in files and documents: Markdown, HTML, comma-separated values and LaTeX.

use anyhow::Context;
use bert_pages::{Cell, Head, page, table, verdict};
use maud::{Markup, html};

use super::Table;

impl Table {
    /// Returns the table in Markdown; the caption is above it, notes are paragraphs below.
    #[must_use]
    pub fn markdown(&self) -> String {
        let (columns, caption) = self.divided();
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let names = columns.iter().map(|&at| in_markdown(&self.columns[at].name)).collect();
        let rules = columns.iter().map(|&at| if self.columns[at].is_number() { "---:" } else { "---" });
        let mut text = [&self.verdict, &caption]
            .into_iter()
            .filter(|line| !line.is_empty())
            .map(|line| format!("{}\n\n", in_markdown(line)))
            .collect::<String>();
        text += &(row(names) + &row(rules.map(String::from).collect()));
        text.extend(
            self.rows.iter().map(|cells| row(columns.iter().map(|&at| in_markdown(&cells[at])).collect())),
        );
        text.extend(self.notes.iter().map(|note| format!("\n{}\n", in_markdown(note))));
        text.extend(self.warnings.iter().map(|warning| format!("\nwarning: {}\n", in_markdown(warning))));
        text.extend(
            self.second
                .iter()
                .map(|second| format!("\n## {}\n\n{}", in_markdown(&second.title), second.markdown())),
        );
        text
    }

    /// Returns the page of the result, or else a page with the table.
    #[must_use]
    pub fn html(&self) -> String {
        let title = if self.title.is_empty() { "Results" } else { &self.title };
        let page_of_table = || page(&Head { title, about: &[] }, &self.section(&Markup::default()));
        self.page.clone().unwrap_or_else(page_of_table)
    }

    /// Renders the table with its verdict, caption, warnings and notes; `body` is below the verdict.
    #[must_use]
    pub fn section(&self, body: &Markup) -> Markup {
        let (columns, caption) = self.divided();
        let header: Vec<&str> = columns.iter().map(|&at| self.columns[at].name.as_str()).collect();
        let cell = |at: usize, text: &String| match self.columns[at].is_number() {
            true => Cell::Figure(text.clone()),
            false => Cell::Text(text.clone()),
        };
        let rows = self.rows.iter().map(|row| columns.iter().map(|&at| cell(at, &row[at])).collect());
        html! {
            @if !self.verdict.is_empty() { (verdict("plain", &self.verdict, "")) }
            (body)
            @if !caption.is_empty() { p.note { (caption) } }
            (table(&header, rows))
            @for note in &self.notes { p.note { (note) } }
            @for warning in &self.warnings { p.warning { (warning) } }
            @if let Some(second) = &self.second { h2 { (second.title) } (second.section(&Markup::default())) }
        }
    }

    /// Returns the table as comma-separated values with all columns, without the notes.
    ///
    /// # Errors
    /// Fails when a row has more or fewer cells than there are columns.
    pub fn csv(&self) -> anyhow::Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(self.columns.iter().map(|column| &column.name))?;
        self.rows.iter().try_for_each(|row| writer.write_record(row))?;
        let bytes = writer.into_inner().context("a buffer in memory")?;
        Ok(String::from_utf8(bytes)?)
    }

    /// Returns the table in LaTeX; caption and notes are comments below it.
    #[must_use]
    pub fn latex(&self) -> String {
        let (columns, caption) = self.divided();
        let row = |cells: Vec<String>| format!("  {} \\\\\n", cells.join(" & "));
        let places: String =
            columns.iter().map(|&at| if self.columns[at].is_number() { 'r' } else { 'l' }).collect();
        let names = columns.iter().map(|&at| in_latex(&self.columns[at].name)).collect();
        let mut text = format!("\\begin{{tabular}}{{{places}}}\n  \\toprule\n{}  \\midrule\n", row(names));
        text.extend(
            self.rows.iter().map(|cells| row(columns.iter().map(|&at| in_latex(&cells[at])).collect())),
        );
        text.push_str("  \\bottomrule\n\\end{tabular}\n");
        let comments = [self.verdict.clone(), caption].into_iter().filter(|line| !line.is_empty());
        let comments = comments.chain(self.notes.iter().cloned());
        let comments = comments.chain(self.warnings.iter().map(|text| format!("warning: {text}")));
        text.extend(comments.map(|comment| format!("% {}\n", one_line(&comment))));
        text.extend(
            self.second.iter().map(|second| format!("% {}\n{}", one_line(&second.title), second.latex())),
        );
        text
    }
}

/// Returns a text without line breaks, which would end a row.
fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).collect::<Vec<_>>().join(" ")
}

/// Returns a text with escapes for a cell of a Markdown table.
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

/// Returns a text with escapes for LaTeX.
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
    use super::super::Column;
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
            ..Table::default()
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
    fn csv_quotes_and_reads_back() {
        let text = table().csv().unwrap();
        assert_eq!(text, "setting,accuracy (%)\na_b & c|d,60.0\n\"\"\"x\"\",\ny\",-\n");
        let mut uneven = table();
        uneven.rows[0].pop();
        assert!(uneven.csv().is_err());
    }
}
