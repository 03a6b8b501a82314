//! Opens the files of tasks and reads their lines, in bounded memory.

use std::fs::{self, File};
use std::io::{BufReader, ErrorKind};
use std::path::Path;

use bert_tasks::Error;
use bert_text::{LineReader, TableReader, TextFormat};

/// Maximum file size. The largest published file, MNLI's training set, has about 200 MB.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Calls `each` with the number (from 1) and text of every line of a file, and adds the location to the errors of `each`.
///
/// # Errors
/// Fails when [`open_file`], [`LineReader::next_line`] or `each` fails.
pub(crate) fn for_each_line(
    path: &Path,
    mut each: impl FnMut(u64, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut lines = LineReader::new(open_file(path)?, path);
    while let Some((line, text)) = lines.next_line()? {
        each(line, text).map_err(|problem| problem.at_line(path, line))?;
    }
    Ok(())
}

/// Returns the lines of a file.
///
/// # Errors
/// Fails when the file cannot be read or is too large, or when a line is too long or not UTF-8; errors in a line name
/// it.
pub fn read_lines(path: &Path) -> Result<Vec<String>, Error> {
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
/// Fails when the system returns another error than "not found".
pub(crate) fn exists(path: &Path) -> Result<bool, Error> {
    match fs::metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(source) => Err(Error::io("read", path)(source)),
    }
}

/// Opens a task's file.
///
/// # Errors
/// Fails when the path is not a regular file, when the file is larger than the limit, or when it cannot be read.
pub(crate) fn open_file(path: &Path) -> Result<BufReader<File>, Error> {
    let io = |source| Error::io("read", path)(source);
    // Check the type first: opening a pipe without a writer would block forever.
    let metadata = fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        return Err(Error::data("this is not a regular file").at(path));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(
            Error::data(format!("larger than {MAX_FILE_BYTES} bytes; is this the right file?")).at(path)
        );
    }
    Ok(BufReader::new(File::open(path).map_err(io)?))
}

/// Opens a task's file as a table.
///
/// # Errors
/// Returns the errors of [`open_file`] and [`TableReader`].
pub(crate) fn open_table(path: &Path, format: TextFormat) -> Result<TableReader, Error> {
    if format == TextFormat::Parquet {
        TableReader::parquet(path)
    } else {
        TableReader::new(path, format, Box::new(open_file(path)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_missing_and_huge_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let error = for_each_line(folder.path(), |_, _| Ok(())).unwrap_err();
        assert_eq!(error.text(), "this is not a regular file");
        let missing = folder.path().join("none.tsv");
        let error = for_each_line(&missing, |_, _| Ok(())).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        assert!(error.to_string().starts_with("cannot read "));
        // A sparse file, which needs no disk space.
        let huge = folder.path().join("huge.tsv");
        let file = File::create(&huge).unwrap();
        file.set_len(MAX_FILE_BYTES + 1).unwrap();
        let error = for_each_line(&huge, |_, _| Ok(())).unwrap_err();
        assert!(error.text().starts_with("larger than "), "{error}");
    }
}
