//! Combines and compares finished fine-tunings: `bert scores`.
//!
//! | question | function | file |
//! |---|---|---|
//! | what is the summary over the seeds of a job array, or the cells of a grid? | [`collect()`] | `collect.rs` |
//! | is one fine-tuning better than another? | [`compare()`] | `compare.rs` |
//!
//! `answers.rs` reads the predictions of the runs from their folders.

mod collect;
pub mod glue_submission;
pub mod glue_table;
pub mod pairwise;
pub(crate) mod saved_answers;

pub use crate::compare::pairwise::{Comparison, SeedPair, Side, compare};
pub use collect::{Collection, Group, collect};
