//! The error type, and errors that several modules report.
//!
//! The data programs have these exit codes: 1 error, 2 usage or configuration, 3 bad or corrupt data, 6 output in use
//! by another process, 75 too early (the same command works later).

pub(crate) use bert_storage::check_value;
pub use bert_storage::{Class, Error, Result, is_disk_full};

/// Returns the error for an input without a document that has a token.
pub(crate) fn no_tokens(files: usize, lines: u64) -> Error {
    Error::data(format!("the input has no text: {files} file(s), {lines} line(s), no tokens")).absent()
}

/// Returns the error for a missing option, with its purpose.
pub(crate) fn missing_option(option: &str, purpose: &str) -> Error {
    Error::usage(format!("`.{option}` is required: {purpose}"))
}

/// Returns the error for an output folder with a file that this program did not write.
pub(crate) fn holds_other_data(file: &str) -> Error {
    Error::usage(format!("this output folder holds other data ({file}): choose an empty or new folder"))
}

/// Returns the error for an output folder with an unfinished build of another command; `differences` names the options
/// that differ.
pub(crate) fn unfinished_build(differences: &str) -> Error {
    Error::usage(format!(
        "this folder holds an unfinished build in which {differences}: repeat that command to finish it, or discard it with \
         `.overwrite` (parts: remove the folder)"
    ))
}

/// Returns the error for an output with a data set other than the requested one; `differences` names the options that
/// differ.
pub(crate) fn finished_data_set(differences: &str) -> Error {
    Error::usage(format!(
        "this output already holds a finished data set: use `.overwrite` to replace it (parts and engines: remove it first); \
         {differences}"
    ))
}

/// Returns the error for a token that the vocabulary does not have.
pub(crate) fn unknown_token(id: i32, vocabulary: usize) -> Error {
    Error::data(format!("token id {id} is outside the vocabulary of {vocabulary}"))
}

/// Returns the error for a part that was built from different text, with different options or by a different program.
pub(crate) fn other_part(part: usize, difference: &str) -> Error {
    Error::data(format!("part {part} does not match the other parts: it has other {difference}"))
}

/// Returns the error for missing parts of a build, with the command that makes them. A list has the form of a job
/// array: `3,5-7`.
pub(crate) fn parts_missing(parts: usize, missing: &[usize]) -> Error {
    let finished = parts - missing.len();
    let advice = match missing {
        [part] => format!("part {part} is missing: make it with `.part {part}` `.parts {parts}`"),
        _ => {
            let runs = missing.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
                [first, .., last] => format!("{first}-{last}"),
                _ => run[0].to_string(),
            });
            let list = runs.collect::<Vec<_>>().join(",");
            format!(
                "parts {list} are missing: make each with `.part I` `.parts {parts}`, for example as a job array {list}"
            )
        }
    };
    Error::data(format!("{finished} of {parts} parts are finished; {advice}")).absent()
}

/// Returns the error with a line number that continues after the `lines` before a range of the file. Calls `lines` only if
/// the error has a line number.
pub(crate) fn after_lines(error: Error, lines: impl FnOnce() -> Result<u64>) -> Error {
    match error.line().map(|_| lines()) {
        None => error,
        Some(Ok(lines)) => error.map_line(|line| line + lines),
        Some(Err(error)) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_missing_parts_are_listed() {
        assert_eq!(
            parts_missing(9, &[2, 4, 5, 6, 9]).to_string(),
            "4 of 9 parts are finished; parts 2,4-6,9 are missing: make each with `.part I` `.parts 9`, for example as a job \
             array 2,4-6,9"
        );
    }
}
