//! Reads the configuration and the weights of a model folder, and stores the files of a folder with a
//! [`Sink`].

use std::io;
use std::path::{Path, PathBuf};

use burn::module::Module;

use crate::checkpoint::foreign_weights::{reject_adapter, reject_foreign, reject_other_weights};
use crate::checkpoint::load::{LoadPolicy, load_named_tensors};
use crate::checkpoint::parameter_names::NamedTensors;
use crate::checkpoint::weights_files::{WEIGHTS, WeightsFiles};
use crate::config::BertConfig;
use crate::error::{Error, LoadReport, missing_file};

/// A function that stores a file, given its name and bytes.
pub type Sink<'a> = dyn FnMut(&str, &[u8]) -> io::Result<()> + 'a;

/// Passes files to the sink in order.
pub(crate) fn pass_to_sink(sink: &mut Sink<'_>, files: Vec<(&'static str, Vec<u8>)>) -> Result<(), Error> {
    for (name, bytes) in files {
        sink(name, &bytes).map_err(Error::io("write", Path::new(name)))?;
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

/// The file names of a model's configuration: in Hugging Face's folders, and in the archives of google-research/bert.
const CONFIGURATIONS: [&str; 2] = ["config.json", "bert_config.json"];

/// Returns the configuration file of a folder, if it has one.
pub fn find_config(dir: &Path) -> Option<PathBuf> {
    CONFIGURATIONS.map(|name| dir.join(name)).into_iter().find(|path| path.exists())
}

/// Reads the `config.json` or `bert_config.json` of a folder.
///
/// # Errors
/// Fails when the folder has neither file. Also fails as [`BertConfig::read`] does.
pub fn read_pretrained_config(dir: &Path) -> Result<BertConfig, Error> {
    match find_config(dir) {
        Some(path) if path.is_file() => BertConfig::read(path),
        _ => Err(missing_file(dir, "config.json")),
    }
}

/// Reads the weights of a folder, in any of the forms of [`WeightsFiles`].
///
/// # Errors
/// Fails as [`find_weights`] and [`WeightsFiles::read`] do.
pub fn read_pretrained_tensors(dir: &Path) -> Result<NamedTensors, Error> {
    find_weights(dir)?.read()
}

/// Finds the weights of a folder.
///
/// # Errors
/// Fails when the folder has no weights; the error tells whether the folder has weights of another framework or an
/// adapter. Also fails as [`WeightsFiles::find`] does.
pub fn find_weights(dir: &Path) -> Result<WeightsFiles, Error> {
    if let Some(files) = WeightsFiles::find(dir)? {
        return Ok(files);
    }
    reject_other_weights(dir)?;
    reject_adapter(dir)?;
    Err(missing_file(dir, WEIGHTS))
}

/// Rejects a file where a model folder is expected. Accepts any path that is not a file.
///
/// # Errors
/// Fails when the path is a file; the error tells whether the file belongs to another framework.
pub fn reject_weights_file(path: &Path) -> Result<(), Error> {
    if !path.is_file() {
        return Ok(());
    }
    reject_foreign(path)?;
    Err(Error::model("this is a file; give the folder that contains config.json and the weights").at(path))
}

/// Loads the weights of a folder into a model. With [`LoadPolicy::FreshHeads`], heads that the folder lacks keep the
/// model's values.
///
/// # Errors
/// Fails as [`read_pretrained_tensors`] and [`load_named_tensors`] do.
pub fn load_pretrained_weights<M: Module>(
    model: M,
    dir: &Path,
    policy: LoadPolicy,
) -> Result<(M, LoadReport), Error> {
    load_named_tensors(model, read_pretrained_tensors(dir)?, policy).map_err(|error| error.at(dir))
}
