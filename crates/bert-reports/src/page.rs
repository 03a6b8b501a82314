//! The page of a run or a fine-tuning, and its common parts.

use maud::{Markup, html};

use crate::findings::Finding;

/// A page and its findings.
#[derive(Clone, Debug)]
pub struct Report {
    /// The page.
    pub html: String,
    /// The findings, warnings first.
    pub findings: Vec<Finding>,
}

/// Renders the findings as a list.
pub(crate) fn findings_list(findings: &[Finding]) -> Markup {
    html! {
        ul.findings {
            @for finding in findings { li class=(finding.severity.word()) { (finding.text) } }
        }
    }
}

/// Renders the settings, collapsed.
pub(crate) fn settings(value: &serde_json::Value) -> Markup {
    html! {
        h2 { "Settings" }
        details {
            summary { "All of them" }
            pre { (format_args!("{value:#}")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Severity;

    #[test]
    fn text_is_escaped_everywhere() {
        let evil = "<script>alert('x')</script>&";
        let finding = Finding::new(Severity::Note, evil.into());
        let body = html! { (findings_list(&[finding])) (settings(&serde_json::json!({ evil: evil }))) };
        let html = body.into_string();
        assert!(!html.contains("<script"));
        assert_eq!(html.matches("&lt;script&gt;alert('x')&lt;/script&gt;&amp;").count(), 3);
    }
}
