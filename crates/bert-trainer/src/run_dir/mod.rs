//! Files of a run: checkpoints, logs and model folders.

pub mod builtin_model;
pub mod checkpoint;
pub(crate) mod encoder_record;
pub mod histograms;
pub(crate) mod identity;
pub(crate) mod incomplete_output;
pub(crate) mod json_file;
pub(crate) mod metrics_log;
pub mod model_card;
pub mod model_folder;
pub mod resolved;
pub(crate) mod retention;
