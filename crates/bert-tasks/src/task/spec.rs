//! Defines the fixed properties of a task: its labels, files, metrics and default settings. The values are in
//! `catalog.rs`.
//!
//! Class numbers are positions in [`TaskSpec::labels`], in the order of the reference's and GLUE's
//! processors: RTE and QNLI `entailment` = 0, `not_entailment` = 1; MNLI `contradiction` = 0, `entailment` = 1,
//! `neutral` = 2. The Hugging Face `glue` data set numbers MNLI differently; exported models list their own numbers in
//! `id2label`.

use super::example::Split;
use crate::task::metric::Metric;

/// The kind of prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// One of several classes.
    Classification,
    /// A number.
    Regression {
        /// Minimum score.
        min: f32,
        /// Maximum score.
        max: f32,
    },
    /// The span of a text that answers a question.
    Spans {
        /// Whether some questions have no answer (SQuAD 2.0).
        version_2: bool,
    },
    /// A tag for every word; the set of tags is read from the training file.
    Tags,
}

/// Default settings of a run.
///
/// GLUE uses the settings of the reference's `run_classifier.py`, except for the small sets MRPC and WNLI, which use
/// five epochs as in Hugging Face's `run_glue` table. SST-5 and CFIMDB use the settings of the minBERT assignment;
/// CFIMDB's reviews need the longer sequences. SICK, SNLI, CoNLL and tables use GLUE's settings, SQuAD the settings of
/// the reference's README, and SWAG the settings of the paper (4.4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Defaults {
    /// Maximum sequence length, including special tokens.
    pub max_seq_length: usize,
    /// Number of epochs.
    pub num_train_epochs: f64,
    /// Batch size.
    pub train_batch_size: usize,
    /// Peak learning rate when the whole model is fine-tuned.
    pub learning_rate: f64,
    /// Peak learning rate when the encoder is frozen; the head alone needs a much larger one.
    pub frozen_learning_rate: f64,
}

/// The fixed properties of a task. The labels and columns of a custom table are in its
/// [`TableDescription`](crate::TableDescription) instead; [`Task::labels`](crate::Task::labels) returns the labels of
/// any task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskSpec {
    /// Name on the command line.
    pub name: &'static str,
    /// Folder name of the official download, searched for in the data folder.
    pub folder: &'static str,
    /// Classes or range.
    pub kind: Kind,
    /// The labels as written in the files; the position is the class number. Empty for a regression and for a table.
    pub labels: &'static [&'static str],
    /// Class names for exported models. Empty for a regression and for a table.
    pub class_names: &'static [&'static str],
    /// Whether an example has two texts.
    pub pair: bool,
    /// Number of second texts to choose from; 0 unless the task is multiple choice.
    pub choices: usize,
    /// Reported metrics, official ones first. Every classification also reports accuracy, because the binomial sampling
    /// error applies to it.
    pub metrics: &'static [Metric],
    /// Metric that selects the best checkpoint on dev: the one that the BERT paper reports (F1 for MRPC and QQP,
    /// Spearman for STS-B, Matthews for CoLA, else accuracy).
    pub primary: Metric,
    /// Default settings.
    pub defaults: Defaults,
    /// Official files of each split; if a split has several, the first existing one is used.
    pub files: &'static [(Split, &'static str)],
    /// Whether `train_sample.tsv` and `dev_sample.tsv` may replace the official files.
    pub samples: bool,
    /// Whether the published test file has labels that may be scored. CFIMDB's test file has a label column, but all
    /// its labels are blanked: they are 0.
    pub test_has_labels: bool,
    /// Label that marks missing annotator agreement; rows with it are skipped, as in published results on SNLI.
    pub unlabelled: Option<&'static str>,
    /// GLUE's submission file of each test split.
    pub submissions: &'static [(Split, &'static str)],
}

impl TaskSpec {
    /// Returns all possible names of a split's official file; empty if the task does not have the split.
    pub fn file_names(&self, split: Split) -> impl Iterator<Item = &'static str> {
        self.files.iter().filter(move |(of, _)| *of == split).map(|(_, name)| *name)
    }

    /// Returns whether the task has the split. A table may have every split except the second dev and test sets.
    pub fn has_split(&self, split: Split) -> bool {
        match self.files {
            [] => matches!(split, Split::Train | Split::Dev | Split::Test),
            _ => self.file_names(split).next().is_some(),
        }
    }

    /// Returns the name of a sample file that may replace the official one.
    pub fn sample_file_name(&self, split: Split) -> Option<&'static str> {
        match split {
            Split::Train if self.samples => Some("train_sample.tsv"),
            Split::Dev if self.samples => Some("dev_sample.tsv"),
            _ => None,
        }
    }

    /// Returns the file name that GLUE's server expects for predictions on a test split; `None` for other tasks.
    pub fn submission_file_name(&self, split: Split) -> Option<&'static str> {
        self.submissions.iter().find(|(of, _)| *of == split).map(|(_, name)| *name)
    }

    /// Returns whether predictions are written as rows of index and answer; minBERT's tasks use `ANSWER ||| TEXT`.
    pub fn predicts_in_rows(&self) -> bool {
        self.folder != "minbert"
    }

    /// Returns whether the published file of a split has labels that may be scored.
    pub fn has_labels(&self, split: Split) -> bool {
        match split {
            Split::Train | Split::Dev | Split::DevMismatched => true,
            Split::Test => self.test_has_labels,
            Split::TestMismatched => false,
        }
    }
}

/// The names of a table's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns<'a> {
    /// The (first) text.
    pub text_a: &'a str,
    /// The second text of a pair.
    pub text_b: Option<&'a str>,
    /// The label or score.
    pub label: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;

    #[test]
    fn every_spec_is_consistent() {
        for task in Task::ALL {
            let spec = task.spec();
            assert_eq!(spec.labels.len(), spec.class_names.len(), "{task}");
            assert!(spec.metrics.contains(&spec.primary), "{task}");
            assert_eq!(spec.class_names.len().max(1), task.num_labels(), "{task}");
            let squad = matches!(task, Task::Squad | Task::Squad2);
            assert!(spec.has_split(Split::Train) && spec.has_split(Split::Dev), "{task}");
            assert_eq!(!spec.has_split(Split::Test), squad, "{task}");
            if squad || task == Task::Conll {
                assert!(spec.primary == Metric::F1 && spec.labels.is_empty());
                continue;
            }
            let labelled = matches!(task, Task::Sst5 | Task::Sick | Task::SickR | Task::Snli);
            assert_eq!(spec.has_labels(Split::Test), labelled);
            let classification = spec.kind == Kind::Classification;
            assert_eq!(classification, spec.metrics.contains(&Metric::Accuracy));
            let glue = !labelled && !matches!(task, Task::Cfimdb | Task::Swag);
            assert_eq!(glue, spec.submission_file_name(Split::Test).is_some());
            let single = matches!(task, Task::Sst2 | Task::Cola | Task::Sst5 | Task::Cfimdb | Task::Swag);
            assert_eq!(spec.pair, !single);
        }
    }

    #[test]
    fn class_numbers_follow_the_reference() {
        assert_eq!(Task::Rte.spec().labels, ["entailment", "not_entailment"]);
        assert_eq!(Task::Qnli.spec().labels, Task::Rte.spec().labels);
        assert_eq!(Task::Mnli.spec().labels, ["contradiction", "entailment", "neutral"]);
        assert_eq!(Task::Mnli.spec().class_names, ["contradiction", "entailment", "neutral"]);
        assert_eq!(Task::Wnli.spec().class_names[1], "entailment");
        assert_eq!(Task::Snli.spec().labels, Task::Mnli.spec().labels);
        assert_eq!(Task::Stsb.num_labels(), 1);
        assert_eq!(Task::Sst5.num_labels(), 5);
    }

    #[test]
    fn mnli_has_two_dev_files_and_samples() {
        let mnli = Task::Mnli.spec();
        assert_eq!(mnli.file_names(Split::Dev).next(), Some("dev_matched.tsv"));
        assert_eq!(mnli.file_names(Split::DevMismatched).next(), Some("dev_mismatched.tsv"));
        assert_eq!(mnli.sample_file_name(Split::Dev), Some("dev_sample.tsv"));
        assert_eq!(mnli.sample_file_name(Split::DevMismatched), None);
        assert_eq!(mnli.submission_file_name(Split::TestMismatched), Some("MNLI-mm.tsv"));
        assert_eq!(Task::Rte.spec().file_names(Split::DevMismatched).next(), None);
        assert_eq!(Task::Rte.spec().sample_file_name(Split::Train), None);
    }
}
