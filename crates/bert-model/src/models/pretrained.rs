//! Loads and saves a model as a Hugging Face folder: configuration, weights and tokenizer files.
//!
//! [`save_pretrained`] passes the files one by one to a [`Sink`], which stores them. `bert-inference` reads and writes
//! the optimizer state and the counters of a training checkpoint.

use std::path::Path;

use burn::tensor::Device;

use crate::checkpoint::load::LoadPolicy;
use crate::checkpoint::pretrained::{Sink, load_pretrained_weights, pass_to_sink, read_pretrained_config};
use crate::checkpoint::snapshot::Snapshot;
use crate::checkpoint::tokenizer_files::FolderTokenizer;
use crate::checkpoint::weights_files::WEIGHTS;
use crate::config::BertConfig;
use crate::error::{Error, LoadReport};
use crate::models::architecture::Architecture;

/// Passes every file of a Hugging Face folder to `sink`: the tokenizer files, `model.safetensors`, and `config.json`
/// last.
///
/// # Errors
/// Fails before the first file when the vocabulary has more words than the model has word embeddings, when it lacks a
/// special token that BERT needs, or when a parameter is NaN or infinite. Also fails when the sink fails.
pub fn save_pretrained<M: Architecture>(
    sink: &mut Sink<'_>,
    model: &M,
    config: &BertConfig,
    vocabulary: Option<FolderTokenizer<'_>>,
) -> Result<(), Error> {
    let mut files = files_except_weights::<M>(config, vocabulary)?;
    let snapshot = Snapshot::new(model);
    snapshot.check_finite()?;
    let mut bytes = Vec::with_capacity(snapshot.file_bytes() as usize);
    snapshot.write(&mut bytes).expect("writing to memory cannot fail");
    files.insert(files.len() - 1, (WEIGHTS, bytes));
    pass_to_sink(sink, files)
}

/// Returns the name and bytes of every file of a folder except the weights: the tokenizer files, and `config.json`
/// last.
///
/// # Errors
/// Fails when the vocabulary has more words than the model has word embeddings, or when it lacks a special token that
/// BERT needs.
pub fn files_except_weights<M: Architecture>(
    config: &BertConfig,
    vocabulary: Option<FolderTokenizer<'_>>,
) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    let mut files = Vec::new();
    if let Some(vocabulary) = vocabulary {
        let words = vocabulary.words.len();
        // The table may have more rows than the vocabulary has words, for example to pad it to a multiple of 8.
        if words > config.vocab_size {
            let vocab_size = config.vocab_size;
            return Err(Error::model(format!(
                "the vocabulary has {words} words, more than the model's `vocab_size` of {vocab_size}; use the \
                 vocabulary of the model"
            )));
        }
        files = vocabulary.files()?;
    }
    files.push(("config.json", config.to_json_string(M::NAME).into_bytes()));
    Ok(files)
}

/// Loads a model from a folder. Returns the model, its configuration and the report of its weights.
///
/// `labels` maps the configuration of the folder to the configuration of the model: [`BertConfig::with_labels`], or the
/// identity. With [`LoadPolicy::FreshHeads`], heads that the folder lacks are initialized from `seed`.
///
/// # Errors
/// Fails as [`read_pretrained_config`], [`BertConfig::validate`] and [`load_pretrained_weights`] do.
pub fn load_pretrained<M: Architecture>(
    dir: &Path,
    labels: impl FnOnce(BertConfig) -> BertConfig,
    policy: LoadPolicy,
    seed: u64,
    device: &Device,
) -> Result<(M, BertConfig, LoadReport), Error> {
    let config = labels(read_pretrained_config(dir)?);
    config.validate()?;
    let (model, report) = load_pretrained_weights(M::new(&config, seed, device), dir, policy)?;
    Ok((model, config, report))
}
