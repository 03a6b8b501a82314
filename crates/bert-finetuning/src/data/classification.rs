//! The data of classification, regression and multiple choice.

use std::marker::PhantomData;
use std::path::Path;

use bert_inference::Error;
use bert_inference::encoding::examples::Features;
use bert_inference::encoding::model_tokenizer::ModelTokenizer;
use bert_storage::digest_bytes;
use bert_tasks::{Example, Kind, Label, Task, is_degenerate, labels_of, read_file};

use crate::data::TaskData;
use crate::data::datasets::{Purpose, Sets};
use crate::data::label_scale::LabelScale;
use crate::setup::Setup;

/// Examples as text and as tokens, with their labels if they have any.
pub(crate) struct LabelledExamples {
    pub(crate) examples: Vec<Example>,
    pub(crate) labels: Vec<Label>,
    pub(crate) features: Features,
}

impl LabelledExamples {
    /// Tokenizes examples.
    fn new(examples: Vec<Example>, setup: Setup<'_>) -> Self {
        let labels = labels_of(&examples).unwrap_or_default();
        let ModelTokenizer { tokenizer, vocabulary, .. } = &setup.checkpoint.tokenizer;
        let features = Features::new(&examples, tokenizer, vocabulary, setup.max_seq_length);
        Self { examples, labels, features }
    }
}

/// Examples in memory.
pub(crate) struct RowExamples {
    pub(crate) train: Vec<Example>,
    pub(crate) dev: Vec<Example>,
}

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
    /// When a file is missing or invalid; the error names the line.
    pub(crate) fn read(setup: Setup<'a>) -> Result<Self, Error> {
        let task = &setup.config.task;
        let read = |path: &Path, purpose| Ok(read_file(task, path, purpose != Purpose::Predict)?);
        Ok(Self::of_sets(Sets::read(setup, read, |examples| LabelledExamples::new(examples, setup))?))
    }

    /// Takes examples in memory, or reads the task's files.
    ///
    /// # Errors
    /// [`Error::Configuration`] when the options hold out all examples, or none; otherwise as [`Self::read`].
    pub(crate) fn open(setup: Setup<'a>, rows: Option<RowExamples>) -> Result<Self, Error> {
        let Some(RowExamples { train, dev }) = rows else { return Self::read(setup) };
        let set = |examples| LabelledExamples::new(examples, setup);
        Ok(Self::of_sets(Sets::of_examples(setup, train, dev, set)?))
    }

    fn of_sets(mut sets: Sets<'a, LabelledExamples>) -> Self {
        sets.notes = constant_labels(&sets);
        let scale = sets.setup.config.table.regression.then(|| LabelScale::new(&sets.train.labels));
        Self { sets, scale, model: PhantomData }
    }

    pub(crate) fn task(&self) -> &Task {
        &self.sets.setup.config.task
    }

    pub(crate) fn kind(&self) -> Kind {
        self.task().spec().kind
    }
}

/// Returns warnings about sets whose labels are all equal: nothing can be learned from such a training set, and scores
/// on such a dev set mean little.
fn constant_labels(sets: &Sets<'_, LabelledExamples>) -> Vec<String> {
    let all = sets.with_names();
    let constant = all.filter(|(_, set)| is_degenerate(&set.labels) && !set.labels.is_empty());
    constant.map(|(name, set)| format!("all {} labels of {name} are equal", set.labels.len())).collect()
}

impl<M> TaskData for Classification<'_, M> {
    type Set = LabelledExamples;

    fn sets(&self) -> &Sets<'_, LabelledExamples> {
        &self.sets
    }

    fn items(&self) -> usize {
        self.sets.train.features.len()
    }

    /// Hashes texts and labels, in order.
    fn digest(set: &LabelledExamples) -> String {
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
}
