//! Token classification, as in named-entity recognition.
//!
//! Ports `BertForTokenClassification` of `transformers`: dropout on every token's vector, then one dense layer.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Int, Tensor};

use crate::architecture::Architecture;
use crate::attention::linear;
use crate::config::BertConfig;
use crate::dropout::{Mode, Site, dropout};
use crate::loss::cross_entropy_sum;
use crate::model::{BertInput, BertModel};

/// BERT with a classifier on every token.
#[derive(Module, Debug)]
pub struct BertForTokenClassification {
    /// The encoder.
    pub bert: BertModel,
    /// `hidden -> labels`.
    pub classifier: Linear,
    classifier_dropout_prob: f64,
}

impl Architecture for BertForTokenClassification {
    const NAME: &'static str = "BertForTokenClassification";

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

impl BertForTokenClassification {
    /// Logits of a batch; padding has some too.
    ///
    /// # Shapes
    ///
    /// - input: `[batch, seq]` each
    /// - output: `[batch, seq, labels]`
    pub fn forward(&self, input: BertInput, mode: Mode) -> Tensor<3> {
        self.tag(self.bert.sequence_output(input, mode), mode)
    }

    /// [`Self::forward`] with the encoder frozen: no gradient reaches it and nothing is dropped in it.
    pub fn forward_frozen(&self, input: BertInput, mode: Mode) -> Tensor<3> {
        self.tag(self.bert.sequence_output(input, Mode::Eval).detach(), mode)
    }

    fn tag(&self, sequence: Tensor<3>, mode: Mode) -> Tensor<3> {
        let sequence = dropout(sequence, self.classifier_dropout_prob, mode.site(Site::Classifier));
        self.classifier.forward(sequence)
    }
}

/// The mean cross-entropy of the tokens that have a label, divided by their number in the global batch.
///
/// # Shapes
///
/// - logits: `[batch, seq, classes]`
/// - places: `[n]`, `row * seq + place` of each token with a label; labels: `[n]`
/// - output: `[1]`
pub fn token_loss(
    logits: Tensor<3>,
    places: Tensor<1, Int>,
    labels: Tensor<1, Int>,
    tokens: f64,
) -> Tensor<1> {
    let [batch, seq, classes] = logits.dims();
    let rows = logits.reshape([batch * seq, classes]).select(0, places); // [n, classes]
    cross_entropy_sum(rows, labels).div_scalar(tokens)
}
