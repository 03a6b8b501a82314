//! Renders the page of `bert watch`. A script fills it with the states that the server sends.

use bert_pages::{CHART_SCRIPT, Head, Script, interactive_page, verdict};
use maud::html;

const LIVE_SCRIPT: &str = include_str!("live.js");

/// Returns the page. Its script reads server-sent events from `/events`, each a JSON list of
/// [`LiveStatus`](super::LiveStatus), or of objects with `name` and `error`.
#[must_use]
pub fn live_page() -> String {
    let body = html! {
        (verdict("plain", "No run has been read yet.", ""))
        p.note id="connection" { "connecting" }
        div #runs {}
        noscript { p { "This page needs JavaScript. In a terminal: bert watch RUN --tui" } }
    };
    let code = format!("'use strict';(() => {{\n{CHART_SCRIPT}{LIVE_SCRIPT}}})();");
    let style = include_str!("live.css");
    interactive_page(
        &Head { title: "Runs", about: &[] },
        &body,
        Script { code: &code, style, data: "null", connects: true },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_connects_to_its_own_server_only() {
        let page = live_page();
        assert!(page.contains("; connect-src 'self'\"") && page.contains("new EventSource('/events')"));
        for outside in ["http:", "https:", "src=", "href=", "@import"] {
            assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
        }
    }
}
