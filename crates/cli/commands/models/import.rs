//! `bert import` converts a published checkpoint to a Hugging Face folder.

use std::path::{Path, PathBuf};

use bert_data::PartialSettings;
use bert_reports::{Import, Imported, WeightType, import};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::hub::folder_of_name;
use crate::output::progress::print_note;
use crate::output::stdout::print_result;

/// Convert a published BERT to a Hugging Face folder.
///
/// Reads safetensors in one or several files, pytorch_model.bin, and TensorFlow checkpoints of google-research/bert, in
/// f32, f16 or bf16. No code in these files is run. The other commands read the same forms; `bert inspect DIR` shows
/// what a folder can be used for.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Folder with the checkpoint, its name on the Hugging Face Hub, or its file: model.safetensors,
    /// pytorch_model.bin, an index of several files, or the common prefix of a TensorFlow checkpoint such as
    /// bert_model.ckpt.
    source: PathBuf,

    /// Output folder, empty or new.
    dir: PathBuf,

    /// Configuration of the model [default: config.json or bert_config.json next to the weights].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Vocabulary: vocab.txt, tokenizer.json or a folder [default: next to the weights].
    #[arg(long, value_name = "FILE|DIR")]
    vocab: Option<PathBuf>,

    /// Whether the tokenizer lower-cases [default: from the tokenizer files, else true unless the vocabulary is cased].
    #[arg(long, value_name = "BOOL")]
    do_lower_case: Option<bool>,

    /// Initialize missing pre-training heads at random and write a BertForPreTraining.
    #[arg(long)]
    fresh_heads: bool,

    /// Random seed of --fresh-heads.
    #[arg(long, value_name = "N", default_value_t = 12345)]
    seed: u64,

    /// Type of the stored weights: f32, or bf16 or f16 (rounded, half the size).
    #[arg(long, value_enum, default_value_t)]
    weights: WeightType,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The result as JSON.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    imported: &'a Imported,
    output: &'a Path,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let settings = PartialSettings { do_lower_case: args.do_lower_case, ..PartialSettings::default() };
    let how = Import {
        config: args.config.clone(),
        vocab: args.vocab.clone(),
        settings,
        fresh_heads: args.fresh_heads.then_some(args.seed),
        weight_type: args.weights,
    };
    let imported = import(&folder_of_name(&args.source, false)?, &args.dir, &how)?;
    for (tensors, what) in [(&imported.fresh, "initialized at random"), (&imported.ignored, "not written")] {
        if !tensors.is_empty() {
            print_note(format!("{what}: {}", tensors.join(", ")));
        }
    }
    if imported.words.is_none() {
        print_note("no vocabulary found, so the folder has no tokenizer; --vocab names one");
    }
    print_result(args.json, &Written { imported: &imported, output: &args.dir }, |_| {
        format!("{} from a {} -> {}", imported.class, imported.form, args.dir.display())
    })
}
