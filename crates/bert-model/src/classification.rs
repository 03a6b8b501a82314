//! Classifiers: dropout on the pooled output or on every token's vector, then one dense layer.
//!
//! For sequences this is `create_model` of the reference's `run_classifier.py`; a regression has one output column.
//! The classes for choices and for tokens are those of `transformers`.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Int, Tensor};

use crate::architecture::Architecture;
use crate::attention::linear;
use crate::config::BertConfig;
use crate::dropout::{Mode, Site, dropout};
use crate::loss::cross_entropy_sum;
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

/// BERT with several classifiers on one pooled output.
#[derive(Module, Debug)]
pub struct BertForSeveralTasks {
    /// The encoder, of all of them.
    pub bert: BertModel,
    /// `hidden -> labels`, one for each task.
    pub classifiers: Vec<Linear>,
    classifier_dropout_prob: f64,
}

impl BertForSeveralTasks {
    /// A model of one task.
    pub fn new(first: BertForSequenceClassification) -> Self {
        let BertForSequenceClassification { bert, classifier, classifier_dropout_prob } = first;
        Self { bert, classifiers: vec![classifier], classifier_dropout_prob }
    }

    /// With the classifier of another task; its encoder is dropped.
    #[must_use]
    pub fn with_task(mut self, other: BertForSequenceClassification) -> Self {
        self.classifiers.push(other.classifier);
        self
    }

    /// The model of one task. Its parameters are these, so that its gradients are theirs.
    pub fn of_task(&self, task: usize) -> BertForSequenceClassification {
        BertForSequenceClassification {
            bert: self.bert.clone(),
            classifier: self.classifiers[task].clone(),
            classifier_dropout_prob: self.classifier_dropout_prob,
        }
    }
}

/// BERT with one score for each choice, as in SWAG: which of some endings belongs to a beginning.
///
/// Every choice is a sequence of its own, and the scores of a question's choices go through one softmax.
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

/// BERT with a classifier on every token, as in named-entity recognition.
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
