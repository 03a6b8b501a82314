//! `bert report` shows the curves and figures of a run or fine-tuning on one page, and says what stands out.

use std::path::{Path, PathBuf};

use bert_trainer::report::{Finding, report};
use clap::Args as ClapArgs;

use crate::commands::{check_writable, write_file};
use crate::exit::print;
use crate::progress::say;

/// Write report.html for a pre-training run or a fine-tuning, and say what stands out in it.
///
/// For a run: curves beside what guessing and counting give, and on stderr what is good, worth knowing or probably wrong with it
/// (nothing learnt, labels that leak, overfitting, a loss that rises). It may be called while the run goes on.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Folder of the run or of the fine-tuning.
    run: PathBuf,

    /// Draw other runs beside this one, a reference run for instance.
    #[arg(long, value_name = "RUN,...", value_delimiter = ',')]
    compare: Vec<PathBuf>,

    /// Page to write [default: report.html in the folder].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When the folder is neither or the page cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let others: Vec<&Path> = args.compare.iter().map(PathBuf::as_path).collect();
    args.output.iter().try_for_each(|output| check_writable(output))?;
    let report = report(&args.run, &others)?;
    let output = args.output.clone().unwrap_or_else(|| args.run.join("report.html"));
    write_file(&output, &report.html)?;
    say_findings(&report.findings);
    print(&output.display().to_string())
}

/// A line on stderr for each.
pub fn say_findings(findings: &[Finding]) {
    for finding in findings {
        say(&format!("{}: {}", finding.weight.word(), finding.text));
    }
}
