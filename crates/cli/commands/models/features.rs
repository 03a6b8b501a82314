//! `bert features` extracts the hidden states of every token of the input texts.

use std::path::PathBuf;
use std::str::FromStr;

use bert_inference::{
    DEVICE_HELP, DeviceName, Error, Extractor, ModelOptions, Pooling, builtin_model, write_json_lines,
};
use bert_reports::write_features_parquet;
use bert_task_files::TextLines;
use clap::{Args as ClapArgs, ValueEnum};

use crate::commands::{at_least, model_folder, selected_device, text_or_pair};
use crate::output::files::OverwriteArgs;
use crate::output::progress::{print_stderr, print_warning};
use crate::output::results::write_results;
use crate::process::threads::ThreadArgs;

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON Lines in the format of extract_features.py: values with six decimals.
    Jsonl,
    /// One row per token, or per text with --pooling; each layer is a fixed-size list of f32.
    Parquet,
}

/// A value of `--pooling`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PoolingChoice {
    /// The mean over all tokens.
    Mean,
    /// The vector of `[CLS]`.
    Cls,
    /// The pooling that the model folder states.
    Model,
}

/// A value of `--layers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    All,
    Number(i32),
}

impl FromStr for Layer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            number => number.parse().map(Self::Number).map_err(|_| "neither a number nor all".to_string()),
        }
    }
}

/// Extract vectors of tokens or of texts.
///
/// Without --pooling, the hidden states of every token, like extract_features.py.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint, fine-tuned model or Hugging Face folder.
    #[arg(long, alias = "model", value_name = "DIR", default_value = builtin_model::NAME)]
    checkpoint: PathBuf,

    /// Input file with one text per line, or - for standard input; `A ||| B` is a sentence pair.
    #[arg(long, value_name = "FILE|-")]
    input: PathBuf,

    /// One vector per text instead of one per token: the mean over its tokens, as in sentence-transformers; the vector of
    /// [CLS]; or as the folder of a model of sentences states, normalization included.
    #[arg(long, value_enum)]
    pooling: Option<PoolingChoice>,

    /// Layers, counted from 0, or from the end with negative numbers (-1 is the last), or `all` [default: -1,-2,-3,-4,
    /// or all layers of a smaller model; -1 with --pooling].
    #[arg(long, value_name = "N,N,...|all", value_delimiter = ',', allow_hyphen_values = true)]
    layers: Vec<Layer>,

    /// Output file, which appears when it is complete [default: standard output].
    #[arg(long, value_name = "FILE", required_if_eq("format", "parquet"))]
    output: Option<PathBuf>,

    #[command(flatten)]
    overwrite: OverwriteArgs,

    /// Output format.
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,

    /// Maximum sequence length, including special tokens; longer texts are truncated [default: as the model was
    /// trained; at most 128 if that is not known].
    #[arg(long, value_name = "N", value_parser = at_least(5))]
    max_seq_length: Option<usize>,

    /// Compute device.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceName::Flex, help = DEVICE_HELP)]
    device: DeviceName,

    #[command(flatten)]
    threads: ThreadArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let refused = |reason: String| Error::option("layers", reason);
    if args.layers.len() > 1 && args.layers.contains(&Layer::All) {
        return Err(refused("all includes every layer; remove the numbers".to_string()).into());
    }
    let number = |layer: &Layer| match layer {
        Layer::All => None,
        Layer::Number(number) => Some(*number),
    };
    let mut layers: Vec<i32> = args.layers.iter().filter_map(number).collect();
    if let Some(at) = (1..layers.len()).find(|&at| layers[..at].contains(&layers[at])) {
        return Err(refused(format!("layer {} is given twice; remove one", layers[at])).into());
    }
    let output = args.output.as_deref().map(|path| args.overwrite.output(path)).transpose()?;
    let folder = model_folder(&args.checkpoint)?;
    if args.pooling.is_some() && args.layers.is_empty() {
        layers = vec![-1];
    }
    let device = selected_device(args.device)?;
    let options = ModelOptions::default().with_max_length(args.max_seq_length).with_device(device);
    let mut extractor = Extractor::open(&folder, options)?;
    extractor = if args.layers.contains(&Layer::All) {
        extractor.with_all_layers()
    } else {
        extractor.with_layers(&layers)?
    };
    extractor = match args.pooling {
        None => extractor,
        Some(PoolingChoice::Mean) => extractor.with_pooling(Pooling::Mean),
        Some(PoolingChoice::Cls) => extractor.with_pooling(Pooling::Cls),
        Some(PoolingChoice::Model) => extractor.with_own_pooling()?,
    };
    extractor.length().remark.iter().for_each(print_warning);
    let lines = TextLines { source: &args.input, split: text_or_pair };
    let truncation = write_results(output.as_ref(), |out| match args.format {
        Format::Jsonl => Ok(write_json_lines(&extractor, &lines, out)?),
        Format::Parquet => write_features_parquet(&extractor, &lines, out),
    })?;
    let Some(truncation) = truncation else { return Ok(()) };
    extractor.messages(&truncation).iter().for_each(print_warning);
    if let Some(output) = &args.output {
        let count = truncation.inputs;
        print_stderr(&format!("wrote the features of {count} lines to {}", output.display()));
    }
    Ok(())
}
