//! Multiple choice, as in SWAG: which of some endings belongs to a beginning.
//!
//! Ports `BertForMultipleChoice` of `transformers`: every choice is a sequence of its own, its pooled output gets one
//! score, and the scores of a question's choices go through one softmax.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};

use crate::architecture::Architecture;
use crate::attention::linear;
use crate::config::BertConfig;
use crate::dropout::{Mode, Site, dropout};
use crate::model::{BertInput, BertModel};

/// BERT with one score for each choice.
#[derive(Module, Debug)]
pub struct BertForMultipleChoice {
    /// The encoder.
    pub bert: BertModel,
    /// `hidden -> 1`.
    pub classifier: Linear,
    classifier_dropout_prob: f64,
}

impl Architecture for BertForMultipleChoice {
    const NAME: &'static str = "BertForMultipleChoice";

    fn zeroed(config: &BertConfig, device: &Device) -> Self {
        Self {
            bert: BertModel::zeroed(config, device),
            classifier: linear(config.hidden_size, 1, device),
            classifier_dropout_prob: config.classifier_dropout_prob(),
        }
    }

    fn map_encoder(self, f: impl FnOnce(BertModel) -> BertModel) -> Self {
        Self { bert: f(self.bert), ..self }
    }
}

impl BertForMultipleChoice {
    /// Logits of a batch of questions with `choices` choices each, those of a question one after the other.
    ///
    /// # Shapes
    ///
    /// - input: `[batch * choices, seq]` each
    /// - output: `[batch, choices]`, for [`crate::classification_loss`]
    pub fn forward(&self, input: BertInput, choices: usize, mode: Mode) -> Tensor<2> {
        self.choose(self.bert.forward(input, mode).pooled_output, choices, mode)
    }

    /// The head alone.
    ///
    /// # Shapes
    ///
    /// - pooled: `[batch * choices, hidden]`
    /// - output: `[batch, choices]`
    pub fn choose(&self, pooled: Tensor<2>, choices: usize, mode: Mode) -> Tensor<2> {
        let [rows, _] = pooled.dims();
        let pooled = dropout(pooled, self.classifier_dropout_prob, mode.site(Site::Classifier));
        self.classifier.forward(pooled).reshape([rows / choices, choices])
    }
}
