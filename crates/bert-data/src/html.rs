//! The frame that all HTML pages of these programs share.
//!
//! [`document`] makes a whole page of a title, styles and a body. The page loads nothing from outside, follows the
//! reader's light or dark setting, and can be read on a narrow screen. [`escape`] makes text safe to put into it.

/// Colours, type and tables. `--soft` keeps a contrast of 4.5 to 1 on the paper in both settings.
const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5b6675; --line: #dde2ea; --paper: #fff; --card: #f4f6f9;
  --a: #1f6feb; --b: #c2570c; --good: #1a7f37; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b6; --line: #343c49; --paper: #14181f;
  --card: #1c222c; --a: #6aa5ff; --b: #f0a351; --good: #5fc779; --warn: #e3b341; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 64rem;
  margin: 0 auto; padding: 2rem 1.25rem 4rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .6rem; }
p { margin: .5rem 0; max-width: 48rem; } .note, .s { color: var(--soft); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .94rem; }
th, td { text-align: left; padding: .25rem 1.1rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; } .n { text-align: right; white-space: nowrap; padding-left: .9rem; }
.scroll { overflow-x: auto; } .scroll table { overflow-wrap: normal; }
code, pre { font: .84rem/1.5 ui-monospace, monospace; } pre { white-space: pre-wrap; }
summary { cursor: pointer; color: var(--soft); }
";

/// Text as HTML text or attribute value.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A whole page: a title in plain text, CSS of its own, and the HTML of its body.
#[must_use]
pub fn document(title: &str, style: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>{STYLE}{style}</style>\n<h1>{title}</h1>\n{body}</html>\n"
    )
}

/// A whole number with commas between the thousands: 1234567 is `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let shown = [0, 999, 1000, 12_345, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn a_document_escapes_its_title_and_loads_nothing() {
        let page = document("<b> & \"x\" 'y'", "", "");
        assert!(page.contains("<title>&lt;b&gt; &amp; &quot;x&quot; &#39;y&#39;</title>"));
        for word in ["http://", "https://", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
