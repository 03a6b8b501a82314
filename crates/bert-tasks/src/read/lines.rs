//! Splits untrusted files into lines.
//!
//! A line ends at LF only; a byte-order mark and the CR of a CRLF are dropped. Invalid UTF-8 and overlong lines are
//! errors with a location. Memory is bounded for every file.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use bert_storage::Locate;

use crate::task::error::{TaskError, TaskProblem};

/// Maximum line length. The longest published row has about 10 KB.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Maximum file size. The largest published file, MNLI's training set, has about 200 MB.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Works as [`for_each_line_in`] on a file, and adds the location to the errors of `each`.
pub(crate) fn for_each_line(
    path: &Path,
    mut each: impl FnMut(u64, &str) -> Result<(), TaskProblem>,
) -> Result<(), TaskError> {
    for_each_line_in(open_file(path)?, path, |line, text| {
        each(line, text).map_err(|problem| problem.at_line(path, line).into())
    })
}

/// Returns the lines of a file.
///
/// # Errors
/// [`TaskProblem`] with the location: the file cannot be read or is too large, or a line is too long or not UTF-8.
pub fn read_lines(path: &Path) -> Result<Vec<String>, TaskError> {
    let mut lines = Vec::new();
    for_each_line(path, |_, text| {
        lines.push(text.to_string());
        Ok(())
    })?;
    Ok(lines)
}

/// Returns whether a path exists.
///
/// # Errors
/// [`TaskProblem::Io`] when the system returns another error than "not found".
pub(crate) fn exists(path: &Path) -> Result<bool, TaskError> {
    match fs::metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(source) => Err(TaskProblem::Io(source).located(path).into()),
    }
}

/// Opens a task's file.
///
/// # Errors
/// [`TaskProblem::NotAFile`], [`TaskProblem::FileTooLarge`], [`TaskProblem::Io`].
pub(crate) fn open_file(path: &Path) -> Result<BufReader<File>, TaskError> {
    let io = |source| TaskProblem::Io(source).located(path);
    // Check the type first: opening a pipe without a writer would block forever.
    let metadata = fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        return Err(TaskProblem::NotAFile.located(path).into());
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(TaskProblem::FileTooLarge(MAX_FILE_BYTES).located(path).into());
    }
    Ok(BufReader::new(File::open(path).map_err(io)?))
}

/// Calls `each` with the number (from 1) and text of every line of a reader of any length. An LF at the end does not
/// begin another line. Errors name `path`.
///
/// # Errors
/// [`TaskProblem::LineTooLong`], [`TaskProblem::InvalidUtf8`], [`TaskProblem::Io`], and the errors of `each`.
pub fn for_each_line_in<E: From<TaskError>>(
    mut reader: impl BufRead,
    path: &Path,
    mut each: impl FnMut(u64, &str) -> Result<(), E>,
) -> Result<(), E> {
    let mut bytes = Vec::new();
    for line in 1.. {
        let wrong = |problem: TaskProblem| TaskError::from(problem.at_line(path, line));
        bytes.clear();
        reader
            .by_ref()
            .take(MAX_LINE_BYTES as u64 + 1)
            .read_until(b'\n', &mut bytes)
            .map_err(|source| TaskError::from(TaskProblem::Io(source).located(path)))?;
        if bytes.is_empty() {
            break;
        }
        if bytes.pop_if(|last| *last == b'\n').is_some() {
            bytes.pop_if(|last| *last == b'\r');
        }
        if bytes.len() > MAX_LINE_BYTES {
            return Err(wrong(TaskProblem::LineTooLong(MAX_LINE_BYTES)).into());
        }
        let text =
            str::from_utf8(&bytes).map_err(|error| wrong(TaskProblem::InvalidUtf8(error.valid_up_to())))?;
        let text = match line {
            1 => text.strip_prefix('\u{feff}').unwrap_or(text),
            _ => text,
        };
        each(line, text)?;
    }
    Ok(())
}

/// Returns the items of a file, or an error if there are none.
pub(crate) fn non_empty<T>(found: Vec<T>, path: &Path) -> Result<Vec<T>, TaskError> {
    if found.is_empty() { Err(TaskProblem::NoExamples.located(path).into()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Result<Vec<(u64, String)>, TaskError> {
        let mut lines = Vec::new();
        for_each_line_in(bytes, Path::new("x.tsv"), |line, text| {
            lines.push((line, text.to_string()));
            Ok::<_, TaskError>(())
        })?;
        Ok(lines)
    }

    fn problem(error: &TaskError) -> &TaskProblem {
        let TaskError::File(error) = error else { panic!("{error}") };
        &error.problem
    }

    fn texts(bytes: &[u8]) -> Vec<String> {
        lines(bytes).unwrap().into_iter().map(|(_, t)| t).collect()
    }

    #[test]
    fn only_lf_ends_a_line() {
        assert!(lines(b"").unwrap().is_empty());
        assert_eq!(texts(b"a\nb\n"), ["a", "b"]);
        assert_eq!(texts(b"a\nb"), ["a", "b"]);
        assert_eq!(texts(b"a\n\nb\n"), ["a", "", "b"]);
        // Characters that split lines in other languages.
        let text = "a\rb\u{b}c\u{c}d\u{1c}e\u{85}f\u{2028}g\0h";
        assert_eq!(texts(text.as_bytes()), [text]);
    }

    #[test]
    fn crlf_and_bom_are_dropped() {
        assert_eq!(texts(b"a\r\nb\r\n"), ["a", "b"]);
        assert_eq!(texts(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"), ["a", "\u{feff}b"]);
        assert_eq!(texts(b"a \t\r\n"), ["a \t"]);
    }

    #[test]
    fn invalid_utf8_and_long_lines_name_the_line() {
        let error = lines(b"good\nab\xff\n").unwrap_err();
        assert_eq!(error.to_string(), "x.tsv:2: invalid UTF-8 at byte 2 of the line");
        assert_eq!(error.exit_code(), 3);
        let mut long = b"a\n".to_vec();
        long.resize(MAX_LINE_BYTES + 2, b'x');
        assert_eq!(lines(&long).unwrap().len(), 2);
        long.push(b'x');
        let error = lines(&long).unwrap_err();
        assert!(error.to_string().starts_with("x.tsv:2: line longer than"));
        // An endless source fails quickly.
        let endless = BufReader::new(std::io::repeat(0));
        assert!(for_each_line_in(endless, Path::new("x"), |_, _| Ok::<_, TaskError>(())).is_err());
    }

    #[test]
    fn folders_missing_and_huge_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let error = for_each_line(folder.path(), |_, _| Ok(())).unwrap_err();
        assert!(matches!(problem(&error), TaskProblem::NotAFile));
        let missing = folder.path().join("none.tsv");
        let error = for_each_line(&missing, |_, _| Ok(())).unwrap_err();
        assert!(matches!(problem(&error), TaskProblem::Io(_)));
        assert_eq!(error.exit_code(), 1);
        assert!(error.to_string().contains("none.tsv: cannot read: "));
        // A sparse file, which needs no disk space.
        let huge = folder.path().join("huge.tsv");
        let file = File::create(&huge).unwrap();
        file.set_len(MAX_FILE_BYTES + 1).unwrap();
        let error = for_each_line(&huge, |_, _| Ok(())).unwrap_err();
        assert!(matches!(problem(&error), TaskProblem::FileTooLarge(_)));
    }
}
