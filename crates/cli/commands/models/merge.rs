//! `bert merge` combines the parts of a build into one data set.

use std::path::PathBuf;

use clap::Parser;

use crate::commands::data::make_pretrain_data::show_in;
use crate::output::progress::Progress;
use crate::output::table::FormatArgs;
use crate::process::threads::ThreadArgs;

/// Combine the parts of a build into one data set.
///
/// The parts, made by `make-pretrain-data --part`, are checked first.
#[derive(Parser, Debug)]
pub struct Args {
    /// Folder or URL given to the parts as --output.
    #[arg(value_name = "DATA")]
    parts: PathBuf,

    /// The --scratch of the parts; the tokenized text in it is removed. Required if the output is a URL.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    format: FormatArgs,

    /// Hide the progress on stderr.
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
///
/// # Errors
/// Returns the errors of [`bert_data::merge_with_scratch`].
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let mut progress = Progress::new("merge", 0, args.quiet);
    let scratch = args.scratch.as_deref();
    let manifest = bert_data::merge_with_scratch(&args.parts, scratch, &mut |at| progress.set_shards(at))?;
    drop(progress);
    show_in(args.format, &manifest, &args.parts)
}
