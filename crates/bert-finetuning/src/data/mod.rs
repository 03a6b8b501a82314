//! The examples of a fine-tuning: reads the files of a task, and holds examples out of the training file.

pub(crate) mod datasets;
pub(crate) mod holdout;
pub(crate) mod label_scale;
pub(crate) mod text_hashes;
