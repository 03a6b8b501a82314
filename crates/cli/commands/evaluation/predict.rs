//! `bert predict` runs a fine-tuned model on new texts.

use std::path::PathBuf;

use bert_inference::compute::precision::PrecisionChoice;
use bert_inference::{DEVICE_HELP, DeviceName, Error};
use bert_inference::{
    EncodingLength, ModelOptions, NewTexts, Predictions, Predictor, TextColumns, TextFormat, predict_file,
};
use clap::Args as ClapArgs;

use crate::commands::{at_least, selected_device, tuned_folder};
use crate::output::files::OverwriteArgs;
use crate::output::progress::{print_stderr, print_warning};
use crate::output::results::write_results;
use crate::process::threads::ThreadArgs;

/// Predict labels, scores, spans or tags with a fine-tuned model.
///
/// Writes one JSON object per line: line number, text and prediction. The prediction depends on the model's head: the
/// label with the probability of every class, a regression score, an answer span for a question, or a tag for every
/// word.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Output folder of finetune, an adapter folder, or a Hugging Face folder of BertForSequenceClassification,
    /// BertForQuestionAnswering or BertForTokenClassification.
    #[arg(long, alias = "model", value_name = "DIR")]
    checkpoint: PathBuf,

    /// Checkpoint on which an adapter was trained [default: the one named in the adapter folder].
    #[arg(long, value_name = "DIR")]
    encoder: Option<PathBuf>,

    /// Input file, or - for standard input.
    #[arg(long, value_name = "FILE|-")]
    input: PathBuf,

    /// Input format [default: from the file extension: .tsv; .csv; .jsonl, .ndjson, .json; .parquet; else text].
    #[arg(long, value_enum)]
    format: Option<TextFormat>,

    /// Table columns or JSON keys of the text and of the second text of a pair [default: as in the fine-tuning, else
    /// text and text_b, or question and context].
    #[arg(long, value_name = "TEXT[,TEXT_B]", value_delimiter = ',')]
    columns: Vec<String>,

    /// Table column or JSON key that is copied to each result.
    #[arg(long, value_name = "COLUMN")]
    id: Option<String>,

    /// Output file, which appears when it is complete [default: standard output].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    overwrite: OverwriteArgs,

    /// Maximum sequence length, including special tokens; longer texts are truncated [default: as the model was
    /// trained; the positions of the model if that is not known].
    #[arg(long, value_name = "N", value_parser = at_least(5))]
    max_seq_length: Option<usize>,

    /// Precision of matrix products, f32 or bf16 [default: as in the fine-tuning, else bf16 on CUDA and f32 elsewhere].
    #[arg(long, value_enum)]
    precision: Option<PrecisionChoice>,

    /// Compute device.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceName::Flex, help = DEVICE_HELP)]
    device: DeviceName,

    #[command(flatten)]
    threads: ThreadArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let output = args.output.as_deref().map(|path| args.overwrite.output(path)).transpose()?;
    let folder = tuned_folder(&args.checkpoint)?;
    if args.columns.len() > 2 {
        let reason = "takes one name, or two for a pair of texts".to_string();
        return Err(Error::Configuration { flag: "columns", reason }.into());
    }
    let texts = NewTexts {
        source: &args.input,
        format: args.format,
        columns: TextColumns { texts: args.columns.clone(), id: args.id.clone() },
    };
    let is_text = texts.format.unwrap_or_else(|| TextFormat::from_path(texts.source)) == TextFormat::Text;
    if let Some((flag, _)) = [("columns", !args.columns.is_empty()), ("id", args.id.is_some())]
        .into_iter()
        .find(|(_, given)| *given && is_text)
    {
        let reason = "applies to tables and JSON Lines; plain text has no columns (see --format)".to_string();
        return Err(Error::Configuration { flag, reason }.into());
    }
    let options = ModelOptions {
        encoder: args.encoder.as_deref(),
        max_length: args.max_seq_length,
        precision: args.precision,
        device: selected_device(args.device)?,
    };
    let predictor = Predictor::open(&folder, options)?;
    let EncodingLength { tokens, remark } = predictor.length();
    remark.iter().for_each(print_warning);
    let written = write_results(output.as_ref(), |out| predict_file(&predictor, &texts, out))?;
    let Some(Predictions { count, truncation }) = written else { return Ok(()) };
    let special = truncation.special_message("the input", predictor.splits_special_tokens());
    truncation.message("the input", *tokens).into_iter().chain(special).for_each(print_warning);
    if let Some(output) = &args.output {
        print_stderr(&format!("wrote {count} predictions to {}", output.display()));
    }
    Ok(())
}
