//! Reads `config.json` and `model.safetensors` of a Hugging Face folder, and stores the files of a folder with a
//! [`Sink`].

use std::io;
use std::path::{Path, PathBuf};

use burn::module::Module;

use crate::checkpoint::foreign_weights::{reject_adapter, reject_foreign, reject_other_weights};
use crate::checkpoint::load::{LoadPolicy, load_named_tensors};
use crate::checkpoint::parameter_names::NamedTensors;
use crate::checkpoint::safetensors::{is_pickle, read_safetensors};
use crate::config::BertConfig;
use crate::error::{Error, LoadReport};

/// A function that stores a file, given its name and bytes.
pub type Sink<'a> = dyn FnMut(&str, &[u8]) -> io::Result<()> + 'a;

/// The file name of the weights in a folder.
pub const WEIGHTS: &str = "model.safetensors";

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

/// Rejects a file where a model folder is expected. The error for a pickle (recognized by its name or its first bytes)
/// or for the weights of another framework explains the conversion. Accepts any path that is not a file.
///
/// # Errors
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
/// As [`read_pretrained_tensors`] and [`load_named_tensors`].
pub fn load_pretrained_weights<M: Module>(
    model: M,
    dir: &Path,
    policy: LoadPolicy,
) -> Result<(M, LoadReport), Error> {
    load_named_tensors(model, read_pretrained_tensors(dir)?, policy)
}
