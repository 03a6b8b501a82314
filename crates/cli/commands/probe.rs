//! `bert probe` changes one word of a text and shows which predictions flip.

use std::path::PathBuf;

use bert_trainer::inference::{NewTexts, Probe, Prober, Replacement, TextColumns, TextFormat};
use bert_trainer::run_dir::builtin_model;
use bert_trainer::{DEVICE_HELP, DeviceName, Error};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::tuned_folder;
use crate::exit::{print, print_json};

/// Change one word of a text and show which predictions flip, with their probabilities before and after.
///
/// A fine-tuned model predicts the class; a pre-trained model predicts the word at every `[MASK]`.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint, output folder of finetune, or Hugging Face folder.
    #[arg(long, value_name = "DIR", default_value = builtin_model::NAME)]
    model: PathBuf,

    /// Checkpoint on which an adapter was trained [default: the one named in the adapter folder].
    #[arg(long, value_name = "DIR")]
    encoder: Option<PathBuf>,

    /// Input text; `A ||| B` is a sentence pair.
    #[arg(required_unless_present_any = ["input", "data"], conflicts_with_all = ["input", "data"])]
    text: Option<String>,

    /// Input file, or - for standard input.
    #[arg(long, value_name = "FILE|-", conflicts_with = "data")]
    input: Option<PathBuf>,

    /// Input format [default: from the file extension: .tsv; .csv; .jsonl, .ndjson, .json; .parquet; else text].
    #[arg(long, value_enum, requires = "input")]
    format: Option<TextFormat>,

    /// Data folder made by make-pretrain-data; its masked instances are the input.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Number of instances from --data [default: 100].
    #[arg(long, value_name = "N", requires = "data", value_parser = clap::value_parser!(u64).range(1..))]
    instances: Option<u64>,

    /// Word to replace, given by its number (from 1) or as text, and its replacement; each replacement is tested
    /// separately.
    #[arg(long, value_name = "WORD=WORD,...", required = true)]
    replace: Vec<Replacement>,

    /// Compute device.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceName::Flex, help = DEVICE_HELP)]
    device: DeviceName,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Probes {
    changes: usize,
    predictions: usize,
    flips: usize,
    probes: Vec<Probe>,
}

/// Runs the command.
///
/// # Errors
/// Fails if the model cannot be read or no word is changed.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = tuned_folder(&args.model)?;
    let prober = Prober::open(&folder, args.encoder.as_deref(), args.device)?;
    let probes = match (&args.text, &args.input, &args.data) {
        (_, _, Some(data)) => prober.data(&folder, data, args.instances.unwrap_or(100), &args.replace)?,
        (_, Some(source), _) => {
            let texts = NewTexts { source, format: args.format, columns: TextColumns::default() };
            prober.file(&texts, &args.replace)?
        }
        (text, ..) => prober.text(text.as_deref().unwrap_or_default(), &args.replace)?,
    };
    let all = || probes.iter().flat_map(|probe| &probe.predictions);
    let (predictions, flips) = (all().count(), all().filter(|prediction| prediction.flips).count());
    if predictions == 0 {
        let reason = match (probes.is_empty(), &args.text) {
            (true, Some(text)) => {
                format!("the text has none of these words; its words are: {}", prober.words_of(text).join(" "))
            }
            (true, None) => "none of these words is in any of the texts".to_string(),
            (false, _) => {
                "the model has no classifier and the text no [MASK], so nothing is predicted: add a [MASK] to the text"
                    .to_string()
            }
        };
        return Err(Error::Configuration { flag: "replace", reason }.into());
    }
    if args.json {
        return print_json(&Probes { changes: probes.len(), predictions, flips, probes });
    }
    let lines: Vec<String> = probes.iter().map(Probe::to_string).collect();
    let changes = probes.len();
    print(&format!("{}\n\nchanges {changes}, predictions {predictions}, flips {flips}", lines.join("\n")))
}
