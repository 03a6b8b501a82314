//! Opens a fine-tuned model folder: the weights, the configuration, the tokenizer and the description. An adapter, or
//! a fusion of adapters, is applied to the encoder that it was trained on.
//!
//! [`MemoryModel`] is a model whose files are in memory.

use std::fs;
use std::path::{Component, Path, PathBuf};

use bert_kernels::Compute;
use bert_model::{
    AdapterFolder, Architecture, BertConfig, BertForSequenceClassification, BertModel, FusionFolder,
    LoadPolicy, NamedTensors, is_adapter_folder, is_fusion_folder, load_named_tensors, load_pretrained,
    read_adapter, read_fusion, read_pretrained_config, read_pretrained_tensors,
};
use bert_storage::Class;
use bert_tasks::Example;
use burn::tensor::Device;
use tempfile::TempDir;

use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::{Error, no_head};
use crate::model_dir::builtin_model;
use crate::model_dir::description::{DefaultLength, EncodingLength, ModelDescription};
use crate::model_dir::encoder_record::check_recorded_encoder;
use crate::model_dir::hub_model::hub_name;
use crate::model_dir::json_file::read_json;
use crate::model_dir::model_folder::{ModelFiles, resolve_model_folder};
use crate::model_dir::model_options::ModelOptions;
use bert_storage::exists;

/// A model with the files of its folder.
pub struct LoadedModel<M> {
    /// The weights.
    pub model: M,
    /// The other files. For an adapter, the description comes from the adapter's folder and the tokenizer from the
    /// encoder's.
    pub files: ModelFiles,
}

impl<M: Architecture> LoadedModel<M> {
    /// Loads the model of a folder; `policy` determines the tensors that it may lack.
    pub(crate) fn open(
        folder: &Path,
        policy: LoadPolicy,
        compute: impl FnOnce(&ModelDescription) -> Result<Compute, Error>,
        device: &Device,
    ) -> Result<Self, Error> {
        let files = ModelFiles::open(folder)?;
        let config = BertConfig { compute: compute(&files.description)?, ..files.config };
        let tensors = read_pretrained_tensors(folder)?;
        let config = match policy {
            LoadPolicy::FreshHeads => config,
            _ => with_outputs(folder, config, &tensors)?,
        };
        let loaded = load_named_tensors(M::new(&config, 0, device), tensors, policy);
        let (model, _) = loaded.map_err(|error| error.at(folder))?;
        Ok(Self { model, files: ModelFiles { config, ..files } })
    }
}

/// Loads the encoder of a model folder or of an adapter's folder; ignores heads. If the folder has no pooler, the
/// pooler is random. The maximum length in `options` is ignored.
///
/// # Errors
/// Fails as [`ModelFiles::open`] does, when the weights cannot be read or do not match the configuration, or when an
/// encoder is given for a model that has one.
pub fn load_encoder(
    folder: &Path,
    options: ModelOptions<'_>,
    device: &Device,
) -> Result<LoadedModel<BertModel>, Error> {
    let compute = |_: &ModelDescription| options.exact_compute();
    if is_adapter_folder(folder) {
        let LoadedModel { model, files } = load_adapted(folder, options.encoder, compute, device)?;
        return Ok(LoadedModel { model: model.bert, files });
    }
    check_encoder(folder, options.encoder)?;
    LoadedModel::open(folder, LoadPolicy::FreshHeads, compute, device)
}

/// Returns the error for a layer that a model of `count` layers lacks.
pub(crate) fn no_layer(layer: i32, count: i32) -> Error {
    let reason =
        format!("the model has no layer {layer}; its layers are 0 to {}, or -{count} to -1", count - 1);
    Error::option("layers", reason)
}

/// Returns a configuration with the number of outputs of the head in the weights. A multiple-choice model keeps the
/// number in the configuration, because it has one output for each choice.
///
/// # Errors
/// Fails when the configuration states a number that differs from the default; `transformers` does not load such a
/// folder.
pub fn with_outputs(folder: &Path, config: BertConfig, tensors: &NamedTensors) -> Result<BertConfig, Error> {
    let heads = ["classifier.weight", "head.classifier.weight", "qa_outputs.weight"];
    let outputs = heads.iter().find_map(|name| tensors.get(*name)?.0.first().copied());
    let has_choices = architecture(folder)?.is_some_and(|class| class == "BertForMultipleChoice");
    let Some(outputs) = outputs.filter(|_| !has_choices) else { return Ok(config) };
    let named = config.num_labels;
    if outputs != named && (config.id2label.is_some() || named != 2) {
        let reason = format!("names {named} labels, but the head in the weights has {outputs} outputs");
        return Err(bert_model::config_key("id2label", reason));
    }
    Ok(BertConfig { num_labels: outputs, ..config })
}

/// Returns the `transformers` class named in the folder's `config.json`.
pub fn architecture(folder: &Path) -> Result<Option<String>, Error> {
    let path = folder.join("config.json");
    if !exists(&path)? {
        return Ok(None);
    }
    Ok(read_json(&path)?["architectures"][0].as_str().map(String::from))
}

/// A model that is ready for texts.
pub(crate) struct OpenedModel<M> {
    pub(crate) model: M,
    pub(crate) config: BertConfig,
    pub(crate) text: ModelTokenizer,
    pub(crate) device: Device,
    /// The description of the model.
    pub(crate) description: ModelDescription,
    /// Maximum sequence length.
    pub(crate) length: EncodingLength,
}

impl<M> OpenedModel<M> {
    /// Prepares a loaded model for texts. [`ModelDescription::encoding_length`] decides the length: `asked`, or else
    /// the length of the training. If that length is unknown, it is `default`.
    ///
    /// # Errors
    /// Fails when the model has fewer positions than `asked`.
    pub(crate) fn new(
        loaded: LoadedModel<M>,
        device: Device,
        asked: Option<usize>,
        default: usize,
    ) -> Result<Self, Error> {
        let LoadedModel { model, files } = loaded;
        let ModelFiles { config, tokenizer: text, description } = files;
        let length = description.encoding_length(asked, DefaultLength::Trained(default), &config)?;
        Ok(Self { model, config, text, device, description, length })
    }
}

impl<M: Architecture> OpenedModel<M> {
    /// Opens the folder of a full fine-tuned model; `policy` determines the tensors that it may lack.
    ///
    /// # Errors
    /// Fails when the folder cannot be read, or the model has fewer positions than `options` asks for.
    pub(crate) fn open(
        folder: &Path,
        options: ModelOptions<'_>,
        default: usize,
        policy: LoadPolicy,
    ) -> Result<Self, Error> {
        let device = options.device.open()?;
        let compute = |description: &ModelDescription| options.compute(description);
        let loaded = LoadedModel::open(folder, policy, compute, &device)?;
        Self::new(loaded, device, options.max_length, default)
    }
}

/// Returns the names of a model's classes, in the order of their numbers.
pub(crate) fn class_names(config: &BertConfig) -> Vec<String> {
    match &config.id2label {
        Some(names) => names.values().cloned().collect(),
        None => (0..config.num_labels).map(|class| format!("LABEL_{class}")).collect(),
    }
}

/// Returns the line of an example from a file of new texts.
pub(crate) fn line_of(example: &Example) -> u64 {
    example.index.parse().expect("a number of ours")
}

/// Rejects an encoder for a model that includes its own.
pub(crate) fn check_encoder(folder: &Path, encoder: Option<&Path>) -> Result<(), Error> {
    if encoder.is_some() && !is_adapter_folder(folder) {
        Err(Error::option("encoder", "works with an adapter folder only; this model has its own encoder"))
    } else {
        Ok(())
    }
}

/// The contents of an adapter's folder.
enum Adapted {
    Single(AdapterFolder),
    Fused(FusionFolder),
}

/// Loads the model of an adapter's folder. The encoder is `encoder`, or else the encoder that the folder names. The
/// classifier has the shape in the folder's `config.json`, or else the adapter's labels. Its weights come from the encoder
/// unless the adapter has its own.
///
/// # Errors
/// Fails when neither the adapter nor the encoder has a classifier, when the encoder has no pooler, when the encoder is
/// missing or not recorded, when its weights differ from those that the adapter was trained on, when a file cannot be
/// read, or when the two folders do not fit each other.
pub(crate) fn load_adapted(
    folder: &Path,
    encoder: Option<&Path>,
    compute: impl FnOnce(&ModelDescription) -> Result<Compute, Error>,
    device: &Device,
) -> Result<LoadedModel<BertForSequenceClassification>, Error> {
    let adapted = if is_fusion_folder(folder) {
        Adapted::Fused(read_fusion(folder)?)
    } else {
        Adapted::Single(read_adapter(folder)?)
    };
    let recorded = match &adapted {
        Adapted::Single(adapter) => &adapter.base,
        Adapted::Fused(fusion) => &fusion.base,
    };
    let encoder = find_encoder(folder, encoder, recorded.as_deref())?;
    let own = folder.join("config.json").is_file().then(|| read_pretrained_config(folder)).transpose()?;
    let ModelFiles { config, tokenizer, .. } = ModelFiles::open(&encoder)?;
    let config = match (own, &adapted) {
        (Some(own), _) => BertConfig {
            num_labels: own.num_labels,
            id2label: own.id2label,
            label2id: own.label2id,
            problem_type: own.problem_type,
            ..config
        },
        (None, Adapted::Single(AdapterFolder { class_names: Some(names), .. })) => config.with_labels(names),
        (None, _) => config,
    };
    let description = ModelDescription::read(folder, &config, Some(&tokenizer))?;
    let config = BertConfig { compute: compute(&description)?, ..config };
    let (model, config, report) = load_pretrained(&encoder, |_| config, LoadPolicy::FreshHeads, 0, device)?;
    let is_missing = |part: &str| report.missing.iter().any(|name| name.contains(part));
    let has_classifier = match &adapted {
        Adapted::Single(adapter) => adapter.has_classifier(),
        Adapted::Fused(fusion) => fusion.has_classifier(),
    };
    if !has_classifier && is_missing("classifier.") {
        let hint = "the adapter was saved without its classifier, and its encoder has none: save the adapter with \
                    its head";
        return Err(no_head("classifier", hint).at(folder));
    }
    if is_missing("pooler.") {
        let hint = "the adapter was trained on an encoder that has one; give that encoder with `.encoder`";
        return Err(Error::model(format!("the model has no pooler; {hint}")).absent().at(&encoder));
    }
    let model = match adapted {
        Adapted::Single(adapter) => adapter.apply(model)?,
        Adapted::Fused(fusion) => fusion.apply(model, config.attention_probs_dropout_prob)?,
    };
    Ok(LoadedModel { model, files: ModelFiles { config, tokenizer, description } })
}

/// Returns the folder of the encoder that the user names, or else of the encoder that the adapter's folder names,
/// `recorded`.
fn find_encoder(folder: &Path, named: Option<&Path>, recorded: Option<&str>) -> Result<PathBuf, Error> {
    let no_encoder = |base: String| {
        Error::model(format!(
            "an adapter whose encoder is {base}; give the checkpoint that it was trained on with `.encoder`"
        ))
        .at(folder)
    };
    let path = match (named, recorded) {
        (Some(encoder), _) => encoder,
        (None, Some(base))
            if Path::new(base).is_dir()
                || builtin_model::meant(Path::new(base)).is_some()
                || hub_name(Path::new(base)).is_some() =>
        {
            Path::new(base)
        }
        (None, Some(base)) => return Err(no_encoder(format!("{base}, which does not exist"))),
        (None, None) => return Err(no_encoder("not named in the folder".to_string())),
    };
    let encoder = resolve_model_folder(path, &mut |_| {}).map_err(|error| match error {
        error if named.is_none() && hub_name(path).is_some() && error.class() == Class::Model => {
            no_encoder(format!("not there ({error})"))
        }
        error => error,
    })?;
    // An encoder named by the user is not checked: the same weights may be stored in a different format.
    if named.is_none() {
        check_recorded_encoder(folder, &encoder, "encoder")?;
    }
    Ok(encoder)
}

/// A model whose files are in memory, for instance from `include_bytes!` or from an object store.
///
/// Models are read only from folders, so the files are written to a temporary folder. This folder is deleted when the
/// value is dropped; an open model does not need it.
#[derive(Debug)]
pub struct MemoryModel {
    folder: TempDir,
}

impl MemoryModel {
    /// Writes the files of a model folder, given by their names, such as `config.json` or `1_Pooling/config.json`.
    ///
    /// # Errors
    /// Fails when a name leads out of the folder, or when a file cannot be written.
    pub fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self, Error> {
        let folder = TempDir::new().map_err(Error::io("write to", &std::env::temp_dir()))?;
        for (name, bytes) in files {
            let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
            if name.is_empty() || !Path::new(name).components().all(is_inside) {
                let reason = format!("{name:?} is not the name of a file in a model folder");
                return Err(Error::option("checkpoint", reason));
            }
            let path = folder.path().join(name);
            let parent = path.parent().expect("a file in the folder");
            fs::create_dir_all(parent)
                .and_then(|()| fs::write(&path, bytes))
                .map_err(Error::io("write", &path))?;
        }
        Ok(Self { folder })
    }

    /// Returns the folder of the files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_inside_the_folder() {
        let model =
            MemoryModel::new([("config.json", &b"{}"[..]), ("1_Pooling/config.json", b"[]")]).unwrap();
        assert_eq!(fs::read(model.folder().join("1_Pooling/config.json")).unwrap(), b"[]");
        for name in ["../config.json", "/config.json", "a/../../b", ""] {
            let error = MemoryModel::new([(name, &b""[..])]).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
        }
        let folder = model.folder().to_path_buf();
        drop(model);
        assert!(!folder.exists());
    }
}
