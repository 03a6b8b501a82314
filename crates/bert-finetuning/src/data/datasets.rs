//! Reads the files of a task: train, the examples held out of it, the labelled parts, and the file of `--predict`.

use std::collections::BTreeMap;
use std::path::Path;

use bert_inference::Error;
use bert_tasks::Split;

use crate::data::holdout::{DividedExamples, TrainingParts, divide, divide_table};
pub(crate) use crate::data::part::Part;
use crate::data::text_hashes::{SharedTexts, Texts, TrainingTexts};
use crate::setup::Setup;

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
    /// The texts that each part shares with the training set.
    pub(crate) shared_texts: Vec<SharedTexts>,
    /// Remarks on the data, for the report.
    pub(crate) notes: Vec<String>,
}

impl<'a, S> Sets<'a, S> {
    /// Reads every file with `read`, train first, and converts the examples of each to a set.
    pub(crate) fn read<T: Texts>(
        setup: Setup<'a>,
        mut read: impl FnMut(&Path, Purpose) -> Result<Vec<T>, Error>,
        set: impl Fn(Vec<T>) -> S,
    ) -> Result<Self, Error> {
        let config = setup.config;
        let train_file = config.find_split(Split::Train)?;
        let dev_file = config.find_split(Split::Dev)?;
        let is_sample = train_file.is_sample || dev_file.is_sample;
        let train = read(&train_file.path, Purpose::Train)?;
        let mut notes = Vec::new();
        let (train, dev) = match config.single_table() {
            None => (train, read(&dev_file.path, Purpose::Score)?),
            Some(table) => {
                let (train, dev) = divide_table(config, train)?;
                notes.push(format!(
                    "{} is divided into {} examples to train on and {} for dev (--subset-seed {}): equal texts stay together, \
                     and the classes keep their shares.",
                    table.display(),
                    train.len(),
                    dev.len(),
                    config.subset_seed
                ));
                (train, dev)
            }
        };
        let mut scored = vec![(Part::Dev, dev)];
        for (part, split) in [(Part::DevMismatched, Split::DevMismatched), (Part::Test, Split::Test)] {
            if !config.task.spec().has_labels(split) {
                continue;
            }
            match config.find_split(split) {
                Ok(file) => scored.push((part, read(&file.path, Purpose::Score)?)),
                // A test file is optional, unless it is named.
                Err(error) if split == Split::Test && config.test_file.is_some() => return Err(error.into()),
                Err(_) => {}
            }
        }
        let to_predict = config.predict.as_ref().map(|path| read(path, Purpose::Predict));
        let to_predict = to_predict.transpose()?.map(&set);
        let sets = Self::new(setup, train, scored, set)?;
        notes.extend(sets.notes);
        Ok(Self { to_predict, is_sample, notes, ..sets })
    }

    /// Divides the examples of train, compares them with the sets that are scored, and converts all to sets.
    ///
    /// # Errors
    /// [`Error::Configuration`] when the options hold out all examples, or none, and when a set is part of the training set.
    pub(crate) fn new<T: Texts>(
        setup: Setup<'a>,
        train: Vec<T>,
        mut scored: Vec<(Part, Vec<T>)>,
        set: impl Fn(Vec<T>) -> S,
    ) -> Result<Self, Error> {
        let DividedExamples { train, held_out, parts: training } = divide(setup.config, train)?;
        if training.held_out > 0 {
            scored.push((Part::HeldOut, held_out));
        }
        let texts = TrainingTexts::new(&train);
        let shared_texts: Vec<SharedTexts> =
            scored.iter().map(|(part, examples)| texts.shared_with(*part, examples)).collect();
        shared_texts.iter().try_for_each(|shared| shared.check(setup.config.allow_overlap))?;
        Ok(Self {
            setup,
            train: set(train),
            training,
            parts: scored.into_iter().map(|(part, examples)| (part, set(examples))).collect(),
            to_predict: None,
            is_sample: false,
            notes: shared_texts.iter().filter_map(|shared| shared.warning()).collect(),
            shared_texts,
        })
    }

    /// Returns the training set and the labelled parts with their names for messages.
    pub(crate) fn with_names(&self) -> impl Iterator<Item = (String, &S)> {
        let parts = self.parts.iter().map(|(part, set)| (part.to_string(), set));
        std::iter::once(("the training set".to_string(), &self.train)).chain(parts)
    }
}
