//! Reads the files of a task: train, the examples held out of it, the labelled parts, and the file of `--predict`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use bert_inference::Error;
use bert_tasks::Split;
use serde::{Deserialize, Serialize};

use crate::data::holdout::{DividedExamples, TrainingParts, divide};
use crate::setup::Setup;

/// A labelled set that models are scored on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Examples held out of train, for choosing epochs and cells.
    HeldOut,
    /// Dev.
    Dev,
    /// The second dev set, if the task has one.
    DevMismatched,
    /// Test, if its labels are published.
    Test,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeldOut => "the held-out part",
            Self::Dev => "dev",
            Self::DevMismatched => "the mismatched dev set",
            Self::Test => "test",
        })
    }
}

/// The use of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Train,
    Score,
    Predict,
}

/// The examples of a task's files, as text and as tokens.
pub(crate) struct Sets<'a, S> {
    pub(crate) setup: Setup<'a>,
    pub(crate) train: S,
    pub(crate) training: TrainingParts,
    pub(crate) parts: BTreeMap<Part, S>,
    pub(crate) to_predict: Option<S>,
    /// Whether train or dev is a sample instead of the official file.
    pub(crate) is_sample: bool,
    /// Remarks on the data, for the report.
    pub(crate) notes: Vec<String>,
}

impl<'a, S> Sets<'a, S> {
    /// Reads every file with `read`, train first, and converts the examples of each to a set.
    pub(crate) fn read<T>(
        setup: Setup<'a>,
        mut read: impl FnMut(&Path, Purpose) -> Result<Vec<T>, Error>,
        set: impl Fn(Vec<T>) -> S,
    ) -> Result<Self, Error> {
        let config = setup.config;
        let train_file = config.find_split(Split::Train)?;
        let DividedExamples { train, held_out, parts: training } =
            divide(config, read(&train_file.path, Purpose::Train)?)?;
        let dev_file = config.find_split(Split::Dev)?;
        let is_sample = train_file.is_sample || dev_file.is_sample;
        let mut parts = BTreeMap::from([(Part::Dev, set(read(&dev_file.path, Purpose::Score)?))]);
        if training.held_out > 0 {
            parts.insert(Part::HeldOut, set(held_out));
        }
        for (part, split) in [(Part::DevMismatched, Split::DevMismatched), (Part::Test, Split::Test)] {
            if !config.task.spec().has_labels(split) {
                continue;
            }
            match config.find_split(split) {
                Ok(file) => {
                    parts.insert(part, set(read(&file.path, Purpose::Score)?));
                }
                // A test file is optional, unless it is named.
                Err(error) if split == Split::Test && config.test_file.is_some() => return Err(error.into()),
                Err(_) => {}
            }
        }
        let to_predict = config.predict.as_ref().map(|path| read(path, Purpose::Predict));
        let to_predict = to_predict.transpose()?.map(&set);
        Ok(Self { setup, train: set(train), training, parts, to_predict, is_sample, notes: Vec::new() })
    }

    /// Converts examples in memory to sets.
    pub(crate) fn from_examples<T>(
        setup: Setup<'a>,
        train: Vec<T>,
        dev: Vec<T>,
        set: impl Fn(Vec<T>) -> S,
    ) -> Result<Self, Error> {
        let DividedExamples { train, held_out, parts: training } = divide(setup.config, train)?;
        let mut parts = BTreeMap::from([(Part::Dev, set(dev))]);
        if training.held_out > 0 {
            parts.insert(Part::HeldOut, set(held_out));
        }
        let train = set(train);
        Ok(Self { setup, train, training, parts, to_predict: None, is_sample: false, notes: Vec::new() })
    }

    /// Returns the training set and the labelled parts with their names for messages.
    pub(crate) fn with_names(&self) -> impl Iterator<Item = (String, &S)> {
        let parts = self.parts.iter().map(|(part, set)| (part.to_string(), set));
        std::iter::once(("the training set".to_string(), &self.train)).chain(parts)
    }
}
