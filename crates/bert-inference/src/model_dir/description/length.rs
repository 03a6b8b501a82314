//! The length of an encoding. One function chooses this length for every program.

use bert_model::{BertConfig, DESCRIPTION};

use crate::error::{Error, mismatch};
use crate::model_dir::description::ModelDescription;
use crate::model_dir::description::json_object::JsonObject;

/// The length that is used if the user gives none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultLength {
    /// The length that the model was trained with; the value in this variant if that length is unknown.
    Trained(usize),
    /// The default length of a task, limited to the positions that were trained.
    Task(usize),
}

/// The length of an encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingLength {
    /// Maximum number of tokens of an input, special tokens included.
    pub tokens: usize,
    /// A remark for the user: some positions were never trained, another file states a different length, or the length
    /// is below the task's default.
    pub remark: Option<String>,
}

impl ModelDescription {
    /// Adopts the length in a file of another library, but at most the length of the training and the positions of the
    /// model. Adds a remark for the user if the adopted length, or the length in the description's own file, differs
    /// from the length in this file.
    pub(super) fn take_length(&mut self, file: &JsonObject, key: &str, stated: usize, model: &BertConfig) {
        let positions = model.max_position_embeddings;
        let tokens = stated.min(self.max_seq_length.unwrap_or(positions));
        let other = match self.max_seq_length {
            Some(trained) if trained != stated => Some(format!("{DESCRIPTION} says {trained}")),
            None if stated > positions => Some(format!("the model has {positions} positions")),
            _ => None,
        };
        self.length_remark = other.map(|other| {
            let key = key.trim_start_matches('/').replace('/', ".");
            format!(
                "{} says `{key}` {stated}, but {other}: texts are cut to {tokens} tokens",
                file.path.display()
            )
        });
        self.max_seq_length = Some(tokens);
    }

    /// Returns the length of an encoding: `asked`, or else the default. Only `asked` may exceed the positions that
    /// were trained.
    ///
    /// # Errors
    /// Fails when `asked` exceeds the positions of the model.
    pub fn encoding_length(
        &self,
        asked: Option<usize>,
        default: DefaultLength,
        model: &BertConfig,
    ) -> Result<EncodingLength, Error> {
        let positions = model.max_position_embeddings;
        // A folder without a description states its maximum length only.
        let stated = self.max_seq_length.filter(|_| self.trained_positions.is_none());
        let trained = self.trained_positions.filter(|trained| *trained > 0).or(stated).unwrap_or(positions);
        if let Some(asked) = asked {
            if asked > positions {
                let difference =
                    format!("`.max_seq_length` is {asked}, but the model has {positions} positions");
                return Err(mismatch(vec![difference]));
            }
            let is_known =
                self.trained_positions != Some(0) && self.max_seq_length.is_some_and(|known| asked <= known);
            let remark = self.untrained_positions(asked).filter(|_| !is_known);
            return Ok(EncodingLength { tokens: asked, remark });
        }
        Ok(match default {
            DefaultLength::Trained(default) => {
                let tokens = self.max_seq_length.unwrap_or(default.min(trained));
                let remark = self.length_remark.clone();
                EncodingLength { tokens, remark: remark.or_else(|| self.untrained_positions(trained)) }
            }
            DefaultLength::Task(default) => {
                let reason = match stated {
                    Some(_) => "the maximum length that the folder of the model states",
                    None => "the number of positions that this model was trained with",
                };
                let remark = (default > trained)
                    .then(|| format!("--max-seq-length is {trained}, {reason}, and not the usual {default}"));
                EncodingLength { tokens: default.min(trained), remark }
            }
        })
    }

    /// Returns a warning if inputs of this length have positions that were never trained.
    pub fn untrained_positions(&self, length: usize) -> Option<String> {
        match self.trained_positions? {
            0 => Some("the model was never trained: all its positions have initial values".to_string()),
            trained if length > trained => Some(format!(
                "the model was trained on {trained} positions; positions {trained} to {} were never trained, so \
                 results on longer texts are worse than on texts of {trained} tokens",
                length - 1
            )),
            _ => None,
        }
    }
}
