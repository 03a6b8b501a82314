//! `bert projector` writes a page with the embeddings of words or sentences as points.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bert_inference::{Embeddings, Extractor, ModelOptions, builtin_model};
use bert_reports::projector_page;
use bert_task_files::TextLines;
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::{at_least, model_folder};
use crate::output::files::{OverwriteArgs, with_remedy, write_text};
use crate::output::progress::print_warning;
use crate::output::stdout::print_result;
use crate::process::threads::ThreadArgs;

/// Number of nearest vectors listed for a point.
const NEIGHBOURS: usize = 8;

/// Write an HTML page with word or sentence embeddings as points.
///
/// The points are projected to their first three principal components. The page lists the nearest vectors of each point, and
/// colours the points by their labels.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint, fine-tuned model or Hugging Face folder.
    #[arg(long, value_name = "DIR", default_value = builtin_model::NAME)]
    checkpoint: PathBuf,

    /// Show sentences: a file with one text per line, or - for standard input. Each is pooled as the model
    /// states, else by the mean of its last hidden states [default: the words of the vocabulary].
    #[arg(long, value_name = "FILE|-")]
    input: Option<PathBuf>,

    /// File with a label for each line of --input, which sets the colour of its point.
    #[arg(long, value_name = "FILE", requires = "input")]
    labels: Option<PathBuf>,

    /// Maximum sequence length of --input, including special tokens; longer texts are truncated [default: as the model was
    /// trained; at most 128 if that is not known].
    #[arg(long, value_name = "N", value_parser = at_least(5), requires = "input")]
    max_seq_length: Option<usize>,

    /// Number of words of the vocabulary.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least(2), conflicts_with_all = ["input", "max_seq_length"])]
    words: usize,

    /// HTML file to write.
    #[arg(long, value_name = "FILE", default_value = "projector.html")]
    output: PathBuf,

    /// Folder for vectors.tsv and metadata.tsv, which TensorBoard's projector loads.
    #[arg(long, value_name = "DIR")]
    tensors: Option<PathBuf>,

    #[command(flatten)]
    overwrite: OverwriteArgs,

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
    let page = args.overwrite.output(&args.output)?;
    let tensors = args.tensors.as_ref().map(|folder| {
        let output = |name: &str| args.overwrite.output(&folder.join(name));
        anyhow::Ok((output("vectors.tsv")?, output("metadata.tsv")?))
    });
    let tensors = tensors.transpose()?;
    let embeddings = match &args.input {
        Some(input) => {
            let options = ModelOptions::default().with_max_length(args.max_seq_length);
            let extractor = Extractor::open(&folder, options)?.with_sentence_pooling()?;
            let embeddings = Embeddings::from_texts(&extractor, &TextLines::trimmed(input))?;
            extractor.messages(&embeddings.truncation).iter().for_each(print_warning);
            embeddings
        }
        None => Embeddings::from_vocabulary(&folder)?.words(args.words),
    };
    let points = embeddings.labels.len();
    anyhow::ensure!(points > 1, "--input: {points} texts with words; at least two are needed");
    let groups = args.labels.as_deref().map(|path| groups(path, &embeddings)).transpose()?;
    let projection = embeddings.project(NEIGHBOURS);
    let what = if args.input.is_some() { "sentences" } else { "words" };
    let title = format!("Embeddings of {points} {what}: {}", args.checkpoint.display());
    write_text(&page, &projector_page(&title, &projection, groups.as_deref()))?;
    if let Some((vectors, labels)) = &tensors {
        vectors.write(|out| embeddings.write_vectors(out)).map_err(with_remedy)?;
        labels.write(|out| embeddings.write_labels(out)).map_err(with_remedy)?;
    }
    let page = Page { page: &args.output, points, explained: projection.explained };
    print_result(args.json, &page, |page| page.page.display().to_string())
}

/// Returns the label of each vector from a file with a label for each line of the input.
fn groups(path: &Path, embeddings: &Embeddings) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("--labels: {}", path.display()))?;
    let labels: Vec<&str> = text.lines().collect();
    let label = |line: &u64| {
        labels.get(*line as usize).map(|label| label.trim().to_string()).with_context(|| {
            format!("--labels: {} has {} lines, and the input has more", path.display(), labels.len())
        })
    };
    embeddings.lines.iter().map(label).collect()
}
