//! `bert attention` writes a page with the attention of every head.

use std::path::{Path, PathBuf};

use bert_inference::{Attention, AttentionOptions, Error, ModelOptions, NamedAttention, builtin_model};
use bert_reports::{attention_page, write_attention_parquet};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::hub::pinned;
use crate::commands::{at_least, text_or_pair, tuned_folder};
use crate::output::files::{OverwriteArgs, write_text};
use crate::output::progress::{print_stderr, print_warning};
use crate::output::results::write_results;
use crate::output::stdout::print;
use crate::process::threads::ThreadArgs;

/// Write an HTML page of the attention of every head on a text.
///
/// The page shows lines between tokens, all heads at a glance, and queries and keys by dimension. It is one file that
/// loads nothing, at most 400 kB for BERT-base and 64 tokens.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint, output folder of finetune, adapter, or Hugging Face folder.
    #[arg(long, value_name = "DIR", default_value = builtin_model::NAME)]
    checkpoint: PathBuf,

    /// Second model, shown next to the first.
    #[arg(long, value_name = "DIR")]
    compare: Option<PathBuf>,

    /// Checkpoint on which an adapter was trained [default: the one named in the adapter folder].
    #[arg(long, value_name = "DIR")]
    encoder: Option<PathBuf>,

    /// Input text; `A ||| B` is a sentence pair.
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    text: String,

    /// Layers, counted from 0, or from the end with negative numbers (-1 is the last) [default: all].
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', allow_hyphen_values = true)]
    layers: Vec<i32>,

    /// Heads, counted from 0 [default: all].
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    heads: Vec<usize>,

    /// Layer whose queries and keys are on the page [default: all, or the first if the page would get too large].
    #[arg(long, value_name = "N")]
    neurons: Option<usize>,

    /// HTML file to write.
    #[arg(long, value_name = "FILE", default_value = "attention.html")]
    output: PathBuf,

    /// Parquet file for the weights: one row per layer, head, query and key.
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,

    #[command(flatten)]
    overwrite: OverwriteArgs,

    /// Maximum number of word pieces; longer texts are truncated [default: as the model was trained; the
    /// positions of the model if that is not known].
    #[arg(long, value_name = "N", value_parser = at_least(5))]
    max_seq_length: Option<usize>,

    #[command(flatten)]
    threads: ThreadArgs,

    /// Print the page's path and the weights as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The result as JSON.
#[derive(Serialize)]
struct Page<'a> {
    page: &'a Path,
    models: &'a [NamedAttention<'a>],
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.parquet.as_ref() == Some(&args.output) {
        return Err(Error::option("parquet", "is the file of `.output`; choose another one").into());
    }
    args.threads.start_pool();
    let paths: Vec<&PathBuf> = [&args.checkpoint].into_iter().chain(&args.compare).collect();
    let encoder = args.encoder.as_deref().map(|path| pinned(path, false)).transpose()?;
    let folders = paths.iter().map(|path| tuned_folder(path)).collect::<anyhow::Result<Vec<PathBuf>>>()?;
    let page = args.overwrite.output(&args.output)?;
    let table = args.parquet.as_deref().map(|path| args.overwrite.output(path)).transpose()?;
    let model = ModelOptions::default().with_encoder(encoder.as_deref()).with_max_length(args.max_seq_length);
    let options = AttentionOptions::default()
        .with_model(model)
        .with_layers(args.layers.clone())
        .with_heads(args.heads.clone());
    let read = |folder: &PathBuf| Ok(Attention::from_model(folder, text_or_pair(&args.text), &options)?);
    let attentions = folders.iter().map(read).collect::<anyhow::Result<Vec<Attention>>>()?;
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let models = names.iter().zip(&attentions);
    let models: Vec<_> = models.map(|(name, attention)| NamedAttention { name, attention }).collect();
    for NamedAttention { name, attention } in &models {
        let [whole, read] = [attention.untruncated_length, attention.tokens.len()];
        let cut = (whole > read).then(|| {
            format!("the text is cut from {whole} to {read} tokens; --max-seq-length sets another length")
        });
        for warning in attention.warning().into_iter().chain(cut).chain(attention.remark.clone()) {
            print_warning(format!("{name}: {warning}"));
        }
    }
    check_neurons(args.neurons, &attentions)?;
    write_text(&page, &attention_page(&args.text, &models, args.neurons))?;
    if let Some(table) = &table {
        write_results(Some(table), |out| write_attention_parquet(&models, out))?;
        print_stderr(&format!("wrote the weights to {}", table.path().display()));
    }
    if !args.json {
        return print(&args.output.display().to_string());
    }
    // Print one line without indentation, because there may be a million weights.
    print(&serde_json::to_string(&Page { page: &args.output, models: &models })?)
}

/// Checks that the layer of `--neurons` is on the page.
fn check_neurons(layer: Option<usize>, attentions: &[Attention]) -> Result<(), Error> {
    let Some(layer) = layer else { return Ok(()) };
    if attentions.iter().any(|attention| attention.layer_numbers.contains(&layer)) {
        return Ok(());
    }
    let shown: Vec<String> = attentions[0].layer_numbers.iter().map(usize::to_string).collect();
    let reason = format!("layer {layer} is not on the page; its layers are {}", shown.join(", "));
    Err(Error::option("neurons", reason))
}
