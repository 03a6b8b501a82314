//! Files of a run: its identity, logs and output folder.

pub mod histograms;
pub mod identity;
pub mod incomplete_output;
pub mod metrics_log;
pub(crate) mod training_run;
