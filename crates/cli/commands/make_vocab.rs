//! `bert make-vocab`: a WordPiece vocabulary from text.

use std::path::PathBuf;

use bert_data::files::write_atomic;
use bert_data::make_vocab::{VocabConfig, train_vocabulary};
use clap::Args as ClapArgs;

use crate::exit::print;

/// Train a WordPiece vocabulary from text; the same text gives the same bytes.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Text: files, folders or patterns; plain, gzip or zstd.
    #[arg(long, required = true, num_args = 1.., value_name = "PATH", value_delimiter = ',')]
    input: Vec<PathBuf>,

    #[command(flatten)]
    config: VocabConfig,

    /// Vocabulary file to write, one token per line.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,

    /// Replace the file if it is there.
    #[arg(long)]
    overwrite: bool,
}

/// Runs the command.
///
/// # Errors
/// When the text cannot be read or the file not written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.output.exists() && !args.overwrite {
        anyhow::bail!("{}: exists; --overwrite replaces it", args.output.display());
    }
    let words = train_vocabulary(&args.input, &args.config)?;
    write_atomic(&args.output, |out| words.iter().try_for_each(|word| writeln!(out, "{word}")))?;
    print(&format!("{} tokens: {}", words.len(), args.output.display()))
}
