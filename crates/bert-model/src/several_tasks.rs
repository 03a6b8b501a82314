//! One encoder, a classifier for each of several tasks.

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
    /// The encoder of the first model and the classifier of each.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn new(models: Vec<BertForSequenceClassification>) -> Self {
        let first = models.first().expect("a model");
        let (bert, classifier_dropout_prob) = (first.bert.clone(), first.classifier_dropout_prob());
        let classifiers = models.into_iter().map(|model| model.classifier).collect();
        Self { bert, classifiers, classifier_dropout_prob }
    }

    /// The model of one task. Its parameters are these, so that its gradients are theirs.
    pub fn of_task(&self, task: usize) -> BertForSequenceClassification {
        let classifier = self.classifiers[task].clone();
        BertForSequenceClassification::of(self.bert.clone(), classifier, self.classifier_dropout_prob)
    }
}
