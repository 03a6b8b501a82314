//! Reads and writes an adapter's folder in the layout of the `adapters` library; LoRA uses PEFT's layout.
//!
//! ```text
//! adapter_config.json         form and size
//! adapter.safetensors         the adapter's weights (PEFT: adapter_model.safetensors, the classifier in it)
//! head_config.json            the classifier's labels, and model_head.safetensors its weights (not with PEFT)
//! config.json  vocab.txt ...  shape, labels and tokenizer of the whole model, to rebuild it from the parts
//! ```
//!
//! The folder does not contain the encoder, which must be loaded separately.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::is_adapter_parameter;
use crate::adapters::{adapters_library_format, peft_format};
use crate::checkpoint::foreign_weights::ADAPTER_CONFIG;
use crate::checkpoint::load::compare_with_parameters;
use crate::checkpoint::parameter_names::{NamedTensors, map_parameters, named_parameters, rename_tensors};
use crate::checkpoint::pretrained::{Sink, pass_to_sink};
use crate::checkpoint::pytorch::read_pytorch;
use crate::checkpoint::safetensors::{named_tensors_to_bytes, read_safetensors};
use crate::checkpoint::snapshot::Snapshot;
use crate::checkpoint::tokenizer_files::{FolderTokenizer, pretty};
use crate::config::BertConfig;
use crate::config::adapter::{AdapterConfig, adapter_config_error};
use crate::config::json::read_object;
use crate::error::{Error, LoadReport, missing_file};
use crate::models::architecture::Architecture;
use crate::models::classification::BertForSequenceClassification;

const WEIGHTS: &str = "adapter.safetensors";
const PEFT_WEIGHTS: &str = "adapter_model.safetensors";
const HEAD_CONFIG: &str = "head_config.json";
pub(crate) const CLASSIFIER: &str = "classifier.weight";
const HEAD_WEIGHTS: &str = "model_head.safetensors";

/// Metadata of an adapter's folder: its name and its encoder.
#[derive(Clone, Copy, Debug)]
pub struct AdapterMetadata<'a> {
    /// The adapter's name, usually the name of its task. Letters, digits, `-` and `_` are allowed.
    pub name: &'a str,
    /// The folder of the encoder.
    pub base: &'a str,
}

/// Contents of an adapter's folder.
#[derive(Clone, Debug)]
pub struct AdapterFolder {
    /// Form and size of the adapter.
    pub adapter: AdapterConfig,
    /// The adapter's name. PEFT adapters have no name.
    pub name: Option<String>,
    /// The hidden size that the adapter was trained for.
    pub hidden_size: usize,
    /// The class names in the order of their numbers, if the folder lists them.
    pub class_names: Option<Vec<String>>,
    /// The folder of the encoder, as recorded in the adapter's folder.
    pub base: Option<String>,
    /// The adapter's folder.
    pub path: std::path::PathBuf,
    tensors: NamedTensors,
}

impl AdapterConfig {
    /// Passes every file of an adapter's folder to `sink`, `adapter_config.json` last. The adapter of `model` must have
    /// this form.
    ///
    /// # Errors
    /// Fails before the first file when a parameter is NaN or infinite, or when the vocabulary lacks a special token
    /// that BERT needs. Also fails when the sink fails.
    ///
    /// # Panics
    /// Panics if the model has no adapter.
    pub fn save(
        self,
        sink: &mut Sink<'_>,
        model: &BertForSequenceClassification,
        config: &BertConfig,
        metadata: AdapterMetadata<'_>,
        vocabulary: FolderTokenizer<'_>,
    ) -> Result<(), Error> {
        let mut own = trained_tensors(model, is_adapter_parameter)?;
        assert!(own.keys().any(|name| is_adapter_parameter(name)), "the model has no adapter");
        let mut files = vocabulary.files()?;
        let architecture = BertForSequenceClassification::NAME;
        files.push(("config.json", config.to_json_string(architecture).into_bytes()));
        let adapter_config = match self {
            Self::Lora { rank, alpha } => {
                let tensors = rename_tensors(own, peft_format::to_peft_name);
                files.push((PEFT_WEIGHTS, named_tensors_to_bytes(&tensors)));
                peft_format::config(rank, alpha, metadata.base)
            }
            Self::Bottleneck { form, reduction_factor } => {
                let head = own.extract_if(.., |name, _| !is_adapter_parameter(name)).collect();
                files.extend(head_files(&head, config, metadata));
                let tensors =
                    rename_tensors(own, |name| adapters_library_format::to_library_name(name, metadata.name));
                files.push((WEIGHTS, named_tensors_to_bytes(&tensors)));
                library_metadata(config, metadata, adapters_library_format::config(form, reduction_factor))
            }
        };
        files.push((ADAPTER_CONFIG, pretty(&adapter_config)));
        pass_to_sink(sink, files)
    }
}

/// Returns the library's metadata (model, name) together with the configuration `own`.
pub(crate) fn library_metadata(config: &BertConfig, metadata: AdapterMetadata<'_>, own: Value) -> Value {
    json!({
        "config": own,
        "hidden_size": config.hidden_size,
        "model_class": BertForSequenceClassification::NAME,
        "model_name": metadata.base,
        "model_type": "bert",
        "name": metadata.name,
        "version": adapters_library_format::VERSION,
    })
}

/// Returns the files of a classifier head that belongs to the model class (a static head of the library).
pub(crate) fn head_files(
    tensors: &NamedTensors,
    config: &BertConfig,
    metadata: AdapterMetadata<'_>,
) -> [(&'static str, Vec<u8>); 2] {
    let mut head = library_metadata(config, metadata, Value::Null);
    let unnamed = || (0..config.num_labels).map(|id| (format!("LABEL_{id}"), id)).collect();
    head["name"] = Value::Null;
    head["num_labels"] = config.num_labels.into();
    head["label2id"] = json!(config.label2id.clone().unwrap_or_else(unnamed));
    [(HEAD_WEIGHTS, named_tensors_to_bytes(tensors)), (HEAD_CONFIG, pretty(&head))]
}

/// Copies the trained tensors to the host and returns them: the tensors whose names `own` accepts, and the
/// classifier's.
pub(crate) fn trained_tensors(
    model: &BertForSequenceClassification,
    own: fn(&str) -> bool,
) -> Result<NamedTensors, Error> {
    let snapshot = Snapshot::with_names(model, |name| own(name) || name.starts_with("classifier."));
    snapshot.check_finite()?;
    Ok(snapshot.to_named_tensors())
}

/// Reads an adapter's folder in the layout of this crate, of the `adapters` library or of PEFT.
///
/// # Errors
/// Fails when a file is missing, when a JSON file cannot be read or is not an object, or when the form of the adapter
/// is not supported. Also fails as [`read_safetensors`] or [`read_pytorch`] does.
pub fn read_adapter(dir: &Path) -> Result<AdapterFolder, Error> {
    let config = read_json(dir, ADAPTER_CONFIG)?;
    if config.contains_key("peft_type") { read_peft(dir, &config) } else { read_library(dir, &config) }
}

fn read_peft(dir: &Path, config: &Map<String, Value>) -> Result<AdapterFolder, Error> {
    let adapter = peft_format::read_config(config)?;
    let tensors =
        rename_tensors(read_weights(dir, PEFT_WEIGHTS, "adapter_model.bin")?, peft_format::from_peft_name);
    let first = tensors.iter().find(|(name, _)| name.ends_with(".lora_A.weight"));
    let Some((_, (shape, _))) = first else {
        return Err(adapter_config_error("peft_type", "is LORA, but there is no tensor lora_A"));
    };
    let hidden_size = shape.last().copied().unwrap_or_default();
    let base = base_of(config);
    let path = dir.to_path_buf();
    Ok(AdapterFolder { adapter, name: None, hidden_size, class_names: None, base, path, tensors })
}

fn read_library(dir: &Path, config: &Map<String, Value>) -> Result<AdapterFolder, Error> {
    let object = config.get("config").and_then(Value::as_object);
    let adapter = adapters_library_format::read_config(
        object.ok_or_else(|| adapter_config_error("config", "is not an object"))?,
    )?;
    let name = name_of(config)?;
    let hidden_size = config.get("hidden_size").and_then(Value::as_u64);
    let hidden_size =
        hidden_size.ok_or_else(|| adapter_config_error("hidden_size", "is not a whole number"))? as usize;
    let tensors = read_weights(dir, WEIGHTS, "pytorch_adapter.bin")?;
    let mut tensors =
        rename_tensors(tensors, |published| adapters_library_format::from_library_name(published, name));
    let mut class_names = None;
    if dir.join(HEAD_CONFIG).is_file() {
        let head = read_json(dir, HEAD_CONFIG)?;
        let labels = head.get("label2id").filter(|labels| !labels.is_null());
        let labels = labels.or_else(|| head.get("config")?.get("label2id"));
        class_names = labels.map(names_in_order).transpose()?;
    }
    tensors.extend(read_head(dir)?);
    let name = Some(name.to_string());
    let path = dir.to_path_buf();
    Ok(AdapterFolder { adapter, name, hidden_size, class_names, base: base_of(config), path, tensors })
}

/// Returns the names of `label2id`, which maps names to the numbers from 0, in the order of the numbers.
fn names_in_order(label2id: &Value) -> Result<Vec<String>, Error> {
    let wrong =
        || adapter_config_error("label2id", format!("is {label2id}, not a map of names to numbers from 0"));
    let mut names: Vec<(u64, &String)> = label2id
        .as_object()
        .ok_or_else(wrong)?
        .iter()
        .map(|(name, number)| Ok((number.as_u64().ok_or_else(wrong)?, name)))
        .collect::<Result<_, Error>>()?;
    names.sort_unstable();
    let in_order = (0..).zip(&names).all(|(number, (found, _))| number == *found);
    if in_order { Ok(names.into_iter().map(|(_, name)| name.clone()).collect()) } else { Err(wrong()) }
}

/// Returns the adapter's name from a configuration of the library.
pub(crate) fn name_of(config: &Map<String, Value>) -> Result<&str, Error> {
    config.get("name").and_then(Value::as_str).ok_or_else(|| adapter_config_error("name", "is not a string"))
}

/// Reads the classifier's tensors, if the folder has them.
pub(crate) fn read_head(dir: &Path) -> Result<NamedTensors, Error> {
    if !dir.join(HEAD_CONFIG).is_file() {
        return Ok(NamedTensors::new());
    }
    Ok(rename_tensors(
        read_weights(dir, HEAD_WEIGHTS, "pytorch_model_head.bin")?,
        adapters_library_format::head_from_library_name,
    ))
}

pub(crate) fn read_json(dir: &Path, file: &'static str) -> Result<Map<String, Value>, Error> {
    let path = dir.join(file);
    if !path.is_file() {
        return Err(missing_file(dir, file));
    }
    read_object(&path)
}

pub(crate) fn read_weights(dir: &Path, file: &'static str, pickle: &str) -> Result<NamedTensors, Error> {
    let path = dir.join(file);
    let pickle = dir.join(pickle);
    match (path.is_file(), pickle.is_file()) {
        (true, _) => read_safetensors(&path),
        (false, true) => read_pytorch(&pickle),
        (false, false) => Err(missing_file(dir, file)),
    }
}

impl AdapterFolder {
    /// Checks that the adapter was made for models of this hidden size.
    pub(crate) fn check_width(&self, width: usize) -> Result<(), Error> {
        if width == self.hidden_size {
            Ok(())
        } else {
            Err(Error::model(format!(
                "the adapter has hidden size {}, but the model has {width}; use the encoder that it was trained on",
                self.hidden_size
            ))
            .at(&self.path))
        }
    }

    /// Returns true if the folder has the classifier that was trained with the adapter.
    pub fn has_classifier(&self) -> bool {
        self.tensors.contains_key(CLASSIFIER)
    }

    /// Returns the folder's tensors except the classifier's.
    pub(crate) fn encoder_tensors(&self) -> impl Iterator<Item = (String, (Vec<usize>, Vec<f32>))> {
        let own = self.tensors.iter().filter(|(name, _)| is_adapter_parameter(name));
        own.map(|(name, tensor)| (name.clone(), tensor.clone()))
    }

    /// Returns the model with this adapter inserted, and with the folder's classifier if it has one. As after
    /// [`BertModel::with_adapter`](crate::BertModel::with_adapter), only these parameters have gradients.
    ///
    /// # Errors
    /// Fails when the adapter was made for an encoder of a different width, when its size does not fit the model, or
    /// when the number of layers or classes differs from the model's.
    pub fn apply(
        self,
        mut model: BertForSequenceClassification,
    ) -> Result<BertForSequenceClassification, Error> {
        self.check_width(model.bert.pooler.dense.weight.lazy_shape()[0])?;
        let Self { adapter, tensors, .. } = self;
        model.bert = model.bert.with_adapter(adapter, 0)?;
        with_tensors(model, tensors, is_adapter_parameter)
    }
}

/// Returns the encoder named in a configuration of one of the libraries, followed by `@` and the commit if there is
/// one.
pub(crate) fn base_of(config: &Map<String, Value>) -> Option<String> {
    let text = |key: &str| config.get(key)?.as_str();
    let base = text("model_name").or_else(|| text("base_model_name_or_path"))?;
    let commit = text("revision").filter(|revision| revision.len() == 40);
    Some(commit.map_or_else(|| base.to_string(), |commit| format!("{base}@{commit}")))
}

/// Loads these tensors into the model's adapter parameters, and into its classifier if they include one.
pub(crate) fn with_tensors(
    model: BertForSequenceClassification,
    mut tensors: NamedTensors,
    own: fn(&str) -> bool,
) -> Result<BertForSequenceClassification, Error> {
    let has_head = tensors.keys().any(|name| name.starts_with("classifier."));
    let own = |name: &str| own(name) || (has_head && name.starts_with("classifier."));
    let mut parameters = named_parameters(&model);
    parameters.retain(|(name, ..)| own(name));
    let report = compare_with_parameters(&parameters, &tensors);
    if report != LoadReport::default() {
        return Err(Error::from(report));
    }
    Ok(map_parameters(model, |name, _| tensors.remove(name).map(|(_, values)| values)))
}
