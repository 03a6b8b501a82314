//! Reads and writes a whole Hugging Face folder: configuration, weights and tokenizer files.
//!
//! Reads folders that `transformers` or [`save_pretrained`] wrote: `config.json` and `model.safetensors`.
//! [`save_pretrained`] passes the files one by one to a [`Sink`], which stores them. The optimizer state and counters
//! of a training checkpoint are files of `bert-trainer`.

use std::io;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::Device;

use crate::checkpoint::foreign_weights::{reject_foreign, reject_other_weights};
use crate::checkpoint::load::{LoadPolicy, load_named_tensors};
use crate::checkpoint::load_report::LoadReport;
use crate::checkpoint::parameter_names::NamedTensors;
use crate::checkpoint::safetensors::{is_pickle, read_safetensors};
use crate::checkpoint::snapshot::Snapshot;
use crate::checkpoint::tokenizer_files::Vocabulary;
use crate::config::BertConfig;
use crate::error::Error;
use crate::models::architecture::Architecture;

/// A function that stores a file, given its name and bytes.
pub type Sink<'a> = dyn FnMut(&str, &[u8]) -> io::Result<()> + 'a;

/// Passes every file of a Hugging Face folder to `sink`: the tokenizer files, `model.safetensors`, and `config.json`
/// last.
///
/// # Errors
///
/// [`Error::Io`] with the file's name, if the sink fails. Before the first file: [`Error::VocabularySize`],
/// [`Error::MissingSpecialToken`] and [`Error::ParameterNotFinite`].
pub fn save_pretrained<M: Architecture>(
    sink: &mut Sink<'_>,
    model: &M,
    config: &BertConfig,
    vocabulary: Option<Vocabulary<'_>>,
) -> Result<(), Error> {
    let mut files = files_except_weights::<M>(config, vocabulary)?;
    let snapshot = Snapshot::of(model);
    snapshot.check_finite()?;
    let mut bytes = Vec::with_capacity(snapshot.file_bytes() as usize);
    snapshot.write(&mut bytes).expect("writing to memory cannot fail");
    files.insert(files.len() - 1, (WEIGHTS, bytes));
    pass_to_sink(sink, files)
}

/// The file name of the weights in a folder.
pub const WEIGHTS: &str = "model.safetensors";

/// Returns the name and bytes of every file of a folder except the weights: the tokenizer files, and `config.json`
/// last.
///
/// # Errors
///
/// [`Error::VocabularySize`], [`Error::MissingSpecialToken`].
pub fn files_except_weights<M: Architecture>(
    config: &BertConfig,
    vocabulary: Option<Vocabulary<'_>>,
) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    let mut files = Vec::new();
    if let Some(vocabulary) = vocabulary {
        let words = vocabulary.words.len();
        // The table may have more rows than the vocabulary has words, for example to pad it to a multiple of 8.
        if words > config.vocab_size {
            let vocab_size = config.vocab_size;
            return Err(Error::VocabularySize { words, vocab_size });
        }
        files = vocabulary.files()?;
    }
    files.push(("config.json", config.to_json_string(M::NAME).into_bytes()));
    Ok(files)
}

/// Passes files to the sink in order.
pub(crate) fn pass_to_sink(sink: &mut Sink<'_>, files: Vec<(&'static str, Vec<u8>)>) -> Result<(), Error> {
    for (name, bytes) in files {
        sink(name, &bytes).map_err(|source| Error::Io { path: name.into(), source })?;
    }
    Ok(())
}

/// Returns a sink that creates the folder and writes plain files into it.
pub fn folder_sink(dir: impl Into<PathBuf>) -> impl FnMut(&str, &[u8]) -> io::Result<()> {
    let dir = dir.into();
    move |name, bytes| {
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join(name), bytes)
    }
}

/// Reads the `config.json` of a folder.
///
/// # Errors
///
/// [`Error::MissingFile`]; otherwise as [`BertConfig::read`].
pub fn read_pretrained_config(dir: &Path) -> Result<BertConfig, Error> {
    let path = dir.join("config.json");
    if !path.is_file() {
        return Err(Error::MissingFile { path: dir.into(), file: "config.json" });
    }
    BertConfig::read(path)
}

/// Reads the `model.safetensors` of a folder.
///
/// # Errors
///
/// If this file does not exist: [`Error::PickledWeights`], [`Error::ShardedWeights`] or [`Error::ForeignWeights`] for
/// weights in another format, [`Error::AdapterWithoutEncoder`] for an adapter, else [`Error::MissingFile`]. Otherwise
/// as [`read_safetensors`].
pub fn read_pretrained_tensors(dir: &Path) -> Result<NamedTensors, Error> {
    let path = dir.join(WEIGHTS);
    if path.is_file() {
        return read_safetensors(&path);
    }
    reject_other_weights(dir)?;
    reject_adapter(dir)?;
    Err(Error::MissingFile { path: dir.into(), file: WEIGHTS })
}

/// Rejects a folder that holds an adapter and no model.
///
/// # Errors
///
/// [`Error::AdapterWithoutEncoder`].
pub fn reject_adapter(dir: &Path) -> Result<(), Error> {
    match crate::adapters::is_adapter_folder(dir) {
        true => Err(Error::AdapterWithoutEncoder(dir.into())),
        false => Ok(()),
    }
}

/// Rejects a file where a model folder is expected. The error for a pickle (recognized by its name or its first bytes)
/// or for the weights of another framework explains the conversion. Accepts any path that is not a file.
///
/// # Errors
///
/// [`Error::PickledWeights`], [`Error::ForeignWeights`], [`Error::NotAFolder`]; [`Error::Io`] if the file cannot be
/// read.
pub fn reject_weights_file(path: &Path) -> Result<(), Error> {
    if !path.is_file() {
        return Ok(());
    }
    reject_foreign(path)?;
    let path = path.to_path_buf();
    let by_name =
        path.extension().is_some_and(|end| ["bin", "pt", "pth", "pkl", "ckpt"].iter().any(|x| end == *x));
    let mut start = [0; 8];
    let read = std::fs::File::open(&path).and_then(|mut file| io::Read::read(&mut file, &mut start));
    match read {
        Err(source) => Err(Error::Io { path, source }),
        Ok(read) if by_name || is_pickle(&start[..read]) => Err(Error::PickledWeights(path)),
        Ok(_) => Err(Error::NotAFolder(path)),
    }
}

/// Loads the weights of a folder into a model. With [`LoadPolicy::FreshHeads`], heads that the folder lacks keep the
/// model's values.
///
/// # Errors
///
/// As [`read_pretrained_tensors`] and [`load_named_tensors`].
pub fn load_pretrained_weights<M: Module>(
    model: M,
    dir: &Path,
    policy: LoadPolicy,
) -> Result<(M, LoadReport), Error> {
    load_named_tensors(model, read_pretrained_tensors(dir)?, policy)
}

/// Loads a model from a folder. Returns the model, its configuration and the report of its weights.
///
/// `labels` maps the configuration of the folder to the configuration of the model: [`BertConfig::with_labels`], or the
/// identity. With [`LoadPolicy::FreshHeads`], heads that the folder lacks are initialized from `seed`.
///
/// # Errors
///
/// As [`read_pretrained_config`], [`BertConfig::validate`] and [`load_pretrained_weights`].
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
