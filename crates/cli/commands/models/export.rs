//! `bert export` writes the model of a run or checkpoint as a Hugging Face folder.

use std::path::{Path, PathBuf};

use bert_trainer::export::{CardOptions, Export, WeightType, export};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::model_folder;
use crate::output::stdout::print_result;

/// Export a checkpoint as a Hugging Face folder.
///
/// The folder has config.json, model.safetensors, vocab.txt and the tokenizer files.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint or fine-tuned model.
    run: PathBuf,

    /// Output folder, empty or new.
    dir: PathBuf,

    /// Export the encoder without the heads (BertModel).
    #[arg(long)]
    encoder_only: bool,

    /// Type of the stored weights: f32, or bf16 (rounded, half the size).
    #[arg(long, value_enum, default_value_t)]
    weights: WeightType,

    /// Language of the model for its card, such as de [default: the --language of the data].
    #[arg(long, value_name = "CODE")]
    language: Option<String>,

    /// Licence of the model for its card, by its Hugging Face identifier such as apache-2.0.
    #[arg(long, value_name = "ID")]
    license: Option<String>,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The result as JSON.
#[derive(Serialize)]
struct Exported<'a> {
    checkpoint: &'a Path,
    output: &'a Path,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = model_folder(&args.run)?;
    let card = CardOptions { language: args.language.clone(), license: args.license.clone() };
    export(&folder, &args.dir, &Export { encoder_only: args.encoder_only, weight_type: args.weights, card })?;
    let result = Exported { checkpoint: &folder, output: &args.dir };
    print_result(args.json, &result, |result| {
        format!("{} -> {}", result.checkpoint.display(), result.output.display())
    })
}
