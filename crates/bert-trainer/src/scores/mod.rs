//! Puts finished fine-tunings side by side: `bert scores`.
//!
//! | question | function | file |
//! |---|---|---|
//! | what do the seeds of a job array, or the cells of a grid, give together? | [`collect()`] | `collect.rs` |
//! | is one better than the other? | [`compare()`] | `compare.rs` |
//!
//! What the runs answered is read from their folders in `answers.rs`.

mod answers;
mod collect;
mod compare;

pub use collect::{Collection, Group, collect};
pub use compare::{Comparison, SeedPair, Side, compare};
