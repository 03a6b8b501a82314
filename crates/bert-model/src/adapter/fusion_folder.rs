//! Reads and writes the folder of fused adapters, in the layout of the `adapters` library (`save_adapter_fusion`).
//!
//! ```text
//! adapter_fusion_config.json   the adapters' names, and the kind of attention: `dynamic`
//! model_adapter_fusion.safetensors
//! head_config.json             the classifier's labels, and model_head.safetensors its weights
//! adapters/NAME                each adapter's own folder, as `finetune` puts it there
//! config.json  vocab.txt ...   shape, labels and tokenizer of the whole model
//! ```

use std::path::Path;

use serde_json::{Value, json};

use super::folder::{
    AdapterFolder, AdapterOrigin, HEAD_CONFIG, HEAD_WEIGHTS, about, base_of, head_config, pretty,
    read_adapter, read_json, read_weights, with_tensors,
};
use super::fusion::is_fusion_parameter;
use super::{library_form, wrong};
use crate::architecture::Architecture;
use crate::classification::BertForSequenceClassification;
use crate::config::BertConfig;
use crate::error::Error;
use crate::parameters::{NamedTensors, to_named_tensors};
use crate::pretrained::Sink;
use crate::tokenizer_files::Vocabulary;
use crate::weights::named_tensors_to_bytes;

pub(super) const CONFIG: &str = "adapter_fusion_config.json";
const WEIGHTS: &str = "model_adapter_fusion.safetensors";

/// Fused adapters, read.
#[derive(Clone, Debug)]
pub struct FusionFolder {
    /// In the order of the attention's shares.
    pub adapters: Vec<AdapterFolder>,
    /// The folder of the encoder, as the folder names it.
    pub base: Option<String>,
    tensors: NamedTensors,
}

/// Reads a folder of fused adapters, ours or the library's with the adapters' folders in `adapters/`.
///
/// # Errors
///
/// [`Error::MissingFile`], [`Error::PickledAdapter`], [`Error::Json`]; [`Error::AdapterConfig`] for another kind of
/// attention, with the key.
pub fn read_fusion(dir: &Path) -> Result<FusionFolder, Error> {
    let config = read_json(dir, CONFIG)?;
    let name = config.get("name").and_then(Value::as_str).ok_or_else(|| wrong("name", "is not a text"))?;
    let found = config.get("config").unwrap_or(&Value::Null);
    for (key, expected) in dynamic().as_object().expect("an object") {
        if found.get(key).is_some_and(|found| found != expected) {
            return Err(wrong(key, format!("is {}; in the dynamic attention it is {expected}", found[key])));
        }
    }
    let adapters = name.split(',').map(|name| read_adapter(&dir.join("adapters").join(name)));
    let adapters = adapters.collect::<Result<Vec<_>, Error>>()?;
    let published = format!(".adapter_fusion_layer.{name}.");
    let attention = read_weights(dir, WEIGHTS, "pytorch_model_adapter_fusion.bin")?.into_iter();
    let mut tensors: NamedTensors =
        attention.map(|(name, tensor)| (name.replace(&published, ".fusion."), tensor)).collect();
    if dir.join(HEAD_CONFIG).is_file() {
        let head = read_weights(dir, HEAD_WEIGHTS, "pytorch_model_head.bin")?.into_iter();
        tensors.extend(head.map(|(name, tensor)| (library_form::known_head(&name), tensor)));
    }
    Ok(FusionFolder { adapters, base: base_of(&config), tensors })
}

impl FusionFolder {
    /// The model with these adapters, their attention, and the classifier of the folder where there is one. As after
    /// [`BertForSequenceClassification::with_fusion`], only attention and classifier have gradients.
    ///
    /// # Errors
    ///
    /// [`Error::AdapterWidth`]; [`Error::TensorMismatch`] when the layers or the classes are not the model's.
    pub fn apply(
        self,
        model: BertForSequenceClassification,
        dropout_prob: f64,
    ) -> Result<BertForSequenceClassification, Error> {
        let model = model.with_fusion(&self.adapters, dropout_prob, 0)?;
        with_tensors(model, self.tensors, is_fusion_parameter)
    }
}

/// Hands out every file of the folder of a fused model: the attention and the head under the names of the `adapters`
/// library. The adapters' own folders are not in it.
///
/// # Errors
///
/// [`Error::Io`] with the file's name; [`Error::ParameterNotFinite`] and what is wrong with the vocabulary before
/// anything is handed out.
pub fn save_fusion(
    sink: &mut Sink<'_>,
    model: &BertForSequenceClassification,
    config: &BertConfig,
    names: &[String],
    base: &str,
    vocabulary: Vocabulary<'_>,
) -> Result<(), Error> {
    let name = names.join(",");
    let mut attention = NamedTensors::new();
    for (index, layer) in model.bert.encoder.layer.iter().enumerate() {
        let Some(fusion) = &layer.output.fusion else { continue };
        let place = format!("bert.encoder.layer.{index}.output.adapter_fusion_layer.{name}");
        for (part, dense) in [("query", &fusion.query), ("key", &fusion.key), ("value", &fusion.value)] {
            let tensors = to_named_tensors(dense).into_iter();
            attention.extend(tensors.map(|(of, tensor)| (format!("{place}.{part}.{of}"), tensor)));
        }
    }
    let classifier = to_named_tensors(&model.classifier).into_iter();
    let head: NamedTensors = classifier.map(|(of, tensor)| (format!("classifier.{of}"), tensor)).collect();
    for (name, (_, values)) in attention.iter().chain(&head) {
        if let Some(&value) = values.iter().find(|value| !value.is_finite()) {
            return Err(Error::ParameterNotFinite { name: name.clone(), value });
        }
    }
    let mut files: Vec<(&str, Vec<u8>)> = Vec::new();
    for (name, text) in vocabulary.files()? {
        files.push((name, text.into_bytes()));
    }
    let origin = AdapterOrigin { name: &name, base };
    let mut config_json = about(config, origin);
    config_json["name"] = name.as_str().into();
    config_json["config"] = dynamic();
    files.push(("config.json", config.to_json_string(BertForSequenceClassification::NAME).into_bytes()));
    files.push((HEAD_WEIGHTS, named_tensors_to_bytes(&head)));
    files.push((HEAD_CONFIG, pretty(&head_config(config, origin))));
    files.push((WEIGHTS, named_tensors_to_bytes(&attention)));
    files.push((CONFIG, pretty(&config_json)));
    for (name, bytes) in files {
        sink(name, &bytes).map_err(|source| Error::Io { path: name.into(), source })?;
    }
    Ok(())
}

/// The library's `dynamic` configuration.
fn dynamic() -> Value {
    json!({
        "dropout_prob": null,
        "key": true,
        "query": true,
        "query_before_ln": false,
        "regularization": true,
        "residual_before": false,
        "temperature": false,
        "value": true,
        "value_before_softmax": true,
        "value_initialized": true,
    })
}
