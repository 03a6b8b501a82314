//! `bert translate` trains translation models, translates text and scores translations.

pub mod predict;
pub mod score;
pub mod train;

use clap::{Args as ClapArgs, Subcommand};

use crate::options::help::examples_and_exit_codes;

const EXAMPLES: &str = "Examples:
  bert translate train --source en.txt --target de.txt --target-vocab de-vocab.txt --steps 3000 --output run
  bert translate predict --checkpoint run --input new.en.txt --output new.de.txt
  bert translate score --hypotheses new.de.txt --references new.de.ref.txt";

/// Train a BERT-fused translation model, translate, and score translations.
#[derive(ClapArgs, Debug)]
#[command(after_help = EXAMPLES, after_long_help = examples_and_exit_codes(EXAMPLES))]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    Train(Box<train::Args>),
    Predict(predict::Args),
    Score(score::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.action {
        Action::Train(args) => train::run(args),
        Action::Predict(args) => predict::run(args),
        Action::Score(args) => score::run(args),
    }
}
