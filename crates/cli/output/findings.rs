//! Prints the diagnostics of a run.

use bert_reports::{Finding, Severity};

use crate::output::progress::print_message;
use crate::output::terminal::Word;

/// Prints each finding as a line on stderr.
pub fn print_findings(findings: &[Finding]) {
    for finding in findings {
        let word = match finding.severity {
            Severity::Good => Word::Good,
            Severity::Note => Word::Note,
            Severity::Warning => Word::Warning,
        };
        print_message(word, &finding.text);
    }
}
