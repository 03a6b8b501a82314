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
mod scale;
mod sets;
pub(super) mod spans;
pub(super) mod tags;

use bert_model::{Architecture, BertConfig, Mode};
use burn::tensor::{Device, Int, Tensor};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::adapter::FusionReport;
use super::output::Output;
use super::setup::Setup;
use crate::error::Error;
use crate::host::int_vector;
use crate::padding::PaddedBatch;
use crate::significance::{Calibration, SeedRun, SeedSummary};
use crate::tasks::Scores;
pub(super) use sets::Part;
use sets::Sets;
use std::collections::BTreeMap;

/// Some sequences, and two numbers for each target in them.
pub(super) struct TokenBatch {
    padded: PaddedBatch,
    targets: [Vec<i32>; 2],
}

impl TokenBatch {
    fn targets(&self, device: &Device) -> [Tensor<1, Int>; 2] {
        self.targets.each_ref().map(|numbers| int_vector(numbers, device))
    }
}

/// A task's data as a model sees them, its loss and its scores.
pub(super) trait Objective {
    /// BERT with the task's head.
    type Model: Architecture;
    /// The items of a file.
    type Set;
    /// Some training items, padded to one length.
    type Batch;
    /// What a model says of a set.
    type Answers: Clone + Serialize + DeserializeOwned;

    /// The items of the task's files.
    fn sets(&self) -> &Sets<'_, Self::Set>;

    /// What the objective was made of.
    fn setup(&self) -> Setup<'_> {
        self.sets().setup
    }

    /// The configuration of the checkpoint with the outputs of the task.
    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        checkpoint
    }

    /// Items that an epoch trains on.
    fn items(&self) -> usize;

    /// The items of these numbers, and how many targets they have. The loss of a step is divided by those of all its
    /// micro-batches.
    fn batch(&self, items: &[usize]) -> (Self::Batch, usize);

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

    /// The loss of a model that knows nothing: a training loss far above it is that of a run that diverged.
    fn guessing_loss(&self) -> f64;

    /// Whether there is such a part.
    fn has(&self, part: Part) -> bool {
        self.sets().parts.contains_key(&part)
    }

    /// The items of a part that is there.
    fn part(&self, part: Part) -> &Self::Set {
        &self.sets().parts[&part]
    }

    /// What a model without autodiff says of items.
    fn answer(&self, model: &Self::Model, set: &Self::Set) -> Self::Answers;

    /// The scores of answers.
    fn score(&self, set: &Self::Set, answers: &Self::Answers) -> Scores;

    /// What a model without autodiff says of a part, and the scores of it.
    fn scored(&self, model: &Self::Model, part: Part) -> (Self::Answers, Scores) {
        let answers = self.answer(model, self.part(part));
        let scores = self.score(self.part(part), &answers);
        (answers, scores)
    }

    /// Whether the answers are all the same.
    fn is_degenerate(&self, answers: &Self::Answers) -> bool;

    /// What else a reader of a run's scores on dev should know.
    fn remark(&self, _dev: &Self::Answers) -> Option<String> {
        None
    }

    /// How often each class of dev (row) was predicted as each class (column).
    fn confusion(&self, _dev: &Self::Answers) -> Option<Vec<Vec<u64>>> {
        None
    }

    /// How sure the model was of its answers to dev, and how often right.
    fn calibration(&self, _dev: &Self::Answers) -> Option<Calibration> {
        None
    }

    /// The runs together.
    fn summary(&self, set: &Self::Set, runs: Vec<SeedRun>, answers: &[&Self::Answers]) -> SeedSummary;

    /// The digest of items: that of others differs.
    fn digest(set: &Self::Set) -> String;

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

    /// Writes answers into files whose names begin with `stem`.
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

    /// Writes what answers to dev are compared with, where it is written.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn write_dev_labels(&self, _output: &Output) -> Result<(), Error> {
        Ok(())
    }

    /// Writes the tuned model.
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

/// A run's answers to every labelled part but what was held out.
pub(super) type Answered<O> = BTreeMap<Part, <O as Objective>::Answers>;
