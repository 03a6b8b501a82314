//! HTML report pages with tables and charts; each page is one self-contained file.
//!
//! Templates are written with the crate `maud`, which escapes all text. This crate is independent of the content of its
//! pages.
//!
//! | element | item |
//! |---|---|
//! | a whole page, in light or dark mode by the reader's setting | [`page`] |
//! | the key figures at the top of a page | [`tiles`] |
//! | tables of text, numbers, bars and shaded cells | [`table()`], [`Cell`], [`bars`] |
//! | curves over an axis, interactive in a chart page | [`chart()`], [`chart_page`], [`Curve`], [`downsample`], [`smooth`] |
//! | a page with a script, and data and images inside it | [`interactive_page`], [`packed`], [`heat_map`] |
//! | tables and names in Markdown | [`markdown`] |
//!
//! ```
//! use bert_pages::{Curve, Line, chart, figures, page, table};
//! use maud::html;
//!
//! let losses = Curve::new("training", "var(--a)", Line::Plain, vec![(1.0, 9.2), (2.0, 8.7)]);
//! let html = page("A run of <two> steps", &html! {
//!     h2 { "Loss" }
//!     (chart("step", "loss (nats)", &[losses], &[("uniform guess", 9.21)]))
//!     (table(&["step", "loss"], [figures("1", ["9.2"]), figures("2", ["8.7"])]))
//! });
//! assert!(html.contains("<h1>A run of &lt;two&gt; steps</h1>"));
//! ```

mod chart;
mod document;
mod interactive;
pub mod markdown;
mod table;

use maud::{Markup, html};

pub use chart::{Curve, Line, StepScale, chart, chart_data, downsample, smooth};
pub use document::{grouped, page};
pub use interactive::{CHART_SCRIPT, Script, chart_page, heat_map, interactive_page, packed};
pub use table::{Cell, bars, figures, shade, table};

/// Renders a page with one table, warnings above it and notes below; the title is plain text.
#[must_use]
pub fn table_page(
    title: &str,
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<Cell>>,
    notes: &[String],
    warnings: &[String],
) -> String {
    let body = html! {
        @for warning in warnings { p.warning { (warning) } }
        (table(header, rows))
        @for note in notes { p.note { (note) } }
    };
    page(title, &body)
}

/// Renders the key figures at the top of a page: name, value and remark of each.
#[must_use]
pub fn tiles(tiles: &[(&str, String, String)]) -> Markup {
    html! {
        div.tiles {
            @for (name, value, remark) in tiles { div.tile { (name) b { (value) } (remark) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_escapes_its_title_and_loads_nothing() {
        let page = page("<b> & \"x\"", &tiles(&[]));
        assert!(page.starts_with("<!doctype html>"));
        assert!(page.contains("<title>&lt;b&gt; &amp; &quot;x&quot;</title>"));
        for word in ["http://", "https://", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn text_is_escaped_everywhere() {
        let evil = "<script>alert('x')</script>\"&";
        let curve = Curve::new(evil, "var(--a)", Line::Marked, vec![(0.0, 1.0)]);
        let bodies = [
            tiles(&[(evil, evil.into(), evil.into())]),
            table(&[evil], [vec![evil.into()], vec![Cell::Figure(evil.into())]]),
            table(&[], [vec![Cell::Shaded(evil.into(), "var(--a)", 0.5)]]),
            bars(evil, &[(evil.into(), 1)]),
            chart(evil, evil, &[curve], &[(evil, 1.0)]),
        ];
        for body in bodies {
            let page = page(evil, &body).replace("<script type=\"application/json\">", "");
            assert!(!page.contains("<script"), "{page}");
            let shown = "&lt;script&gt;alert('x')&lt;/script&gt;&quot;&amp;";
            assert!(page.matches(shown).count() > 2, "the title twice, and the text: {page}");
        }
    }
}
