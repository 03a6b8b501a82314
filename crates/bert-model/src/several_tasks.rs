//! One encoder with a classifier for each of several tasks.

use burn::module::Module;
use burn::nn::Linear;

use crate::classification::BertForSequenceClassification;
use crate::model::BertModel;

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
        let classifier_dropout_prob = first.classifier_dropout_prob();
        Self { bert: first.bert, classifiers: vec![first.classifier], classifier_dropout_prob }
    }

    /// With the classifier of another task; its encoder is dropped.
    #[must_use]
    pub fn with_task(mut self, other: BertForSequenceClassification) -> Self {
        self.classifiers.push(other.classifier);
        self
    }

    /// The model of one task. Its parameters are these, so that its gradients are theirs.
    pub fn of_task(&self, task: usize) -> BertForSequenceClassification {
        let classifier = self.classifiers[task].clone();
        BertForSequenceClassification::of(self.bert.clone(), classifier, self.classifier_dropout_prob)
    }
}
