//! Renders tables of texts, numbers, bars and shaded cells.

use maud::{Markup, Render, html};

use crate::document::grouped;

/// A text longer than this many characters is wrapped between words.
const LONG_TEXT: usize = 36;

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text, left-aligned.
    Text(String),
    /// A number, right-aligned.
    Figure(String),
    /// A number with the colour and the strength of its background ([`shade`]).
    Shaded(String, &'static str, f64),
    /// A bar with a length from 0 to 1.
    Bar(f64),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Render for Cell {
    fn render(&self) -> Markup {
        html! {
            @match self {
                Cell::Text(text) => td class=[(text.chars().count() > LONG_TEXT).then_some("long")] { (text) },
                Cell::Figure(figure) => td.n { (figure) },
                Cell::Shaded(figure, color, strength) => {
                    td.n style={ "background:" (shade(color, *strength)) } { (figure) }
                }
                Cell::Bar(length) => td { span.bar style=(format_args!("--share: {length:.3}")) {} },
            }
        }
    }
}

/// Returns a CSS colour mixed with the background, from 0 (background only) to 1 (colour only).
#[must_use]
pub fn shade(color: &str, strength: f64) -> String {
    format!("color-mix(in srgb,{color} {}%,transparent)", (100.0 * strength).round())
}

/// Returns the cells of a row: a name and its numbers.
pub fn figures<F: Into<String>>(name: &str, figures: impl IntoIterator<Item = F>) -> Vec<Cell> {
    let figures = figures.into_iter().map(|figure| Cell::Figure(figure.into()));
    std::iter::once(name.into()).chain(figures).collect()
}

/// Renders rows under a header, which may be empty; header cells are aligned like the cells of the first row.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) -> Markup {
    let mut rows = rows.into_iter().peekable();
    let first = rows.peek().into_iter().flatten();
    let mut classes = first.map(|cell| (!matches!(cell, Cell::Text(_))).then_some("n"));
    let header: Vec<_> = header.iter().map(|name| (name, classes.next().flatten())).collect();
    html! {
        div.scroll tabindex="0" {
            table {
                @if !header.is_empty() {
                    tr { @for (name, class) in header { th class=[class] { (name) } } }
                }
                @for row in rows {
                    tr { @for cell in row { (cell) } }
                }
            }
            span.more { "scrolls sideways \u{2192}" }
        }
    }
}

/// Renders counts as a table: a name, a count, its share, and a bar for each.
#[must_use]
pub fn bars(unit: &str, counts: &[(String, u64)]) -> Markup {
    let max = counts.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1) as f64;
    let total = counts.iter().map(|(_, count)| *count).sum::<u64>().max(1) as f64;
    let row = |(name, count): &(String, u64)| {
        let share = format!("{:.1} %", 100.0 * *count as f64 / total);
        let mut row = figures(name, [grouped(*count), share]);
        row.push(Cell::Bar(*count as f64 / max));
        row
    };
    table(&["", unit, "share", ""], counts.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_their_headers_are_right_aligned() {
        let rows = [figures("a", ["1"]), vec!["b".into(), Cell::Shaded("2".into(), "red", 0.25)]];
        let html = table(&["name", "count"], rows).into_string();
        assert!(html.contains("<tr><th>name</th><th class=\"n\">count</th></tr>"), "{html}");
        assert!(html.contains("<tr><td>a</td><td class=\"n\">1</td></tr>"), "{html}");
        assert!(
            html.contains("style=\"background:color-mix(in srgb,red 25%,transparent)\">2</td>"),
            "{html}"
        );
        assert!(!table(&[], [figures("a", ["1"])]).into_string().contains("<th"));
    }

    #[test]
    fn the_largest_count_has_the_longest_bar() {
        let html = bars("rows", &[("a".into(), 3000), ("b".into(), 1000)]).into_string();
        assert!(html.contains("<td class=\"n\">3,000</td><td class=\"n\">75.0 %</td>"), "{html}");
        assert!(html.contains("--share: 1.000\"") && html.contains("--share: 0.333\""), "{html}");
        assert!(bars("rows", &[("none".into(), 0)]).into_string().contains("--share: 0.000"));
    }
}
