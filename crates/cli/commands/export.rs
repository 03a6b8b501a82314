//! `bert export` writes the model of a run or checkpoint as a Hugging Face folder.

use std::path::PathBuf;

use bert_trainer::export::{Export, WeightType, export};
use clap::Args as ClapArgs;

use crate::commands::model_folder;
use crate::exit::print;

/// Write a checkpoint as a Hugging Face folder: config.json, model.safetensors, vocab.txt, tokenizer files.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Run, checkpoint or fine-tuned model.
    run: PathBuf,

    /// Folder to write, empty or new.
    dir: PathBuf,

    /// Leave the heads out (BertModel).
    #[arg(long)]
    encoder_only: bool,

    /// Store the weights in f32 or, rounded, in half the size.
    #[arg(long, value_enum, default_value_t)]
    weights: WeightType,
}

/// Runs the command.
///
/// # Errors
/// When the checkpoint is not good or the folder cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = model_folder(&args.run)?;
    export(&folder, &args.dir, Export { encoder_only: args.encoder_only, weight_type: args.weights })?;
    print(&format!("{} -> {}", folder.display(), args.dir.display()))
}
