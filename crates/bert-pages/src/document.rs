//! Renders whole pages, and formats their numbers.

use maud::{Markup, PreEscaped, html};

/// The head of a page, in plain text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head<'a> {
    /// The title.
    pub title: &'a str,
    /// The subject, such as date, machine, commit, text and language; empty parts are left out.
    pub about: &'a [String],
}

/// Renders a whole page without a script.
#[must_use]
pub fn page(head: &Head<'_>, body: &Markup) -> String {
    document(head, "default-src 'none'; style-src 'unsafe-inline'", "", body)
}

/// Renders a page with a Content-Security-Policy, and with `style` added to the styles of every page.
pub(crate) fn document(head: &Head<'_>, policy: &str, style: &str, body: &Markup) -> String {
    let about = head.about.iter().filter(|part| !part.is_empty());
    let page = html! {
        (PreEscaped("<!doctype html>"))
        html lang="en" {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta http-equiv="Content-Security-Policy" content=(policy);
            title { (head.title) }
            style { (PreEscaped(include_str!("style.css"))) (PreEscaped(style)) }
            h1 { (breakable(head.title)) }
            @if !head.about.is_empty() {
                p.about { @for part in about { span { (breakable(part)) } " " } }
            }
            (body)
        }
    };
    page.into_string()
}

/// Renders the result of a page in one sentence, with a remark below it. `class` is `good`, `note`, `warning` or `plain`.
#[must_use]
pub fn verdict(class: &str, text: &str, remark: &str) -> Markup {
    html! {
        div.verdict.(class) {
            p { (text) }
            @if !remark.is_empty() { p.s { (remark) } }
        }
    }
}

/// Renders a text whose paths may break after a slash, and nowhere else within a word.
pub(crate) fn breakable(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split_inclusive('/').enumerate() {
            @if at > 0 { wbr; }
            (part)
        }
    }
}

/// Formats an integer with commas between the thousands: 1234567 is `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let shown = [0, 999, 1000, 12_345, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }
}
