//! Pre-training runs: initialization, recipes, limits, resume, and equal bytes for equal input.

mod adaptation; // adapting a model to a domain: new word pieces
mod defaults; // settings by model size: printed, saved, kept by a resumed run
mod determinism; // equal input gives equal bytes; accumulation equals one batch
mod initialization; // initialization of a run, and its resume
mod limits; // memory: estimates, limits, out of memory
mod recipes; // recipes, and a run limited by time
mod rejected_resumes; // runs that --resume rejects
pub(crate) mod resume; // stopped, killed, corrupted: continued bit for bit
