//! Exports a checkpoint, a fine-tuned model or fresh weights as a Hugging Face folder that `transformers` loads.
//!
//! The folder has `config.json`, `model.safetensors`, `vocab.txt`, the tokenizer files and a model card that describes
//! how the weights were trained. The trainer's own files are not included.

pub(crate) mod extend;
pub(crate) mod import;
pub(crate) mod model_card;
pub(crate) mod onnx;
mod sentence_transformers;
mod transplant;
pub(crate) mod uses;

use std::collections::BTreeMap;
use std::path::Path;

use bert_inference::json_file::read_json;
use bert_inference::loaded_model::{LoadedModel, architecture, load_encoder, with_outputs};
use bert_inference::{DeviceName, ModelDescription, ModelFiles, ModelOptions, ModelTokenizer, Pooling};
use bert_model::{
    Architecture, BertConfig, BertForPreTraining, DESCRIPTION, FolderContents, FolderTokenizer, NamedTensors,
    Snapshot, WEIGHTS, files_except_weights, named_tensors_to_bf16_bytes, named_tensors_to_bytes,
    named_tensors_to_f16_bytes, read_pretrained_tensors,
};
use bert_storage::{Disk, FileSystem, StagedFolder, check_writable, exists};
use bert_training::incomplete_output::{Contents, OutputGuard};
use bert_training::{Error, FreshWeights};

use crate::export::model_card::{card_of_folder, card_of_fresh};
use crate::export::sentence_transformers::SentenceFiles;
pub use bert_finetuning::model_card::CardOptions;
pub use transplant::transplant_encoder;

/// The model card.
const CARD: &str = "README.md";

/// The files of a Hugging Face folder; the file without which the folder cannot be loaded is last.
const FILES: [&str; 8] = [
    CARD,
    DESCRIPTION,
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "model.safetensors",
    "config.json",
];

/// Files of the tokenizer that contain the maximum length.
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const TOKENIZER: &str = "tokenizer.json";

const CONTENTS: Contents = Contents {
    last: "config.json",
    is_ours: |name| FILES.contains(&name) || sentence_transformers::FILES.contains(&name),
};
const HINT: &str = "choose an empty or new folder";

/// The name and the bytes of a file.
type NamedFile = (&'static str, Vec<u8>);

/// Data type of exported weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum WeightType {
    /// f32, as a run writes them; half-precision weights are widened.
    #[default]
    F32,
    /// Rounded to the nearest bf16: half the size.
    Bf16,
    /// Rounded to the nearest f16: half the size.
    F16,
}

impl WeightType {
    /// Returns a safetensors file with these tensors.
    fn bytes_of(self, tensors: &NamedTensors) -> Vec<u8> {
        match self {
            Self::F32 => named_tensors_to_bytes(tensors),
            Self::Bf16 => named_tensors_to_bf16_bytes(tensors),
            Self::F16 => named_tensors_to_f16_bytes(tensors),
        }
    }
}

/// Options of an export.
#[derive(Clone, Debug, Default)]
pub struct Export {
    /// Whether only the encoder is exported, without heads (`BertModel`).
    pub encoder_only: bool,
    /// Data type of the weights.
    pub weight_type: WeightType,
    /// Statements for the model card.
    pub card: CardOptions,
    /// Whether a sentence model is exported: the encoder, and the files with which sentence-transformers and
    /// text-embeddings-inference compute one vector for a text.
    pub sentence_transformers: bool,
    /// The pooling method of the sentence model; `None` for the method that the folder states, else the mean.
    pub pooling: Option<Pooling>,
}

/// Writes the Hugging Face files of a model folder into an empty or new folder.
///
/// # Errors
/// Fails when the weights are damaged, when `target` is not empty, or when `how` has statements for a card that this
/// folder does not get.
pub fn export(folder: &Path, target: &Path, how: &Export) -> Result<(), Error> {
    export_on(&Disk, folder, target, how)
}

/// Exports like [`export`], on the given file system.
///
/// # Errors
/// Fails as [`export`] does.
pub fn export_on(files: &dyn FileSystem, folder: &Path, target: &Path, how: &Export) -> Result<(), Error> {
    how.card.check()?;
    let card = card_of_folder(folder, how.encoder_only)?.map(|card| card.render(&named(&how.card, target)));
    if card.is_none() && how.card != CardOptions::default() {
        let flags = [("license", &how.card.license), ("name", &how.card.name)];
        let flag = flags.iter().find(|(_, value)| value.is_some()).map_or("language", |(flag, _)| *flag);
        let reason =
            "pretrain or finetune did not write this model, so it gets no new card; edit its README.md"
                .to_string();
        return Err(Error::option(flag, reason));
    }
    let ModelFiles { config, tokenizer, description } = ModelFiles::find(folder)?;
    let sentences = SentenceFiles::new(folder, &description, how.sentence_transformers, how.pooling)?;
    let pooling = sentences.as_ref().map(|sentences| sentences.pooling);
    let description = ModelDescription { pooling, ..description };
    let mut new_files: Vec<NamedFile> = card.into_iter().map(|card| (CARD, card.into_bytes())).collect();
    if how.encoder_only {
        let options = ModelOptions::default();
        let LoadedModel { model, files: read } = load_encoder(folder, options, &options.device.open()?)?;
        let has_pooler = read_pretrained_tensors(folder)?.keys().any(|name| name.contains(POOLER));
        let form = Form { weight_type: how.weight_type, has_pooler };
        let vocabulary = description.tokenizer_files(&read.tokenizer, &config);
        new_files.extend(model_files(&model, &config, vocabulary, form)?);
    } else {
        // Read all tensors first, so that a damaged one is found before anything is written.
        let tensors = read_pretrained_tensors(folder)?;
        let config = with_outputs(folder, config.clone(), &tensors)?;
        // The check needs only the shapes.
        let shapes = tensors.iter().map(|(name, (shape, _))| (name.clone(), (shape.clone(), Vec::new())));
        FolderContents::usable(&config, shapes.collect())?;
        new_files.extend(made_files(folder, &description, &config, tokenizer.as_ref())?);
        new_files.push((WEIGHTS, how.weight_type.bytes_of(&tensors)));
        new_files = folder_files(folder, new_files)?;
    }
    let unfinished = begin(files, target)?;
    if let Some(sentences) = sentences {
        sentences.write(&unfinished.folder, &config, &description)?;
    }
    write_files(unfinished, new_files)
}

/// Returns the files of a model folder, some of them replaced by new ones.
fn folder_files(folder: &Path, new: impl IntoIterator<Item = NamedFile>) -> Result<Vec<NamedFile>, Error> {
    let mut new: BTreeMap<_, _> = new.into_iter().collect();
    let mut files = Vec::new();
    for name in FILES {
        let from = folder.join(name);
        if let Some(bytes) = new.remove(name) {
            files.push((name, bytes));
        } else if exists(&from)? {
            files.push((name, std::fs::read(&from).map_err(Error::io("read", &from))?));
        }
    }
    Ok(files)
}

/// Checks that [`export_fresh`] can write into a folder: it is new, empty, or an unfinished export.
///
/// # Errors
/// Fails when the folder has other files, or cannot be read or written.
pub fn check_export_folder(target: &Path) -> Result<(), Error> {
    OutputGuard::check_free(&StagedFolder::new(&Disk, target), CONTENTS, HINT)?;
    check_writable(&Disk, target)
}

/// Returns the files that are made rather than copied: the description, the tokenizer's files with the length of the
/// description, and the tokenizer files that a folder lacks, for example `vocab.txt`, which `transformers` may not
/// write.
fn made_files(
    folder: &Path,
    description: &ModelDescription,
    config: &BertConfig,
    tokenizer: Option<&ModelTokenizer>,
) -> Result<Vec<NamedFile>, Error> {
    let Some(text) = tokenizer else { return tokenizer_files(description, None, config) };
    let vocabulary = description.tokenizer_files(text, config);
    let max_length = vocabulary.max_length;
    let mut made = Vec::new();
    for (name, bytes) in vocabulary.files()? {
        let from = folder.join(name);
        if name == DESCRIPTION || !exists(&from)? {
            made.push((name, bytes));
        } else if [TOKENIZER_CONFIG, TOKENIZER].contains(&name) {
            let mut settings = read_json(&from)?;
            let length = match name {
                TOKENIZER => settings.pointer_mut("/truncation/max_length"),
                _ => Some(&mut settings["model_max_length"]),
            };
            if let Some(length) = length.filter(|length| **length != max_length) {
                *length = max_length.into();
                made.push((name, format!("{settings:#}\n").into_bytes()));
            }
        }
    }
    Ok(made)
}

/// Returns the class of a model. Models that predict tags or choices have the same tensors as models that predict
/// classes of texts; only the configuration distinguishes them.
fn class(folder: &Path, contents: &FolderContents) -> Result<&'static str, Error> {
    let stated = architecture(folder)?;
    let alike = ["BertForTokenClassification", "BertForMultipleChoice"];
    let stated = alike.into_iter().find(|class| stated.as_deref() == Some(class));
    Ok(stated.filter(|_| contents.labels.is_some()).unwrap_or(contents.class))
}

/// Returns the statements for a card. The model gets the name of the exported folder, unless `options` names the model.
fn named(options: &CardOptions, target: &Path) -> CardOptions {
    let name = target.file_name().map(|name| name.to_string_lossy().into_owned());
    options.clone().or(CardOptions { name, ..CardOptions::default() })
}

/// Returns the files of the tokenizer and the description of the model; without a tokenizer, only the description.
fn tokenizer_files(
    description: &ModelDescription,
    tokenizer: Option<&ModelTokenizer>,
    config: &BertConfig,
) -> Result<Vec<NamedFile>, Error> {
    match tokenizer {
        Some(tokenizer) => description.tokenizer_files(tokenizer, config).files(),
        None => Ok(vec![(DESCRIPTION, description.to_json().into_bytes())]),
    }
}

/// Exports fresh weights with both pre-training heads, for `--init-checkpoint` or another trainer.
///
/// # Errors
/// Fails when the shape is too small for the initialization, or `target` is not empty.
pub fn export_fresh(
    fresh: &FreshWeights,
    config: &BertConfig,
    seed: u64,
    text: &ModelTokenizer,
    target: &Path,
) -> Result<(), Error> {
    let device = DeviceName::default().open()?;
    let model = BertForPreTraining::initialized(config, fresh.initialization(), seed, &device)?;
    let options = named(&CardOptions::default(), target);
    let card = card_of_fresh(fresh.choice(), seed, config).render(&options);
    let form = Form { weight_type: WeightType::F32, has_pooler: true };
    let description = ModelDescription { trained_positions: Some(0), ..ModelDescription::default() };
    let vocabulary = description.tokenizer_files(text, config);
    let files = model_files(&model, config, vocabulary, form)?;
    write_files(begin(&Disk, target)?, [(CARD, card.into_bytes())].into_iter().chain(files))
}

/// Starts to fill a folder.
fn begin<'a>(files: &'a dyn FileSystem, target: &Path) -> Result<OutputGuard<'a>, Error> {
    OutputGuard::begin(StagedFolder::new(files, target), CONTENTS, HINT)
}

/// The part of the names of a pooler's tensors that is the same in all checkpoints.
const POOLER: &str = "pooler.dense.";

/// The form in which a model's weights are written.
#[derive(Clone, Copy)]
struct Form {
    weight_type: WeightType,
    /// Whether the model's pooler was trained; a random one is not exported.
    has_pooler: bool,
}

/// Returns the files of a model, the configuration last.
fn model_files<M: Architecture>(
    model: &M,
    config: &BertConfig,
    vocabulary: FolderTokenizer<'_>,
    form: Form,
) -> Result<Vec<NamedFile>, Error> {
    let mut files = files_except_weights::<M>(config, Some(vocabulary))?;
    let snapshot = Snapshot::new(model);
    snapshot.check_finite()?;
    let mut tensors = snapshot.to_named_tensors();
    tensors.retain(|name, _| form.has_pooler || !name.contains(POOLER));
    files.insert(files.len() - 1, (WEIGHTS, form.weight_type.bytes_of(&tensors)));
    Ok(files)
}

/// Writes the files of a folder in their order.
fn write_files(unfinished: OutputGuard<'_>, files: impl IntoIterator<Item = NamedFile>) -> Result<(), Error> {
    for (name, bytes) in files {
        unfinished.folder.write_bytes(name, &bytes)?;
    }
    unfinished.finish()
}
