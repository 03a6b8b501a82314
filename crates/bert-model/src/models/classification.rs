//! Classifiers: dropout on the pooled output or on every token's vector, then one dense layer.
//!
//! The sequence classifier is `create_model` of the reference's `run_classifier.py`; a regression has one output
//! column. The multiple-choice and token classifiers follow `transformers`.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Int, Tensor};

use crate::config::BertConfig;
use crate::layers::dropout::{Mode, Site, dropout};
use crate::layers::linear::linear;
use crate::models::architecture::Architecture;
use crate::models::bert::{BertInput, BertModel};
use crate::models::pretraining::cross_entropy_sum;

/// Defines a model with one classifier: the struct, and its [`Architecture`] with the number of outputs.
macro_rules! with_classifier {
    ($(#[$doc:meta])* $model:ident, $outputs:expr) => {
        $(#[$doc])*
        #[derive(Module, Debug)]
        pub struct $model {
            /// The encoder.
            pub bert: BertModel,
            /// `hidden -> labels`; 1 output for multiple choice.
            pub classifier: Linear,
            classifier_dropout_prob: f64,
        }

        impl Architecture for $model {
            const NAME: &'static str = stringify!($model);

            fn zeroed(config: &BertConfig, device: &Device) -> Self {
                let outputs: fn(&BertConfig) -> usize = $outputs;
                Self {
                    bert: BertModel::zeroed(config, device),
                    classifier: linear(config.hidden_size, outputs(config), device),
                    classifier_dropout_prob: config.classifier_dropout_prob(),
                }
            }

            fn map_encoder(self, f: impl FnOnce(BertModel) -> BertModel) -> Self {
                Self { bert: f(self.bert), ..self }
            }
        }

        impl $model {
            /// Applies dropout and the classifier.
            fn logits<const D: usize>(&self, states: Tensor<D>, mode: Mode) -> Tensor<D> {
                let key = mode.site(Site::Classifier);
                self.classifier.forward(dropout(states, self.classifier_dropout_prob, key))
            }
        }
    };
}

with_classifier! {
    /// BERT with a classifier on the pooled output.
    BertForSequenceClassification, |config| config.num_labels
}

with_classifier! {
    /// BERT with one score for each choice, as in SWAG: selects the ending that belongs to a beginning.
    ///
    /// Every choice is a separate sequence, and the scores of a question's choices go through one softmax.
    BertForMultipleChoice, |_| 1
}

with_classifier! {
    /// BERT with a classifier on every token, as in named-entity recognition.
    BertForTokenClassification, |config| config.num_labels
}

impl BertForSequenceClassification {
    /// Returns the logits of a batch.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `[batch, labels]`
    pub fn forward(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        self.classify(self.bert.pooled_output(input, mode), mode)
    }

    /// Applies the head to pooled outputs and returns the logits.
    ///
    /// # Shapes
    /// - pooled: `[batch, hidden]`
    /// - output: `[batch, labels]`
    pub fn classify(&self, pooled: Tensor<2>, mode: Mode) -> Tensor<2> {
        self.logits(pooled, mode)
    }

    /// Returns the logits with the encoder frozen: it receives no gradient and applies no dropout, while the head
    /// follows `mode`. The encoder's pooled outputs never change and can be cached ([`Self::pooled`]).
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `[batch, labels]`
    pub fn forward_frozen(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        self.classify(self.pooled(input), mode)
    }

    /// Returns the pooled outputs of the frozen encoder.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `[batch, hidden]`
    pub fn pooled(&self, input: BertInput) -> Tensor<2> {
        self.bert.pooled_output(input, Mode::Eval).detach()
    }
}

/// BERT with several classifiers on one pooled output.
#[derive(Module, Debug)]
pub struct BertForSeveralTasks {
    /// The shared encoder.
    pub bert: BertModel,
    /// `hidden -> labels`, one for each task.
    pub classifiers: Vec<Linear>,
    classifier_dropout_prob: f64,
}

impl BertForSeveralTasks {
    /// Creates a model with one task.
    pub fn new(first: BertForSequenceClassification) -> Self {
        let BertForSequenceClassification { bert, classifier, classifier_dropout_prob } = first;
        Self { bert, classifiers: vec![classifier], classifier_dropout_prob }
    }

    /// Adds the classifier of another task and drops that task's encoder.
    #[must_use]
    pub fn with_task(mut self, other: BertForSequenceClassification) -> Self {
        self.classifiers.push(other.classifier);
        self
    }

    /// Returns the model of one task. It shares its parameters with this model, so its gradients apply to both.
    pub fn single(&self, task: usize) -> BertForSequenceClassification {
        BertForSequenceClassification {
            bert: self.bert.clone(),
            classifier: self.classifiers[task].clone(),
            classifier_dropout_prob: self.classifier_dropout_prob,
        }
    }
}

impl BertForMultipleChoice {
    /// Returns the logits of a batch of questions with `choices` choices each. The choices of a question are
    /// consecutive rows.
    ///
    /// # Shapes
    /// - input: `[batch * choices, seq]` each
    /// - output: `[batch, choices]`, for [`crate::classification_loss`]
    pub fn forward(&self, input: BertInput, choices: usize, mode: Mode) -> Tensor<2> {
        self.choose(self.bert.pooled_output(input, mode), choices, mode)
    }

    /// Applies the head to pooled outputs and returns the logits.
    ///
    /// # Shapes
    /// - pooled: `[batch * choices, hidden]`
    /// - output: `[batch, choices]`
    pub fn choose(&self, pooled: Tensor<2>, choices: usize, mode: Mode) -> Tensor<2> {
        let [rows, _] = pooled.dims();
        self.logits(pooled, mode).reshape([rows / choices, choices])
    }
}

impl BertForTokenClassification {
    /// Returns the logits of a batch, including the padding.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `[batch, seq, labels]`
    pub fn forward(&self, input: BertInput, mode: Mode) -> Tensor<3> {
        self.logits(self.bert.sequence_output(input, mode), mode)
    }

    /// Returns the logits like [`Self::forward`], with the encoder frozen: it receives no gradient and applies no
    /// dropout.
    pub fn forward_frozen(&self, input: BertInput, mode: Mode) -> Tensor<3> {
        self.logits(self.bert.sequence_output(input, Mode::Eval).detach(), mode)
    }
}

/// Returns the summed cross-entropy of the labelled tokens, divided by their number in the global batch.
///
/// # Shapes
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
