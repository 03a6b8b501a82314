//! Reads and writes the folder of fused adapters, in the layout of the `adapters` library (`save_adapter_fusion`).
//!
//! ```text
//! adapter_fusion_config.json   the adapters' names, and the kind of attention: `dynamic`
//! model_adapter_fusion.safetensors
//! head_config.json             the classifier's labels, and model_head.safetensors its weights
//! adapters/NAME                each adapter's own folder, written there by `finetune`
//! config.json  vocab.txt ...   shape, labels and tokenizer of the whole model
//! ```

use std::path::Path;

use serde_json::{Value, json};

use super::folder::{
    AdapterFolder, AdapterMetadata, CLASSIFIER, base_of, head_files, library_metadata, name_of, read_adapter,
    read_head, read_json, read_weights, trained_tensors, with_tensors,
};
use crate::adapters::attach_fusion::is_fusion_parameter;
use crate::checkpoint::foreign_weights::FUSION_CONFIG;
use crate::checkpoint::parameter_names::{NamedTensors, rename_tensors};
use crate::checkpoint::pretrained::{Sink, pass_to_sink};
use crate::checkpoint::safetensors::named_tensors_to_bytes;
use crate::checkpoint::tokenizer_files::{FolderTokenizer, pretty};
use crate::config::BertConfig;
use crate::config::adapter::adapter_config_error;
use crate::error::Error;
use crate::models::architecture::Architecture;
use crate::models::classification::BertForSequenceClassification;

const WEIGHTS: &str = "model_adapter_fusion.safetensors";

/// Contents of a folder of fused adapters.
#[derive(Clone, Debug)]
pub struct FusionFolder {
    /// The adapters, in the order of the attention weights.
    pub adapters: Vec<AdapterFolder>,
    /// The folder of the encoder, as recorded in this folder.
    pub base: Option<String>,
    tensors: NamedTensors,
}

/// Reads a folder of fused adapters in this crate's layout, or in the library's with the adapters' folders in
/// `adapters/`.
///
/// # Errors
/// Fails when a file is missing, when a JSON file cannot be read or is not an object, or when the kind of attention is
/// not supported; the error then names the key. Also fails as [`read_adapter`] does.
pub fn read_fusion(dir: &Path) -> Result<FusionFolder, Error> {
    let config = read_json(dir, FUSION_CONFIG)?;
    let name = name_of(&config)?;
    let found = config.get("config").unwrap_or(&Value::Null);
    for (key, expected) in dynamic().as_object().expect("an object") {
        if found.get(key).is_some_and(|found| found != expected) {
            return Err(adapter_config_error(
                key,
                format!("is {}; in the dynamic attention it is {expected}", found[key]),
            ));
        }
    }
    let adapters = name.split(',').map(|name| read_adapter(&dir.join("adapters").join(name)));
    let adapters = adapters.collect::<Result<Vec<_>, Error>>()?;
    let published = format!(".adapter_fusion_layer.{name}.");
    let attention = read_weights(dir, WEIGHTS, "pytorch_model_adapter_fusion.bin")?;
    let mut tensors = rename_tensors(attention, |name| name.replace(&published, ".fusion."));
    tensors.extend(read_head(dir)?);
    Ok(FusionFolder { adapters, base: base_of(&config), tensors })
}

impl FusionFolder {
    /// Returns true if the folder has the classifier that was trained with the attention.
    pub fn has_classifier(&self) -> bool {
        self.tensors.contains_key(CLASSIFIER)
    }

    /// Returns the model with these adapters, their attention, and the folder's classifier if it has one. As after
    /// [`BertModel::with_fusion`](crate::BertModel::with_fusion), only attention and classifier have gradients.
    ///
    /// # Errors
    /// Fails when an adapter has a form that cannot be fused, when it was made for an encoder of a different width, or
    /// when the number of layers or classes differs from the model's.
    pub fn apply(
        self,
        mut model: BertForSequenceClassification,
        dropout_prob: f64,
    ) -> Result<BertForSequenceClassification, Error> {
        model.bert = model.bert.with_fusion(&self.adapters, dropout_prob, 0)?;
        with_tensors(model, self.tensors, is_fusion_parameter)
    }
}

/// Passes every file of a fused model's folder to `sink`: the attention and the head, under the names of the `adapters`
/// library, the model's configuration and the tokenizer. The name in the metadata consists of the names of the
/// adapters, with commas between them. The folders of the adapters themselves are not included.
///
/// # Errors
/// Fails before the first file when a parameter is NaN or infinite, or when the vocabulary lacks a special token that
/// BERT needs. Also fails when the sink fails.
pub fn save_fusion(
    sink: &mut Sink<'_>,
    model: &BertForSequenceClassification,
    config: &BertConfig,
    metadata: AdapterMetadata<'_>,
    vocabulary: FolderTokenizer<'_>,
) -> Result<(), Error> {
    let name = metadata.name;
    let mut attention = trained_tensors(model, is_fusion_parameter)?;
    let head: NamedTensors = attention.extract_if(.., |name, _| !is_fusion_parameter(name)).collect();
    let published = format!(".adapter_fusion_layer.{name}.");
    let attention = rename_tensors(attention, |name| name.replace(".fusion.", &published));
    let mut files = vocabulary.files()?;
    files.push(("config.json", config.to_json_string(BertForSequenceClassification::NAME).into_bytes()));
    files.extend(head_files(&head, config, metadata));
    files.push((WEIGHTS, named_tensors_to_bytes(&attention)));
    files.push((FUSION_CONFIG, pretty(&library_metadata(config, metadata, dynamic()))));
    pass_to_sink(sink, files)
}

/// Returns the library's `dynamic` configuration.
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
