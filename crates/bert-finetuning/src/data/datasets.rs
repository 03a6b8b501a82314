//! Reads the files of a task: train, the examples held out of it, the labelled parts, and the file of `--predict`.

use std::collections::BTreeMap;
use std::path::Path;

use bert_hub::name_of_cached;
use bert_task_files::{ExampleFile, LabelUse};
use bert_tasks::Split;
use bert_training::Error;

use crate::data::holdout::{DividedExamples, TrainingParts, divide, divide_table};
pub(crate) use crate::data::part::Part;
use crate::data::repeated_texts::{contradictions, repeats};
use crate::data::text_hashes::{ComparedTexts, SharedTexts, Texts};
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
    /// The texts that each part shares with the training set, and test with dev.
    pub(crate) shared_texts: Vec<SharedTexts>,
    /// Remarks on the data, for the report.
    pub(crate) notes: Vec<String>,
}

impl<'a, S> Sets<'a, S> {
    /// Reads every file with `read`, train first, and converts the examples of each to a set.
    pub(crate) fn read<T: Texts>(
        setup: Setup<'a>,
        mut read: impl FnMut(&Path, LabelUse, Purpose) -> Result<ExampleFile<T>, Error>,
        set: impl Fn(Vec<T>) -> S,
    ) -> Result<Self, Error> {
        let config = setup.config;
        let mut notes = Vec::new();
        let mut read = |path: &Path, purpose| {
            let labels = match purpose {
                Purpose::Predict => LabelUse::Ignored,
                Purpose::Train | Purpose::Score => LabelUse::for_labelled(config.skip_unlabelled),
            };
            let file = read(path, labels, purpose)?;
            notes.extend(file.remarks().map(|remark| format!("{}: {remark}", path.display())));
            Ok::<_, Error>(file.examples)
        };
        let train_file = config.find_split(Split::Train)?;
        let dev_file = config.find_split(Split::Dev)?;
        let is_sample = train_file.is_sample || dev_file.is_sample;
        let train = read(&train_file.path, Purpose::Train)?;
        let mut division = None;
        let (train, dev) = match config.single_table() {
            None => (train, read(&dev_file.path, Purpose::Score)?),
            Some(table) => {
                let (train, dev) = divide_table(config, train)?;
                division = Some(format!(
                    "{} is divided into {} examples to train on and {} for dev (--subset-seed {}): equal texts stay together, \
                     and the classes keep their shares.",
                    name_of_cached(table).unwrap_or_else(|| table.display().to_string()),
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
                Err(error) if split == Split::Test && config.test_file.is_some() => return Err(error),
                Err(_) => {}
            }
        }
        let to_predict = config.predict.as_ref().map(|path| read(path, Purpose::Predict));
        let to_predict = to_predict.transpose()?.map(&set);
        let sets = Self::new(setup, train, scored, set)?;
        notes.extend(division);
        notes.extend(sets.notes);
        Ok(Self { to_predict, is_sample, notes, ..sets })
    }

    /// Splits the examples of train, looks for texts that they share with the sets that are scored, and converts the examples
    /// of each part to a set.
    ///
    /// # Errors
    /// Fails when the options hold out all examples or none, when a set is part of the training file, or when test is
    /// part of dev.
    pub(crate) fn new<T: Texts>(
        setup: Setup<'a>,
        train: Vec<T>,
        mut scored: Vec<(Part, Vec<T>)>,
        set: impl Fn(Vec<T>) -> S,
    ) -> Result<Self, Error> {
        let allow_overlap = setup.config.allow_overlap;
        // Before a part of the training data is selected, so that the part does not hide that dev is in them.
        let all = compared("the training data", &train, &scored);
        all.iter().try_for_each(|shared| shared.check(allow_overlap))?;
        let DividedExamples { train, held_out, parts: training } = divide(setup.config, train)?;
        if training.held_out > 0 {
            scored.push((Part::HeldOut, held_out));
        }
        let shared_texts = compared("the training set", &train, &scored);
        shared_texts.iter().try_for_each(|shared| shared.check(allow_overlap))?;
        let mut notes: Vec<String> = shared_texts.iter().filter_map(SharedTexts::warning).collect();
        notes.extend(contradictions("the training set", &train));
        for (part, examples) in &scored {
            notes.extend(contradictions(&part.to_string(), examples));
            notes.extend(repeats(&part.to_string(), examples));
        }
        Ok(Self {
            setup,
            train: set(train),
            training,
            parts: scored.into_iter().map(|(part, examples)| (part, set(examples))).collect(),
            to_predict: None,
            is_sample: false,
            notes,
            shared_texts,
        })
    }

    /// Returns the training set and the labelled parts with their names for messages.
    pub(crate) fn with_names(&self) -> impl Iterator<Item = (String, &S)> {
        let parts = self.parts.iter().map(|(part, set)| (part.to_string(), set));
        std::iter::once(("the training set".to_string(), &self.train)).chain(parts)
    }
}

/// Compares the scored sets with training examples, which have this name, and test with dev.
fn compared<T: Texts>(name: &str, train: &[T], scored: &[(Part, Vec<T>)]) -> Vec<SharedTexts> {
    let texts = ComparedTexts::new(name, train);
    let mut shared: Vec<SharedTexts> =
        scored.iter().map(|(part, examples)| texts.shared_with(*part, examples)).collect();
    let find = |wanted| scored.iter().find(|(part, _)| *part == wanted).map(|(_, examples)| examples);
    if let (Some(dev), Some(test)) = (find(Part::Dev), find(Part::Test)) {
        let with_dev = ComparedTexts::new("dev", dev).shared_with(Part::Test, test);
        shared.extend((with_dev.with_shared_text > 0).then_some(with_dev));
    }
    shared
}
