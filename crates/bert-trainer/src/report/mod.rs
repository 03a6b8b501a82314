//! Builds `report.html`, a self-contained page that shows what a pre-training run or a fine-tuning did.
//!
//! It reads the folder of a run (`run.json`, `metrics.jsonl`, `evaluations.jsonl`, `timing.jsonl`) or of a
//! fine-tuning (`report.json`). The [`Report`] has the page, with curves and tables, and what stands out in words.
//! The page loads nothing from outside. Beside the figures it shows what guessing and counting give, and for a run
//! what others reached.

mod calibration;
mod chart;
mod findings;
mod finetuning;
mod fusion;
mod grid;
mod pretraining;
mod record;

use std::fmt::Write as _;
use std::path::Path;

use bert_data::html::{document, escape};

pub use findings::{Finding, Weight};
pub use finetuning::finetuning_page;
pub use pretraining::pretraining_page;

use crate::error::Error;

const STYLE: &str = "
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: .75rem; }
.tile { background: var(--card); border-radius: 8px; padding: .7rem .9rem; font-size: .85rem; color: var(--soft); }
.tile b { display: block; font-size: 1.4rem; font-weight: 600; color: var(--ink); font-variant-numeric: tabular-nums; }
.findings { list-style: none; padding: 0; max-width: 52rem; }
.findings li { border-left: 4px solid var(--line); padding: .15rem 0 .15rem .8rem; margin: .5rem 0; color: var(--ink); }
.findings .good { border-color: var(--good); } .findings .warning { border-color: var(--warn); }
svg { display: block; width: 100%; min-width: 38rem; height: auto; }
svg text { font: 13px system-ui, sans-serif; fill: var(--soft); }
svg .halo { paint-order: stroke; stroke: var(--paper); stroke-width: 5px; }
.errors td:nth-child(n+5) { min-width: 15rem; }
td.hit { background: color-mix(in srgb, var(--good) 22%, transparent); }
td.miss { background: color-mix(in srgb, var(--warn) 22%, transparent); }
";

/// A page and what it says first.
#[derive(Clone, Debug)]
pub struct Report {
    /// The page.
    pub html: String,
    /// What stands out, warnings first.
    pub findings: Vec<Finding>,
}

/// The page of whatever lies in `folder`; `others` are pre-training runs drawn beside it.
///
/// # Errors
/// [`Error::NothingToReport`] when the folder is neither a run nor a fine-tuning,
/// [`Error::Configuration`] when a fine-tuning is to be compared with runs, and errors of reading.
pub fn report(folder: &Path, others: &[&Path]) -> Result<Report, Error> {
    if folder.join("run.json").exists() {
        return pretraining_page(folder, others);
    }
    if !folder.join("report.json").exists() {
        return Err(Error::NothingToReport { path: folder.to_path_buf() });
    }
    if !others.is_empty() {
        let reason = format!("{} is a fine-tuning, not a pre-training run", folder.display());
        return Err(Error::Configuration { flag: "compare", reason });
    }
    finetuning_page(folder)
}

/// What stands out in a pre-training run, warnings first: without the page.
///
/// # Errors
/// Those of reading the run's files.
pub fn run_findings(run: &Path) -> Result<Vec<Finding>, Error> {
    Ok(findings::findings(&record::RunRecord::read(run)?.with_baselines()))
}

/// A whole page from a title and the HTML of its body.
fn page(title: &str, body: &str) -> String {
    document(title, STYLE, body)
}

/// A table of text cells under a header; all columns but the first are figures and set right.
fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let class = |column: usize| if column == 0 { "" } else { " class=\"n\"" };
    let mut out = String::from("<div class=\"scroll\"><table>\n<tr>");
    for (column, cell) in header.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(column), escape(cell));
    }
    out.push_str("</tr>\n");
    for row in rows {
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(column), escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out + "</table></div>\n"
}

/// The figures to see first: what it is, the value, a remark.
fn tiles(tiles: &[(&str, String, String)]) -> String {
    let mut out = String::from("<div class=\"tiles\">\n");
    for (name, value, remark) in tiles {
        let _ = writeln!(
            out,
            "<div class=\"tile\">{}<b>{}</b>{}</div>",
            escape(name),
            escape(value),
            escape(remark)
        );
    }
    out + "</div>\n"
}

fn findings_list(findings: &[Finding]) -> String {
    let mut out = String::from("<ul class=\"findings\">\n");
    for finding in findings {
        let word = finding.weight.word();
        let _ = writeln!(out, "<li class=\"{word}\">{}</li>", escape(&finding.text));
    }
    out + "</ul>\n"
}

/// The settings, folded away.
fn settings(value: &serde_json::Value) -> String {
    let pretty = serde_json::to_string_pretty(value).expect("it was JSON");
    format!(
        "<h2>Settings</h2>\n<details><summary>All of them</summary><pre>{}</pre></details>\n",
        escape(&pretty)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_everywhere() {
        let evil = "<script>alert('x')</script>\"&";
        let finding = Finding { weight: Weight::Note, text: evil.into() };
        let body = table(&[evil], &[vec![evil.to_string()]])
            + &tiles(&[(evil, evil.into(), evil.into())])
            + &findings_list(&[finding])
            + &settings(&serde_json::json!({ evil: evil }));
        let html = page(evil, &body);
        assert!(!html.contains("<script"));
        assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;"));
    }

    #[test]
    fn a_page_loads_nothing_from_outside() {
        let html = page("t", &tiles(&[]));
        for word in ["http://", "https://", "src=", "href=", "url(", "@import"] {
            assert!(!html.contains(word), "{word}");
        }
    }
}
