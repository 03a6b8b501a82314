//! The page of a run or a fine-tuning, and its common parts.

use std::path::Path;

use bert_pages::verdict;
use bert_training::Error;
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

/// Returns the error for a folder that is neither a run nor a fine-tuning.
pub(crate) fn no_run(folder: &Path) -> Error {
    let text = "neither a pre-training run (run.json) nor a fine-tuning (report.json); for a data folder use bert inspect \
                --html";
    Error::failed(text).at(folder)
}

/// Formats seconds with at most two units.
pub(crate) fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let days = seconds / 86_400;
    let hours = seconds / 3600 % 24;
    let minutes = seconds / 60 % 60;
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
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

/// Returns `commit` and the first seven digits of a commit; empty if the commit is unknown.
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
    fn durations_have_two_units() {
        let texts = [4.4, 65.0, 3700.0, 90_000.0].map(duration);
        assert_eq!(texts, ["4 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]);
    }

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
