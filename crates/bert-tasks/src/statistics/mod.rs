//! Measures the uncertainty of a score: the summary over seeds, confidence intervals, and significance tests between
//! two sets of runs.
//!
//! The functions take the labels of an evaluated set and the answers of each run, one run per seed, and return plain
//! numbers. A mean over seeds is uncertain because both the dev examples and the seeds are random samples;
//! `variance.rs` estimates how much each contributes to the variance. `level_tests.rs` measures by simulation how often
//! the tests and intervals are wrong.
//!
//! | question | function | file |
//! |---|---|---|
//! | what are the scores over the seeds? | [`SeedSummary`] | `seed_summary.rs` |
//! | what is the confidence interval of the mean score? | [`confidence_interval`] | `interval.rs` |
//! | is one set of runs better than another? | [`paired_test`] | `paired_test.rs` |
//! | do two models differ in the number of correct answers? | [`McNemar`] | `paired_test.rs` |
//! | is a classifier calibrated? | [`calibration()`] | `calibration.rs` |

mod calibration;
mod interval;
#[cfg(test)]
mod level_tests;
mod paired_test;
mod seed_summary;
mod variance;

pub use crate::score::metrics::Ratio;
pub use calibration::{Bin, Calibration, calibration};
pub use interval::{Interval, confidence_interval, ratio_interval};
pub use paired_test::{McNemar, PairedTest, paired_test};
pub use seed_summary::{MetricSummary, SeedRun, SeedSummary, SummaryRow};
