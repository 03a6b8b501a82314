//! Converts a published checkpoint to a Hugging Face folder: `config.json`, `model.safetensors` and the tokenizer files.

use std::path::{Path, PathBuf};

use bert_data::PartialSettings;
use bert_inference::loaded_model::with_outputs;
use bert_inference::{DeviceName, Error, ModelDescription, ModelTokenizer};
use bert_model::{
    Architecture, BertConfig, BertForPreTraining, FolderContents, LoadPolicy, NamedTensors, Snapshot,
    WEIGHTS, WeightsFiles, find_config, find_weights, load_named_tensors, missing_file,
};
use bert_storage::{Disk, StagedFolder, exists};
use bert_training::incomplete_output::OutputGuard;
use serde::Serialize;

use crate::export::{CONTENTS, HINT, WeightType, class, described};

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// The model's configuration; `None` for `config.json` or `bert_config.json` next to the weights.
    pub config: Option<PathBuf>,
    /// The vocabulary; `None` for the tokenizer files next to the weights.
    pub vocab: Option<PathBuf>,
    /// Tokenizer settings that the source does not record.
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
    let mut contents = FolderContents::usable(&config, tensors)?;
    contents.class = class(folder, &contents)?;
    let mut model = Converted::new(contents);
    if let Some(seed) = how.fresh_heads {
        model = model.with_heads(&config, seed)?;
        description.task = None;
    }
    let words = tokenizer.as_ref().map(|tokenizer| tokenizer.vocabulary.len());
    let files = match &tokenizer {
        Some(tokenizer) => description.tokenizer_files(tokenizer, &config).files()?,
        None => described(&description),
    };
    let weights_bytes = how.weight_type.bytes_of(&model.tensors);
    write_folder(target, files, &weights_bytes, &config.to_json_string(model.class))?;
    let Converted { class, fresh, ignored, .. } = model;
    Ok(Imported { form: weights.form.to_string(), class, fresh, ignored, words })
}

/// The tensors of a model in the names and layout of Hugging Face.
struct Converted {
    class: &'static str,
    tensors: NamedTensors,
    fresh: Vec<String>,
    ignored: Vec<String>,
}

impl Converted {
    /// Keeps the tensors of known parts. An untied decoder is not among them.
    fn new(contents: FolderContents) -> Self {
        let FolderContents { class, mut tensors, unknown: mut ignored, has_untied_decoder, .. } = contents;
        tensors.retain(|name, _| !ignored.contains(name));
        if has_untied_decoder {
            ignored.push("cls.predictions.decoder.weight".into());
        }
        Self { class, tensors, fresh: Vec::new(), ignored }
    }

    /// Adds the missing pre-training heads, and drops the heads of a task.
    fn with_heads(self, config: &BertConfig, seed: u64) -> Result<Self, Error> {
        let model = BertForPreTraining::new(config, seed, &DeviceName::default().open()?);
        let (model, report) = load_named_tensors(model, self.tensors, LoadPolicy::FreshHeads)?;
        let mut ignored = self.ignored;
        ignored.extend(report.unexpected);
        Ok(Self {
            class: BertForPreTraining::NAME,
            tensors: Snapshot::new(&model).to_named_tensors(),
            fresh: report.missing,
            ignored,
        })
    }
}

/// Writes the files of a Hugging Face folder, the configuration last.
pub(super) fn write_folder(
    target: &Path,
    tokenizer_files: Vec<(&'static str, Vec<u8>)>,
    weights: &[u8],
    config: &str,
) -> Result<(), Error> {
    let unfinished = OutputGuard::begin(StagedFolder::new(&Disk, target), CONTENTS, HINT)?;
    for (name, bytes) in tokenizer_files {
        unfinished.folder.write_bytes(name, &bytes)?;
    }
    unfinished.folder.write_bytes(WEIGHTS, weights)?;
    unfinished.folder.write_bytes("config.json", config.as_bytes())?;
    unfinished.finish()
}
