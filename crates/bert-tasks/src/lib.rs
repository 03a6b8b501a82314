//! Encodes and scores the tasks of fine-tuning: GLUE, SST-5, CFIMDB, SICK, SNLI, SQuAD, CoNLL, SWAG, and custom tables.
//!
//! The crate converts [`Example`]s, [`Question`]s and [`Sentence`]s into the input of a model, and a model's outputs
//! into official [`Scores`] and prediction files. It works on text and numbers, without tensors and without files;
//! the crate `bert-task-files` reads examples. It behaves like the reference's `run_classifier.py` and `run_squad.py`
//! for their tasks, and follows the official files and metrics for the others.
//!
//! | folder | step | start with |
//! |---|---|---|
//! | `task/` | the tasks: labels, files, metrics, default settings | [`Task`], [`TaskSpec`], [`Split`] |
//! | `encode/` | token ids -> model input | [`encode_pair`], [`windows`] |
//! | `decode/` | model outputs -> answers, entities, prediction files | `decode`, [`write_predictions`] |
//! | `score/` | predictions and labels -> scores | [`score()`], [`constant_baseline`], [`squad_metrics`] |
//! | `statistics/` | scores over seeds -> intervals and tests | `statistics` |
//! | `task/error.rs` | errors in names and files | [`Error`] |
//!
//! ```
//! use bert_tasks::{Label, Metric, Task, score};
//!
//! let task: Task = "mrpc".parse()?;
//! let predictions = [1, 1, 0].map(Label::Class); let labels = [1, 0, 0].map(Label::Class);
//! let scores = score(&task, &predictions, &labels);
//! assert_eq!(scores.get(Metric::F1), Some(2.0 / 3.0));
//! # Ok::<(), bert_tasks::Error>(())
//! ```

mod task;

mod decode;
mod encode;
mod score;
mod statistics;
mod translation_metrics;

pub use crate::decode::answer_spans::AnswerSettings;
pub use crate::decode::prediction_files::{
    write_errors, write_labels, write_predictions, write_probabilities,
};
pub use crate::encode::pair::{EncodedPair, SpecialIds, Truncation, encode_pair};
pub use crate::encode::windows::WindowSettings;
pub use crate::score::metrics::{confusion, score};
pub use crate::statistics::{
    Bin, Calibration, Interval, McNemar, MetricSummary, PairedTest, Ratio, SeedRun, SeedSummary, SummaryRow,
    calibration, confidence_interval, paired_test, ratio_interval,
};
pub use crate::task::error::{Class, Error};
pub use crate::task::example::{Answer, Example, InputText, Label, Question, Sentence, Split, SplitFile};
pub use crate::task::metric::{Metric, Scores, Statistics};
pub use crate::task::source::{TextSource, Window, Windows};
pub use crate::task::spec::{Columns, Defaults, Kind, TaskSpec};
pub use crate::task::{TableDescription, TableTask, Task};

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
pub use crate::decode::{answer_spans, entities};
#[doc(hidden)]
pub use crate::encode::windows;
#[doc(hidden)]
pub use crate::score::metrics::{binomial_standard_error, constant_baseline, is_degenerate};
#[doc(hidden)]
pub use crate::score::squad_metrics;
#[doc(hidden)]
pub use crate::task::{
    error::{json_type, missing_column, missing_label, missing_split, no_split, wrong_columns},
    example::{is_entity_tag, labels_of, tags_of},
};
#[doc(hidden)]
pub use crate::translation_metrics::{
    TranslationMetric,
    bleu_tokenizer::BleuTokenizer,
    bootstrap::{ScoreSummary, summarize},
};
