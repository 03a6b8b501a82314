//! Finds and reads the files of a task, or takes rows in memory: train, the examples held out of it, the labelled parts,
//! and the file of `--predict`. The task of a table is inferred from its rows.

use std::collections::BTreeMap;
use std::path::Path;

use bert_hub::name_of_cached;
use bert_task_files::{
    DescribedTable, ExampleFile, LabelUse, TableExamples, TableLabels, TableOptions, TextRow, column_names,
    describe_table, find_split, table_examples,
};
use bert_tasks::{Error, Example, Split, SplitFile, no_split};

use crate::config::FinetuneConfig;
use crate::data::holdout::{DividedExamples, TrainingParts, divide, divide_table};
pub(crate) use crate::data::text_hashes::Part;
use crate::data::text_hashes::{ComparedTexts, SharedTexts, Texts, contradictions, repeats};
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
    /// The texts that each part shares with the training set, and the texts that test shares with dev.
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
                // A test file is optional, unless `--test-file` names one.
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
        // Compare before selecting a part of the training data: comparing only the part could hide that the data
        // contain dev.
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

/// Returns the texts that each scored set shares with the training examples, which messages call `name`, and the
/// texts that test shares with dev.
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

impl FinetuneConfig {
    /// Returns the file of a split: the named one, or the one in `--data`.
    ///
    /// # Errors
    /// Fails when a named file does not exist, or as [`find_split`] does.
    pub(crate) fn find_split(&self, split: Split) -> Result<SplitFile, Error> {
        let table = self.data_table();
        let named = match split {
            Split::Train => self.train_file.as_deref().or(table),
            Split::Dev => self.dev_file.as_deref().or(table),
            Split::Test => self.test_file.as_deref(),
            Split::DevMismatched | Split::TestMismatched => None,
        };
        match (named, &self.data) {
            (Some(path), _) => match path.metadata() {
                Ok(_) => Ok(SplitFile { path: path.to_owned(), is_sample: false }),
                Err(source) => Err(Error::io("read", path)(source)),
            },
            (None, Some(data)) if table.is_none() => find_split(&self.task, data, split),
            (None, _) => Err(no_split(&self.task, split)),
        }
    }

    /// Returns the file of `--data` if it is a table instead of a folder.
    pub(crate) fn data_table(&self) -> Option<&Path> {
        self.data.as_deref().filter(|data| self.is_table() && data.is_file())
    }

    /// Returns the table of `--data` that is divided into train and dev.
    pub(crate) fn single_table(&self) -> Option<&Path> {
        self.data_table().filter(|_| self.dev_file.is_none())
    }

    /// Returns the columns of a table: `--columns`, or `text`, `text_b` if the table has it, and `label`.
    ///
    /// # Errors
    /// Fails when the table cannot be read, or when it lacks the column `text` or `label`; the error then lists its
    /// columns.
    fn columns_of(&self, train: &Path) -> Result<Vec<String>, Error> {
        if !self.table.columns.is_empty() {
            return Ok(self.table.columns.clone());
        }
        let found = column_names(train)?;
        let has = |name: &&str| found.iter().any(|column| column == name);
        if ["text", "label"].iter().all(has) {
            let usual = ["text", "text_b", "label"].into_iter().filter(has);
            return Ok(usual.map(String::from).collect());
        }
        let reason = format!(
            "is required, as TEXT,LABEL or TEXT,TEXT_B,LABEL: {} has no columns \"text\" and \"label\", but {}",
            train.display(),
            if found.is_empty() { "none".to_string() } else { found.join(", ") }
        );
        Err(Error::option("columns", reason))
    }

    /// Returns the configuration with a table's classes or range filled in, and remarks on the table's labels. For
    /// other tasks, the configuration is unchanged.
    ///
    /// # Errors
    /// Fails when a file of the table is invalid; the error names the line.
    pub(crate) fn described(&self) -> Result<(Self, Vec<String>), Error> {
        if !self.is_table() {
            return Ok((self.clone(), Vec::new()));
        }
        let path = |split| self.find_split(split).map(|file| file.path);
        let train = path(Split::Train)?;
        let dev = path(Split::Dev)?;
        let test = match path(Split::Test) {
            Ok(test) => Some(test),
            // A test file is optional, unless `--test-file` names one.
            Err(error) if error.is_absent() => None,
            Err(error) => return Err(error),
        };
        let labels = if self.table.regression {
            TableLabels::Scores
        } else {
            TableLabels::Classes(&self.table.labels)
        };
        let columns = &self.columns_of(&train)?;
        let options =
            TableOptions { columns, labels, label_use: LabelUse::for_labelled(self.skip_unlabelled) };
        let DescribedTable { task, notes } = describe_table(options, &train, &dev, test.as_deref())?;
        Ok((Self { task, ..self.clone() }, notes))
    }
}

/// Examples in memory.
pub(crate) struct RowExamples {
    pub(crate) train: Vec<Example>,
    pub(crate) dev: Vec<Example>,
}

/// Rows in memory: to train on, and to score on.
#[derive(Clone, Copy, Debug)]
pub struct TrainingRows<'a> {
    /// The rows to train on.
    pub train: &'a [TextRow],
    /// The rows to score on. They also select the epoch, unless the configuration disables this.
    pub dev: &'a [TextRow],
}

impl TrainingRows<'_> {
    /// Returns the configuration with the classes or the range of the rows, remarks on the labels, and the examples.
    pub(crate) fn described(
        self,
        config: &FinetuneConfig,
    ) -> Result<(FinetuneConfig, Vec<String>, RowExamples), Error> {
        let labels = if config.table.regression {
            TableLabels::Scores
        } else {
            TableLabels::Classes(&config.table.labels)
        };
        let TableExamples { task, train, dev, notes } = table_examples(self.train, self.dev, labels)?;
        Ok((FinetuneConfig { task, ..config.clone() }, notes, RowExamples { train, dev }))
    }
}
