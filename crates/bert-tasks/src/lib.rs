//! Reads and scores the tasks of `finetune`: GLUE, SST-5, CFIMDB, SICK, SNLI, SQuAD, CoNLL, SWAG, and custom tables.
//! The modules [`bert_trainer::question_answering`] and [`bert_trainer::token_classification`] read the files of SQuAD and CoNLL.
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

mod error;
mod task;

pub mod decode;
pub mod encode;
#[cfg(test)]
mod format_tests;
pub mod read;
#[cfg(test)]
pub(crate) mod real_data_tests;
pub mod score;
pub mod statistics;

pub use crate::decode::prediction_files::{
    write_errors, write_labels, write_predictions, write_probabilities,
};
pub use crate::encode::pair::{EncodedPair, SpecialIds, encode_pair, truncate_seq_pair};
pub use crate::read::glue_tsv::{Positions, official_places, place, same_columns};
pub use crate::read::lines::{for_each_line, lines_of, open_file, some};
pub use crate::read::table::records_of;
pub use crate::read::table::{DescribedTable, Labels, describe as describe_table};
pub use crate::read::{find_split, labels_of, read_file};
pub use crate::score::majority_baseline::{binomial_standard_error, is_degenerate, majority_baseline};
pub use crate::score::metrics::Weighted;
pub use crate::score::metrics::{confusion, score};
pub use crate::task::example::{Example, Label, Split, SplitFile};
pub use crate::task::metric::{Metric, Scores, Statistics};
pub use crate::task::spec::{Columns, Defaults, Kind, TaskSpec};
pub use error::json_type;
pub use error::{TaskError, TaskProblem};
pub use task::{TableDescription, TableTask, Task};
