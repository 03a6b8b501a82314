//! `bert projector` writes a page with the embeddings of words or sentences as points.

use std::path::{Path, PathBuf};

use bert_inference::Embeddings;
use bert_inference::model_dir::builtin_model;
use bert_reports::projector_page::projector_page;
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::{at_least, model_folder};
use crate::output::files::{check_writable, make_parents, write_file};
use crate::output::stdout::print_result;
use crate::process::threads::ThreadArgs;

/// Number of nearest vectors listed for a point.
const NEIGHBOURS: usize = 8;

/// Write an HTML page with word or sentence embeddings as points.
///
/// The points are projected to their first three principal components. The page lists the nearest vectors of each point.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint, fine-tuned model or Hugging Face folder.
    #[arg(long, alias = "model", value_name = "DIR", default_value = builtin_model::NAME)]
    checkpoint: PathBuf,

    /// Show sentences: a file with one text per line, or - for standard input. Each is the mean of its last hidden states
    /// [default: the words of the vocabulary].
    #[arg(long, value_name = "FILE|-")]
    input: Option<PathBuf>,

    /// Number of words of the vocabulary.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least(2), conflicts_with = "input")]
    words: usize,

    /// HTML file to write.
    #[arg(long, value_name = "FILE", default_value = "projector.html")]
    output: PathBuf,

    /// Folder for vectors.tsv and metadata.tsv, which TensorBoard's projector loads.
    #[arg(long, value_name = "DIR")]
    tensors: Option<PathBuf>,

    #[command(flatten)]
    threads: ThreadArgs,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The result as JSON.
#[derive(Serialize)]
struct Page<'a> {
    page: &'a Path,
    points: usize,
    /// Share of the variance along each component.
    explained: [f64; 3],
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let folder = model_folder(&args.checkpoint)?;
    check_writable(&args.output)?;
    let embeddings = match &args.input {
        Some(input) => Embeddings::from_texts(&folder, input)?,
        None => Embeddings::from_words(&folder, args.words)?,
    };
    let points = embeddings.labels.len();
    anyhow::ensure!(points > 1, "--input: {points} texts with words; at least two are needed");
    let projection = embeddings.project(NEIGHBOURS);
    let what = if args.input.is_some() { "sentences" } else { "words" };
    let title = format!("Embeddings of {points} {what}: {}", args.checkpoint.display());
    write_file(&args.output, &projector_page(&title, &projection))?;
    if let Some(folder) = &args.tensors {
        let (mut vectors, mut labels) = (Vec::new(), Vec::new());
        embeddings.write_vectors(&mut vectors)?;
        embeddings.write_labels(&mut labels)?;
        make_parents(&folder.join("vectors.tsv"))?;
        write_file(&folder.join("vectors.tsv"), &String::from_utf8(vectors)?)?;
        write_file(&folder.join("metadata.tsv"), &String::from_utf8(labels)?)?;
    }
    let page = Page { page: &args.output, points, explained: projection.explained };
    print_result(args.json, &page, |page| page.page.display().to_string())
}
