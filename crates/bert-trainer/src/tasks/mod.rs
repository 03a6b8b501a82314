//! Reads and scores the tasks of `finetune`: GLUE, SST-5, CFIMDB, SICK, SNLI, SQuAD, CoNLL, SWAG, and custom tables.
//! The modules [`crate::question_answering`] and [`crate::token_classification`] read the files of SQuAD and CoNLL.
//!
//! The module converts a task's published files into [`Example`]s, and predictions into the official [`Scores`] and
//! into prediction files for GLUE's server (or minBERT's grader). It works on plain text and numbers, without tensors
//! or a tokenizer. It behaves as the reference's `run_classifier.py` for its tasks, and follows the official GLUE files
//! and metrics for the others.
//!
//! | step | function | file |
//! |---|---|---|
//! | task names | [`Task`], [`TableTask`] | `task.rs`, `task_names.rs` |
//! | labels, files and defaults of a task | [`TaskSpec`] | `spec.rs`, `catalog.rs` |
//! | splits and examples | [`Split`], [`Example`] | `example.rs` |
//! | file -> examples | [`find_split`], [`read_file`] | `examples.rs`, `lines.rs`, `tsv.rs`, `swag.rs` |
//! | custom table -> task, examples | [`describe_table`] | `table/` |
//! | token ids -> model input | [`encode_pair`] | `pair.rs` |
//! | predictions -> scores | [`score`] | `metrics.rs`, `scores.rs` |
//! | baseline and sampling error of a score | [`majority_baseline`], [`binomial_standard_error`] | `baseline.rs` |
//! | predictions -> files | [`write_predictions`] | `predictions.rs` |
//! | errors in files | [`TaskError`], [`TaskProblem`] | `error.rs` |

mod baseline;
mod catalog;
mod error;
mod example;
mod examples;
mod lines;
mod metrics;
mod pair;
mod predictions;
mod scores;
mod spec;
mod swag;
mod table;
mod task;
mod task_names;
mod tsv;

#[cfg(test)]
mod format_tests;
#[cfg(test)]
pub(crate) mod real_data_tests;

pub use baseline::{binomial_standard_error, is_degenerate, majority_baseline};
pub(crate) use error::json_type;
pub use error::{TaskError, TaskProblem};
pub use example::{Example, Label, Split, SplitFile};
pub use examples::{find_split, labels_of, read_file};
pub(crate) use lines::{for_each_line, lines_of, open_file, some};
pub(crate) use metrics::Weighted;
pub use metrics::{confusion, score};
pub use pair::{EncodedPair, SpecialIds, encode_pair, truncate_seq_pair};
pub use predictions::{write_errors, write_labels, write_predictions, write_probabilities};
pub use scores::{Metric, Scores, Statistics};
pub use spec::{Columns, Defaults, Kind, TaskSpec};
pub(crate) use table::records_of;
pub use table::{DescribedTable, Labels, describe as describe_table};
pub use task::{TableDescription, TableTask, Task};
pub(crate) use tsv::{Positions, official_places, place, same_columns};
