//! One binary for all integration tests of the crate.
//!
//! Tests that need the reference material next to the workspace are ignored with that reason; `scripts/check --all`
//! runs them.

mod builder;
mod dataset;
mod input;
mod instance;
/// Helpers shared by the tests.
mod support;
mod tokenization;
