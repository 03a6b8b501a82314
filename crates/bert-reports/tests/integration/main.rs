//! Tests exports and pages of whole runs.

mod faults; // failures of every n-th file operation of an export
mod skipped_steps; // the page of a run with skipped steps
#[path = "../../../bert-training/tests/integration/world.rs"]
mod world; // the data and the runs of the tests
