//! `bert export` writes the model of a run or checkpoint as a Hugging Face folder.

use std::path::PathBuf;

use bert_trainer::export::{export, export_encoder};
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
}

/// Runs the command.
///
/// # Errors
/// When the checkpoint is not good or the folder cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = model_folder(&args.run)?;
    match args.encoder_only {
        true => export_encoder(&folder, &args.dir)?,
        false => export(&folder, &args.dir)?,
    }
    print(&format!("{} -> {}", folder.display(), args.dir.display()))
}
