//! `bert report` writes a page with the curves, figures and diagnostics of a run or a fine-tuning.

use std::path::{Path, PathBuf};

use bert_reports::{Finding, comparison_page, report};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::evaluation::runs_in;
use crate::output::files::{OverwriteArgs, write_text};
use crate::output::findings::print_findings;
use crate::output::table::{Column, FormatArgs, Table, print_table};

/// Write the page of a run or a comparison, and print diagnostics.
///
/// The page is report.html in the folder of a run or a fine-tuning. Several folders are compared on one page. For a
/// run, the page shows the curves next to the unigram and bigram baselines. The diagnostics on stderr report good
/// results, remarks and probable errors (nothing learnt, leaking labels, overfitting, a rising loss). The command
/// also works while the run is in progress.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Folder of the run or of the fine-tuning. Several, or a folder that contains several, are compared.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,

    /// Draw the curves of other runs too, for example of a reference run.
    #[arg(long, value_name = "RUN,...", value_delimiter = ',')]
    compare: Vec<PathBuf>,

    /// HTML file to write [default: report.html in the folder, which is replaced; comparison.html for several folders].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    overwrite: OverwriteArgs,

    #[command(flatten)]
    format: FormatArgs,
}

/// The result as JSON.
#[derive(Serialize)]
struct Written<'a> {
    page: &'a Path,
    findings: &'a [Finding],
}

/// Returns a table with a row for each finding.
fn table(written: &Written<'_>) -> Table {
    let row = |finding: &Finding| vec![finding.severity.word().to_string(), finding.text.clone()];
    let first = written.findings.first().map(|finding| finding.text.clone());
    Table {
        title: "Findings".into(),
        verdict: first.unwrap_or_else(|| "There are no findings.".to_string()),
        columns: ["severity", "finding"].map(Column::text).into(),
        rows: written.findings.iter().map(row).collect(),
        notes: vec![format!("page: {}", written.page.display())],
        ..Table::default()
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let folders: Vec<PathBuf> = args.runs.iter().flat_map(|path| runs_in(path)).collect();
    let given = args.output.as_deref().map(|path| args.overwrite.output(path)).transpose()?;
    let (report, default) = match folders.as_slice() {
        [folder] => {
            let others: Vec<&Path> = args.compare.iter().map(PathBuf::as_path).collect();
            // Like report.json, the page belongs to the folder, so a newer page replaces it.
            (report(folder, &others)?, (folder.join("report.html"), OverwriteArgs { overwrite: true }))
        }
        several => {
            let all: Vec<&Path> = several.iter().chain(&args.compare).map(PathBuf::as_path).collect();
            (comparison_page(&all)?, (PathBuf::from("comparison.html"), args.overwrite))
        }
    };
    let (path, overwrite) = default;
    let output = given.map_or_else(|| overwrite.output(&path), Ok)?;
    write_text(&output, &report.html)?;
    let result = Written { page: output.path(), findings: &report.findings };
    print_table(args.format, &result, table(&result), |_| {
        print_findings(result.findings);
        result.page.display().to_string()
    })
}
