//! Reads the parts of a description that are in the files of `transformers` and sentence-transformers. A setting that
//! changes the results is applied or rejected. Settings for padding and for the decoding of ids are ignored, because
//! they never change results.

use std::path::Path;

use bert_model::{BertConfig, DESCRIPTION};
use serde_json::Value;

use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::{Error, damaged};
use crate::model_dir::description::input_form::check_input_form;
use crate::model_dir::description::json_object::JsonObject;
use crate::model_dir::description::{ModelDescription, Pooling};
use crate::model_dir::json_file::read_json;
use bert_storage::exists;

/// List of the modules of a sentence model.
const MODULES: &str = "modules.json";
/// Settings of the first module.
const TRANSFORMER: &str = "sentence_bert_config.json";
/// Prompts of a sentence model.
const PROMPTS: &str = "config_sentence_transformers.json";
/// The modules that are supported, in their order.
const SUPPORTED: [&str; 3] = ["Transformer", "Pooling", "Normalize"];

impl ModelDescription {
    /// Returns this description with the values of the other files of its folder.
    pub(super) fn with_standard_files(
        mut self,
        folder: &Path,
        model: &BertConfig,
        tokenizer: Option<&ModelTokenizer>,
    ) -> Result<Self, Error> {
        let sentences = JsonObject::read(folder, TRANSFORMER)?;
        let settings = JsonObject::read(folder, "tokenizer_config.json")?;
        let json = JsonObject::read(folder, "tokenizer.json")?;
        // The tokenizer may come from another folder, as for an adapter.
        let own = tokenizer.filter(|text| text.source.parent() == Some(folder));
        if let Some(text) = own {
            check_input_form(&settings, &json, text, model)?;
            let keeps_case = !text.settings.do_lower_case;
            sentences.require("do_lower_case", |lowers| !(*lowers == true && keeps_case), "false")?;
        }
        let is_empty = |arguments: &Value| arguments.as_object().is_some_and(|keys| keys.is_empty());
        sentences.require("tokenizer_args", is_empty, "an empty object")?;
        // The most specific file has precedence, as in sentence-transformers and transformers.
        let lengths = [
            (&sentences, "max_seq_length"),
            (&settings, "model_max_length"),
            (&settings, "max_len"),
            (&json, "/truncation/max_length"),
        ];
        let mut stated = None;
        for (file, key) in lengths {
            stated = stated.or(file.length(key)?.map(|tokens| (file, key, tokens)));
        }
        if let Some((file, key, tokens)) = stated {
            self.take_length(file, key, tokens, model);
        }
        self.read_modules(folder, model)?;
        Ok(self)
    }

    /// Reads pooling and normalization from the list of modules.
    fn read_modules(&mut self, folder: &Path, model: &BertConfig) -> Result<(), Error> {
        let path = folder.join(MODULES);
        if !exists(&path)? {
            return Ok(());
        }
        let modules = read_json(&path)?;
        let Some(modules) = modules.as_array() else { return Err(damaged(&path, "not a list")) };
        let own_pooling = self.pooling.take();
        let own_normalize = std::mem::take(&mut self.normalize);
        for (module, place) in modules.iter().zip(0..) {
            let class = module["type"].as_str().unwrap_or_default();
            let name = class.rsplit('.').next().unwrap_or_default();
            if SUPPORTED.get(place) != Some(&name) {
                self.other_modules.push(format!("module {place} {class}"));
            }
            self.normalize |= name == "Normalize";
            if name == "Pooling" {
                let config = folder.join(module["path"].as_str().unwrap_or_default());
                match pooling(&JsonObject::read(&config, "config.json")?, model)? {
                    Ok(pooling) => self.pooling = Some(pooling),
                    Err(mode) => self.other_modules.push(format!("pooling {mode}")),
                }
            }
        }
        if own_pooling.is_some() && own_pooling != self.pooling || own_normalize && !self.normalize {
            let own = JsonObject::read(folder, DESCRIPTION)?;
            return Err(own.wrong(
                "pooling",
                format!("or `normalize` differs from {MODULES}; correct one of the two files"),
            ));
        }
        let prompts = JsonObject::read(folder, PROMPTS)?;
        self.default_prompt = prompts.get("default_prompt_name").map(Value::to_string);
        Ok(())
    }
}

/// Returns the pooling method in the configuration of a pooling module, or its name if this program does not know it.
///
/// # Errors
/// Fails when the width of the vectors differs from the model's.
fn pooling(config: &JsonObject, model: &BertConfig) -> Result<Result<Pooling, String>, Error> {
    let width = model.hidden_size;
    for key in ["word_embedding_dimension", "embedding_dimension"] {
        config.require(key, |found| *found == width, &format!("{width}, the hidden size of config.json,"))?;
    }
    // Current versions have one key; older ones have a flag for each mode, and concatenate the vectors of several.
    let modes: Vec<&str> = match config.get("pooling_mode") {
        Some(Value::String(mode)) => vec![mode],
        Some(Value::Array(modes)) => modes.iter().filter_map(Value::as_str).collect(),
        _ => {
            let flags = config.object.iter().filter(|(_, value)| **value == true);
            flags.filter_map(|(key, _)| key.strip_prefix("pooling_mode_")).collect()
        }
    };
    Ok(match modes[..] {
        ["mean" | "mean_tokens"] => Ok(Pooling::Mean),
        ["cls" | "cls_token"] => Ok(Pooling::Cls),
        [] => Err("without a mode".to_string()),
        _ => Err(modes.join(" and ")),
    })
}
