//! Combines and compares finished fine-tunings: `bert scores`.
//!
//! | question | function | file |
//! |---|---|---|
//! | what is the summary over the seeds of a job array, or the cells of a grid? | [`collect()`] | `collect.rs` |
//! | is one fine-tuning better than another? | [`compare()`] | `compare.rs` |
//!
//! `answers.rs` reads the predictions of the runs from their folders.

mod answers;
mod collect;
mod compare;

pub use collect::{Collection, Group, collect};
pub use compare::{Comparison, SeedPair, Side, compare};
