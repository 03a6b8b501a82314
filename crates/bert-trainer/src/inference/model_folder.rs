//! Opens a fine-tuned folder: its model, and what it says of itself, the report of its fine-tuning among it.

use std::path::Path;

use bert_model::{Architecture, BertConfig, LoadPolicy, load_pretrained_weights, read_pretrained_config};
use burn::tensor::Device;
use serde_json::Value;

use crate::device_name::DeviceName;
use crate::error::Error;
use crate::json_file::read_json;
use crate::tasks::Example;
use crate::text::Text;

/// The class of `transformers` that the folder's `config.json` names.
pub(super) fn architecture(folder: &Path) -> Result<Option<String>, Error> {
    let path = folder.join("config.json");
    if !path.exists() {
        return Ok(None);
    }
    Ok(read_json(&path)?["architectures"][0].as_str().map(String::from))
}

/// A tuned model of a folder that has all of it, with what its texts need.
pub(super) struct Tuned<M> {
    pub(super) model: M,
    pub(super) config: BertConfig,
    pub(super) text: Text,
    pub(super) device: Device,
    /// `report.json` of the fine-tuning whose `model/` the folder is; null for another folder.
    pub(super) report: Value,
    /// The longest sequence.
    pub(super) max_length: usize,
}

impl<M: Architecture> Tuned<M> {
    /// Opens a folder. Its length is `max_length`, else that of its fine-tuning, else `default`; the last two as far as
    /// the model has positions.
    ///
    /// # Errors
    /// When it cannot be read, or the model has not so many positions as `max_length`.
    pub(super) fn open(
        folder: &Path,
        max_length: Option<usize>,
        default: usize,
        device: DeviceName,
    ) -> Result<Self, Error> {
        let device = device.open()?;
        let config = read_pretrained_config(folder)?;
        let model = M::new(&config, 0, &device);
        let (model, _) = load_pretrained_weights(model, folder, LoadPolicy::Exact)?;
        let text = Text::open(folder)?;
        let report = trained_setting(folder)?;
        let trained = trained_length(&report).unwrap_or(default);
        let max_length = max_length.unwrap_or(trained.min(config.max_position_embeddings));
        text.check_fits(&config, max_length)?;
        Ok(Self { model, config, text, device, report, max_length })
    }
}

/// The longest sequence of a fine-tuning.
pub(super) fn trained_length(report: &Value) -> Option<usize> {
    report["resolved"]["max_seq_length"].as_u64().map(|length| length as usize)
}

/// The line of an example that was read from a file of new texts.
pub(super) fn line_of(example: &Example) -> u64 {
    example.index.parse().expect("a number of ours")
}

/// `report.json` of the fine-tuning whose `model/` the folder is; null for another folder.
pub(super) fn trained_setting(folder: &Path) -> Result<Value, Error> {
    let report = folder.with_file_name("report.json");
    match folder.file_name().is_some_and(|name| name == "model") && report.is_file() {
        true => read_json(&report),
        false => Ok(Value::Null),
    }
}
