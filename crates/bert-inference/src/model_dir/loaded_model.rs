//! Opens a fine-tuned model folder with its configuration and report. An adapter, or a fusion of adapters, is applied
//! to the encoder that it was trained on.

use std::path::{Path, PathBuf};

use bert_kernels::Compute;
use bert_model::{
    Architecture, BertConfig, BertForSequenceClassification, BertModel, LoadPolicy, is_adapter_folder,
    is_fusion_folder, load_pretrained, read_adapter, read_fusion, read_pretrained_config,
};
use bert_storage::Locate;
use bert_tasks::Example;
use burn::tensor::Device;

use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::{Error, FolderProblem};
use crate::model_dir::builtin_model;
use crate::model_dir::description::{DefaultLength, EncodingLength, ModelDescription};
use crate::model_dir::encoder_record::check_recorded_encoder;
use crate::model_dir::json_file::{exists, read_json};
use crate::model_dir::model_folder::resolve_model_folder;
use crate::model_dir::model_options::ModelOptions;

/// Loads the encoder of a model folder, ignoring its heads. If the folder has no pooler, the pooler is random.
pub fn load_encoder(folder: &Path, device: &Device) -> Result<(BertModel, BertConfig), Error> {
    let (model, config, _) = load_pretrained(folder, |config| config, LoadPolicy::FreshHeads, 0, device)?;
    Ok((model, config))
}

/// Returns the `transformers` class named in the folder's `config.json`.
pub fn architecture(folder: &Path) -> Result<Option<String>, Error> {
    let path = folder.join("config.json");
    if !exists(&path)? {
        return Ok(None);
    }
    Ok(read_json(&path)?["architectures"][0].as_str().map(String::from))
}

/// A full fine-tuned model with its tokenizer and settings.
pub(crate) struct FinetunedModel<M> {
    pub(crate) model: M,
    pub(crate) config: BertConfig,
    pub(crate) text: ModelTokenizer,
    pub(crate) device: Device,
    /// The training of the model.
    pub(crate) description: ModelDescription,
    /// Maximum sequence length.
    pub(crate) length: EncodingLength,
}

impl<M: Architecture> FinetunedModel<M> {
    /// Opens a folder; `policy` lists the tensors that it may lack. [`ModelDescription::encoding_length`]
    /// decides the length.
    ///
    /// # Errors
    /// When the folder cannot be read, or the model has fewer positions than `options` asks for.
    pub(crate) fn open(
        folder: &Path,
        options: ModelOptions<'_>,
        default: usize,
        policy: LoadPolicy,
    ) -> Result<Self, Error> {
        let device = options.device.open()?;
        let description = ModelDescription::read(folder)?;
        let compute = options.compute(&description)?;
        let computing = |config| BertConfig { compute, ..config };
        let (model, config, _) = load_pretrained(folder, computing, policy, 0, &device)?;
        let text = ModelTokenizer::open(folder)?;
        let default = DefaultLength::Trained(default);
        let length = description.encoding_length(options.max_length, default, &config)?;
        text.check_fits(&config)?;
        Ok(Self { model, config, text, device, description, length })
    }
}

/// Returns the names of a model's classes, in the order of their numbers.
///
/// # Errors
/// [`bert_model::Error::Config`] when two classes have the same name.
pub(crate) fn class_names(config: &BertConfig) -> Result<Vec<String>, Error> {
    let names: Vec<String> = match &config.id2label {
        Some(names) => names.values().cloned().collect(),
        None => (0..config.num_labels).map(|class| format!("LABEL_{class}")).collect(),
    };
    let first = |at: usize| names.iter().position(|name| *name == names[at]).unwrap_or(at);
    if let Some(second) = (0..names.len()).find(|&at| first(at) < at) {
        let reason = format!(
            "gives the name {:?} to the labels {} and {second}; give every label its own name",
            names[second],
            first(second)
        );
        return Err(bert_model::Error::Config { key: "id2label".into(), reason }.into());
    }
    Ok(names)
}

/// Returns the line of an example from a file of new texts.
pub(crate) fn line_of(example: &Example) -> u64 {
    example.index.parse().expect("a number of ours")
}

/// Rejects an encoder for a model that includes its own.
pub(crate) fn check_encoder(folder: &Path, encoder: Option<&Path>) -> Result<(), Error> {
    if encoder.is_some() && !is_adapter_folder(folder) {
        Err(Error::Configuration {
            flag: "encoder",
            reason: "works with an adapter folder only; this model has its own encoder".into(),
        })
    } else {
        Ok(())
    }
}

/// A model with its configuration and tokenizer.
pub(crate) struct LoadedModel<M> {
    pub(crate) model: M,
    pub(crate) config: BertConfig,
    pub(crate) tokenizer: ModelTokenizer,
}

/// Loads the model of an adapter's folder; the encoder is `encoder`, else the one that the folder names.
///
/// # Errors
/// [`FolderProblem::NoEncoder`] when the encoder is missing; when either cannot be read, or they do not fit.
pub(crate) fn load_adapted(
    folder: &Path,
    encoder: Option<&Path>,
    compute: Compute,
    device: &Device,
) -> Result<LoadedModel<BertForSequenceClassification>, Error> {
    if is_fusion_folder(folder) {
        let fusion = read_fusion(folder)?;
        let base = AdapterBase {
            folder,
            encoder,
            recorded: fusion.base.as_deref(),
            names: None,
            has_classifier: fusion.has_classifier(),
        };
        let LoadedModel { model, config, tokenizer } = base.load(compute, device)?;
        let model = fusion.apply(model, config.attention_probs_dropout_prob)?;
        return Ok(LoadedModel { model, config, tokenizer });
    }
    let adapter = read_adapter(folder)?;
    let names = adapter.label2id.as_ref().map(|labels| {
        let mut names: Vec<(usize, String)> = labels.iter().map(|(name, id)| (*id, name.clone())).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    });
    let base = AdapterBase {
        folder,
        encoder,
        recorded: adapter.base.as_deref(),
        names,
        has_classifier: adapter.has_classifier(),
    };
    let LoadedModel { model, config, tokenizer } = base.load(compute, device)?;
    Ok(LoadedModel { model: adapter.apply(model)?, config, tokenizer })
}

/// The model that an adapter is applied to.
struct AdapterBase<'a> {
    /// The adapter's folder.
    folder: &'a Path,
    /// The encoder that the user names.
    encoder: Option<&'a Path>,
    /// The encoder that the folder names.
    recorded: Option<&'a str>,
    /// Class names of the adapter's head.
    names: Option<Vec<String>>,
    /// Whether the adapter has its own classifier.
    has_classifier: bool,
}

impl AdapterBase<'_> {
    /// Loads the encoder with a classifier of the shape in the folder's `config.json`, else with the head's labels. The
    /// classifier's weights come from the encoder unless the adapter has its own.
    ///
    /// # Errors
    /// [`FolderProblem::NoHead`] when neither has a classifier, or the encoder has no pooler;
    /// [`FolderProblem::NoEncoder`] and [`FolderProblem::OtherEncoder`].
    fn load(
        self,
        compute: Compute,
        device: &Device,
    ) -> Result<LoadedModel<BertForSequenceClassification>, Error> {
        let encoder = self.find_encoder()?;
        let Self { folder, names, has_classifier, .. } = self;
        let own = folder.join("config.json").is_file().then(|| read_pretrained_config(folder)).transpose()?;
        let with_labels = |encoder: BertConfig| match (own, names) {
            (Some(own), _) => BertConfig {
                num_labels: own.num_labels,
                id2label: own.id2label,
                label2id: own.label2id,
                problem_type: own.problem_type,
                ..encoder
            },
            (None, Some(names)) => encoder.with_labels(&names),
            (None, None) => encoder,
        };
        let config = |encoder| BertConfig { compute, ..with_labels(encoder) };
        let (model, config, report) = load_pretrained(&encoder, config, LoadPolicy::FreshHeads, 0, device)?;
        let is_missing = |part: &str| report.missing.iter().any(|name| name.contains(part));
        if !has_classifier && is_missing("classifier.") {
            let hint = "the adapter was saved without its classifier, and its encoder has none: save the adapter with \
                        its head";
            return Err(FolderProblem::NoHead { head: "classifier", hint }.located(folder).into());
        }
        if is_missing("pooler.") {
            let hint = "the adapter was trained on an encoder that has one; give that encoder with --encoder";
            return Err(FolderProblem::NoHead { head: "pooler", hint }.located(&encoder).into());
        }
        Ok(LoadedModel { model, config, tokenizer: ModelTokenizer::open(&encoder)? })
    }

    /// Returns the encoder's folder: the one that the user names, else the one that the adapter's folder names.
    fn find_encoder(&self) -> Result<PathBuf, Error> {
        let no_encoder = |base: String| Error::from(FolderProblem::NoEncoder(base).located(self.folder));
        let path = match (self.encoder, self.recorded) {
            (Some(encoder), _) => encoder,
            (None, Some(base))
                if Path::new(base).is_dir() || builtin_model::meant(Path::new(base)).is_some() =>
            {
                Path::new(base)
            }
            (None, Some(base)) => return Err(no_encoder(format!("{base}, which does not exist"))),
            (None, None) => return Err(no_encoder("not named in the folder".to_string())),
        };
        let encoder = resolve_model_folder(path, &mut |_| {})?;
        // An encoder named by the user is not checked: the same weights may be stored in another format.
        if self.encoder.is_none() {
            check_recorded_encoder(self.folder, &encoder)?;
        }
        Ok(encoder)
    }
}
