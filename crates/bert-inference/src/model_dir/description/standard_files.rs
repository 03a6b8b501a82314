//! Reads the parts of a description that are in the files of `transformers` and sentence-transformers.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::Error;
use crate::model_dir::description::{Activation, ModelDescription, Pooling};
use crate::model_dir::json_file::{exists, read_json};

/// List of the modules of a model of sentences.
const MODULES: &str = "modules.json";

/// Lengths that are too large for a text: `transformers` writes 1e30 for "not known".
const UNKNOWN_LENGTH: u64 = 1_000_000;

impl ModelDescription {
    /// Returns this description with the values of the other files of its folder.
    pub(super) fn with_standard_files(mut self, folder: &Path) -> Result<Self, Error> {
        self.max_seq_length = max_seq_length(folder)?.or(self.max_seq_length);
        if let Some(modules) = optional_json(&folder.join(MODULES))? {
            self.read_modules(&modules, folder)?;
        }
        if let Some(config) = object(&folder.join("config.json"))? {
            self.activation = Activation::from_config(&config)?.or(self.activation);
        }
        Ok(self)
    }

    /// Takes pooling and normalization from a list of modules.
    fn read_modules(&mut self, modules: &Value, folder: &Path) -> Result<(), Error> {
        self.normalize = false;
        for module in modules.as_array().into_iter().flatten() {
            let class = module["type"].as_str().unwrap_or_default();
            match class.rsplit('.').next().unwrap_or_default() {
                "Transformer" => {}
                "Normalize" => self.normalize = true,
                "Pooling" => {
                    let path = folder.join(module["path"].as_str().unwrap_or_default()).join("config.json");
                    match pooling(&object(&path)?.unwrap_or_default()) {
                        Ok(pooling) => self.pooling = Some(pooling),
                        Err(mode) => self.other_modules.push(format!("pooling {mode}")),
                    }
                }
                _ => self.other_modules.push(class.to_owned()),
            }
        }
        Ok(())
    }
}

/// Returns the way of pooling in the configuration of a pooling module, or its name if it is another one.
fn pooling(config: &Map<String, Value>) -> Result<Pooling, String> {
    // Current versions have one key; older ones have a flag for each mode, and concatenate the vectors of several.
    let modes: Vec<String> = match config.get("pooling_mode") {
        Some(Value::String(mode)) => vec![mode.clone()],
        Some(Value::Array(modes)) => modes.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => {
            let flags = config.iter().filter(|(_, value)| **value == true);
            flags.filter_map(|(key, _)| Some(key.strip_prefix("pooling_mode_")?.to_owned())).collect()
        }
    };
    match modes.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["mean" | "mean_tokens"] => Ok(Pooling::Mean),
        ["cls" | "cls_token"] => Ok(Pooling::Cls),
        _ => Err(modes.join(" and ")),
    }
}

/// Returns the length to which a folder says that texts are cut.
fn max_seq_length(folder: &Path) -> Result<Option<usize>, Error> {
    let places = [
        ("sentence_bert_config.json", "/max_seq_length"),
        ("tokenizer_config.json", "/model_max_length"),
        ("tokenizer.json", "/truncation/max_length"),
    ];
    for (file, key) in places {
        let Some(json) = optional_json(&folder.join(file))? else { continue };
        let length = json.pointer(key).and_then(Value::as_u64);
        if let Some(length) = length.filter(|length| (1..UNKNOWN_LENGTH).contains(length)) {
            return Ok(Some(length as usize));
        }
    }
    Ok(None)
}

fn optional_json(path: &Path) -> Result<Option<Value>, Error> {
    if exists(path)? { read_json(path).map(Some) } else { Ok(None) }
}

fn object(path: &Path) -> Result<Option<Map<String, Value>>, Error> {
    Ok(optional_json(path)?.and_then(|json| json.as_object().cloned()))
}
