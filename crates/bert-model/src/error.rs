//! The error type, and [`LoadReport`]: the differences between a checkpoint and a model.
//!
//! The messages name the file, the key or the tensor. Wrong tensor shapes in a forward pass are programmer errors and
//! panic (`assert_shape!`).

use std::fmt::{self, Display};
use std::path::Path;

pub use bert_storage::{Class, Error};

/// Returns the error for a folder that lacks a file which every checkpoint has.
pub fn missing_file(folder: &Path, file: &str) -> Error {
    let weights = if file == "model.safetensors" { ", nor weights of PyTorch or TensorFlow" } else { "" };
    let advice = "give a folder that `save_pretrained` or a run wrote";
    Error::model(format!("no {file} in this folder{weights}; {advice}")).at(folder)
}

/// Returns the error for a second copy of a tied tensor that differs from the first.
pub fn not_tied(name: &str, tied_to: &str) -> Error {
    Error::model(format!(
        "tensor `{name}` differs from `{tied_to}`, but BERT ties both; untied weights are not supported"
    ))
}

/// Returns the error for a key of `config.json`.
pub fn config_key(key: &str, reason: impl Display) -> Error {
    Error::model(format!("model configuration: `{key}` {reason}"))
}

/// Returns the error for a tensor with elements other than floats.
pub(crate) fn no_float(name: &str, dtype: impl Display) -> Error {
    Error::model(format!("tensor `{name}` has element type {dtype}; save it as f32, f16 or bf16"))
}

/// Returns the error for a truncated or inconsistent weights file.
pub(crate) fn damaged_weights(format: &str, reason: impl Display) -> Error {
    Error::data(format!("damaged {format} file: {reason}; copy or download it again"))
}

/// Returns the error for an intact weights file that this crate does not read.
pub(crate) fn unsupported_weights(format: &str, reason: impl Display) -> Error {
    Error::model(format!("this {format} file is not supported: {reason}"))
}

/// Returns the error for a file in which two names refer to one parameter.
pub(crate) fn tensor_twice(name: &str) -> Error {
    Error::model(format!(
        "tensor `{name}` occurs twice, under its current and its old name; remove one of them"
    ))
}

/// Returns the error for a file that is not JSON.
pub(crate) fn not_json(reason: impl Display) -> Error {
    Error::data(format!("not valid JSON: {reason}"))
}

/// The differences between a checkpoint's tensors and a model's parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Names of parameters that the checkpoint lacks.
    pub missing: Vec<String>,
    /// Names of tensors that the model lacks.
    pub unexpected: Vec<String>,
    /// Name, shape in the model and shape in the checkpoint of tensors whose shapes differ.
    pub misshapen: Vec<(String, Vec<usize>, Vec<usize>)>,
}

impl From<LoadReport> for Error {
    fn from(report: LoadReport) -> Self {
        Error::model(format!("the checkpoint does not match the model: {report}"))
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!("missing: {}", listed(&self.missing)));
        }
        if !self.unexpected.is_empty() {
            parts.push(format!("unexpected: {}", listed(&self.unexpected)));
        }
        for (name, model, checkpoint) in self.misshapen.iter().take(MAX_LISTED) {
            parts.push(format!("{name} has shape {checkpoint:?}, but the model has {model:?}"));
        }
        if self.misshapen.len() > MAX_LISTED {
            parts.push(format!("and {} more with a different shape", self.misshapen.len() - MAX_LISTED));
        }
        f.write_str(&parts.join("; "))
    }
}

/// Maximum number of names in a message; the rest are counted.
const MAX_LISTED: usize = 20;

fn listed(names: &[String]) -> String {
    let shown = names.len().min(MAX_LISTED);
    let more = match names.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names[..shown].join(", ") + &more
}
