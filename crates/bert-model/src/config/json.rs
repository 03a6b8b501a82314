//! Reads and writes a [`BertConfig`] as the `config.json` of `transformers`. Also reads the files of the original BERT
//! releases.
//!
//! Each key is parsed separately, so that an error names it. Unknown keys are preserved. The defaults and the checks of
//! sizes are in [`crate::config`].

use std::collections::BTreeMap;
use std::path::Path;

use bert_kernels::gelu::Gelu;
use bert_storage::read_limited;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::config::{BertConfig, Preset};
use crate::error::{Error, config_key, not_json};

/// The class of a head on frozen features.
pub(crate) const FEATURE_HEAD_CLASS: &str = "BertWithFeatureHead";

/// Maximum size of a configuration in bytes.
pub(crate) const MAX_JSON: u64 = 1 << 20;

/// The model type of heads that `transformers` cannot compute.
const OWN_MODEL_TYPE: &str = "bert_with_feature_head";

impl BertConfig {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// Fails when the file cannot be read, when it is not a JSON object, or when a key is missing or invalid; the error
    /// names the key.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::from_json(read_object(path)?).map_err(|error| error.at(path))
    }

    /// Reads like [`BertConfig::read`], with this vocabulary size if the file has no `vocab_size`. Also returns whether
    /// the file has one.
    ///
    /// # Errors
    /// Fails as [`BertConfig::read`] does.
    pub fn read_for(path: &Path, vocab_size: usize) -> Result<(Self, bool), Error> {
        let mut json = read_object(path)?;
        let has_size = json.get("vocab_size").is_some_and(|size| !size.is_null());
        if !has_size {
            json.insert("vocab_size".into(), vocab_size.into());
        }
        Ok((Self::from_json(json).map_err(|error| error.at(path))?, has_size))
    }

    /// Parses the object of a `config.json`. The five sizes are required; everything else defaults to BERT's values.
    ///
    /// # Errors
    /// Fails when a key is missing or invalid; the error names the key.
    pub fn from_json(mut json: Map<String, Value>) -> Result<Self, Error> {
        reject_other_models(&json)?;
        let json = &mut json;
        let mut config = Self::preset(Preset::Base, required(json, "vocab_size")?);
        config.hidden_size = required(json, "hidden_size")?;
        config.num_hidden_layers = required(json, "num_hidden_layers")?;
        config.num_attention_heads = required(json, "num_attention_heads")?;
        config.intermediate_size = required(json, "intermediate_size")?;
        config.hidden_act = match optional::<String>(json, "hidden_act")?.as_deref() {
            None | Some("gelu") => Gelu::Erf,
            Some("gelu_new" | "gelu_pytorch_tanh") => Gelu::Tanh,
            Some(name) => {
                let reason = format!("is `{name}`; `gelu`, `gelu_new` and `gelu_pytorch_tanh` are supported");
                return Err(config_key("hidden_act", reason));
            }
        };
        // Reads the keys of these fields, if they are present.
        macro_rules! read {
            ($($field:ident)*) => {$(
                if let Some(value) = optional(json, stringify!($field))? {
                    config.$field = value;
                }
            )*};
        }
        read!(hidden_dropout_prob attention_probs_dropout_prob max_position_embeddings type_vocab_size);
        read!(initializer_range layer_norm_eps pad_token_id);
        read!(classifier_dropout problem_type id2label label2id);
        let num_labels = optional(json, "num_labels")?;
        // `transformers` derives the number of labels from the names and writes only the names.
        let named = config.id2label.as_ref().map(BTreeMap::len);
        config.num_labels = num_labels.or(named).unwrap_or(config.num_labels);
        // The first three keys are always rewritten. The next two give the element type of the file, but this crate
        // uses f32. The last one is not needed: an untied decoder is found when the weights are read, and is never
        // written.
        let rewritten = ["architectures", "model_type", "position_embedding_type"];
        for key in rewritten.into_iter().chain(["dtype", "torch_dtype", "tie_word_embeddings"]) {
            json.remove(key);
        }
        config.extra = std::mem::take(json);
        config.validate()?;
        Ok(config)
    }

    /// Returns the text of `config.json` for a model of this architecture (for example `BertForPreTraining`).
    pub fn to_json_string(&self, architecture: &str) -> String {
        let mut json = self.extra.clone();
        let mut put = |key: &str, value: Value| json.insert(key.into(), value);
        put("architectures", json!([architecture]));
        let is_own = architecture == FEATURE_HEAD_CLASS;
        put("model_type", json!(if is_own { OWN_MODEL_TYPE } else { "bert" }));
        put("vocab_size", json!(self.vocab_size));
        put("hidden_size", json!(self.hidden_size));
        put("num_hidden_layers", json!(self.num_hidden_layers));
        put("num_attention_heads", json!(self.num_attention_heads));
        put("intermediate_size", json!(self.intermediate_size));
        put("hidden_act", json!(if self.hidden_act == Gelu::Erf { "gelu" } else { "gelu_new" }));
        put("hidden_dropout_prob", json!(self.hidden_dropout_prob));
        put("attention_probs_dropout_prob", json!(self.attention_probs_dropout_prob));
        put("max_position_embeddings", json!(self.max_position_embeddings));
        put("type_vocab_size", json!(self.type_vocab_size));
        put("initializer_range", json!(self.initializer_range));
        put("layer_norm_eps", json!(self.layer_norm_eps));
        put("pad_token_id", json!(self.pad_token_id));
        put("classifier_dropout", json!(self.classifier_dropout));
        put("position_embedding_type", json!("absolute"));
        let labels = [
            ("problem_type", json!(self.problem_type)),
            ("id2label", json!(self.id2label)),
            ("label2id", json!(self.label2id)),
        ];
        for (key, value) in labels.into_iter().filter(|(_, value)| !value.is_null()) {
            put(key, value);
        }
        if self.id2label.is_none() && self.label2id.is_none() && self.num_labels != 2 {
            put("num_labels", json!(self.num_labels));
        }
        // Formatting a JSON value cannot fail.
        format!("{:#}\n", Value::Object(json))
    }
}

/// Reads the JSON object of a file.
pub(crate) fn read_object(path: &Path) -> Result<Map<String, Value>, Error> {
    let text = read_limited(path, MAX_JSON).map_err(Error::io("read", path))?;
    serde_json::from_slice(&text).map_err(|e| not_json(e).at(path))
}

/// Rejects configurations that describe a different model under the same names.
fn reject_other_models(json: &Map<String, Value>) -> Result<(), Error> {
    let reject = |key: &str, fine: &dyn Fn(&Value) -> bool, supported: &str| match json.get(key) {
        Some(value) if !value.is_null() && !fine(value) => {
            Err(config_key(key, format!("is {value}; only {supported} is supported")))
        }
        _ => Ok(()),
    };
    reject("model_type", &|v| v == "bert" || v == OWN_MODEL_TYPE, "\"bert\"")?;
    reject("position_embedding_type", &|v| v == "absolute", "\"absolute\"")?;
    reject("pruned_heads", &|v| v.as_object().is_some_and(Map::is_empty), "{}")?;
    reject("is_decoder", &|v| v == false, "false")?;
    reject("add_cross_attention", &|v| v == false, "false")
}

/// Removes a key from the object and returns its value; `null` counts as absent.
fn optional<T: DeserializeOwned>(json: &mut Map<String, Value>, key: &str) -> Result<Option<T>, Error> {
    match json.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            T::deserialize(&value).map(Some).map_err(|e| config_key(key, format!("is {value}: {e}")))
        }
    }
}

fn required<T: DeserializeOwned>(json: &mut Map<String, Value>, key: &str) -> Result<T, Error> {
    optional(json, key)?.ok_or_else(|| config_key(key, "is missing"))
}
