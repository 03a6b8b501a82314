//! Converts model outputs into predictions.
//!
//! | task | output -> prediction | file |
//! |---|---|---|
//! | SQuAD | start and end scores of tokens -> [`PredictedAnswer`](answer_spans::PredictedAnswer) | `answer_spans.rs` |
//! | CoNLL | tags of words -> [`Entity`](entities::Entity) | `entities.rs` |
//! | others | labels and probabilities -> files for GLUE's server or minBERT's grader | `prediction_files.rs` |

pub mod answer_spans;
pub mod entities;
pub(crate) mod prediction_files;
