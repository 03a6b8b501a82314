//! Classification, regression and multiple choice: the labelled examples as text and as tokens, remarks on them, and the
//! features of a frozen encoder, which are computed once for all epochs.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::path::Path;

use bert_inference::examples::{ClassifierModel, EVAL_BATCH, decide, predict};
use bert_inference::host_tensors::int_vector;
use bert_inference::{ClassificationBatch, Features, ModelTokenizer, StopFlag};
use bert_model::{BertConfig, Mode, classification_loss, regression_loss};
use bert_storage::digest_bytes;
use bert_task_files::read_examples;
use bert_tasks::{
    Calibration, Example, Kind, Label, Scores, SeedRun, SeedSummary, Task, calibration, confusion,
    constant_baseline, is_degenerate, labels_of, score, write_errors, write_labels, write_predictions,
    write_probabilities,
};
use bert_training::Error;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::data::datasets::{Part, RowExamples, Sets};
use crate::data::label_scale::LabelScale;
use crate::data::text_hashes::SharedTexts;
use crate::files::adapters::{FusionReport, fusion_report, save_with_adapters};
use crate::files::folder::{DEV_LABELS, OutputFolder};
use crate::kinds::{FinetuneTask, MicroBatch};
use crate::model::adapters::{AdapterSupport, FUSION_REGULARIZATION};
use crate::setup::Setup;

/// A task that predicts a class or a score with the model `M`.
pub(crate) struct Classification<'a, M> {
    sets: Sets<'a, LabelledExamples>,
    /// The scale of the training scores, for a standardized regression.
    pub(crate) scale: Option<LabelScale>,
    model: PhantomData<M>,
}

impl<'a, M> Classification<'a, M> {
    /// Reads the task's files.
    ///
    /// # Errors
    /// Fails when a file is missing or invalid; the error names the line.
    pub(crate) fn read(setup: Setup<'a>) -> Result<Self, Error> {
        let task = &setup.config.task;
        let read = |path: &Path, labels, _| read_examples(task, path, labels);
        Ok(Self::from_sets(Sets::read(setup, read, |examples| LabelledExamples::new(examples, setup))?))
    }

    /// Takes examples in memory, or reads the task's files.
    ///
    /// # Errors
    /// Fails as [`Sets::new`] does for examples in memory, and as [`Self::read`] does for files.
    pub(crate) fn open(setup: Setup<'a>, rows: Option<RowExamples>) -> Result<Self, Error> {
        let Some(RowExamples { train, dev }) = rows else { return Self::read(setup) };
        let set = |examples| LabelledExamples::new(examples, setup);
        Ok(Self::from_sets(Sets::new(setup, train, vec![(Part::Dev, dev)], set)?))
    }

    fn from_sets(mut sets: Sets<'a, LabelledExamples>) -> Self {
        let notes = remarks(&sets);
        sets.notes.extend(notes);
        let scale = sets.setup.config.table.regression.then(|| LabelScale::new(&sets.train.labels));
        Self { sets, scale, model: PhantomData }
    }

    /// Adds the texts that the scored sets share with other tasks, with remarks on them.
    ///
    /// # Errors
    /// Fails when a scored set is part of another set.
    pub(crate) fn add_shared_texts(&mut self, shared: Vec<SharedTexts>) -> Result<(), Error> {
        shared.iter().try_for_each(|shared| shared.check(self.sets.setup.config.allow_overlap))?;
        self.sets.notes.extend(shared.iter().filter_map(SharedTexts::warning));
        self.sets.shared_texts.extend(shared);
        Ok(())
    }

    pub(crate) fn task(&self) -> &Task {
        &self.sets.setup.config.task
    }

    pub(crate) fn kind(&self) -> Kind {
        self.task().spec().kind
    }
}

/// A model's predictions for labelled examples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LabelAnswers {
    pub(crate) labels: Vec<Label>,
    /// Class probabilities, or the score.
    pub(crate) outputs: Vec<Vec<f32>>,
}

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

impl<M: AdapterSupport> FinetuneTask for Classification<'_, M> {
    type Set = LabelledExamples;
    type Model = M;
    type Batch = ClassificationBatch;
    type Answers = LabelAnswers;

    fn sets(&self) -> &Sets<'_, LabelledExamples> {
        &self.sets
    }

    fn items(&self) -> usize {
        self.sets.train.features.count()
    }

    /// Returns the digest of the texts and labels, in order.
    fn digest(set: &LabelledExamples) -> String {
        let mut bytes = Vec::new();
        for Example { index: _, text_a, text_b, choices, label } in &set.examples {
            // The quotes of the Debug format separate the fields.
            bytes.extend(format!("{text_a:?} {text_b:?} {label:?}\n").into_bytes());
            if !choices.is_empty() {
                bytes.extend(format!("{choices:?}\n").into_bytes());
            }
        }
        digest_bytes(&bytes)
    }

    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        let spec = self.task().spec();
        let checkpoint = match self.setup().config.feature_head() {
            Some(head) => checkpoint.with_feature_head(head),
            None => checkpoint.without_feature_head(),
        };
        match spec.kind {
            // Multiple choice: one output per choice.
            Kind::Classification if spec.choices > 0 => checkpoint.without_outputs(),
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

    /// Returns the outputs of a frozen encoder, if the head needs nothing else. The encoder is in evaluation mode, so
    /// they are the same in every epoch and are computed once.
    fn frozen_outputs(&self, model: &M, stop: &StopFlag) -> Result<Option<Tensor<2>>, bert_inference::Error> {
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

    /// Returns the loss of a uniform prediction for classes, or of predicting zero for scores.
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

    fn answer(
        &self,
        model: &M,
        set: &LabelledExamples,
        stop: &StopFlag,
    ) -> Result<LabelAnswers, bert_inference::Error> {
        let model = self.with_original_scale(model);
        let device = self.setup().checkpoint.inference_device();
        let outputs = predict(&model, &set.features, self.kind(), &device, stop)?;
        let labels = decide(&outputs, self.kind()).into_iter().map(|label| self.task().as_written(label));
        Ok(LabelAnswers { labels: labels.collect(), outputs })
    }

    fn score(&self, set: &LabelledExamples, answers: &LabelAnswers) -> Scores {
        score(self.task(), &answers.labels, &set.labels)
    }

    fn is_degenerate(&self, set: &LabelledExamples, answers: &LabelAnswers) -> bool {
        is_degenerate(&answers.labels) && !is_degenerate(&set.labels)
    }

    /// Returns a remark if more than half of the predictions on dev are outside the range of the labels, to which they
    /// are clipped.
    fn remark(&self, dev: &LabelAnswers) -> Option<String> {
        let Kind::Regression { min, max } = self.kind() else { return None };
        let is_outside = |output: &&Vec<f32>| !(min..=max).contains(&output[0]);
        let outside = dev.outputs.iter().filter(is_outside).count();
        let all = dev.labels.len();
        (2 * outside > all).then(|| {
            format!(
                "{outside} of {all} predictions on dev are outside the range of the labels, {min} to {max}, and are \
                 clipped"
            )
        })
    }

    fn confusion(&self, dev: &LabelAnswers) -> Option<Vec<Vec<u64>>> {
        confusion(self.task(), &dev.labels, &self.part(Part::Dev).labels)
    }

    fn calibration(&self, dev: &LabelAnswers) -> Option<Calibration> {
        calibration(&self.part(Part::Dev).labels, &dev.labels, &dev.outputs)
    }

    fn summary(&self, set: &LabelledExamples, runs: Vec<SeedRun>, answers: &[&LabelAnswers]) -> SeedSummary {
        let baseline = constant_baseline(self.task(), &self.sets.train.labels, &set.labels);
        let answers: Vec<&[Label]> = answers.iter().map(|answers| answers.labels.as_slice()).collect();
        let summary = SeedSummary::new(self.task(), set.examples.len(), runs, baseline);
        summary.with_interval(&set.labels, &answers)
    }

    /// Writes predictions and probabilities, and the wrong predictions if the examples have labels.
    fn write_answers(
        &self,
        output: &OutputFolder,
        prefix: &str,
        LabelledExamples { examples, .. }: &LabelledExamples,
        LabelAnswers { labels, outputs }: &LabelAnswers,
    ) -> Result<(), Error> {
        let task = self.task();
        output.write(&format!("{prefix}predictions.tsv"), |out| {
            write_predictions(out, task, examples, labels)
        })?;
        output.write(&format!("{prefix}probabilities.tsv"), |out| write_probabilities(out, outputs))?;
        if examples.iter().all(|example| example.label.is_some()) {
            output.write(&format!("{prefix}errors.tsv"), |out| {
                write_errors(out, task, examples, labels, outputs)
            })?;
        }
        Ok(())
    }

    fn write_dev_labels(&self, output: &OutputFolder) -> Result<(), Error> {
        output.write(DEV_LABELS, |out| write_labels(out, self.task(), &self.part(Part::Dev).examples))
    }

    fn save_model(
        &self,
        output: &OutputFolder,
        prefix: &str,
        model: &M,
        model_config: &BertConfig,
    ) -> Result<(), Error> {
        let model = self.with_original_scale(model);
        match model.as_sequence_classifier() {
            Some(model) => save_with_adapters(output, prefix, self.setup(), model, model_config),
            None => output.save_model(prefix, &model, model_config, self.setup()),
        }
    }

    fn fusion(&self, model: &M) -> Result<Option<FusionReport>, Error> {
        let folders = &self.setup().config.adapters.fusion;
        match model.as_sequence_classifier().filter(|_| !folders.is_empty()) {
            Some(model) => {
                let dev = &self.part(Part::Dev).features;
                let device = self.setup().checkpoint.inference_device();
                fusion_report(folders, &model.bert, dev, &device).map(Some)
            }
            None => Ok(None),
        }
    }
}

/// Examples as text and as tokens, with their labels if they have any.
pub(crate) struct LabelledExamples {
    pub(crate) examples: Vec<Example>,
    pub(crate) labels: Vec<Label>,
    pub(crate) features: Features,
}

impl LabelledExamples {
    /// Tokenizes examples.
    pub(crate) fn new(examples: Vec<Example>, setup: Setup<'_>) -> Self {
        let labels = labels_of(&examples).unwrap_or_default();
        let ModelTokenizer { tokenizer, vocabulary, .. } = &setup.checkpoint.tokenizer;
        let features = Features::new(&examples, tokenizer, vocabulary, setup.max_seq_length);
        Self { examples, labels, features }
    }
}

/// Returns the remarks on all sets.
pub(crate) fn remarks(sets: &Sets<'_, LabelledExamples>) -> Vec<String> {
    [truncated_texts(sets), constant_labels(sets), repeated_indices(sets)].concat()
}

/// Returns the messages about texts that are cut, and about texts with special tokens, in each set.
fn truncated_texts(sets: &Sets<'_, LabelledExamples>) -> Vec<String> {
    let split = sets.setup.checkpoint.tokenizer.settings.split_special_tokens;
    let messages = sets
        .with_names()
        .flat_map(|(name, set)| set.features.truncation().messages(&name, sets.setup.max_seq_length, split));
    messages.collect()
}

/// Returns warnings about sets whose labels are all equal: nothing can be learned from such a training set, and scores
/// on such a dev set mean little.
fn constant_labels(sets: &Sets<'_, LabelledExamples>) -> Vec<String> {
    let all = sets.with_names();
    let constant = all.filter(|(_, set)| is_degenerate(&set.labels) && !set.labels.is_empty());
    constant.map(|(name, set)| format!("all {} labels of {name} are equal", set.labels.len())).collect()
}

/// Returns warnings about sets in which several examples have the same index, because prediction files identify
/// examples by it.
fn repeated_indices(sets: &Sets<'_, LabelledExamples>) -> Vec<String> {
    let scored = sets.with_names().skip(1);
    let all = scored.chain(sets.to_predict.iter().map(|set| ("the file to predict".to_string(), set)));
    let repeats = all.map(|(name, set)| {
        let distinct: BTreeSet<&str> = set.examples.iter().map(|example| example.index.as_str()).collect();
        (name, set.examples.len() - distinct.len())
    });
    let repeats = repeats.filter(|(_, count)| *count > 0);
    let text = |(name, count)| {
        format!(
            "{count} examples of {name} have the index of an earlier one: a reader of the predictions cannot tell them apart"
        )
    };
    repeats.map(text).collect()
}

/// Returns the features of all sequences, grouped by example, `[sequences, features]`, with autodiff.
pub(crate) fn all_features<M: ClassifierModel>(
    model: &M,
    features: &Features,
    device: &Device,
    stop: &StopFlag,
) -> Result<Tensor<2>, bert_inference::Error> {
    let per_example = features.per_example();
    let mut parts = Vec::new();
    let mut rows = vec![0i32; features.count() * per_example];
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
