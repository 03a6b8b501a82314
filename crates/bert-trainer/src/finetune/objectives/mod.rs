//! Defines the interface between a task (data, loss, scores) and the loop over steps, seeds and cells.
//!
//! | prediction | file | model |
//! |---|---|---|
//! | a class or a score for a text or a pair | `labels.rs` | `BertForSequenceClassification` |
//! | the same, with a head on a frozen encoder | `labels.rs` | `BertWithFeatureHead` |
//! | the right choice among several texts | `labels.rs` | `BertForMultipleChoice` |
//! | the answer span in a text | `spans.rs` | `BertForQuestionAnswering` |
//! | a tag for every word | `tags.rs` | `BertForTokenClassification` |

pub(crate) mod classification;
pub(crate) mod datasets;
pub(crate) mod holdout;
pub(crate) mod question_answering;
mod scale;
pub(crate) mod token_classification;

use bert_model::{Architecture, BertConfig, Mode};
use burn::tensor::{Device, Int, Tensor};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::output::Output;
use crate::compute::host_tensors::int_vector;
use crate::encoding::padded_batch::PaddedBatch;
use crate::error::Error;
use crate::finetune::model::adapters::FusionReport;
use crate::finetune::model::pretrained::Setup;
pub(super) use crate::finetune::objectives::datasets::Part;
use crate::finetune::objectives::datasets::Sets;
use crate::training::stop_flag::{StopFlag, StopRequested};
use bert_tasks::Scores;
use bert_tasks::statistics::{Calibration, SeedRun, SeedSummary};
use std::collections::BTreeMap;

/// A batch of sequences, with two numbers for each target.
pub(super) struct TokenBatch {
    padded: PaddedBatch,
    targets: [Vec<i32>; 2],
}

impl TokenBatch {
    fn targets(&self, device: &Device) -> [Tensor<1, Int>; 2] {
        self.targets.each_ref().map(|numbers| int_vector(numbers, device))
    }
}

/// The data, loss and scores of a task.
pub(super) trait Objective {
    /// BERT with the task's head.
    type Model: Architecture;
    /// The items of a file, as text and as tokens.
    type Set;
    /// A batch of training items, padded to one length.
    type Batch;
    /// A model's answers to a set.
    type Answers: Clone + Serialize + DeserializeOwned;

    /// Returns the items of the task's files.
    fn sets(&self) -> &Sets<'_, Self::Set>;

    /// Returns the setup that the objective was created with.
    fn setup(&self) -> Setup<'_> {
        self.sets().setup
    }

    /// Returns the checkpoint's configuration with the outputs of the task.
    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        checkpoint
    }

    /// Returns the number of training items in an epoch.
    fn items(&self) -> usize;

    /// Returns the number of sequences of an item: 1, or the number of choices.
    fn sequences_per_item(&self) -> usize {
        1
    }

    /// Returns a micro-batch of the items with these indices, and its number of targets. It is padded to the length of
    /// the whole batch of a step, so that it has the dropout masks of its rows there. The loss of a step is divided by
    /// the targets of all its micro-batches.
    fn micro_batch(&self, items: &[usize], whole: &[usize]) -> (Self::Batch, usize);

    /// Returns the frozen encoder's output for every item, if the head needs nothing else.
    ///
    /// # Errors
    /// [`StopRequested`].
    fn frozen_outputs(
        &self,
        _model: &Self::Model,
        _stop: &StopFlag,
    ) -> Result<Option<Tensor<2>>, StopRequested> {
        Ok(None)
    }

    /// Returns the contribution of a batch to the loss of a step with `targets` targets, `[1]`.
    fn loss(
        &self,
        model: &Self::Model,
        frozen: Option<&Tensor<2>>,
        batch: &Self::Batch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1>;

    /// Returns the loss of a uniform prediction. A run whose training loss stays far above it has diverged.
    fn guessing_loss(&self) -> f64;

    /// Returns whether the task has this part.
    fn has(&self, part: Part) -> bool {
        self.sets().parts.contains_key(&part)
    }

    /// Returns the items of a part, which must exist.
    fn part(&self, part: Part) -> &Self::Set {
        &self.sets().parts[&part]
    }

    /// Returns the answers of a model without autodiff.
    ///
    /// # Errors
    /// [`StopRequested`] when a stop is requested before the last batch.
    fn answer(
        &self,
        model: &Self::Model,
        set: &Self::Set,
        stop: &StopFlag,
    ) -> Result<Self::Answers, StopRequested>;

    /// Scores the answers.
    fn score(&self, set: &Self::Set, answers: &Self::Answers) -> Scores;

    /// Returns the answers of a model without autodiff to a part, and their scores.
    ///
    /// # Errors
    /// Same as [`Objective::answer`].
    fn scored(
        &self,
        model: &Self::Model,
        part: Part,
        stop: &StopFlag,
    ) -> Result<(Self::Answers, Scores), StopRequested> {
        let answers = self.answer(model, self.part(part), stop)?;
        let scores = self.score(self.part(part), &answers);
        Ok((answers, scores))
    }

    /// Returns whether all answers are the same.
    fn is_degenerate(&self, answers: &Self::Answers) -> bool;

    /// Returns a further remark on a run's scores on dev, for the report.
    fn remark(&self, _dev: &Self::Answers) -> Option<String> {
        None
    }

    /// Returns the confusion matrix on dev: rows are true classes, columns are predictions.
    fn confusion(&self, _dev: &Self::Answers) -> Option<Vec<Vec<u64>>> {
        None
    }

    /// Returns the calibration on dev.
    fn calibration(&self, _dev: &Self::Answers) -> Option<Calibration> {
        None
    }

    /// Summarizes the runs.
    fn summary(&self, set: &Self::Set, runs: Vec<SeedRun>, answers: &[&Self::Answers]) -> SeedSummary;

    /// Returns a digest of the items.
    fn digest(set: &Self::Set) -> String;

    /// Modifies a loaded model before training; `fresh` names the tensors that the checkpoint lacks.
    ///
    /// # Errors
    /// When the model cannot be modified.
    fn prepared(&self, model: Self::Model, _fresh: &[&String], _seed: u64) -> Result<Self::Model, Error> {
        Ok(model)
    }

    /// Measures the attention over the adapters of `--fusion`.
    ///
    /// # Errors
    /// When an adapter cannot be read.
    fn fusion(&self, _model: &Self::Model) -> Result<Option<FusionReport>, Error> {
        Ok(None)
    }

    /// Writes answers to files whose names begin with `stem`.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn write(
        &self,
        output: &Output,
        stem: &str,
        set: &Self::Set,
        answers: &Self::Answers,
    ) -> Result<(), Error>;

    /// Writes the labels of dev, for tasks that publish them next to the predictions.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn write_dev_labels(&self, _output: &Output) -> Result<(), Error> {
        Ok(())
    }

    /// Writes the fine-tuned model.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn save_model(
        &self,
        output: &Output,
        model: &Self::Model,
        model_config: &BertConfig,
    ) -> Result<(), Error> {
        output.save_model("model", model, model_config, &self.setup().opened.text)
    }
}

/// A run's answers to every labelled part except the held-out examples.
pub(super) type Answered<O> = BTreeMap<Part, <O as Objective>::Answers>;
