//! HTML report pages with tables and charts; each page is one self-contained file.
//!
//! Templates are written with the crate `maud`, which escapes all text. This crate is independent of the content of its
//! pages.
//!
//! | element | item |
//! |---|---|
//! | a whole page, in light or dark mode by the reader's setting | [`page`], [`Head`] |
//! | the result in one sentence, and the key figures | [`verdict`], [`tiles`] |
//! | a text whose words have a signed effect | [`colored_words`] |
//! | tables of text, numbers, bars and shaded cells | [`table()`], [`Cell`], [`bars`] |
//! | curves over an axis in a chart page | [`chart()`], [`chart_page`], [`Curve`], [`series_color`], [`downsample`], [`smooth`] |
//! | a page with a script, and data and images inside it | [`interactive_page`], [`packed`], [`heat_map`] |
//! | tables and names in Markdown | [`markdown`] |
//!
//! ```
//! use bert_pages::{Curve, Head, Line, chart, chart_page, figures, series_color, table, verdict};
//! use maud::html;
//!
//! let losses = Curve::new("training", series_color(0), Line::Plain, vec![(1.0, 9.2), (2.0, 8.7)]);
//! let head = Head { title: "A run of <two> steps", about: &["27 November 2026".to_string()] };
//! let html = chart_page(&head, &html! {
//!     (verdict("good", "The loss falls.", ""))
//!     (chart("step", "loss (nats)", &[losses], &[("uniform guess", 9.21)]))
//!     (table(&["step", "loss"], [figures("1", ["9.2"]), figures("2", ["8.7"])]))
//! });
//! assert!(html.contains("<h1>A run of &lt;two&gt; steps</h1>"));
//! ```

mod chart;
mod document;
mod interactive;
#[doc(hidden)]
pub mod markdown;
mod table;

use maud::{Markup, html};

pub use chart::{Curve, Line, StepScale, chart};
pub use document::{Head, page, verdict};
pub use interactive::{Script, chart_page, heat_map, interactive_page};
pub use table::{Cell, bars, table};

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
pub use chart::{chart_data, downsample, series_color, smooth};
#[doc(hidden)]
pub use document::grouped;
#[doc(hidden)]
pub use interactive::{CHART_SCRIPT, packed};
#[doc(hidden)]
pub use table::{figures, shade};

/// A key figure: its name, its value and a remark.
pub type Figure<'a> = (&'a str, String, String);

/// Renders the key figures at the top of a page in one row, or in several of equal cells.
#[must_use]
pub fn tiles(tiles: &[Figure<'_>]) -> Markup {
    html! {
        div.tiles {
            @for (name, value, remark) in tiles {
                div.tile { (name) b { (value) } (document::breakable(remark)) }
            }
        }
    }
}

/// Renders words with a signed effect as a text whose words are coloured: blue for positive and orange for negative values,
/// the largest absolute value with the strongest colour. A scale is below.
#[must_use]
pub fn colored_words(words: &[(&str, f64)]) -> Markup {
    let most = words.iter().map(|(_, value)| value.abs()).fold(1e-12, f64::max);
    html! {
        p.effect {
            @for (word, value) in words {
                @let color = if *value < 0.0 { "var(--s1)" } else { "var(--s0)" };
                @let strength = (45.0 * value.abs() / most).round();
                span style={ "--color:" (color) ";--strength:" (strength) "%" } title=(format_args!("{value:+.4}")) { (word) }
                " "
            }
        }
        p.note { (format_args!("{:.3}", -most)) span.scale {} (format_args!("{most:+.3}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_escapes_its_title_and_loads_nothing() {
        let page = page(&Head { title: "<b> & \"x\"", about: &["<i>".into()] }, &tiles(&[]));
        assert!(page.starts_with("<!doctype html>"));
        assert!(page.contains("<title>&lt;b&gt; &amp; &quot;x&quot;</title>"));
        for word in ["http://", "https://", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn words_are_coloured_by_sign_and_size() {
        let html = colored_words(&[("good", 0.5), ("<b>", -1.0), ("film", 0.0)]).into_string();
        assert!(html.contains("--color:var(--s0);--strength:23%\" title=\"+0.5000\">good<"), "{html}");
        assert!(html.contains("--color:var(--s1);--strength:45%\" title=\"-1.0000\">&lt;b&gt;<"), "{html}");
        assert!(html.contains("--strength:0%") && html.contains("-1.000<"), "{html}");
    }

    #[test]
    fn text_is_escaped_everywhere() {
        let evil = "<script>alert('x')</script>\"&";
        let curve = Curve::new(evil, series_color(0), Line::Marked, vec![(0.0, 1.0)]);
        let bodies = [
            tiles(&[(evil, evil.into(), evil.into())]),
            table(&[evil], [vec![evil.into()], vec![Cell::Figure(evil.into())]]),
            table(&[], [vec![Cell::Shaded(evil.into(), "var(--a)", 0.5)]]),
            bars(evil, &[(evil.into(), 1)]),
            chart(evil, evil, &[curve], &[(evil, 1.0)]),
        ];
        for body in bodies {
            let head = Head { title: evil, about: &[evil.into()] };
            let page =
                page(&head, &body).replace("<script type=\"application/json\">", "").replace("<wbr>", "");
            assert!(!page.contains("<script"), "{page}");
            let shown = "&lt;script&gt;alert('x')&lt;/script&gt;&quot;&amp;";
            assert!(page.matches(shown).count() > 2, "the title twice, and the text: {page}");
        }
    }
}
