//! `bert scores` summarizes separately run fine-tunings.

use std::path::PathBuf;

use bert_inference::Error;
use bert_reports::{collect, shared_text_warnings};
use clap::Args as ClapArgs;

use crate::output::progress::print_warning;
use crate::output::table::{FormatArgs, as_table, collection_table, comparison_table, print_table};

/// Combine or compare separate fine-tunings of one task.
///
/// These are for example the seeds of a job array, or the cells of a grid. Folders with equal settings become one
/// summary over all their seeds. With different settings the result is a table in the order of the folders that shows
/// the settings that differ.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Output folders of finetune.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,

    /// Run a paired significance test of two fine-tunings on the same dev set; give two folders, or the folders of two
    /// configurations.
    #[arg(long)]
    paired: bool,

    /// Names of the rows, in their order [default: the folders].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', conflicts_with = "paired")]
    names: Vec<String>,

    #[command(flatten)]
    format: FormatArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.paired {
        let comparison = bert_reports::compare(&args.folders)?;
        print_shared_texts(&args.folders)?;
        return print_table(args.format, &comparison, comparison_table(&comparison), as_table);
    }
    let mut collection = collect(&args.folders)?;
    print_shared_texts(&args.folders)?;
    let rows = collection.groups.len();
    if !args.names.is_empty() && args.names.len() != rows {
        let reason = format!("{} names for {rows} configurations", args.names.len());
        return Err(Error::option("names", reason).into());
    }
    for (group, name) in collection.groups.iter_mut().zip(&args.names) {
        group.name.clone_from(name);
    }
    let table = collection_table(&collection);
    print_table(args.format, &collection, table, |table| match collection.groups.as_slice() {
        [only] => format!("dev\n{}", only.dev),
        _ => as_table(table),
    })
}

/// Prints a warning for each fine-tuning whose scored sets share texts with its training set.
fn print_shared_texts(folders: &[PathBuf]) -> anyhow::Result<()> {
    shared_text_warnings(folders)?.iter().for_each(print_warning);
    Ok(())
}
