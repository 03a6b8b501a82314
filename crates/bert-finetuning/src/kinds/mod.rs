//! The kinds of tasks, one file each. The code of a kind reads the examples, makes batches, computes the loss, and
//! predicts, scores and writes the answers.
//!
//! | prediction | file | model |
//! |---|---|---|
//! | a class or a score for a text or a pair | `classification.rs` | `BertForSequenceClassification` |
//! | the same, with a head on a frozen encoder | `classification.rs` | `BertWithFeatureHead` |
//! | the right choice among several texts | `classification.rs` | `BertForMultipleChoice` |
//! | the answer span in a text | `question_answering.rs` | `BertForQuestionAnswering` |
//! | a tag for every word | `token_classification.rs` | `BertForTokenClassification` |

pub(crate) mod classification;
pub(crate) mod question_answering;
pub(crate) mod token_classification;

use bert_inference::host_tensors::int_vector;
use bert_inference::{PaddedBatch, StopFlag};
use bert_model::{Architecture, BertConfig, Mode};
use bert_tasks::{Calibration, Scores, SeedRun, SeedSummary};
use bert_training::Error;
use burn::tensor::{Device, Int, Tensor};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::data::datasets::{Part, Sets};
use crate::files::adapters::FusionReport;
use crate::files::folder::OutputFolder;
use crate::setup::Setup;

/// A part of the training items of one step.
pub(crate) struct MicroBatch<B> {
    /// The items, padded to one length.
    pub(crate) batch: B,
    /// Number of targets.
    pub(crate) targets: usize,
}

/// A model's answers to a part, and their scores.
#[derive(Clone)]
pub(crate) struct ScoredAnswers<A> {
    pub(crate) answers: A,
    pub(crate) scores: Scores,
}

/// A task whose files have been read: everything that a fine-tuning needs from it.
pub(crate) trait FinetuneTask {
    /// The examples of a file, as text and as tokens.
    type Set;
    /// BERT with the task's head.
    type Model: Architecture;
    /// A batch of training items, padded to one length.
    type Batch;
    /// A model's answers to a set.
    type Answers: Clone + Serialize + DeserializeOwned;

    /// Returns the examples of the task's files.
    fn sets(&self) -> &Sets<'_, Self::Set>;

    /// Returns the number of training items in an epoch: examples, or windows of questions.
    fn items(&self) -> usize;

    /// Returns the number of sequences of an item: 1, or the number of choices.
    fn sequences_per_item(&self) -> usize {
        1
    }

    /// Returns a digest of the examples.
    fn digest(set: &Self::Set) -> String;

    /// Returns the checkpoint's configuration with the outputs of the task.
    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        checkpoint.without_outputs().without_feature_head()
    }

    /// Returns a loaded model, modified for training; `fresh` names the tensors that the checkpoint lacks.
    fn prepared(&self, model: Self::Model, _fresh: &[&String], _seed: u64) -> Result<Self::Model, Error> {
        Ok(model)
    }

    /// Returns a micro-batch of the items with these indices. It is padded to the length of the step's whole batch, so
    /// that its rows have the same dropout masks as in the whole batch. The loss of a step is divided by the number of
    /// targets in all its micro-batches.
    fn micro_batch(&self, items: &[usize], whole: &[usize]) -> MicroBatch<Self::Batch>;

    /// Returns the frozen encoder's output for every item, if the head needs nothing else.
    fn frozen_outputs(
        &self,
        _model: &Self::Model,
        _stop: &StopFlag,
    ) -> Result<Option<Tensor<2>>, bert_inference::Error> {
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
    fn uniform_loss(&self) -> f64;

    /// Returns the answers of a model without autodiff.
    fn answer(
        &self,
        model: &Self::Model,
        set: &Self::Set,
        stop: &StopFlag,
    ) -> Result<Self::Answers, bert_inference::Error>;

    /// Returns the scores of answers.
    fn score(&self, set: &Self::Set, answers: &Self::Answers) -> Scores;

    /// Returns whether all answers are the same, although the right ones differ.
    fn is_degenerate(&self, set: &Self::Set, answers: &Self::Answers) -> bool;

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

    /// Returns the summary of the runs' scores on a set; `answers` has the answers of each run.
    fn summary(&self, set: &Self::Set, runs: Vec<SeedRun>, answers: &[&Self::Answers]) -> SeedSummary;

    /// Writes answers to files whose names begin with `prefix`.
    fn write_answers(
        &self,
        output: &OutputFolder,
        prefix: &str,
        set: &Self::Set,
        answers: &Self::Answers,
    ) -> Result<(), Error>;

    /// Writes the labels of dev, for tasks that publish them next to the predictions.
    fn write_dev_labels(&self, _output: &OutputFolder) -> Result<(), Error> {
        Ok(())
    }

    /// Writes a fine-tuned model into folders whose names begin with `prefix`.
    fn save_model(
        &self,
        output: &OutputFolder,
        prefix: &str,
        model: &Self::Model,
        model_config: &BertConfig,
    ) -> Result<(), Error> {
        output.save_model(prefix, model, model_config, self.setup())
    }

    /// Returns the attention over the adapters of `--fusion`.
    fn fusion(&self, _model: &Self::Model) -> Result<Option<FusionReport>, Error> {
        Ok(None)
    }

    /// Returns the configuration and checkpoint that the data was read for.
    fn setup(&self) -> Setup<'_> {
        self.sets().setup
    }

    /// Returns whether the task has this part.
    fn has(&self, part: Part) -> bool {
        self.sets().parts.contains_key(&part)
    }

    /// Returns the examples of a part.
    ///
    /// # Panics
    /// Panics if the task does not have the part.
    fn part(&self, part: Part) -> &Self::Set {
        &self.sets().parts[&part]
    }

    /// Returns the part that selects the best epoch, run and configuration: the held-out examples if there are any,
    /// else dev.
    fn selection_part(&self) -> Part {
        if self.has(Part::HeldOut) { Part::HeldOut } else { Part::Dev }
    }

    /// Predicts the answers to a part with a model without autodiff; returns the answers and their scores.
    fn answer_and_score(
        &self,
        model: &Self::Model,
        part: Part,
        stop: &StopFlag,
    ) -> Result<ScoredAnswers<Self::Answers>, bert_inference::Error> {
        let answers = self.answer(model, self.part(part), stop)?;
        let scores = self.score(self.part(part), &answers);
        Ok(ScoredAnswers { answers, scores })
    }
}

/// A batch of sequences, and two integers for each target: the start and the end of an answer, or the position and the
/// tag of a word.
pub(crate) struct TokenBatch {
    pub(crate) padded: PaddedBatch,
    pub(crate) targets: [Vec<i32>; 2],
}

impl TokenBatch {
    /// Returns the first and the second integers of all targets, `[targets]` each.
    pub(crate) fn targets(&self, device: &Device) -> [Tensor<1, Int>; 2] {
        self.targets.each_ref().map(|numbers| int_vector(numbers, device))
    }
}
