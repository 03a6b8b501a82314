//! `bert predict` runs a fine-tuned model on new texts.

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;

use bert_inference::{
    DEVICE_HELP, DeviceName, EncodingLength, InputText, ModelOptions, PrecisionChoice, Predictions,
    Predictor, predict, predict_texts,
};
use clap::Args as ClapArgs;
use serde_json::{Map, Value};

use crate::commands::evaluation::InputArgs;
use crate::commands::hub::pinned;
use crate::commands::{at_least, selected_device, text_or_pair, tuned_folder};
use crate::output::files::OverwriteArgs;
use crate::output::progress::{print_stderr, print_warning};
use crate::output::results::write_results;
use crate::output::stdout::print_wrapped;
use crate::output::table::{Column, Table, as_table};
use crate::process::threads::ThreadArgs;

/// Predict labels, scores, spans or tags with a fine-tuned model.
///
/// Writes one JSON object per line: line number, text and prediction. The prediction depends on the model's head: the
/// label with the probability of every class, a regression score, an answer span for a question, or a tag for every
/// word. The predictions of texts on the command line are a table on a terminal.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Output folder of finetune, an adapter folder, or a Hugging Face folder of BertForSequenceClassification,
    /// BertForQuestionAnswering or BertForTokenClassification.
    #[arg(long, alias = "model", value_name = "DIR")]
    checkpoint: PathBuf,

    /// Predict with the models of all seeds of finetune --keep-seeds: the class with the highest mean probability, the mean
    /// probabilities or score, and the number of seeds that agree. Questions and tags are combined in the same way.
    #[arg(long, hide_short_help = true)]
    all_seeds: bool,

    /// Checkpoint on which an adapter was trained [default: the one named in the adapter folder].
    #[arg(long, value_name = "DIR")]
    encoder: Option<PathBuf>,

    /// Texts; `A ||| B` is a sentence pair, or a question and its text.
    #[arg(value_name = "TEXT", required_unless_present = "input", conflicts_with_all = ["input", "input_format", "columns"])]
    texts: Vec<String>,

    /// Input file, or - for standard input.
    #[arg(long, value_name = "FILE|-")]
    input: Option<PathBuf>,

    #[command(flatten)]
    texts_of_input: InputArgs,

    /// Table column or JSON key that is copied to each result.
    #[arg(long, value_name = "COLUMN", conflicts_with = "texts")]
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
    let encoder = args.encoder.as_deref().map(|path| pinned(path, false)).transpose()?;
    let input = args.input.as_deref().map(|input| args.texts_of_input.texts(input, args.id.as_deref()));
    let input = input.transpose()?;
    let options = ModelOptions::default()
        .with_encoder(encoder.as_deref())
        .with_max_length(args.max_seq_length)
        .with_precision(args.precision)
        .with_device(selected_device(args.device)?);
    let predictor = if args.all_seeds {
        Predictor::open_seeds(&args.checkpoint, options)?
    } else {
        Predictor::open(&tuned_folder(&args.checkpoint)?, options)?
    };
    let EncodingLength { tokens, remark } = predictor.length();
    remark.iter().for_each(print_warning);
    let written = match &input {
        Some(texts) => write_results(output.as_ref(), |out| predict(&predictor, texts, out))?,
        None if output.is_none() && stdout().is_terminal() => {
            Some(print_predictions(&predictor, &args.texts)?)
        }
        None => write_results(output.as_ref(), |out| predict_texts(&predictor, inputs(&args.texts), out))?,
    };
    let Some(Predictions { count, truncation, .. }) = written else { return Ok(()) };
    let messages = truncation.messages("the input", *tokens, predictor.splits_special_tokens());
    messages.iter().for_each(print_warning);
    if let Some(output) = &args.output {
        print_stderr(&format!("wrote {count} predictions to {}", output.display()));
    }
    Ok(())
}

/// Returns the texts and pairs of the command line.
fn inputs(texts: &[String]) -> impl Iterator<Item = InputText<'_>> {
    texts.iter().map(|text| text_or_pair(text))
}

/// Prints the predictions of texts as a table, and returns their counts.
fn print_predictions(predictor: &Predictor, texts: &[String]) -> anyhow::Result<Predictions> {
    let mut lines = Vec::new();
    let predictions = predict_texts(predictor, inputs(texts), &mut lines)?;
    let rows = serde_json::Deserializer::from_slice(&lines).into_iter::<Map<String, Value>>();
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    print_wrapped(as_table(&table(&rows)).trim_end())?;
    Ok(predictions)
}

/// Returns the table of predictions, which are JSON objects with equal keys.
fn table(rows: &[Map<String, Value>]) -> Table {
    let has = |name: &str| rows.iter().any(|row| row.contains_key(name));
    let mut names: Vec<&str> = ["text", "text_b"].into_iter().filter(|name| has(name)).collect();
    for name in rows.iter().flat_map(Map::keys).filter(|name| *name != "line") {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let is_number = |name: &str| rows.iter().all(|row| row.get(name).is_none_or(Value::is_number));
    let column = |name: &&str| if is_number(name) { Column::number(*name) } else { Column::text(*name) };
    let row = |row: &Map<String, Value>| names.iter().map(|name| cell(row.get(*name))).collect();
    Table {
        columns: names.iter().map(column).collect(),
        rows: rows.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Returns the text of a cell: probabilities with their labels, and words with spaces between them.
fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) if number.is_f64() => {
            format!("{:.4}", number.as_f64().unwrap_or_default())
        }
        Some(Value::Number(count)) => count.to_string(),
        Some(Value::Bool(is_true)) => is_true.to_string(),
        Some(Value::Array(values)) => {
            values.iter().map(|value| cell(Some(value))).collect::<Vec<_>>().join(" ")
        }
        Some(Value::Object(object)) => {
            let entry = |(name, value): (&String, &Value)| format!("{name} {}", cell(Some(value)));
            object.iter().map(entry).collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_has_texts_then_answers() {
        let row = |text: &str, label: &str| {
            let value =
                json!({ "line": 1, "text": text, "label": label, "probabilities": { "a": 0.25, "b": 0.75 } });
            value.as_object().expect("an object").clone()
        };
        let table = table(&[row("x", "b"), row("y", "b")]);
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["text", "label", "probabilities"]);
        assert_eq!(table.rows[0], ["x", "b", "a 0.2500, b 0.7500"]);
    }
}
