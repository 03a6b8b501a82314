//! `bert make-vocab` trains a WordPiece vocabulary on text.

use std::path::{Path, PathBuf};

use bert_data::{VocabConfig, VocabReport, train_vocabulary};
use bert_pages::grouped;
use bert_text::{reject_output_inside, skipped_names_note, skipped_tables_warning};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::options::run_args::PrintArgs;
use crate::options::standard_input::StandardInput;
use crate::output::files::{OverwriteArgs, with_remedy};
use crate::output::progress::{Progress, print_note, print_warning};
use crate::output::stdout::print_result;

/// Train a WordPiece vocabulary on text.
///
/// The same files always give the same vocabulary.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Input text: files, folders or patterns, or - for standard input. Files are plain, gzip, zstd, bzip2 or xz; or JSON,
    /// Parquet, CSV and TSV (--text-column); or a Wikipedia dump. Line breaks do not affect the result.
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    input: Vec<PathBuf>,

    #[command(flatten)]
    config: VocabConfig,

    /// Vocabulary file to write, one token per line.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    overwrite: OverwriteArgs,

    #[command(flatten)]
    print: PrintArgs,
}

/// The result as JSON.
#[derive(Serialize)]
struct Made<'a> {
    output: &'a Path,
    tokens: usize,
    report: &'a VocabReport,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut inputs = args.input.clone();
    // Check the output before hours of reading.
    let output = args.overwrite.output(&args.output)?;
    let _copy = StandardInput::copy(&mut inputs, None, Some(&args.output), args.print.quiet)?;
    reject_output_inside(&inputs, &args.output)?;
    skipped_names_note(&inputs)?.iter().for_each(print_note);
    skipped_tables_warning(&inputs, &args.config.text_column)?.iter().for_each(print_warning);
    let mut progress: Option<Progress> = None;
    let trained = train_vocabulary(&inputs, &args.config, &mut |done, all| {
        progress.get_or_insert_with(|| Progress::new("read bytes", all, args.print.quiet)).set(done, "");
    });
    drop(progress);
    let trained = trained?;
    let words = &trained.tokens;
    output.write(|out| words.iter().try_for_each(|word| writeln!(out, "{word}"))).map_err(with_remedy)?;
    if words.len() < args.config.vocab_size {
        print_note(format!(
            "{} tokens instead of --vocab-size {}: no other pair of pieces occurs --min-frequency ({}) times",
            grouped(words.len() as u64),
            grouped(args.config.vocab_size as u64),
            args.config.min_frequency
        ));
    }
    let made = Made { output: &args.output, tokens: words.len(), report: &trained.report };
    print_result(args.print.json, &made, |made| {
        format!("{}\n{} tokens: {}", made.report, made.tokens, made.output.display())
    })
}
