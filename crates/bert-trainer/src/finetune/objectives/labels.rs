//! Implements the objective of classes and scores: classification or regression of a text or a pair, and multiple
//! choice.

use std::collections::BTreeMap;

use bert_model::{
    Architecture, BertConfig, BertForMultipleChoice, BertForSequenceClassification, BertInput, BertModel,
    BertWithFeatureHead, Mode, classification_loss, regression_loss,
};
use burn::tensor::{Device, Tensor, activation};
use serde::{Deserialize, Serialize};

use super::Objective;
use super::Part;
use crate::error::Error;
use crate::finetune::adapter;
use crate::finetune::features::{ClassificationBatch, Features};
use crate::finetune::fusion::{self, FusionReport};
use crate::finetune::identity::examples_digest;
use crate::finetune::output::Output;
use crate::finetune::setup::Setup;
use crate::finetune::subset::{TrainingParts, divide};
use crate::host::{int_vector, values};
use crate::significance::{Calibration, calibration};
use crate::tasks::{
    Example, Kind, Label, Scores, SeedRun, SeedSummary, Split, confusion, is_degenerate, labels_of,
    majority_baseline, read_file, read_predict_file, score,
};

const EVAL_BATCH: usize = 64;

/// BERT with a classifier.
pub trait Classifier: Architecture {
    /// What the classifier reads of each sequence, `[sequences, features]`: the pooled output, unless said.
    fn features(&self, input: BertInput, mode: Mode) -> Tensor<2>;

    /// Whether nothing in the features learns while the encoder is frozen.
    fn features_are_fixed(&self) -> bool {
        true
    }

    /// The logits of each example, `[examples, labels]`, from the features of its sequences.
    fn logits(&self, features: Tensor<2>, per_example: usize, mode: Mode) -> Tensor<2>;
}

impl Classifier for BertWithFeatureHead {
    /// The encoder is frozen in every mode.
    fn features(&self, input: BertInput, _mode: Mode) -> Tensor<2> {
        BertWithFeatureHead::features(self, input)
    }

    fn features_are_fixed(&self) -> bool {
        self.reads_pooled_output()
    }

    fn logits(&self, features: Tensor<2>, _per_example: usize, mode: Mode) -> Tensor<2> {
        self.classify(features, mode)
    }
}

impl Adapts for BertWithFeatureHead {
    fn adapted(self, _setup: Setup<'_>, _fresh: &[&String], _seed: u64) -> Result<Self, Error> {
        Ok(self)
    }

    fn save(&self, setup: Setup<'_>, output: &Output<'_>, config: &BertConfig) -> Result<(), Error> {
        output.save_model("model", self, config, setup.text)
    }
}

impl Classifier for BertForSequenceClassification {
    fn features(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        self.bert.forward(input, mode).pooled_output
    }

    fn logits(&self, features: Tensor<2>, _per_example: usize, mode: Mode) -> Tensor<2> {
        self.classify(features, mode)
    }
}

impl Classifier for BertForMultipleChoice {
    fn features(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        self.bert.forward(input, mode).pooled_output
    }

    fn logits(&self, features: Tensor<2>, per_example: usize, mode: Mode) -> Tensor<2> {
        self.choose(features, per_example, mode)
    }
}

/// What only some classifiers can: an adapter in the encoder.
pub(in crate::finetune) trait Adapts: Classifier {
    /// With a fresh adapter, when one is asked for. `fresh` names what the checkpoint did not have.
    ///
    /// # Errors
    /// When it does not fit.
    fn adapted(self, setup: Setup<'_>, fresh: &[&String], seed: u64) -> Result<Self, Error>;

    /// How far the value matrices of fused adapters are from the identity, squared, `[1]`; `None` without fusion.
    fn fusion_distance(&self) -> Option<Tensor<1>> {
        None
    }

    /// The encoder, if it may have fused adapters.
    fn fused_encoder(&self) -> Option<&BertModel> {
        None
    }

    /// Writes the tuned model, or its adapter.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn save(&self, setup: Setup<'_>, output: &Output<'_>, config: &BertConfig) -> Result<(), Error>;
}

impl Adapts for BertForSequenceClassification {
    fn adapted(self, setup: Setup<'_>, fresh: &[&String], seed: u64) -> Result<Self, Error> {
        adapter::attached(setup, self, fresh, seed)
    }

    fn save(&self, setup: Setup<'_>, output: &Output<'_>, config: &BertConfig) -> Result<(), Error> {
        adapter::save(output, setup, self, config)
    }

    fn fusion_distance(&self) -> Option<Tensor<1>> {
        self.bert.fusion_distance()
    }

    fn fused_encoder(&self) -> Option<&BertModel> {
        Some(&self.bert)
    }
}

impl Adapts for BertForMultipleChoice {
    fn adapted(self, _setup: Setup<'_>, _fresh: &[&String], _seed: u64) -> Result<Self, Error> {
        Ok(self)
    }

    fn save(&self, setup: Setup<'_>, output: &Output<'_>, config: &BertConfig) -> Result<(), Error> {
        output.save_model("model", self, config, setup.text)
    }
}

/// Labelled examples as texts and as the model sees them.
struct LabelledSplit {
    examples: Vec<Example>,
    labels: Vec<Label>,
    features: Features,
}

impl LabelledSplit {
    fn new(examples: Vec<Example>, setup: Setup<'_>) -> Self {
        let labels = labels_of(&examples).unwrap_or_default();
        let features = features(&examples, setup);
        Self { examples, labels, features }
    }
}

fn features(examples: &[Example], setup: Setup<'_>) -> Features {
    Features::new(examples, &setup.text.tokenizer, &setup.text.vocabulary, setup.max_seq_length)
}

/// What a model says of labelled examples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::finetune) struct LabelAnswers {
    labels: Vec<Label>,
    /// Probabilities of the classes, or the score.
    outputs: Vec<Vec<f32>>,
}

/// A task of classes or scores.
pub(in crate::finetune) struct Labels<'a, M> {
    setup: Setup<'a>,
    train: LabelledSplit,
    training: TrainingParts,
    parts: BTreeMap<Part, LabelledSplit>,
    to_predict: Option<(Vec<Example>, Features)>,
    is_sample: bool,
    model: std::marker::PhantomData<M>,
}

impl<'a, M: Classifier> Labels<'a, M> {
    /// Reads the task's files.
    ///
    /// # Errors
    /// When one of them is missing or bad, with the line.
    pub(in crate::finetune) fn read(setup: Setup<'a>) -> Result<Self, Error> {
        let task = setup.config.task;
        let train_file = setup.needed_file(Split::Train)?;
        let (train, held_out, training) = divide(setup.config, read_file(task, &train_file.path, true)?)?;
        let dev_file = setup.needed_file(Split::Dev)?;
        let mut parts = BTreeMap::new();
        let mut add = |part, examples| parts.insert(part, LabelledSplit::new(examples, setup));
        if training.held_out > 0 {
            add(Part::HeldOut, held_out);
        }
        add(Part::Dev, read_file(task, &dev_file.path, true)?);
        for (part, split) in [(Part::DevMismatched, Split::DevMismatched), (Part::Test, Split::Test)] {
            if let Some(file) = setup.labelled_file(split)? {
                add(part, read_file(task, &file.path, true)?);
            }
        }
        let to_predict =
            setup.config.predict.as_ref().map(|path| read_predict_file(task, path)).transpose()?;
        Ok(Self {
            train: LabelledSplit::new(train, setup),
            training,
            parts,
            to_predict: to_predict.map(|examples| {
                let features = features(&examples, setup);
                (examples, features)
            }),
            is_sample: train_file.is_sample || dev_file.is_sample,
            setup,
            model: std::marker::PhantomData,
        })
    }

    fn kind(&self) -> Kind {
        self.setup.config.task.spec().kind
    }

    fn answers(&self, model: &M, features: &Features) -> LabelAnswers {
        let outputs = predict(model, features, self.kind(), &self.setup.plain());
        LabelAnswers { labels: decide(&outputs, self.kind()), outputs }
    }
}

impl<M: Adapts> Objective for Labels<'_, M> {
    type Model = M;
    type Batch = ClassificationBatch;
    type Answers = LabelAnswers;

    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        let spec = self.setup.config.task.spec();
        let checkpoint = match self.setup.config.feature_head() {
            Some(head) => checkpoint.with_feature_head(head),
            None => checkpoint.without_feature_head(),
        };
        match spec.kind {
            // One output for each choice.
            Kind::Classification { .. } if spec.choices > 0 => checkpoint,
            Kind::Classification { labels } if spec.class_names.is_empty() => checkpoint.with_labels(labels),
            Kind::Classification { .. } => checkpoint.with_labels(spec.class_names),
            _ => checkpoint.with_regression(),
        }
    }

    fn items(&self) -> usize {
        self.train.features.len()
    }

    fn training(&self) -> TrainingParts {
        self.training
    }

    fn is_sample(&self) -> bool {
        self.is_sample
    }

    fn batch(&self, items: &[usize]) -> ClassificationBatch {
        self.train.features.batch(items.to_vec())
    }

    fn targets(&self, batch: &ClassificationBatch) -> usize {
        batch.examples.len()
    }

    /// In evaluation mode they are the same every epoch, so they are computed once.
    fn frozen_outputs(&self, model: &M) -> Option<Tensor<2>> {
        let table = || all_features(model, &self.train.features, &self.setup.plain());
        (self.setup.config.freeze_encoder && model.features_are_fixed()).then(table)
    }

    fn loss(
        &self,
        model: &M,
        frozen: Option<&Tensor<2>>,
        batch: &ClassificationBatch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1> {
        let device = self.setup.device;
        let features = match frozen {
            Some(table) => table.clone().select(0, batch.rows(device)),
            None => model.features(batch.input(device), mode),
        };
        let logits = model.logits(features, self.train.features.per_example(), mode);
        let loss = match self.kind() {
            Kind::Regression { .. } => regression_loss(logits, batch.scores(device), targets as f64),
            _ => classification_loss(logits, batch.classes(device), targets as f64),
        };
        // The micro-batches of a step together have it once.
        let share = batch.examples.len() as f64 / targets as f64;
        match model.fusion_distance() {
            Some(distance) => loss + distance.mul_scalar(fusion::REGULARIZATION * share),
            None => loss,
        }
    }

    fn has(&self, part: Part) -> bool {
        self.parts.contains_key(&part)
    }

    fn answer(&self, model: &M, part: Part) -> LabelAnswers {
        self.answers(model, &self.parts[&part].features)
    }

    fn score(&self, part: Part, answers: &LabelAnswers) -> Scores {
        score(self.setup.config.task, &answers.labels, &self.parts[&part].labels)
    }

    fn is_degenerate(&self, answers: &LabelAnswers) -> bool {
        is_degenerate(&answers.labels)
    }

    fn confusion(&self, dev: &LabelAnswers) -> Option<Vec<Vec<u64>>> {
        confusion(self.setup.config.task, &dev.labels, &self.parts[&Part::Dev].labels)
    }

    fn calibration(&self, dev: &LabelAnswers) -> Option<Calibration> {
        calibration(&self.parts[&Part::Dev].labels, &dev.labels, &dev.outputs)
    }

    fn summary(&self, part: Part, runs: Vec<SeedRun>, answers: &[&LabelAnswers]) -> SeedSummary {
        let (task, split) = (self.setup.config.task, &self.parts[&part]);
        let majority = majority_baseline(task, &self.train.labels, &split.labels);
        let answers: Vec<&[Label]> = answers.iter().map(|answers| answers.labels.as_slice()).collect();
        SeedSummary::new(task, split.examples.len(), runs, majority).with_interval(&split.labels, &answers)
    }

    fn train_digest(&self) -> String {
        examples_digest(&self.train.examples)
    }

    fn digest(&self, part: Part) -> Option<String> {
        self.parts.get(&part).map(|split| examples_digest(&split.examples))
    }

    fn prepared(&self, model: M, fresh: &[&String], seed: u64) -> Result<M, Error> {
        model.adapted(self.setup, fresh, seed)
    }

    fn fusion(&self, model: &M) -> Result<Option<FusionReport>, Error> {
        let folders = &self.setup.config.fusion;
        match model.fused_encoder().filter(|_| !folders.is_empty()) {
            Some(encoder) => {
                let dev = &self.parts[&Part::Dev].features;
                fusion::report(folders, encoder, dev, &self.setup.plain()).map(Some)
            }
            None => Ok(None),
        }
    }

    fn write_dev(&self, output: &Output<'_>, runs: &[(u64, &LabelAnswers)]) -> Result<(), Error> {
        let (task, examples) = (self.setup.config.task, &self.parts[&Part::Dev].examples);
        output.write_dev_labels(task, examples)?;
        runs.iter().try_for_each(|(seed, answers)| {
            output.write_labels(
                task,
                &format!("seed-{seed}/dev_"),
                examples,
                &answers.labels,
                &answers.outputs,
            )
        })
    }

    fn write_predictions(&self, output: &Output<'_>, model: &M) -> Result<(), Error> {
        let Some((examples, features)) = &self.to_predict else { return Ok(()) };
        let answers = self.answers(model, features);
        output.write_labels(self.setup.config.task, "", examples, &answers.labels, &answers.outputs)
    }

    fn save_model(&self, output: &Output<'_>, model: &M, model_config: &BertConfig) -> Result<(), Error> {
        model.save(self.setup, output, model_config)
    }
}

/// Class probabilities of every example in order; for a regression the score.
pub fn predict<M: Classifier>(model: &M, features: &Features, kind: Kind, device: &Device) -> Vec<Vec<f32>> {
    let device = device.clone().inner();
    let mut rows = vec![Vec::new(); features.len()];
    for examples in features.by_length(EVAL_BATCH) {
        let batch = features.batch(examples);
        let outputs = model.features(batch.input(&device), Mode::Eval);
        let logits = model.logits(outputs, features.per_example(), Mode::Eval);
        let outputs = match kind {
            Kind::Regression { .. } => logits,
            _ => activation::softmax(logits, 1),
        };
        let [_, width] = outputs.dims();
        for (&example, row) in batch.examples.iter().zip(values(outputs).chunks(width)) {
            rows[example] = row.to_vec();
        }
    }
    rows
}

/// The prediction of each row: the most probable class (of equals the lowest), or the score.
pub fn decide(rows: &[Vec<f32>], kind: Kind) -> Vec<Label> {
    let class = |row: &Vec<f32>| {
        let better = |best: usize, i: usize| if row[i] > row[best] { i } else { best };
        Label::Class((1..row.len()).fold(0, better))
    };
    match kind {
        Kind::Regression { .. } => rows.iter().map(|row| Label::Score(row[0])).collect(),
        _ => rows.iter().map(class).collect(),
    }
}

/// The features of every sequence, those of an example together, `[sequences, features]`, with autodiff.
fn all_features<M: Classifier>(model: &M, features: &Features, plain: &Device) -> Tensor<2> {
    let per_example = features.per_example() as i32;
    let mut parts = Vec::new();
    let mut place = vec![0i32; features.len() * features.per_example()];
    let mut done = 0;
    for examples in features.by_length(EVAL_BATCH) {
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
    Tensor::cat(parts, 0).select(0, rows).autodiff()
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
