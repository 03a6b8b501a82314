//! [`WeightsFiles`]: the files of a folder that contain a model's weights, in one of the published forms.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use bert_storage::read_limited;
use serde_json::Value;

use crate::checkpoint::parameter_names::NamedTensors;
use crate::checkpoint::pytorch::read_pytorch;
use crate::checkpoint::safetensors::read_safetensors;
use crate::checkpoint::tensorflow::{appended, data_files, read_tensorflow};
use crate::config::json::MAX_JSON;
use crate::error::{Error, damaged_weights, not_json, unsupported_weights};

/// The file name of the weights in a folder that this crate writes.
pub const WEIGHTS: &str = "model.safetensors";

/// A form in which weights are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightsForm {
    /// `model.safetensors`.
    Safetensors,
    /// `model.safetensors.index.json`, which names several files.
    SeveralSafetensors,
    /// `pytorch_model.bin`.
    PyTorch,
    /// `pytorch_model.bin.index.json`, which names several files.
    SeveralPyTorch,
    /// `PREFIX.index` and `PREFIX.data-00000-of-00001` of google-research/bert.
    TensorFlow,
}

impl fmt::Display for WeightsForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Safetensors => "safetensors file",
            Self::SeveralSafetensors => "set of safetensors files",
            Self::PyTorch => "PyTorch pickle",
            Self::SeveralPyTorch => "set of PyTorch pickles",
            Self::TensorFlow => "TensorFlow checkpoint",
        })
    }
}

/// The files that contain a model's weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightsFiles {
    /// The form in which the weights are stored.
    pub form: WeightsForm,
    /// The file, the index of several files, or the common prefix of a TensorFlow checkpoint.
    pub path: PathBuf,
}

/// The file name of each form except TensorFlow's, whose file names vary. The first file that exists is read.
const FILES: [(&str, WeightsForm); 4] = [
    (WEIGHTS, WeightsForm::Safetensors),
    ("model.safetensors.index.json", WeightsForm::SeveralSafetensors),
    ("pytorch_model.bin", WeightsForm::PyTorch),
    ("pytorch_model.bin.index.json", WeightsForm::SeveralPyTorch),
];

impl WeightsFiles {
    /// Finds the weights in a folder; `None` if it has none. A folder with several TensorFlow checkpoints must have a
    /// file `checkpoint` that names one of them.
    ///
    /// # Errors
    /// Fails when the folder has several TensorFlow checkpoints, and no file `checkpoint` that names one of them.
    pub fn find(dir: &Path) -> Result<Option<Self>, Error> {
        let named = FILES.map(|(name, form)| Self { form, path: dir.join(name) });
        if let Some(found) = named.into_iter().find(|found| found.path.is_file()) {
            return Ok(Some(found));
        }
        let mut prefixes: Vec<PathBuf> = std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .filter_map(|entry| tensorflow_prefix(&entry.ok()?.path()))
            .collect();
        prefixes.sort();
        let tensorflow = |path| Some(Self { form: WeightsForm::TensorFlow, path });
        match &prefixes[..] {
            [] => Ok(None),
            [prefix] => Ok(tensorflow(prefix.clone())),
            [first, ..] => match prefixes.iter().find(|prefix| Some(*prefix) == latest(dir).as_ref()) {
                Some(prefix) => Ok(tensorflow(prefix.clone())),
                None => {
                    let reason = format!(
                        "it is one of {} checkpoints in this folder; convert one with `bert import {} DIR`",
                        prefixes.len(),
                        first.display()
                    );
                    Err(unsupported_weights("TensorFlow", reason).at(dir))
                }
            },
        }
    }

    /// Returns the weights that a path names: a file, the index of several files, or the common prefix or the index of
    /// a TensorFlow checkpoint. Returns `None` for any other path.
    pub fn named(path: &Path) -> Option<Self> {
        let tensorflow = |path| Some(Self { form: WeightsForm::TensorFlow, path });
        if appended(path, ".index").is_file() {
            return tensorflow(path.into());
        }
        let name = path.file_name()?.to_str()?;
        if !path.is_file() {
            return None;
        }
        if let Some(prefix) = tensorflow_prefix(path) {
            return tensorflow(prefix);
        }
        let form = match name {
            name if name.ends_with(".safetensors") => WeightsForm::Safetensors,
            name if name.ends_with(".safetensors.index.json") => WeightsForm::SeveralSafetensors,
            name if name.ends_with(".bin.index.json") => WeightsForm::SeveralPyTorch,
            name if [".bin", ".pt", ".pth"].iter().any(|end| name.ends_with(end)) => WeightsForm::PyTorch,
            _ => return None,
        };
        Some(Self { form, path: path.into() })
    }

    /// Reads all tensors, converted to f32.
    ///
    /// # Errors
    /// Fails when a file cannot be read, when it is damaged or contains something that this crate does not read, when
    /// two names in it refer to one parameter, or when a tensor has elements other than floats or holds NaN or
    /// infinity.
    pub fn read(&self) -> Result<NamedTensors, Error> {
        match self.form {
            WeightsForm::Safetensors => read_safetensors(&self.path),
            WeightsForm::PyTorch => read_pytorch(&self.path),
            WeightsForm::TensorFlow => read_tensorflow(&self.path),
            WeightsForm::SeveralSafetensors => self.read_parts(read_safetensors),
            WeightsForm::SeveralPyTorch => self.read_parts(read_pytorch),
        }
    }

    /// Returns every file that contains weights or their index.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let mut files = match self.form {
            WeightsForm::Safetensors | WeightsForm::PyTorch => return Ok(vec![self.path.clone()]),
            WeightsForm::TensorFlow => {
                let mut files = data_files(&self.path)?;
                files.push(appended(&self.path, ".index"));
                return Ok(files);
            }
            WeightsForm::SeveralSafetensors | WeightsForm::SeveralPyTorch => {
                self.parts()?.into_keys().map(|name| self.path.with_file_name(name)).collect::<Vec<_>>()
            }
        };
        files.push(self.path.clone());
        Ok(files)
    }

    /// Reads all files that an index names. Each file must contain the tensors that the index assigns to it, and no
    /// others.
    fn read_parts(&self, read: impl Fn(&Path) -> Result<NamedTensors, Error>) -> Result<NamedTensors, Error> {
        let mut tensors = NamedTensors::new();
        for (file, mut expected) in self.parts()? {
            for (name, tensor) in read(&self.path.with_file_name(&file))? {
                let Some(at) = expected.iter().position(|expected| *expected == name) else {
                    return Err(
                        self.corrupt(format!("{file} has the tensor {name:?}, which is not in the index"))
                    );
                };
                expected.swap_remove(at);
                tensors.insert(name, tensor);
            }
            // The readers skip this buffer.
            expected.retain(|name| !name.ends_with("embeddings.position_ids"));
            if let Some(name) = expected.first() {
                return Err(self.corrupt(format!("{file} lacks the tensor {name:?}")));
            }
        }
        Ok(tensors)
    }

    /// Returns the names of the tensors in each file, from the key `weight_map` of the index.
    fn parts(&self) -> Result<BTreeMap<String, Vec<String>>, Error> {
        let json = |reason: String| not_json(reason).at(&self.path);
        let text = read_limited(&self.path, MAX_JSON).map_err(|source| match source.kind() {
            std::io::ErrorKind::FileTooLarge => self.corrupt(source.to_string()),
            _ => Error::io("read", &self.path)(source),
        })?;
        let index: Value = serde_json::from_slice(&text).map_err(|e| json(e.to_string()))?;
        let Some(map) = index["weight_map"].as_object().filter(|map| !map.is_empty()) else {
            return Err(self.corrupt("it has no `weight_map` from tensors to files".into()));
        };
        let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (tensor, file) in map {
            let file =
                file.as_str().filter(|file| Path::new(file).file_name().is_some_and(|name| name == *file));
            let Some(file) = file else {
                return Err(
                    self.corrupt(format!("the file of {tensor:?} is not the name of a file in this folder"))
                );
            };
            parts.entry(file.to_string()).or_default().push(tensor.clone());
        }
        Ok(parts)
    }

    fn corrupt(&self, reason: String) -> Error {
        let format = if self.form == WeightsForm::SeveralPyTorch { "PyTorch" } else { "safetensors" };
        damaged_weights(format, reason).at(&self.path)
    }
}

/// Returns the common prefix of a TensorFlow checkpoint from its index, `NAME.ckpt.index` or `NAME.ckpt-STEP.index`.
fn tensorflow_prefix(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix(".index")?;
    let is_checkpoint = name.ends_with(".ckpt")
        || name.rsplit_once(".ckpt-").is_some_and(|(_, step)| step.bytes().all(|b| b.is_ascii_digit()));
    is_checkpoint.then(|| path.with_file_name(name))
}

/// Returns the prefix that the file `checkpoint` names: its line `model_checkpoint_path: "NAME"`.
fn latest(dir: &Path) -> Option<PathBuf> {
    let text = String::from_utf8(read_limited(&dir.join("checkpoint"), MAX_JSON).ok()?).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("model_checkpoint_path:"))?;
    Some(dir.join(Path::new(line.trim().trim_matches('"')).file_name()?))
}
