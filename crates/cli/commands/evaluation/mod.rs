//! Commands that score a model or show the results of runs.

pub mod evaluate;
pub mod predict;
pub mod probe;
pub mod report;
pub mod scores;
pub mod watch;
