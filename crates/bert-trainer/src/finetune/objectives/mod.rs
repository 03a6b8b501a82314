//! Defines an objective: a task's data, loss and scores, as the loop over steps, seeds and cells sees them.
//!
//! | what is predicted | file | model |
//! |---|---|---|
//! | a class or a score of a text or a pair | `labels.rs` | `BertForSequenceClassification` |
//! | the same, from a head on a frozen encoder | `labels.rs` | `BertWithFeatureHead` |
//! | which of some choices goes with a text | `labels.rs` | `BertForMultipleChoice` |
//! | where in a text the answer stands | `spans.rs` | `BertForQuestionAnswering` |
//! | a tag for every word | `tags.rs` | `BertForTokenClassification` |

pub(super) mod labels;
pub(super) mod spans;
pub(super) mod tags;

use bert_model::{Architecture, BertConfig, Mode};
use burn::tensor::Tensor;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::fusion::FusionReport;
use super::output::Output;
use super::subset::TrainingParts;
use crate::error::Error;
use crate::significance::Calibration;
use crate::tasks::{Scores, SeedRun, SeedSummary};
use std::collections::BTreeMap;

/// A labelled set that models are scored on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Part {
    /// What is held out of train to choose by.
    HeldOut,
    /// Dev.
    Dev,
    /// The second dev set, where the task has one.
    DevMismatched,
    /// Test, where its labels are published.
    Test,
}

/// A task's data as a model sees them, its loss and its scores.
pub(super) trait Objective {
    /// BERT with the task's head.
    type Model: Architecture;
    /// Some training items, padded to one length.
    type Batch;
    /// What a model says of a part.
    type Answers: Clone + Serialize + DeserializeOwned;

    /// The configuration of the checkpoint with the outputs of the task.
    fn model_config(&self, checkpoint: BertConfig) -> BertConfig;

    /// Items that an epoch trains on.
    fn items(&self) -> usize;

    /// How the training file was divided.
    fn training(&self) -> TrainingParts;

    /// Whether a file is a sample, not the official one.
    fn is_sample(&self) -> bool {
        false
    }

    /// The items of these numbers.
    fn batch(&self, items: &[usize]) -> Self::Batch;

    /// Targets in a batch. The loss of a step is divided by those of all its micro-batches.
    fn targets(&self, batch: &Self::Batch) -> usize;

    /// What the frozen encoder gives every item, where that is all that the head needs.
    fn frozen_outputs(&self, _model: &Self::Model) -> Option<Tensor<2>> {
        None
    }

    /// The batch's share of the loss of a step with so many targets, `[1]`.
    fn loss(
        &self,
        model: &Self::Model,
        frozen: Option<&Tensor<2>>,
        batch: &Self::Batch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1>;

    /// Whether there is such a part.
    fn has(&self, part: Part) -> bool;

    /// What a model without autodiff says of a part.
    fn answer(&self, model: &Self::Model, part: Part) -> Self::Answers;

    /// The scores of answers.
    fn score(&self, part: Part, answers: &Self::Answers) -> Scores;

    /// Whether the answers are all the same.
    fn is_degenerate(&self, answers: &Self::Answers) -> bool;

    /// How often each class of dev (row) was predicted as each class (column).
    fn confusion(&self, _dev: &Self::Answers) -> Option<Vec<Vec<u64>>> {
        None
    }

    /// How sure the model was of its answers to dev, and how often right.
    fn calibration(&self, _dev: &Self::Answers) -> Option<Calibration> {
        None
    }

    /// The runs together.
    fn summary(&self, part: Part, runs: Vec<SeedRun>, answers: &[&Self::Answers]) -> SeedSummary;

    /// Digests of the training items and of a part: those of other data differ.
    fn train_digest(&self) -> String;

    /// See [`Self::train_digest`]. `None` when there is no such part.
    fn digest(&self, part: Part) -> Option<String>;

    /// Changes a model that was loaded before it is trained; `fresh` names what the checkpoint did not have.
    ///
    /// # Errors
    /// When it cannot be changed.
    fn prepared(&self, model: Self::Model, _fresh: &[&String], _seed: u64) -> Result<Self::Model, Error> {
        Ok(model)
    }

    /// The attention over the adapters of `--fusion`.
    ///
    /// # Errors
    /// When an adapter cannot be read.
    fn fusion(&self, _model: &Self::Model) -> Result<Option<FusionReport>, Error> {
        Ok(None)
    }

    /// Writes the answers to dev of every run, and what they are compared with.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn write_dev(&self, output: &Output<'_>, runs: &[(u64, &Self::Answers)]) -> Result<(), Error>;

    /// Writes the answers to the file of `--predict`, where it is given.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn write_predictions(&self, output: &Output<'_>, model: &Self::Model) -> Result<(), Error>;

    /// Writes the tuned model.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn save_model(
        &self,
        output: &Output<'_>,
        model: &Self::Model,
        model_config: &BertConfig,
    ) -> Result<(), Error>;
}

/// A run's answers to every labelled part but what was held out.
pub(super) type Answered<O> = BTreeMap<Part, <O as Objective>::Answers>;
