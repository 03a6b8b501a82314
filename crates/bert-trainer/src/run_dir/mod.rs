//! Files of a run: checkpoints, logs, reports and model folders.

pub mod builtin_model;
pub mod checkpoint;
pub(crate) mod identity;
pub(crate) mod incomplete_output;
pub(crate) mod json_file;
pub mod metrics_log;
pub mod model_folder;
pub(crate) mod report_file;
pub mod retention;
