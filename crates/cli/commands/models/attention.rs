//! `bert attention` writes a page that shows what each attention head attends to.

use std::path::{Path, PathBuf};

use bert_trainer::report::attention_page::attention_page;
use bert_trainer::run_dir::builtin_model;
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::{at_least, model_folder};
use crate::output::files::{check_writable, write_file};
use crate::output::stdout::print_result;
use crate::process::threads::ThreadArgs;

/// Write an HTML page of the attention of every head on a text.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint, fine-tuned model or Hugging Face folder.
    #[arg(long, value_name = "DIR", default_value = builtin_model::NAME)]
    checkpoint: PathBuf,

    /// Input text; `A ||| B` is a sentence pair.
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    text: String,

    /// HTML file to write.
    #[arg(long, value_name = "FILE", default_value = "attention.html")]
    output: PathBuf,

    #[command(flatten)]
    threads: ThreadArgs,

    /// Maximum number of word pieces; longer texts are truncated.
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = at_least(5))]
    max_seq_length: usize,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The result as JSON.
#[derive(Serialize)]
struct Page<'a> {
    page: &'a Path,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let folder = model_folder(&args.checkpoint)?;
    check_writable(&args.output)?;
    let html = attention_page(&folder, &args.text, args.max_seq_length)?;
    write_file(&args.output, &html)?;
    print_result(args.json, &Page { page: &args.output }, |page| page.page.display().to_string())
}
