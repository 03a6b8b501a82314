//! Metrics of the tasks, and the majority-class baseline.

pub mod majority_baseline;
pub mod metrics;
pub mod squad_metrics;
