//! Ends a program: the error once, and the documented exit code.

use std::process::ExitCode;

use crate::Error;

/// Prints an error with its causes and gives its exit code.
pub fn finish(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    eprintln!("error: {text}");
    ExitCode::from(error.downcast_ref().map_or(1, Error::exit_code))
}
