//! Scores predictions with the official metrics. `metrics.rs` scores labels and computes the baseline to compare with;
//! `squad_metrics.rs` scores answers. [`crate::decode::entities`] counts entities.

pub(crate) mod metrics;
pub mod squad_metrics;
