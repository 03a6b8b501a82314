//! `bert scores` summarizes fine-tunings that were run apart.

use std::path::PathBuf;

use bert_trainer::scores::{collect, compare};
use clap::Args as ClapArgs;

use crate::exit::print_result;

/// Put fine-tunings of one task together: the seeds of a job array, the cells of a grid.
///
/// Folders with equal settings are one summary over all their seeds. With several settings it is a table, the best mean
/// first, with the settings in which they differ.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Output folders of finetune.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,

    /// Test two fine-tunings against each other on the dev set that both answered: two folders, or those of two
    /// configurations.
    #[arg(long)]
    paired: bool,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When a folder has no report, or the reports are of different tasks; with `--paired` also of different dev sets.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.paired {
        let comparison = compare(&args.folders)?;
        return print_result(args.json, &comparison, ToString::to_string);
    }
    let collection = collect(&args.folders)?;
    print_result(args.json, &collection, ToString::to_string)
}
