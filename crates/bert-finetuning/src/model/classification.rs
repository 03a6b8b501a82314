//! The model of classification, regression and multiple choice.

use bert_inference::Error;
use bert_inference::compute::host_tensors::int_vector;
use bert_inference::compute::stop_flag::{StopFlag, StopRequested};
use bert_inference::encoding::classifier::{ClassifierModel, EVAL_BATCH};
use bert_inference::encoding::examples::{ClassificationBatch, Features};
use bert_model::{
    BertConfig, BertForMultipleChoice, BertForSequenceClassification, BertWithFeatureHead, Mode,
    classification_loss, regression_loss,
};
use bert_tasks::{Kind, Label};
use burn::tensor::{Device, Tensor};

use crate::data::TaskData;
use crate::data::classification::Classification;
use crate::model::adapters::{FUSION_REGULARIZATION, with_adapters};
use crate::model::{MicroBatch, TaskModel};
use crate::setup::Setup;

/// Support for adapters in the encoder, which only some classifiers have.
pub(crate) trait AdapterSupport: ClassifierModel {
    /// Returns the model with a new adapter, if requested. `fresh` names the tensors that the checkpoint lacks.
    fn with_adapters(self, _setup: Setup<'_>, _fresh: &[&String], _seed: u64) -> Result<Self, Error> {
        Ok(self)
    }

    /// Returns the model, if its class supports adapters.
    fn as_sequence_classifier(&self) -> Option<&BertForSequenceClassification> {
        None
    }
}

impl AdapterSupport for BertForSequenceClassification {
    fn with_adapters(self, setup: Setup<'_>, fresh: &[&String], seed: u64) -> Result<Self, Error> {
        with_adapters(setup, self, fresh, seed)
    }

    fn as_sequence_classifier(&self) -> Option<&BertForSequenceClassification> {
        Some(self)
    }
}

impl AdapterSupport for BertForMultipleChoice {}

impl AdapterSupport for BertWithFeatureHead {}

impl<M: AdapterSupport> Classification<'_, M> {
    /// Returns the model with outputs in the unit of the labels.
    pub(crate) fn with_original_scale(&self, model: &M) -> M {
        let mut model = model.clone();
        if let Some(scale) = self.scale {
            scale.restore(model.classifier());
        }
        model
    }
}

impl<M: AdapterSupport> TaskModel for Classification<'_, M> {
    type Model = M;
    type Batch = ClassificationBatch;

    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        let spec = self.task().spec();
        let checkpoint = match self.setup().config.feature_head() {
            Some(head) => checkpoint.with_feature_head(head),
            None => checkpoint.without_feature_head(),
        };
        match spec.kind {
            // Multiple choice: one output per choice.
            Kind::Classification if spec.choices > 0 => checkpoint,
            Kind::Classification => checkpoint.with_labels(&self.task().class_names().collect::<Vec<_>>()),
            _ => checkpoint.with_regression(),
        }
    }

    fn prepared(&self, model: M, fresh: &[&String], seed: u64) -> Result<M, Error> {
        model.with_adapters(self.setup(), fresh, seed)
    }

    fn sequences_per_item(&self) -> usize {
        self.sets().train.features.per_example()
    }

    fn micro_batch(&self, items: &[usize], whole: &[usize]) -> MicroBatch<ClassificationBatch> {
        let features = &self.sets().train.features;
        let batch = features.batch_of_length(items.to_vec(), features.padded_length(whole));
        MicroBatch { batch, targets: items.len() }
    }

    /// The outputs are the same in every epoch, because the encoder is in evaluation mode; they are computed once.
    fn frozen_outputs(&self, model: &M, stop: &StopFlag) -> Result<Option<Tensor<2>>, StopRequested> {
        let Setup { config, checkpoint, .. } = self.setup();
        if !config.freeze_encoder || !model.features_are_fixed() {
            return Ok(None);
        }
        let features = &self.sets().train.features;
        all_features(model, features, &checkpoint.inference_device(), stop).map(Some)
    }

    fn loss(
        &self,
        model: &M,
        frozen: Option<&Tensor<2>>,
        batch: &ClassificationBatch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1> {
        let device = &self.setup().checkpoint.device;
        let features = match frozen {
            Some(table) => table.clone().select(0, batch.rows(device)),
            None => model.features(batch.input(device), mode),
        };
        let logits = model.logits(features, self.sequences_per_item(), mode);
        let loss = match self.kind() {
            Kind::Regression { .. } => {
                let scores =
                    batch.scores(device, |score| self.scale.map_or(score, |scale| scale.apply(score)));
                regression_loss(logits, scores, targets as f64)
            }
            _ => classification_loss(logits, batch.classes(device), targets as f64),
        };
        // The regularizer counts once per step, so each micro-batch adds its share.
        let share = batch.examples.len() as f64 / targets as f64;
        let distance = model.as_sequence_classifier().and_then(|model| model.bert.fusion_distance());
        match distance {
            Some(distance) => loss + distance.mul_scalar(FUSION_REGULARIZATION * share),
            None => loss,
        }
    }

    /// Loss of a uniform prediction for classes, or of predicting zero for scores.
    fn uniform_loss(&self) -> f64 {
        let spec = self.task().spec();
        match (spec.kind, self.scale) {
            (Kind::Regression { .. }, Some(_)) => 1.0,
            (Kind::Regression { .. }, None) => {
                let square = |label: &Label| match label {
                    Label::Score(score) => f64::from(*score).powi(2),
                    Label::Class(_) => 0.0,
                };
                let labels = &self.sets().train.labels;
                labels.iter().map(square).sum::<f64>() / labels.len() as f64
            }
            _ => (spec.choices.max(self.task().num_labels()).max(2) as f64).ln(),
        }
    }
}

/// Returns the features of all sequences, grouped by example, `[sequences, features]`, with autodiff.
fn all_features<M: ClassifierModel>(
    model: &M,
    features: &Features,
    device: &Device,
    stop: &StopFlag,
) -> Result<Tensor<2>, StopRequested> {
    let per_example = features.per_example();
    let mut parts = Vec::new();
    let mut rows = vec![0i32; features.len() * per_example];
    let mut done = 0;
    for examples in features.by_length(EVAL_BATCH) {
        stop.check()?;
        let batch = features.batch(examples);
        for &example in &batch.examples {
            for row in &mut rows[example * per_example..][..per_example] {
                *row = done;
                done += 1;
            }
        }
        parts.push(model.features(batch.input(device), Mode::Eval));
    }
    let rows = int_vector(&rows, device);
    Ok(Tensor::cat(parts, 0).select(0, rows).autodiff())
}
