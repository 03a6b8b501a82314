//! The function that turns the logits of a classifier into its answer.

use bert_model::Error as ModelError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;

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

/// Keys of `config.json` with a function: of `transformers`, of older and of current cross-encoders.
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

    /// Returns the function that a `config.json` states.
    ///
    /// # Errors
    /// [`ModelError::Config`] for another function.
    pub(crate) fn from_config(config: &Map<String, Value>) -> Result<Option<Self>, Error> {
        let Some((key, name)) = KEYS.iter().find_map(|key| {
            let value = match key.strip_prefix('/').and_then(|path| path.split_once('/')) {
                Some((object, inner)) => config.get(object)?.get(inner),
                None => config.get(*key),
            };
            Some((*key, value?.as_str()?.to_owned()))
        }) else {
            return Ok(None);
        };
        // PyTorch's functions have the name of their module.
        match name.rsplit('.').next().unwrap_or_default().to_lowercase().as_str() {
            "none" | "identity" => Ok(Some(Self::None)),
            "sigmoid" => Ok(Some(Self::Sigmoid)),
            "softmax" => Ok(Some(Self::Softmax)),
            "default" => Ok(None),
            _ => {
                let reason = format!("is {name}; none, sigmoid and softmax are supported");
                let key = key.trim_start_matches('/').replace('/', ".");
                Err(ModelError::Config { key, reason }.into())
            }
        }
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
