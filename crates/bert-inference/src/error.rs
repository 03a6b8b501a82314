//! The error type, and errors of model folders that several modules report.

use std::fmt::Display;
use std::path::Path;

pub use bert_storage::{Class, Error};

/// Returns the error for a damaged file.
pub fn damaged(path: &Path, reason: impl Display) -> Error {
    Error::model(format!("damaged: {reason}")).at(path)
}

/// Returns the error for a checkpoint whose files do not match their digests.
pub fn corrupt(path: &Path, reason: impl Display) -> Error {
    Error::model(format!("the checkpoint is corrupt: {reason}")).at(path)
}

/// Returns the error for a model without a head, with a hint on how to proceed.
pub(crate) fn no_head(head: &str, hint: &str) -> Error {
    Error::model(format!("the model has no {head}; {hint}")).absent()
}

/// Returns the error for results that could not be written to the caller's output.
pub fn results_not_written(cause: std::io::Error) -> Error {
    Error::carried_by(cause).unwrap_or_else(|cause| Error::failed("cannot write the results").because(cause))
}

/// Returns the error for inputs that do not match. `differences` has one text for each difference.
pub fn mismatch(differences: impl AsRef<[String]>) -> Error {
    Error::model(format!("the inputs do not match: {}", differences.as_ref().join("; ")))
}

/// Rejects the value of a flag if `good` is false.
pub fn check(good: bool, flag: &'static str, reason: &str) -> Result<(), Error> {
    if good { Ok(()) } else { Err(Error::option(flag, reason.to_owned())) }
}
