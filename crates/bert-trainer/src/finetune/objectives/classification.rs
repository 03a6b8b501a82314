//! Implements classification and regression of a text or a text pair, and multiple choice.

use std::path::Path;

use bert_model::{
    Architecture, BertConfig, BertForMultipleChoice, BertForSequenceClassification, BertInput, BertModel,
    BertWithFeatureHead, Mode, classification_loss, regression_loss,
};
use bert_storage::digest_bytes;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use super::scale::Scale;
use super::{Objective, Part};
use crate::compute::host_tensors::int_vector;
use crate::encoding::classifier::{Classifier, EVAL_BATCH, decide, predict_unless_stopped};
use crate::encoding::examples::{ClassificationBatch, Features};
use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::Error;
use crate::finetune::model::adapters;
use crate::finetune::model::adapters::FusionReport;
use crate::finetune::model::pretrained::Setup;
use crate::finetune::objectives::datasets::{Purpose, Sets};
use crate::finetune::output::{DEV_LABELS, Output};
use crate::training::stop_flag::{StopFlag, StopRequested};
use bert_tasks::statistics::{Calibration, SeedRun, SeedSummary, calibration};
use bert_tasks::{
    Example, Kind, Label, Scores, Task, confusion, is_degenerate, labels_of, majority_baseline, read_file,
    score, write_errors, write_labels, write_predictions, write_probabilities,
};

impl Classifier for BertWithFeatureHead {
    /// Evaluation mode: the encoder is frozen.
    fn features(&self, input: BertInput, _mode: Mode) -> Tensor<2> {
        BertWithFeatureHead::features(self, input)
    }

    fn features_are_fixed(&self) -> bool {
        self.has_fixed_features()
    }

    fn logits(&self, features: Tensor<2>, _per_example: usize, mode: Mode) -> Tensor<2> {
        self.classify(features, mode)
    }

    fn classifier(&mut self) -> &mut Linear {
        &mut self.classifier
    }
}

impl Classifier for BertForSequenceClassification {
    fn features(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        self.bert.forward(input, mode).pooled_output
    }

    fn logits(&self, features: Tensor<2>, _per_example: usize, mode: Mode) -> Tensor<2> {
        self.classify(features, mode)
    }

    fn classifier(&mut self) -> &mut Linear {
        &mut self.classifier
    }
}

impl Classifier for BertForMultipleChoice {
    fn features(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        self.bert.forward(input, mode).pooled_output
    }

    fn logits(&self, features: Tensor<2>, per_example: usize, mode: Mode) -> Tensor<2> {
        self.choose(features, per_example, mode)
    }

    fn classifier(&mut self) -> &mut Linear {
        &mut self.classifier
    }
}

/// Features that only some classifiers support: an adapter in the encoder.
pub(in crate::finetune) trait Adapts: Classifier {
    /// Returns the model with a new adapter, if requested. `fresh` names the tensors that the checkpoint lacks.
    ///
    /// # Errors
    /// When the adapter does not fit the model.
    fn adapted(self, _setup: Setup<'_>, _fresh: &[&String], _seed: u64) -> Result<Self, Error> {
        Ok(self)
    }

    /// Returns the encoder, if it may have fused adapters.
    fn fused_encoder(&self) -> Option<&BertModel> {
        None
    }

    /// Writes the fine-tuned model, or its adapter.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn save(&self, setup: Setup<'_>, output: &Output, config: &BertConfig) -> Result<(), Error> {
        output.save_model("model", self, config, &setup.opened.text)
    }
}

impl Adapts for BertForSequenceClassification {
    fn adapted(self, setup: Setup<'_>, fresh: &[&String], seed: u64) -> Result<Self, Error> {
        adapters::attached(setup, self, fresh, seed)
    }

    fn save(&self, setup: Setup<'_>, output: &Output, config: &BertConfig) -> Result<(), Error> {
        adapters::save(output, setup, self, config)
    }

    fn fused_encoder(&self) -> Option<&BertModel> {
        Some(&self.bert)
    }
}

impl Adapts for BertForMultipleChoice {}

impl Adapts for BertWithFeatureHead {}

/// Examples as text and as tokens, with their labels if they have any.
pub(in crate::finetune) struct LabelledSplit {
    examples: Vec<Example>,
    labels: Vec<Label>,
    features: Features,
}

/// A model's predictions for labelled examples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::finetune) struct LabelAnswers {
    labels: Vec<Label>,
    /// Class probabilities, or the score.
    outputs: Vec<Vec<f32>>,
}

/// The objective of a task with classes or scores.
pub(in crate::finetune) struct Labels<'a, M> {
    sets: Sets<'a, LabelledSplit>,
    scale: Option<Scale>,
    model: std::marker::PhantomData<M>,
}

impl<'a, M: Classifier> Labels<'a, M> {
    /// Reads the task's files.
    ///
    /// # Errors
    /// When a file is missing or invalid; the error names the line.
    pub(in crate::finetune) fn read(setup: Setup<'a>) -> Result<Self, Error> {
        let task = setup.config.task;
        let read = |path: &Path, purpose| Ok(read_file(task, path, purpose != Purpose::Predict)?);
        let set = |examples: Vec<Example>| {
            let labels = labels_of(&examples).unwrap_or_default();
            let ModelTokenizer { tokenizer, vocabulary, .. } = &setup.opened.text;
            let features = Features::new(&examples, tokenizer, vocabulary, setup.max_seq_length);
            LabelledSplit { examples, labels, features }
        };
        let mut sets = Sets::read(setup, read, set)?;
        sets.notes = constant_labels(&sets);
        let scale = setup.config.regression.then(|| Scale::of(&sets.train.labels));
        Ok(Self { sets, scale, model: std::marker::PhantomData })
    }

    /// Returns the model with outputs in the unit of the labels.
    fn in_units(&self, model: &M) -> M
    where
        M: Clone,
    {
        let mut model = model.clone();
        if let Some(scale) = self.scale {
            scale.restore(model.classifier());
        }
        model
    }

    fn task(&self) -> Task {
        self.sets.setup.config.task
    }

    fn kind(&self) -> Kind {
        self.task().spec().kind
    }
}

/// Returns warnings about sets whose labels are all equal: nothing can be learned from such a training set, and scores
/// on such a dev set mean little.
fn constant_labels(sets: &Sets<'_, LabelledSplit>) -> Vec<String> {
    let parts = sets.parts.iter().map(|(part, set)| (part.to_string(), set));
    let all = [("the training set".to_string(), &sets.train)].into_iter().chain(parts);
    let constant = all.filter(|(_, set)| is_degenerate(&set.labels) && !set.labels.is_empty());
    constant.map(|(name, set)| format!("all {} labels of {name} are equal", set.labels.len())).collect()
}

impl<M: Adapts> Objective for Labels<'_, M> {
    type Model = M;
    type Set = LabelledSplit;
    type Batch = ClassificationBatch;
    type Answers = LabelAnswers;

    fn sets(&self) -> &Sets<'_, LabelledSplit> {
        &self.sets
    }

    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        let spec = self.task().spec();
        let checkpoint = match self.setup().config.feature_head() {
            Some(head) => checkpoint.with_feature_head(head),
            None => checkpoint.without_feature_head(),
        };
        match spec.kind {
            // Multiple choice: one output per choice.
            Kind::Classification { .. } if spec.choices > 0 => checkpoint,
            Kind::Classification { labels } if spec.class_names.is_empty() => checkpoint.with_labels(labels),
            Kind::Classification { .. } => checkpoint.with_labels(spec.class_names),
            _ => checkpoint.with_regression(),
        }
    }

    fn items(&self) -> usize {
        self.sets.train.features.len()
    }

    fn sequences_per_item(&self) -> usize {
        self.sets.train.features.per_example()
    }

    fn micro_batch(&self, items: &[usize], whole: &[usize]) -> (ClassificationBatch, usize) {
        let features = &self.sets.train.features;
        (features.batch_of_length(items.to_vec(), features.padded_length(whole)), items.len())
    }

    /// The outputs are the same in every epoch, because the encoder is in evaluation mode; they are computed once.
    fn frozen_outputs(&self, model: &M, stop: &StopFlag) -> Result<Option<Tensor<2>>, StopRequested> {
        if !self.setup().config.freeze_encoder || !model.features_are_fixed() {
            return Ok(None);
        }
        all_features(model, &self.sets.train.features, &self.setup().opened.plain(), stop).map(Some)
    }

    fn loss(
        &self,
        model: &M,
        frozen: Option<&Tensor<2>>,
        batch: &ClassificationBatch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1> {
        let device = &self.setup().opened.device;
        let features = match frozen {
            Some(table) => table.clone().select(0, batch.rows(device)),
            None => model.features(batch.input(device), mode),
        };
        let logits = model.logits(features, self.sets.train.features.per_example(), mode);
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
        match model.fused_encoder().and_then(BertModel::fusion_distance) {
            Some(distance) => loss + distance.mul_scalar(adapters::REGULARIZATION * share),
            None => loss,
        }
    }

    /// Loss of a uniform prediction for classes, or of predicting zero for scores.
    fn guessing_loss(&self) -> f64 {
        let spec = self.task().spec();
        if let (Kind::Regression { .. }, None) = (spec.kind, self.scale) {
            let square = |label: &Label| match label {
                Label::Score(score) => f64::from(*score).powi(2),
                Label::Class(_) => 0.0,
            };
            let labels = &self.sets.train.labels;
            return labels.iter().map(square).sum::<f64>() / labels.len() as f64;
        }
        match spec.kind {
            Kind::Regression { .. } => 1.0,
            _ => (spec.choices.max(spec.num_labels()).max(2) as f64).ln(),
        }
    }

    fn answer(&self, model: &M, set: &LabelledSplit, stop: &StopFlag) -> Result<LabelAnswers, StopRequested> {
        let (model, device) = (self.in_units(model), self.setup().opened.plain());
        let outputs = predict_unless_stopped(&model, &set.features, self.kind(), &device, stop)?;
        Ok(LabelAnswers { labels: decide(&outputs, self.kind()), outputs })
    }

    fn score(&self, set: &LabelledSplit, answers: &LabelAnswers) -> Scores {
        score(self.task(), &answers.labels, &set.labels)
    }

    fn is_degenerate(&self, answers: &LabelAnswers) -> bool {
        is_degenerate(&answers.labels)
    }

    fn confusion(&self, dev: &LabelAnswers) -> Option<Vec<Vec<u64>>> {
        confusion(self.task(), &dev.labels, &self.part(Part::Dev).labels)
    }

    /// Returns a remark on scores outside the range to which prediction files clip them.
    fn remark(&self, dev: &LabelAnswers) -> Option<String> {
        let Kind::Regression { min, max } = self.kind() else { return None };
        let is_outside =
            |label: &&Label| matches!(label, Label::Score(score) if !(min..=max).contains(score));
        let (outside, all) = (dev.labels.iter().filter(is_outside).count(), dev.labels.len());
        (2 * outside > all).then(|| {
            format!(
                "{outside} of {all} predictions on dev are outside the range of the labels, {min} to {max}; files of \
                 predictions clip them"
            )
        })
    }

    fn calibration(&self, dev: &LabelAnswers) -> Option<Calibration> {
        calibration(&self.part(Part::Dev).labels, &dev.labels, &dev.outputs)
    }

    fn summary(&self, set: &LabelledSplit, runs: Vec<SeedRun>, answers: &[&LabelAnswers]) -> SeedSummary {
        let majority = majority_baseline(self.task(), &set.labels);
        let answers: Vec<&[Label]> = answers.iter().map(|answers| answers.labels.as_slice()).collect();
        let summary = SeedSummary::new(self.task(), set.examples.len(), runs, majority);
        summary.with_interval(&set.labels, &answers)
    }

    /// Hashes texts and labels, in order.
    fn digest(set: &LabelledSplit) -> String {
        let mut bytes = Vec::new();
        for Example { index: _, text_a, text_b, choices, label } in &set.examples {
            // Debug quotes keep the fields apart.
            bytes.extend(format!("{text_a:?} {text_b:?} {label:?}\n").into_bytes());
            if !choices.is_empty() {
                bytes.extend(format!("{choices:?}\n").into_bytes());
            }
        }
        digest_bytes(&bytes)
    }

    fn prepared(&self, model: M, fresh: &[&String], seed: u64) -> Result<M, Error> {
        model.adapted(self.setup(), fresh, seed)
    }

    fn fusion(&self, model: &M) -> Result<Option<FusionReport>, Error> {
        let folders = &self.setup().config.fusion;
        match model.fused_encoder().filter(|_| !folders.is_empty()) {
            Some(encoder) => {
                let dev = &self.part(Part::Dev).features;
                adapters::fusion_report(folders, encoder, dev, &self.setup().opened.plain()).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Writes predictions and probabilities, and the errors if the examples have labels.
    fn write(
        &self,
        output: &Output,
        stem: &str,
        LabelledSplit { examples, .. }: &LabelledSplit,
        LabelAnswers { labels, outputs }: &LabelAnswers,
    ) -> Result<(), Error> {
        let (task, name) = (self.task(), |what: &str| format!("{stem}{what}.tsv"));
        output.write(&name("predictions"), |out| write_predictions(out, task, examples, labels))?;
        output.write(&name("probabilities"), |out| write_probabilities(out, outputs))?;
        if examples.iter().all(|example| example.label.is_some()) {
            output.write(&name("errors"), |out| write_errors(out, task, examples, labels, outputs))?;
        }
        Ok(())
    }

    fn write_dev_labels(&self, output: &Output) -> Result<(), Error> {
        output.write(DEV_LABELS, |out| write_labels(out, self.task(), &self.part(Part::Dev).examples))
    }

    fn save_model(&self, output: &Output, model: &M, model_config: &BertConfig) -> Result<(), Error> {
        self.in_units(model).save(self.setup(), output, model_config)
    }
}

/// Returns the features of all sequences, grouped by example, `[sequences, features]`, with autodiff.
///
/// # Errors
/// [`StopRequested`] when a stop is requested before the last batch.
fn all_features<M: Classifier>(
    model: &M,
    features: &Features,
    plain: &Device,
    stop: &StopFlag,
) -> Result<Tensor<2>, StopRequested> {
    let per_example = features.per_example() as i32;
    let mut parts = Vec::new();
    let mut place = vec![0i32; features.len() * features.per_example()];
    let mut done = 0;
    for examples in features.by_length(EVAL_BATCH) {
        stop.check()?;
        let batch = features.batch(examples);
        for &example in &batch.examples {
            for choice in 0..per_example {
                place[example * per_example as usize + choice as usize] = done;
                done += 1;
            }
        }
        parts.push(model.features(batch.input(plain), Mode::Eval));
    }
    let rows = int_vector(&place, plain);
    Ok(Tensor::cat(parts, 0).select(0, rows).autodiff())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lowest_class() {
        let kind = Kind::Classification { labels: &["a", "b", "c"] };
        let rows = [vec![0.4, 0.4, 0.2], vec![0.1, 0.2, 0.7]];
        assert_eq!(decide(&rows, kind), [Label::Class(0), Label::Class(2)]);
    }
}
