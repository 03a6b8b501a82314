//! `bert fill-mask` shows the words that a model predicts at `[MASK]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;
use bert_inference::{
    DEVICE_HELP, DeviceName, EncodingLength, FilledMask, FilledWord, MaskFiller, ModelOptions, builtin_model,
};
use clap::Args as ClapArgs;

use crate::commands::{at_least, model_folder, selected_device, text_or_pair};
use crate::output::progress::print_warning;
use crate::output::table::{Column, FormatArgs, Table, print_table};
use crate::process::threads::ThreadArgs;

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

    /// Maximum sequence length, including special tokens; a longer text is truncated [default: as the model was trained;
    /// the positions of the model if that is not known].
    #[arg(long, value_name = "N", value_parser = at_least(5))]
    max_seq_length: Option<usize>,

    /// Compute device.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceName::Flex, help = DEVICE_HELP)]
    device: DeviceName,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    format: FormatArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let folder = model_folder(&args.checkpoint)?;
    let device = selected_device(args.device)?;
    let options = ModelOptions::default().with_max_length(args.max_seq_length).with_device(device);
    let filler = MaskFiller::open(&folder, options)?;
    let EncodingLength { tokens, remark } = filler.length();
    remark.iter().for_each(print_warning);
    let text = text_or_pair(&args.text);
    let whole = filler.untruncated_length(text);
    if whole > *tokens {
        print_warning(format!(
            "the text is cut from {whole} to {tokens} tokens; --max-seq-length sets another length"
        ));
    }
    let filled = filler.fill(text, args.top_k)?;
    if filled.is_empty() {
        bail!(
            "the text has no [MASK] within the maximum length of the model; write [MASK] in capitals and quote the text: \
             'the capital of France is [MASK].'"
        );
    }
    let value = BTreeMap::from([("masks", &filled)]);
    print_table(args.format, &value, table(&args.text, &filled), |_| {
        filled.iter().map(show).collect::<Vec<_>>().join("\n")
    })
}

/// Returns a table with a row for each mask and word.
fn table(text: &str, masks: &[FilledMask]) -> Table {
    let row = |position: usize, FilledWord { word, probability, .. }: &FilledWord| {
        vec![position.to_string(), word.clone(), format!("{probability:.4}")]
    };
    let rows = masks.iter().flat_map(|mask| mask.words.iter().map(move |word| row(mask.position, word)));
    let best = masks.iter().filter_map(|mask| mask.words.first());
    let filled = best.fold(text.to_string(), |text, word| text.replacen("[MASK]", &word.word, 1));
    Table {
        title: text.to_string(),
        verdict: filled,
        columns: vec![Column::count("position"), Column::text("word"), Column::number("probability")],
        rows: rows.collect(),
        ..Table::default()
    }
}

fn show(mask: &FilledMask) -> String {
    let words =
        mask.words.iter().map(|FilledWord { word, probability, .. }| format!("  {probability:.4}  {word}"));
    format!("[MASK] at position {}\n{}", mask.position, words.collect::<Vec<_>>().join("\n"))
}
