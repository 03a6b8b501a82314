//! `bert inspect`: what a data folder holds, in words and counts.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::exit::{print, print_json};

/// Show a data folder: instances as words with masks marked, counts, frequent tokens, digests.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Folder made by make-pretrain-data.
    data: PathBuf,

    /// How many instances to show.
    #[arg(long, value_name = "N", default_value_t = 3)]
    instances: usize,

    /// Show the instance of this number alone, counted over all shards from 0.
    #[arg(long, value_name = "N")]
    index: Option<u64>,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When the folder is not a complete data folder.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(index) = args.index {
        return print(&bert_data::inspect::instance(&args.data, index)?);
    }
    let inspection = bert_data::inspect(&args.data, args.instances)?;
    match args.json {
        true => print_json(&inspection),
        false => print(inspection.to_string().trim_end()),
    }
}
