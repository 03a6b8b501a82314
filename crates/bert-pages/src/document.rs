//! Renders whole pages, and numbers as pages show them.

use maud::{Markup, PreEscaped, html};

/// Renders a whole page without a script; the title is plain text.
#[must_use]
pub fn page(title: &str, body: &Markup) -> String {
    document(title, "default-src 'none'; style-src 'unsafe-inline'", "", body)
}

/// Renders a page with a Content-Security-Policy, and with `style` added to the styles of every page.
pub(crate) fn document(title: &str, policy: &str, style: &str, body: &Markup) -> String {
    let page = html! {
        (PreEscaped("<!doctype html>"))
        html lang="en" {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta http-equiv="Content-Security-Policy" content=(policy);
            title { (title) }
            style { (PreEscaped(include_str!("style.css"))) (PreEscaped(style)) }
            h1 { (title) }
            (body)
        }
    };
    page.into_string()
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
