//! The arguments of `bert probe`.

use std::path::PathBuf;

use bert_inference::{DEVICE_HELP, DeviceName, Replacement, builtin_model};
use clap::{ArgGroup, Args as ClapArgs};

use crate::commands::evaluation::InputArgs;
use crate::output::table::FormatArgs;
use crate::process::threads::ThreadArgs;

/// Change one word of a text and show which predictions flip.
///
/// Every prediction is shown with its probability before and after the change.
/// A fine-tuned model predicts the class; a pre-trained model predicts the word at every `[MASK]`.
#[derive(ClapArgs, Debug)]
// `--format` is the format of the input, so the format of the output has another flag.
#[command(mut_arg("format", |flag| flag.long("output-format")))]
#[command(group(ArgGroup::new("texts").args(["text", "input", "data"]).required(true)))]
#[command(group(ArgGroup::new("method").args(["replace", "saliency"]).required(true)))]
pub struct Args {
    /// Pre-training run, checkpoint, output folder of finetune, or Hugging Face folder.
    #[arg(long, value_name = "DIR", default_value = builtin_model::NAME)]
    pub(super) checkpoint: PathBuf,

    /// Probe the models of all seeds of finetune --keep-seeds, and show the mean and the SD of the flips over the seeds.
    #[arg(long, hide_short_help = true, conflicts_with_all = ["data", "saliency"])]
    pub(super) all_seeds: bool,

    /// Checkpoint on which an adapter was trained [default: the one named in the adapter folder].
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(super) encoder: Option<PathBuf>,

    /// Input text; `A ||| B` is a sentence pair.
    #[arg(conflicts_with_all = ["input", "input_format", "columns", "data"])]
    pub(super) text: Option<String>,

    /// Input file, or - for standard input.
    #[arg(long, value_name = "FILE|-", conflicts_with = "data")]
    pub(super) input: Option<PathBuf>,

    #[command(flatten)]
    pub(super) texts_of_input: InputArgs,

    /// Data folder made by make-pretrain-data; its masked instances are the input.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["input_format", "columns"])]
    pub(super) data: Option<PathBuf>,

    /// Number of instances from --data [default: 100].
    #[arg(long, value_name = "N", conflicts_with_all = ["text", "input"], value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) instances: Option<u64>,

    /// Word to replace, given by its number (from 1) or as text, and its replacement; each replacement is tested
    /// separately.
    #[arg(long, value_name = "WORD=WORD,...")]
    pub(super) replace: Vec<Replacement>,

    /// Show the effect of every word of the text on its predictions: gradient times input, and the fall of the probability
    /// without the word.
    #[arg(long, conflicts_with_all = ["replace", "input", "data"])]
    pub(super) saliency: bool,

    /// Compute device.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceName::Flex, help = DEVICE_HELP)]
    pub(super) device: DeviceName,

    #[command(flatten)]
    pub(super) threads: ThreadArgs,

    #[command(flatten)]
    pub(super) format: FormatArgs,
}
