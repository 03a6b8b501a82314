//! Scores predictions with the official metrics: of labels, with the baseline to compare with (`metrics.rs`), and of
//! answers (`squad_metrics.rs`). [`crate::decode::entities`] counts entities.

pub(crate) mod metrics;
pub mod squad_metrics;
