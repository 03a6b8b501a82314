//! Scores predictions with the official metrics: of labels (`metrics.rs`) and of answers (`squad_metrics.rs`), and the
//! baseline to compare with (`baseline.rs`). [`crate::decode::entities`] counts entities.

pub(crate) mod metrics;
pub mod squad_metrics;
