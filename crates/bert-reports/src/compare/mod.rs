//! Combines and compares finished fine-tunings: `bert scores`.
//!
//! | question | function | file |
//! |---|---|---|
//! | Which summary do the seeds of a job array have, or the cells of a grid? | [`collect()`] | `collect.rs` |
//! | Is one fine-tuning better than another? | [`compare()`] | `pairwise.rs` |
//! | Which scores does a checkpoint reach on GLUE? | [`glue_table`], [`glue_submission`] | |
//!
//! `saved_answers.rs` reads the predictions of the runs from their folders.

mod collect;
pub(crate) mod glue_submission;
pub(crate) mod glue_table;
pub(crate) mod pairwise;
pub(crate) mod saved_answers;

pub(crate) use collect::named_warnings;
pub use collect::{Collection, Group, collect, shared_text_warnings};
