//! Exports a model as a graph that ONNX Runtime runs: `model.onnx`, `config.json` and the tokenizer files.
//!
//! The inputs are `input_ids`, `attention_mask` and `token_type_ids`, integers of shape `[batch, sequence]`; both sizes
//! are dynamic. The outputs are f32 and have the names of Optimum's exports: `last_hidden_state` and `pooler_output`,
//! `logits`, or `start_logits` and `end_logits`. The metadata of the graph has the class, the labels and the maximum
//! length.

mod graph;
mod network;

use std::path::Path;

use bert_inference::loaded_model::{architecture, with_outputs};
use bert_inference::{DefaultLength, ModelDescription, ModelFiles, Pooling};
use bert_model::{BertConfig, DESCRIPTION, FolderContents, read_pretrained_tensors};
use bert_storage::{Disk, StagedFolder};
use bert_training::Error;
use bert_training::incomplete_output::{Contents, OutputGuard};
use graph::{Element, IR_VERSION, OPSET};
use network::{Head, Network};
use serde::Serialize;

use crate::export::{Export, HINT, WeightType, class, tokenizer_files, write_files};

/// Name of the file.
const MODEL: &str = "model.onnx";

/// The files of an ONNX folder, the last one written last.
const FILES: [&str; 7] = [
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    DESCRIPTION,
    "config.json",
    MODEL,
];

const CONTENTS: Contents = Contents { last: MODEL, is_ours: |name| FILES.contains(&name) };

/// Maximum size of a protocol buffer.
const MAX_BYTES: usize = (1 << 31) - 1;

/// An exported graph.
#[derive(Clone, Debug, Serialize)]
pub struct OnnxModel {
    /// The class of `transformers` with these outputs.
    pub class: &'static str,
    /// Version of the operators.
    pub opset: i64,
    /// Version of the file format.
    pub ir_version: i64,
    /// Size of the file in bytes.
    #[serde(skip)]
    pub bytes: usize,
}

/// Writes the graph of a model folder into an empty or new folder.
///
/// # Errors
/// Fails when the weights are damaged or do not match their configuration, when the weight type is bf16, when there is
/// no graph for the class of the model, when the graph is larger than a protocol buffer can be, or when `target` is not
/// empty.
pub fn export_onnx(folder: &Path, target: &Path, how: &Export) -> Result<OnnxModel, Error> {
    let element = match how.weight_type {
        WeightType::F32 => Element::F32,
        WeightType::F16 => Element::F16,
        WeightType::Bf16 => {
            let reason = "bf16 is not supported by ONNX Runtime on CPUs; choose f32 or f16".to_string();
            return Err(Error::option("weights", reason));
        }
    };
    let ModelFiles { config, tokenizer, description } = ModelFiles::find(folder)?;
    let tensors = read_pretrained_tensors(folder)?;
    let config = with_outputs(folder, config, &tensors)?;
    let contents = FolderContents::usable(&config, tensors)?;
    let (class, head) = class_and_head(folder, &contents, how.encoder_only)?;
    let graph = Network::build(&config, &contents.tensors, head, element);
    let bytes = graph.into_model(class, &metadata(&config, &description, class)?);
    if bytes.len() > MAX_BYTES {
        let reason = format!(
            "a graph of {} bytes is larger than a protocol buffer; choose `.weights f16`",
            bytes.len()
        );
        return Err(Error::option("format", reason));
    }
    let mut files = tokenizer_files(&description, tokenizer.as_ref(), &config)?;
    let model = OnnxModel { class, opset: OPSET, ir_version: IR_VERSION, bytes: bytes.len() };
    files.extend([("config.json", config.to_json_string(class).into_bytes()), (MODEL, bytes)]);
    write_files(OutputGuard::begin(StagedFolder::new(&Disk, target), CONTENTS, HINT)?, files)?;
    Ok(model)
}

/// Returns the class of the graph and its head: the head of a task if the folder has one, else masked LM, else none.
fn class_and_head(
    folder: &Path,
    contents: &FolderContents,
    encoder_only: bool,
) -> Result<(&'static str, Head), Error> {
    let named = architecture(folder)?;
    let encoder = ("BertModel", Head::Encoder);
    if encoder_only {
        return Ok(encoder);
    }
    Ok(match (named.as_deref(), class(folder, contents)?) {
        (Some(other @ ("BertForMultipleChoice" | "BertForSeveralTasks" | "BertWithFeatureHead")), _) => {
            let reason = format!("onnx has no graph for {other}; `.encoder_only` exports its encoder");
            return Err(Error::option("format", reason));
        }
        (_, "BertForTokenClassification") => ("BertForTokenClassification", Head::Token),
        (_, "BertForSequenceClassification") => ("BertForSequenceClassification", Head::Sequence),
        (_, "BertForQuestionAnswering") => ("BertForQuestionAnswering", Head::Answers),
        (_, "BertForPreTraining" | "BertForMaskedLM") if contents.has_masked_lm() => {
            ("BertForMaskedLM", Head::MaskedLm)
        }
        _ => encoder,
    })
}

fn metadata(
    config: &BertConfig,
    description: &ModelDescription,
    class: &str,
) -> Result<Vec<(&'static str, String)>, Error> {
    let length = description.encoding_length(None, DefaultLength::Trained(usize::MAX), config)?;
    let mut metadata = vec![("class", class.to_string()), ("max_length", length.tokens.to_string())];
    let pooling = description.pooling.map(|pooling| match pooling {
        Pooling::Mean => "mean".to_string(),
        Pooling::Cls => "cls".to_string(),
    });
    let activation = description.activation.map(|activation| activation.name().to_string());
    let normalize = description.normalize.then(|| "true".to_string());
    let known = [("pooling", pooling), ("normalize", normalize), ("function_to_apply", activation)];
    metadata.extend(known.into_iter().filter_map(|(key, value)| Some((key, value?))));
    if let Some(labels) = &config.id2label {
        metadata.push(("id2label", serde_json::to_string(labels).expect("a map of texts")));
    }
    Ok(metadata)
}
