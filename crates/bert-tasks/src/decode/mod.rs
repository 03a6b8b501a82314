//! Model outputs to answers, entities and prediction files.

pub mod answer_spans;
pub mod entities;
pub mod prediction_files;
