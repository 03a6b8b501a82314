//! The page of a run or a fine-tuning, and its common parts.

use std::path::Path;

use bert_pages::verdict;
use maud::{Markup, html};

use crate::findings::{Finding, Severity};

/// A page and its findings.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The page.
    pub html: String,
    /// The findings, warnings first.
    pub findings: Vec<Finding>,
}

/// Renders the most important finding as the result of the page, and returns it with the other findings. Warnings are
/// most important, then good results, then notes.
pub(crate) fn split_verdict(findings: &[Finding]) -> (Markup, Vec<Finding>) {
    let rank = |finding: &&Finding| match finding.severity {
        Severity::Warning => 0,
        Severity::Good => 1,
        Severity::Note => 2,
    };
    let Some(first) = findings.iter().min_by_key(rank) else { return (Markup::default(), Vec::new()) };
    let others: Vec<Finding> = findings.iter().filter(|finding| *finding != first).cloned().collect();
    let remark = match others.len() {
        0 => String::new(),
        1 => "One more finding is below.".to_string(),
        more => format!("{more} more findings are below."),
    };
    (verdict(first.severity.word(), &first.text, &remark), others)
}

/// Returns the name of a folder in a title: the last part of its path.
pub(crate) fn folder_name(folder: &Path) -> String {
    let path = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    path.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Returns the start of a commit in words, or nothing if the commit is unknown.
pub(crate) fn commit_words(commit: &str) -> String {
    match commit.get(..7) {
        Some(start) if commit != "unknown" => format!("commit {start}"),
        _ => String::new(),
    }
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
