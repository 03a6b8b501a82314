//! Errors for task names, folders and files that several readers report. Lines count from 1, as in editors.

use bert_storage::did_you_mean;
pub use bert_storage::{Class, Error};

use crate::task::Task;
use crate::task::example::Split;

/// Returns the error for a split that the task does not have.
pub fn no_split(task: &Task, split: Split) -> Error {
    Error::usage(format!("task {task} has no {split} split")).absent()
}

/// Returns the error for a folder that has no file for the split. It lists the names that were tried.
pub fn missing_split(task: &Task, split: Split, tried: &[String]) -> Error {
    let text = format!("no {split} file of task {task} here (looked for {})", tried.join(", "));
    Error::failed(text).absent()
}

/// Returns the error for a header without a required column.
pub fn missing_column(column: &str, header: &[String]) -> Error {
    let similar = header.iter().map(String::as_str).filter(|name| !differ_in_number(column, name));
    Error::data(format!(
        "no column \"{column}\" in the header (columns here: {}{})",
        header.join(", "),
        did_you_mean(column, similar)
    ))
}

/// Returns the error for an example without a label, or with a label that means a missing label in other programs. The
/// user can name the classes if the label `may_be_class`.
pub fn missing_label(label: &str, may_be_class: bool) -> Error {
    let problem = match label {
        "" => "there is no label here".to_string(),
        label => format!("the label \"{label}\" marks an example without a label in other programs"),
    };
    let or_class = if may_be_class && !label.is_empty() { ", and `.labels` makes it a class" } else { "" };
    let text = format!("{problem}; `.skip_unlabelled` leaves such examples out{or_class}");
    Error::new(Class::Unlabelled, text)
}

/// Returns a description of the type of a JSON value, for an error message.
pub fn json_type(value: &serde_json::Value) -> &'static str {
    use serde_json::Value;
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns whether two names differ only in the number at their end, as `sentence1` and `sentence2` do: neither is a
/// misspelling of the other.
fn differ_in_number(one: &str, other: &str) -> bool {
    let stem = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    stem(one) != one && stem(one) == stem(other)
}

/// Returns the error for a table without two or three different column names.
pub fn wrong_columns(given: &[String]) -> Error {
    let given = given.join(",");
    Error::usage(format!("`.columns`: give TEXT,LABEL or TEXT,TEXT_B,LABEL, all different (given: {given})"))
}
