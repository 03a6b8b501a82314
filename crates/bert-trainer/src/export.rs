//! Exports a checkpoint, a fine-tuned model or fresh weights as a Hugging Face folder that `transformers` loads.
//!
//! The folder has `config.json`, `model.safetensors`, `vocab.txt`, the tokenizer files and a model card that says
//! how the weights were made. The trainer's own files are left out.

use std::path::Path;

use bert_model::{
    Architecture, BertConfig, BertForPreTraining, BertModel, LoadPolicy, load_pretrained_weights,
    read_pretrained_tensors, save_pretrained,
};
use bert_storage::{Disk, FileSystem, StagedFolder};

use crate::device_name::DeviceName;
use crate::error::Error;
use crate::initialization::FreshWeights;
use crate::model_card::{card_of_checkpoint, card_of_fresh};
use crate::text::Text;
use crate::unfinished::{Contents, Unfinished};

/// The files of a Hugging Face folder, the one that makes it loadable last.
const FILES: [&str; 7] = [
    "README.md",
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "model.safetensors",
    "config.json",
];

const CONTENTS: Contents = Contents { last: "config.json", is_ours: |name| FILES.contains(&name) };
const HINT: &str = "choose an empty or new folder";

/// Copies what is Hugging Face's of a model folder, heads included, into an empty or new folder.
///
/// # Errors
/// When the weights are damaged, or `target` holds something already.
pub fn export(folder: &Path, target: &Path) -> Result<(), Error> {
    export_on(&Disk, folder, target)
}

/// [`export`] on a file system of choice.
///
/// # Errors
/// As [`export`].
pub fn export_on(files: &dyn FileSystem, folder: &Path, target: &Path) -> Result<(), Error> {
    // Read whole, so that a damaged tensor is found before anything is written.
    read_pretrained_tensors(folder)?;
    let card = card_of_checkpoint(folder, false)?;
    let unfinished = begin(files, target, card)?;
    for name in FILES {
        let from = folder.join(name);
        if from.exists() {
            let bytes = std::fs::read(&from).map_err(|e| Error::io(&from, e))?;
            unfinished.folder.write_bytes(name, &bytes)?;
        }
    }
    unfinished.finish()
}

/// Writes the encoder alone (`BertModel`), without heads.
///
/// # Errors
/// As [`export`].
pub fn export_encoder(folder: &Path, target: &Path) -> Result<(), Error> {
    export_encoder_on(&Disk, folder, target)
}

/// [`export_encoder`] on a file system of choice.
///
/// # Errors
/// As [`export`].
pub fn export_encoder_on(files: &dyn FileSystem, folder: &Path, target: &Path) -> Result<(), Error> {
    let config = BertConfig::read(folder.join("config.json"))?;
    let model = BertModel::new(&config, 0, &DeviceName::default().open()?);
    let (model, _) = load_pretrained_weights(model, folder, LoadPolicy::FreshHeads)?;
    let text = Text::open(folder)?;
    let card = card_of_checkpoint(folder, true)?;
    save(begin(files, target, card)?, &model, &config, &text)
}

/// Fresh weights with both pre-training heads, for `--init-checkpoint` or another trainer.
///
/// # Errors
/// When the shape has no room for the initialization, or `target` holds something already.
pub fn export_fresh(
    fresh: &FreshWeights,
    config: &BertConfig,
    seed: u64,
    text: &Text,
    target: &Path,
) -> Result<(), Error> {
    let device = DeviceName::default().open()?;
    let model = BertForPreTraining::initialized(config, fresh.initialization(), seed, &device)?;
    let card = card_of_fresh(fresh.choice(), seed, config);
    save(begin(&Disk, target, Some(card))?, &model, config, text)
}

/// Begins to fill a folder, with its card.
fn begin<'a>(
    files: &'a dyn FileSystem,
    target: &Path,
    card: Option<String>,
) -> Result<Unfinished<'a>, Error> {
    let unfinished = Unfinished::begin(StagedFolder::new(files, target), CONTENTS, HINT)?;
    if let Some(card) = card {
        unfinished.folder.write_bytes("README.md", card.as_bytes())?;
    }
    Ok(unfinished)
}

fn save<M: Architecture>(
    unfinished: Unfinished<'_>,
    model: &M,
    config: &BertConfig,
    text: &Text,
) -> Result<(), Error> {
    let mut sink = |name: &str, bytes: &[u8]| {
        let written = unfinished.folder.write_bytes(name, bytes);
        written.map(drop).map_err(std::io::Error::other)
    };
    let vocabulary = text.files(config.max_position_embeddings);
    save_pretrained(&mut sink, model, config, Some(vocabulary))?;
    unfinished.finish()
}
