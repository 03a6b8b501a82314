//! Measures how sure a score is: the summary over seeds, confidence intervals, and tests of one set of runs against
//! another.
//!
//! The functions take the labels of an evaluated set and what each run (one per seed) answered, and return plain
//! numbers. Two things make a mean over seeds uncertain: another dev set would have had other examples, and other
//! seeds would have given other models. The bootstrap draws both anew. Every draw comes from an addressed stream of
//! `bert_random`, so equal answers give equal figures.
//!
//! | question | function | file |
//! |---|---|---|
//! | what did the seeds come to? | [`SeedSummary`] | `summary.rs` |
//! | between which values does the mean score lie? | [`confidence_interval`] | `bootstrap.rs` |
//! | is one set of runs better than another? | [`paired_test`] | `paired.rs` |
//! | do two models differ in what they get right? | [`McNemar`] | `paired.rs` |
//! | is a classifier right as often as it is sure? | [`calibration()`] | `calibration.rs` |

mod bootstrap;
mod calibration;
mod paired;
mod summary;

pub use bootstrap::{Interval, confidence_interval, share_interval};
pub use calibration::{Bin, Calibration, calibration};
pub use paired::{McNemar, PairedTest, paired_test};
pub(crate) use summary::decimals;
pub use summary::{MetricSummary, SeedRun, SeedSummary};
