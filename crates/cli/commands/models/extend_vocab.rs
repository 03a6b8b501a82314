//! `bert extend-vocab` adds the pieces that a text needs to the vocabulary of a model.

use std::path::{Path, PathBuf};

use bert_data::{ExtensionReport, VocabConfig, extend_vocabulary};
use bert_inference::ModelFiles;
use bert_pages::grouped;
use bert_reports::{NewRows, check_export_folder, extend_model};
use bert_text::{reject_output_inside, skipped_names_note, skipped_tables_warning};
use bert_training::check;
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::model_folder;
use crate::options::run_args::PrintArgs;
use crate::options::standard_input::StandardInput;
use crate::output::progress::{Progress, print_note, print_warning};
use crate::output::stdout::print_result;

/// Add the word pieces that a text needs to a model's vocabulary.
///
/// The pieces that save most pieces over the whole text are added, first on rows of `[unusedN]`, then at the end. Old
/// pieces keep their ids, and old texts their pieces unless they contain a new one. Continue the pre-training of the
/// new model on the text.
#[derive(ClapArgs, Debug)]
// The usage line of clap would be longer than 80 columns.
#[command(override_usage = "bert extend-vocab [OPTIONS] --checkpoint <DIR> --input <PATH>...\n       \
    --add <N> --output <DIR>")]
pub struct Args {
    /// Model to extend: a published folder, a run or a checkpoint.
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,

    /// Input text: files, folders or patterns, or - for standard input, as for make-pretrain-data.
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    input: Vec<PathBuf>,

    /// Maximum number of pieces to add.
    #[arg(long, value_name = "N")]
    add: usize,

    /// Output folder, empty or new.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,

    /// Initial embeddings and output biases of the new pieces: mean of the pieces that they replace, mean of all
    /// pieces, or random.
    #[arg(long, value_enum, default_value_t)]
    new_rows: NewRows,

    /// Random seed of --new-rows random [default: 12345].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Minimum number of occurrences of a piece.
    #[arg(long, value_name = "N", default_value_t = 5)]
    min_frequency: u64,

    /// Key or column of JSON, Parquet, CSV and TSV that contains the text.
    #[arg(long, default_value = "text", value_name = "NAME")]
    text_column: String,

    /// Reject lines that are not UTF-8. Otherwise up to one line in twenty of a file is repaired.
    #[arg(long)]
    strict_utf8: bool,

    /// Repair all lines that are not UTF-8.
    #[arg(long, conflicts_with = "strict_utf8")]
    lossy_utf8: bool,

    /// Compute threads; 0 means one per core. The result does not depend on it.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,

    #[command(flatten)]
    print: PrintArgs,
}

/// The result as JSON.
#[derive(Serialize)]
struct Extended<'a> {
    report: &'a ExtensionReport,
    vocab_size: usize,
    pieces: Vec<&'a str>,
    output: &'a Path,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    check(args.seed.is_none() || args.new_rows == NewRows::Random, "seed", "needs `.new_rows random`")?;
    check_export_folder(&args.output)?;
    let folder = model_folder(&args.checkpoint)?;
    let tokenizer = ModelFiles::open(&folder)?.tokenizer;
    let mut inputs = args.input.clone();
    let _copy = StandardInput::copy(&mut inputs, None, Some(&args.output), args.print.quiet)?;
    reject_output_inside(&inputs, &args.output)?;
    skipped_names_note(&inputs)?.iter().for_each(print_note);
    skipped_tables_warning(&inputs, &args.text_column)?.iter().for_each(print_warning);
    let config = VocabConfig {
        min_frequency: args.min_frequency,
        do_lower_case: tokenizer.settings.do_lower_case,
        strip_accents: tokenizer.settings.strip_accents,
        tokenize_chinese_chars: tokenizer.settings.tokenize_chinese_chars,
        strict_utf8: args.strict_utf8,
        lossy_utf8: args.lossy_utf8,
        text_column: args.text_column.clone(),
        threads: args.threads,
        ..VocabConfig::default()
    };
    let mut progress: Option<Progress> = None;
    let extended = extend_vocabulary(&inputs, &tokenizer.vocabulary, &config, args.add, &mut |done, all| {
        progress.get_or_insert_with(|| Progress::new("read bytes", all, args.print.quiet)).set(done, "");
    });
    drop(progress);
    let extended = extended?;
    extended.read.notes().iter().for_each(print_warning);
    if extended.added.len() < args.add {
        print_note(format!(
            "{} pieces instead of --add {}: no other piece occurs --min-frequency ({}) times and shortens the text",
            grouped(extended.added.len() as u64),
            grouped(args.add as u64),
            args.min_frequency
        ));
    }
    let vocab_size =
        extend_model(&folder, &args.output, &extended, args.new_rows, args.seed.unwrap_or(12345))?;
    let pieces = extended.added.iter().map(|added| added.piece.as_str()).collect();
    let result = Extended { report: &extended.report, vocab_size, pieces, output: &args.output };
    print_result(args.print.json, &result, |result| {
        let ExtensionReport { added, on_unused_rows, pieces_per_word: [before, after], .. } = result.report;
        let unknown = result.report.unknown_words.map(grouped);
        format!(
            "{added} pieces, {on_unused_rows} of them on unused rows\n{before:.3} -> {after:.3} pieces per word, {} -> {} \
             words of [UNK]\nvocabulary of {vocab_size}: {}",
            unknown[0],
            unknown[1],
            result.output.display()
        )
    })
}
