//! `bert predict` answers new texts with a fine-tuned model.

use std::path::PathBuf;

use bert_trainer::inference::{ModelOptions, NewTexts, Predictor, TextColumns, TextFormat, predict_file};
use bert_trainer::precision::PrecisionChoice;
use bert_trainer::{DEVICE_HELP, DeviceName, Error};
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

    /// How the texts stand in it [default: by the file's ending: .tsv; .csv; .jsonl, .ndjson, .json; .parquet; else text].
    #[arg(long, value_enum)]
    format: Option<TextFormat>,

    /// Columns of a table, or keys of JSON Lines, with the text and the second text of a pair [default: those of the
    /// fine-tuning, else text and text_b, or question and context].
    #[arg(long, value_name = "TEXT[,TEXT_B]", value_delimiter = ',')]
    columns: Vec<String>,

    /// Column of a table, or key of JSON Lines, that is put beside each result.
    #[arg(long, value_name = "COLUMN")]
    id: Option<String>,

    /// File for the results, written whole or not at all [default: standard output].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Cut texts to N tokens, special ones included [default: as in the fine-tuning, else the model's positions].
    #[arg(long, value_name = "N", value_parser = at_least(5))]
    max_seq_length: Option<usize>,

    /// Matrix products in f32 or bf16 [default: as in the fine-tuning, else bf16 on CUDA and f32 elsewhere].
    #[arg(long, value_enum)]
    precision: Option<PrecisionChoice>,

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
    if args.columns.len() > 2 {
        let reason = "names one text, or two of a pair".to_string();
        return Err(Error::Configuration { flag: "columns", reason }.into());
    }
    let texts = NewTexts {
        source: &args.input,
        format: args.format,
        columns: TextColumns { texts: args.columns.clone(), id: args.id.clone() },
    };
    let is_text = texts.format.unwrap_or_else(|| TextFormat::of(texts.source)) == TextFormat::Text;
    if let Some((flag, _)) = [("columns", !args.columns.is_empty()), ("id", args.id.is_some())]
        .into_iter()
        .find(|of| of.1 && is_text)
    {
        let reason = "is for tables and JSON Lines; a text a line has no columns (see --format)".to_string();
        return Err(Error::Configuration { flag, reason }.into());
    }
    let options = ModelOptions {
        encoder: args.encoder.as_deref(),
        max_length: args.max_seq_length,
        precision: args.precision,
        device: args.device,
    };
    let predictor = Predictor::open(&folder, options)?;
    let count = write_results(args.output.as_deref(), |out| predict_file(&predictor, &texts, out))?;
    if let (Some(count), Some(output)) = (count, &args.output) {
        say(&format!("{count} predictions in {}", output.display()));
    }
    Ok(())
}
