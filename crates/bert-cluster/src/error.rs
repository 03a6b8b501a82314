//! The error type, and the end of a program.

use std::process::ExitCode;

pub use bert_storage::{Class, Error, Result};
use bert_storage::{visible, with_flags};

use crate::work::message;

/// Returns the exit code of a result. Prints an error with its causes.
pub fn finish(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    eprintln!("error: {}", visible(&with_flags(&message(error.chain()))));
    ExitCode::from(error.downcast_ref::<Error>().map_or(1, Error::exit_code))
}
