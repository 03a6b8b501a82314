//! Reads and scores the tasks that `finetune` knows: GLUE, SST-5, CFIMDB, SICK, SNLI, SQuAD, CoNLL, SWAG, and
//! tables of one's own. The files of SQuAD and CoNLL have modules of their own: [`crate::question_answering`],
//! [`crate::token_classification`].
//!
//! The module turns a task's published files into [`Example`]s and predictions into the official [`Scores`] and into
//! prediction files in the form that GLUE's server (or minBERT's grader) takes. Everything here is plain text and numbers, without tensors or a tokenizer. The behaviour is that of the
//! reference's `run_classifier.py` where it has the task, and of the official GLUE files and metrics elsewhere.
//!
//! | step | function | file |
//! |---|---|---|
//! | which task, by which name | [`Task`], [`TableTask`] | `task.rs`, `task_names.rs` |
//! | its labels, files and defaults | [`TaskSpec`] | `spec.rs`, `catalog.rs` |
//! | the parts of its data, and what they hold | [`Split`], [`Example`] | `example.rs` |
//! | file -> examples | [`find_split`], [`read_file`] | `examples.rs`, `lines.rs`, `tsv.rs`, `swag.rs` |
//! | a table of one's own -> task, examples | [`describe_table`] | `table/` |
//! | token ids -> model input | [`encode_pair`] | `pair.rs` |
//! | predictions -> scores | [`score`] | `metrics.rs`, `scores.rs` |
//! | how much a score says | [`majority_baseline`], [`binomial_standard_error`] | `baseline.rs` |
//! | predictions -> files | [`write_predictions`] | `predictions.rs` |
//! | every way in which a file can be wrong | [`TaskError`], [`TaskProblem`] | `error.rs` |

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
