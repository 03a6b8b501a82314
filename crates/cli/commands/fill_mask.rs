//! `bert fill-mask` shows the words that a model predicts at `[MASK]`.

use std::path::PathBuf;

use anyhow::bail;
use bert_trainer::inference::fill_mask::{FilledMask, MaskFiller};
use bert_trainer::run_dir::builtin_model;
use bert_trainer::{DEVICE_HELP, DeviceName};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::{at_least, model_folder};
use crate::exit::print_result;

/// Predict the words at each `[MASK]` of a text.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint or Hugging Face folder with both pre-training heads.
    #[arg(long, value_name = "DIR", default_value = builtin_model::NAME)]
    checkpoint: PathBuf,

    /// Text with one or more `[MASK]`; `A ||| B` is a sentence pair.
    text: String,

    /// Number of predictions to show for each `[MASK]`.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least(1))]
    top_k: usize,

    /// Compute device.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceName::Flex, help = DEVICE_HELP)]
    device: DeviceName,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Fails if the checkpoint cannot be read or the text has no `[MASK]`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = model_folder(&args.checkpoint)?;
    let filled = MaskFiller::open(&folder, args.device)?.fill(&args.text, args.top_k);
    if filled.is_empty() {
        bail!(
            "the text has no [MASK] within the maximum length of the model; write [MASK] in capitals and quote the text: \
             'the capital of France is [MASK].'"
        );
    }
    print_result(args.json, &Masks { masks: filled }, |filled| {
        filled.masks.iter().map(show).collect::<Vec<_>>().join("\n")
    })
}

#[derive(Serialize)]
struct Masks {
    masks: Vec<FilledMask>,
}

fn show(filled: &FilledMask) -> String {
    let words = filled.words.iter().map(|(word, probability)| format!("  {probability:.4}  {word}"));
    format!("[MASK] at position {}\n{}", filled.position, words.collect::<Vec<_>>().join("\n"))
}
