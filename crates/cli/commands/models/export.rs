//! `bert export` writes the model of a run or checkpoint as a Hugging Face folder.

use std::path::{Path, PathBuf};

use bert_inference::{Error, Pooling};
use bert_reports::{CardOptions, Export, OnnxModel, WeightType, export, export_onnx};
use clap::{Args as ClapArgs, ValueEnum};
use serde::Serialize;

use crate::commands::model_folder;
use crate::output::stdout::print_result;

/// Export a checkpoint as a Hugging Face folder or for ONNX Runtime.
///
/// The folder has config.json, model.safetensors or model.onnx, vocab.txt and the tokenizer files.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint or fine-tuned model.
    run: PathBuf,

    /// Output folder, empty or new.
    dir: PathBuf,

    /// Export the encoder without the heads (BertModel).
    #[arg(long)]
    encoder_only: bool,

    /// Files to write: a Hugging Face folder; a graph for ONNX Runtime with dynamic batch and length (the head of the
    /// task, else masked LM); or the encoder for sentence-transformers and text-embeddings-inference.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Type of the stored weights: f32, or bf16 or f16 (rounded, half the size). A graph cannot have bf16.
    #[arg(long, value_enum, default_value_t)]
    weights: WeightType,

    /// How a sentence-transformers model makes one vector of a text [default: as the folder of a model of sentences
    /// states, else mean].
    #[arg(long, value_enum)]
    pooling: Option<Pooling>,

    /// Language of the model for its card, such as de [default: the --language of the data].
    #[arg(long, value_name = "CODE")]
    language: Option<String>,

    /// Licence of the model for its card, by its Hugging Face identifier such as apache-2.0.
    #[arg(long, value_name = "ID")]
    license: Option<String>,

    /// Name of the model in its card and in the card's code, such as me/my-bert [default: the name of DIR].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// A format of exported models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    #[default]
    HuggingFace,
    Onnx,
    SentenceTransformers,
}

/// The result as JSON.
#[derive(Serialize)]
struct Exported<'a> {
    checkpoint: &'a Path,
    output: &'a Path,
    #[serde(flatten)]
    graph: Option<OnnxModel>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = model_folder(&args.run)?;
    let card = CardOptions {
        language: args.language.clone(),
        license: args.license.clone(),
        name: args.name.clone(),
    };
    let is_sentence_model = args.format == Format::SentenceTransformers;
    if args.pooling.is_some() && !is_sentence_model {
        anyhow::bail!(Error::option("pooling", "works with --format sentence-transformers only"));
    }
    let for_card = [("language", &card.language), ("license", &card.license), ("name", &card.name)];
    if let (Format::Onnx, Some((flag, _))) = (args.format, for_card.iter().find(|(_, value)| value.is_some()))
    {
        anyhow::bail!(Error::option(
            flag,
            "is written to the card of a folder, and --format onnx writes no card"
        ));
    }
    let how = Export {
        encoder_only: args.encoder_only || is_sentence_model,
        weight_type: args.weights,
        card,
        sentence_transformers: is_sentence_model,
        pooling: args.pooling,
    };
    let graph = match args.format {
        Format::HuggingFace | Format::SentenceTransformers => {
            export(&folder, &args.dir, &how).map(|()| None)?
        }
        Format::Onnx => Some(export_onnx(&folder, &args.dir, &how)?),
    };
    let exported = Exported { checkpoint: &folder, output: &args.dir, graph };
    print_result(args.json, &exported, |result| {
        let graph =
            result.graph.as_ref().map_or(String::new(), |OnnxModel { class, opset, ir_version, .. }| {
                format!(" ({class}, opset {opset}, IR version {ir_version})")
            });
        format!("{} -> {}{graph}", result.checkpoint.display(), result.output.display())
    })
}
