//! `bert report`: a run's curves and figures on one page.

use std::path::PathBuf;

use bert_data::files::write_atomic;
use bert_trainer::report::{finetuning_page, pretraining_page};
use clap::Args as ClapArgs;

use crate::exit::print;

/// Write report.html for a pre-training run or a fine-tuning.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Folder of the run or of the fine-tuning.
    run: PathBuf,

    /// Page to write [default: report.html in the folder].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When the folder is neither or the page cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let html = match args.run.join("report.json").exists() {
        true => finetuning_page(&args.run)?,
        false => pretraining_page(&args.run)?,
    };
    let output = args.output.clone().unwrap_or_else(|| args.run.join("report.html"));
    write_atomic(&output, |out| out.write_all(html.as_bytes()))?;
    print(&output.display().to_string())
}
