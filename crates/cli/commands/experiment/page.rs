//! The page of an experiment: the question, the table, its notes, and the parts of the experiment.

use bert_pages::{Cell as PageCell, table};
use maud::{Markup, html};

use super::table::{Cell, Results, Rows};
use crate::output::progress::duration;

/// Renders the page.
pub(super) fn page(results: &Results, body: &Markup) -> String {
    let body = html! {
        p { (results.about) }
        (rows_table(&results.rows))
        ul.findings {
            @for note in &results.notes { li.note { (note) } }
            @for warning in &results.warnings { li.warning { (warning) } }
        }
        (body)
        p.note {
            "Checkpoints: " (results.checkpoints.join(", ")) ". Time: " (duration(results.seconds))
            @if let Some(estimate) = results.estimated_seconds { ", estimated " (duration(estimate)) }
            "."
        }
    };
    bert_pages::page(&results.title, &body)
}

/// Renders the table.
fn rows_table(rows: &Rows) -> Markup {
    let names: Vec<&str> = rows.headings.iter().map(|heading| heading.name).collect();
    let cell = |cell: &Cell| match cell {
        Cell::Text(text) => PageCell::Text(text.clone()),
        Cell::Number(_, text) => PageCell::Figure(text.clone()),
    };
    table(&names, rows.rows.iter().map(|row| row.iter().map(cell).collect()))
}
