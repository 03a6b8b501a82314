//! `bert minimal-pairs` counts how often a model prefers the acceptable one of two sentences.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use bert_inference::{
    DEVICE_HELP, DeviceName, EncodingLength, Error, MaskFiller, ModelOptions, PairAccuracy, ScoredPair,
    builtin_model,
};
use bert_task_files::{NewTexts, TextColumns};
use bert_tasks::Truncation;
use bert_text::TextFormat;
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::{at_least, model_folder, selected_device};
use crate::output::progress::print_warning;
use crate::output::table::{Column, FormatArgs, Table, as_table, print_table};
use crate::process::threads::ThreadArgs;

/// Count how often a model prefers the acceptable of two sentences.
///
/// A sentence's score is its pseudo-log-likelihood: each token is masked in turn, with the pieces of its word to its right.
/// The input has the form of BLiMP and BabyLM.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint or Hugging Face folder with a masked-LM head.
    #[arg(long, value_name = "DIR", default_value = builtin_model::NAME)]
    checkpoint: PathBuf,

    /// Files of pairs: JSON Lines, TSV, CSV or Parquet, or folders of such files; - is standard input (JSON Lines).
    #[arg(long, value_name = "FILE|DIR|-", num_args = 1.., required = true)]
    input: Vec<PathBuf>,

    /// Names of the columns of the acceptable and the unacceptable sentence.
    #[arg(
        long,
        value_name = "GOOD,BAD",
        value_delimiter = ',',
        default_value = "sentence_good,sentence_bad"
    )]
    columns: Vec<String>,

    /// Column with the phenomenon of a pair, such as UID or linguistics_term [default: the name of the file].
    #[arg(long, value_name = "COLUMN")]
    by: Option<String>,

    /// Add the sentences and scores of every pair to the JSON result.
    #[arg(long)]
    pairs: bool,

    /// Maximum sequence length, including special tokens; longer sentences are truncated [default: as the model was
    /// trained; the positions of the model if that is not known].
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

/// The result as JSON.
#[derive(Serialize)]
struct Accuracies<'a> {
    checkpoint: &'a Path,
    phenomena: Vec<PairAccuracy>,
    /// Mean over the phenomena in per cent, as BLiMP reports it.
    mean: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<Vec<ScoredPair>>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    if args.columns.len() != 2 {
        let reason = "takes two names: the acceptable and the unacceptable sentence".to_string();
        return Err(Error::option("columns", reason).into());
    }
    let files = files(&args.input)?;
    let folder = model_folder(&args.checkpoint)?;
    let device = selected_device(args.device)?;
    let options = ModelOptions::default().with_max_length(args.max_seq_length).with_device(device);
    let filler = MaskFiller::open(&folder, options)?;
    let EncodingLength { tokens, remark } = filler.length();
    remark.iter().for_each(print_warning);
    let mut truncation = Truncation::default();
    let mut pairs = Vec::new();
    for file in &files {
        let columns = TextColumns { texts: args.columns.clone(), id: args.by.clone() };
        let is_stream = file.as_os_str() == "-";
        let texts = NewTexts { source: file, format: is_stream.then_some(TextFormat::Jsonl), columns };
        let name =
            if is_stream { OsStr::new("standard input") } else { file.file_stem().unwrap_or_default() };
        pairs.extend(filler.score_pairs(&texts, &name.to_string_lossy(), &mut truncation)?);
    }
    anyhow::ensure!(!pairs.is_empty(), "--input: no pair in {} files", files.len());
    truncation.message("the input", *tokens).iter().for_each(print_warning);
    let phenomena = PairAccuracy::by_phenomenon(&pairs);
    // If there are several phenomena, the last row is the accuracy over all pairs.
    let single = &phenomena[..phenomena.len().max(2) - 1];
    let accuracies: Vec<f64> = single.iter().map(|row| row.accuracy).collect();
    let mean = accuracies.iter().sum::<f64>() / accuracies.len() as f64;
    let pairs = args.pairs.then_some(pairs);
    let result = Accuracies { checkpoint: &args.checkpoint, phenomena, mean, pairs };
    print_table(args.format, &result, result.table(), as_table)
}

/// Returns the files of pairs; a folder is replaced by its `.jsonl`, `.tsv`, `.csv` and `.parquet` files, in the order
/// of their names.
fn files(inputs: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for input in inputs {
        if !input.is_dir() {
            files.push(input.clone());
            continue;
        }
        let entries = input.read_dir().with_context(|| input.display().to_string())?;
        let paths = entries.map(|entry| Ok(entry?.path()));
        let mut found: Vec<PathBuf> =
            paths.collect::<std::io::Result<_>>().with_context(|| input.display().to_string())?;
        found.retain(|path| path.is_file() && TextFormat::from_path(path) != TextFormat::Text);
        anyhow::ensure!(
            !found.is_empty(),
            "{}: no .jsonl, .tsv, .csv or .parquet file in this folder",
            input.display()
        );
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

impl Accuracies<'_> {
    fn note(&self) -> String {
        let count = self.phenomena.len().saturating_sub(1).max(1);
        format!("mean over {count} phenomena: {:.1} %; guessing: 50.0 %", self.mean)
    }

    fn table(&self) -> Table {
        let row = |row: &PairAccuracy| {
            let figures = [row.accuracy, row.low, row.high].map(|figure| format!("{figure:.1}"));
            [row.phenomenon.clone(), row.pairs.to_string()].into_iter().chain(figures).collect()
        };
        Table {
            columns: vec![
                Column::text("phenomenon"),
                Column::number("pairs"),
                Column::number("accuracy (%)"),
                Column::number("low"),
                Column::number("high"),
            ],
            rows: self.phenomena.iter().map(row).collect(),
            notes: vec![self.note(), "low and high: 95 % interval over the pairs (Wilson)".to_string()],
            ..Table::default()
        }
    }
}
