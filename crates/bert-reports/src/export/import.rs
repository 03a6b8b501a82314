//! Converts a published checkpoint to a Hugging Face folder: `config.json`, `model.safetensors` and the tokenizer files.

use std::path::{Path, PathBuf};

use bert_data::PartialSettings;
use bert_inference::loaded_model::with_outputs;
use bert_inference::{DeviceName, Error, ModelDescription, ModelTokenizer};
use bert_model::{
    Architecture, BertConfig, BertForPreTraining, FolderContents, LoadPolicy, Snapshot, WEIGHTS,
    WeightsFiles, find_config, find_weights, load_named_tensors, missing_file,
};
use bert_storage::{Disk, exists};
use serde::Serialize;

use crate::export::{WeightType, begin, class, tokenizer_files, write_files};

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// The model's configuration; `None` for `config.json` or `bert_config.json` next to the weights.
    pub config: Option<PathBuf>,
    /// The vocabulary; `None` for the tokenizer files next to the weights.
    pub vocab: Option<PathBuf>,
    /// Tokenizer settings, which replace the recorded ones.
    pub settings: PartialSettings,
    /// Seed of the initial values of missing pre-training heads; `None` to leave them out.
    pub fresh_heads: Option<u64>,
    /// Data type of the written weights.
    pub weight_type: WeightType,
}

/// The result of an import.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Imported {
    /// The form of the source.
    pub form: String,
    /// The class of `transformers` that was written.
    pub class: &'static str,
    /// Tensors that the source did not have, initialized at random.
    pub fresh: Vec<String>,
    /// Tensors of the source that were not written.
    pub ignored: Vec<String>,
    /// Number of words of the vocabulary; `None` without tokenizer files.
    pub words: Option<usize>,
}

/// Reads a checkpoint in any of the forms of [`WeightsFiles`] and writes a Hugging Face folder. `source` is a folder, a
/// weights file, the index of several files, or the common prefix of a TensorFlow checkpoint.
///
/// # Errors
/// Fails when the source cannot be read, lacks a tensor of the encoder, or does not match its configuration or
/// vocabulary, or when `target` is not empty.
pub fn import(source: &Path, target: &Path, how: &Import) -> Result<Imported, Error> {
    let weights = match WeightsFiles::named(source) {
        Some(weights) => weights,
        None => {
            bert_model::reject_weights_file(source)?;
            if !exists(source)? {
                let missing = Error::model("this folder does not exist").at(source);
                return Err(missing);
            }
            find_weights(source)?
        }
    };
    // The parent of a bare file name is empty.
    let folder = weights.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let Some(config_file) = how.config.clone().or_else(|| find_config(folder)) else {
        return Err(missing_file(folder, "config.json"));
    };
    let config = BertConfig::read(config_file)?;
    let tokenizer = match &how.vocab {
        Some(vocab) => Some(ModelTokenizer::from_vocabulary(vocab, how.settings)?),
        None => ModelTokenizer::find_with(folder, how.settings)?,
    };
    let mut description = ModelDescription::read(folder, &config, tokenizer.as_ref())?;
    let tensors = weights.read()?;
    let config = with_outputs(folder, config, &tensors)?;
    let contents = FolderContents::usable(&config, tensors)?;
    let mut class = class(folder, &contents)?;
    let FolderContents { mut tensors, unknown: mut ignored, has_untied_decoder, .. } = contents;
    tensors.retain(|name, _| !ignored.contains(name));
    if has_untied_decoder {
        ignored.push("cls.predictions.decoder.weight".into());
    }
    let mut fresh = Vec::new();
    if let Some(seed) = how.fresh_heads {
        let model = BertForPreTraining::new(&config, seed, &DeviceName::default().open()?);
        let (model, report) = load_named_tensors(model, tensors, LoadPolicy::FreshHeads)?;
        tensors = Snapshot::new(&model).to_named_tensors();
        ignored.extend(report.unexpected);
        fresh = report.missing;
        class = BertForPreTraining::NAME;
        description.task = None;
    }
    let words = tokenizer.as_ref().map(|tokenizer| tokenizer.vocabulary.len());
    let mut files = tokenizer_files(&description, tokenizer.as_ref(), &config)?;
    files.push((WEIGHTS, how.weight_type.bytes_of(&tensors)));
    files.push(("config.json", config.to_json_string(class).into_bytes()));
    write_files(begin(&Disk, target)?, files)?;
    Ok(Imported { form: weights.form.to_string(), class, fresh, ignored, words })
}
