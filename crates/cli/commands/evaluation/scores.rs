//! `bert scores` summarizes separately run fine-tunings.

use std::path::PathBuf;

use bert_reports::compare::{collect, pairwise};
use clap::Args as ClapArgs;

use crate::output::table::{FormatArgs, print_table};

/// Combine or compare separate fine-tunings of one task.
///
/// These are for example the seeds of a job array, or the cells of a grid. Folders with equal settings become one summary over all their seeds. With different settings the result is a table,
/// sorted by mean with the best first, that shows the settings that differ.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Output folders of finetune.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,

    /// Run a paired significance test of two fine-tunings on the same dev set; give two folders, or the folders of two
    /// configurations.
    #[arg(long)]
    paired: bool,

    #[command(flatten)]
    format: FormatArgs,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.paired {
        let comparison = pairwise::compare(&args.folders)?;
        return print_table(args.json, args.format, &comparison, ToString::to_string);
    }
    let collection = collect(&args.folders)?;
    print_table(args.json, args.format, &collection, ToString::to_string)
}
