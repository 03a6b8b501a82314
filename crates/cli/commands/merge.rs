//! `bert merge` makes one data set of the parts of a build.

use std::path::PathBuf;

use clap::Parser;

use super::make_pretrain_data::show;
use crate::progress::Progress;

/// Check the parts that `make-pretrain-data --part` made, and commit them as one data set.
#[derive(Parser, Debug)]
pub struct Args {
    /// The folder or URL that was the parts' --output.
    data: PathBuf,

    /// The parts' --scratch: the tokenized text in it is removed. Needed where the output is a URL.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Print the manifest as one JSON object instead of the report.
    #[arg(long)]
    json: bool,

    /// No progress on stderr.
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
///
/// # Errors
/// Those of [`bert_data::merge_with_scratch`].
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut progress = Progress::new("merging", 0, args.quiet);
    let scratch = args.scratch.as_deref();
    let manifest = bert_data::merge_with_scratch(&args.data, scratch, &mut |at| progress.set_shards(at))?;
    drop(progress);
    show(&manifest, &args.data, args.json)
}
