//! `bert merge`: the parts of a data set become the data set.

use std::path::PathBuf;

use clap::Parser;

use super::make_pretrain_data::show;

/// Check the parts that `make-pretrain-data --part` made, and commit them as one data set.
#[derive(Parser, Debug)]
pub struct Args {
    /// The folder that the parts share.
    data: PathBuf,

    /// Print the manifest as one JSON object instead of the report.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Those of [`bert_data::merge`].
pub fn run(args: &Args) -> anyhow::Result<()> {
    let manifest = bert_data::merge(&args.data)?;
    show(&manifest, &args.data, args.json)
}
