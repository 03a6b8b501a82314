//! `bert predict` answers new texts with a fine-tuned model.

use std::path::PathBuf;

use bert_trainer::inference::{Predictor, TextFormat, predict_file};
use bert_trainer::{DEVICE_HELP, DeviceName};
use clap::Args as ClapArgs;

use crate::commands::{at_least, tuned_folder};
use crate::progress::say;
use crate::results::write_results;

/// Answer every text of a file with a fine-tuned model.
///
/// Each result is a JSON object on a line of its own: line, text, and what the model's head says: label and the probability
/// of every class, the score of a regression, the answer to a question from its text, or the tags of the words.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Output folder of finetune, or a Hugging Face folder of BertForSequenceClassification, BertForQuestionAnswering or
    /// BertForTokenClassification, or an adapter's.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,

    /// Of an adapter's folder: the checkpoint that it was trained on [default: as the folder says].
    #[arg(long, value_name = "DIR")]
    encoder: Option<PathBuf>,

    /// File of texts, or - for standard input.
    #[arg(long, value_name = "FILE|-")]
    input: PathBuf,

    /// How the texts stand in it [default: by the file's ending: .tsv; .jsonl, .ndjson, .json; else text].
    #[arg(long, value_enum)]
    format: Option<TextFormat>,

    /// File for the results, written whole or not at all [default: standard output].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Cut texts to N tokens, special ones included [default: as in the fine-tuning, else the model's positions].
    #[arg(long, value_name = "N", value_parser = at_least(5))]
    max_seq_length: Option<usize>,

    /// What computes.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceName::Flex, help = DEVICE_HELP)]
    device: DeviceName,
}

/// Runs the command.
///
/// # Errors
/// When the folder has no head that answers texts, or a line is not as the format says.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = tuned_folder(&args.model)?;
    let predictor = Predictor::open(&folder, args.encoder.as_deref(), args.max_seq_length, args.device)?;
    let count =
        write_results(args.output.as_deref(), |out| predict_file(&predictor, &args.input, args.format, out))?;
    if let (Some(count), Some(output)) = (count, &args.output) {
        say(&format!("{count} predictions in {}", output.display()));
    }
    Ok(())
}
