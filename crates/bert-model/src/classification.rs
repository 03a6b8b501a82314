//! Sequence classification and regression: dropout on the pooled output, then one dense layer.
//!
//! Ports `create_model` of the reference's `run_classifier.py`. A regression has one output column.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};

use crate::architecture::Architecture;
use crate::attention::linear;
use crate::config::BertConfig;
use crate::dropout::{Mode, Site, dropout};
use crate::model::{BertInput, BertModel};

/// BERT with a classifier on the pooled output.
#[derive(Module, Debug)]
pub struct BertForSequenceClassification {
    /// The encoder.
    pub bert: BertModel,
    /// `hidden -> labels`.
    pub classifier: Linear,
    classifier_dropout_prob: f64,
}

impl Architecture for BertForSequenceClassification {
    const NAME: &'static str = "BertForSequenceClassification";

    fn zeroed(config: &BertConfig, device: &Device) -> Self {
        Self {
            bert: BertModel::zeroed(config, device),
            classifier: linear(config.hidden_size, config.num_labels, device),
            classifier_dropout_prob: config.classifier_dropout_prob(),
        }
    }

    fn map_encoder(self, f: impl FnOnce(BertModel) -> BertModel) -> Self {
        Self { bert: f(self.bert), ..self }
    }
}

impl BertForSequenceClassification {
    /// A classifier on an encoder.
    pub(crate) fn of(bert: BertModel, classifier: Linear, classifier_dropout_prob: f64) -> Self {
        Self { bert, classifier, classifier_dropout_prob }
    }

    pub(crate) fn classifier_dropout_prob(&self) -> f64 {
        self.classifier_dropout_prob
    }

    /// Logits of a batch.
    ///
    /// # Shapes
    ///
    /// - input: `[batch, seq]` each
    /// - output: `[batch, labels]`
    pub fn forward(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        let pooled = self.bert.forward(input, mode).pooled_output;
        self.classify(pooled, mode)
    }

    /// The head alone.
    ///
    /// # Shapes
    ///
    /// - pooled: `[batch, hidden]`
    /// - output: `[batch, labels]`
    pub fn classify(&self, pooled: Tensor<2>, mode: Mode) -> Tensor<2> {
        let pooled = dropout(pooled, self.classifier_dropout_prob, mode.site(Site::Classifier));
        self.classifier.forward(pooled)
    }

    /// Logits with the encoder frozen: no gradient reaches it and nothing is dropped in it, while the head
    /// follows `mode`. Its pooled outputs are the same each time and may be kept ([`Self::pooled`]).
    ///
    /// # Shapes
    ///
    /// - input: `[batch, seq]` each
    /// - output: `[batch, labels]`
    pub fn forward_frozen(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        self.classify(self.pooled(input), mode)
    }

    /// The pooled outputs of the frozen encoder.
    ///
    /// # Shapes
    ///
    /// - input: `[batch, seq]` each
    /// - output: `[batch, hidden]`
    pub fn pooled(&self, input: BertInput) -> Tensor<2> {
        self.bert.forward(input, Mode::Eval).pooled_output.detach()
    }
}
