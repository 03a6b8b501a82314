//! The function that turns the logits of a classifier into its answer.

use bert_model::DESCRIPTION;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model_dir::description::json_object::JsonObject;

/// A function of logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// The logits themselves.
    None,
    /// The logistic function of each logit.
    Sigmoid,
    /// The softmax over the logits.
    Softmax,
}

/// Keys of `config.json` that name the function: in `transformers`, in older cross-encoders and in current ones.
const KEYS: [&str; 3] =
    ["function_to_apply", "sbert_ce_default_activation_function", "/sentence_transformers/activation_fn"];

impl Activation {
    /// Returns the name that `transformers` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Sigmoid => "sigmoid",
            Self::Softmax => "softmax",
        }
    }

    /// Returns the function that a `config.json` names, or else `own`, the function in the description's file.
    ///
    /// # Errors
    /// Fails when a key states a different function, or when two keys state different functions; the error names the
    /// key.
    pub(super) fn from_config(config: &JsonObject, own: Option<Self>) -> Result<Option<Self>, Error> {
        let mut found = own;
        for key in KEYS {
            let Some(value) = config.get(key) else { continue };
            // PyTorch's functions have the name of their module.
            let name = value.as_str().and_then(|name| name.rsplit('.').next()).unwrap_or_default();
            let stated = match name.to_lowercase().as_str() {
                "none" | "identity" => Self::None,
                "sigmoid" => Self::Sigmoid,
                "softmax" => Self::Softmax,
                "default" => continue,
                _ => {
                    let reason = format!("is {value}; only none, sigmoid and softmax are supported");
                    return Err(config.wrong(key, reason));
                }
            };
            if let Some(other) = found.filter(|other| *other != stated) {
                let reason = format!("is {value}, but another key or {DESCRIPTION} says {}", other.name());
                return Err(config.wrong(key, reason));
            }
            found = Some(stated);
        }
        Ok(found)
    }

    /// Applies the function to the logits of one example.
    pub(crate) fn apply(self, logits: &mut [f32]) {
        match self {
            Self::None => {}
            Self::Sigmoid => logits.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
            Self::Softmax => {
                let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                logits.iter_mut().for_each(|x| *x = (*x - most).exp());
                let sum: f32 = logits.iter().sum();
                logits.iter_mut().for_each(|x| *x /= sum);
            }
        }
    }
}
