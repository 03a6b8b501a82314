//! Prints the result of a command.

use std::io::Write;

use anyhow::Context;

use crate::output::status_line;
use crate::output::terminal::{stdout_width, visible, wrapped};

/// Prints a result to stdout, with control characters escaped ([`visible`]). A closed pipe (`| head`) is not an error.
/// Programs call this function when their work is complete, and the text of the error states this.
pub fn print(text: &str) -> anyhow::Result<()> {
    status_line::close();
    let mut out = std::io::stdout().lock();
    let written = out
        .write_all(visible(text).as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("the work is complete, but its result cannot be written to standard output"),
    }
}

/// Prints text to stdout like [`print()`], wrapped between words on a terminal.
///
/// # Errors
/// Fails as [`print()`] does.
pub fn print_wrapped(text: &str) -> anyhow::Result<()> {
    print(&wrapped(text, stdout_width()))
}

/// Prints a result: with `--json` as one JSON object, otherwise as text.
///
/// # Errors
/// Fails as [`print()`] does.
pub fn print_result<T: serde::Serialize>(
    json: bool,
    value: &T,
    format: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    if json { print_json(value) } else { print_wrapped(format(value).trim_end()) }
}

/// Prints a value as one JSON object.
///
/// # Errors
/// Fails as [`print()`] does.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&serde_json::to_string_pretty(value)?)
}
