//! Opens task files and reads their lines, in bounded memory.
//!
//! Also recognizes the marks with which other programs write a missing label.

use std::fs;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use bert_storage::Class;
use bert_tasks::Error;
use bert_text::{LineReader, TableReader, TextFormat};

/// Maximum size of a file in bytes. The largest published files have a few hundred MB.
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

/// The use of the labels of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelUse {
    /// Labels are optional and not read, as in a file to predict.
    #[default]
    Ignored,
    /// Every example must have a label.
    Required,
    /// Examples without a label are left out.
    LeftOut,
}

impl LabelUse {
    /// Returns the use of the labels of a file to train or to score on.
    #[must_use]
    pub fn for_labelled(skip_unlabelled: bool) -> Self {
        if skip_unlabelled { Self::LeftOut } else { Self::Required }
    }

    /// Returns whether labels are read.
    pub(crate) fn are_read(self) -> bool {
        self != Self::Ignored
    }

    /// Returns the value of an example, or `None` if the example is left out because it has no label.
    pub(crate) fn unless_left_out<T>(self, found: Result<T, Error>) -> Result<Option<T>, Error> {
        match found {
            Err(problem) if self == Self::LeftOut && problem.class() == Class::Unlabelled => Ok(None),
            found => found.map(Some),
        }
    }
}

/// The examples of a file.
#[derive(Clone, Debug)]
pub struct ExampleFile<T> {
    /// The examples.
    pub examples: Vec<T>,
    /// Number of examples that were left out, because they have no label.
    pub without_label: usize,
    /// Number of questions that were left out, because the text of an answer is not at its stated position.
    pub misplaced: usize,
}

impl<T> ExampleFile<T> {
    /// Returns the examples, or an error that names the file if no example is left.
    pub(crate) fn non_empty(self, path: &Path) -> Result<Self, Error> {
        let problem = match self {
            Self { ref examples, .. } if !examples.is_empty() => return Ok(self),
            Self { without_label: 0, misplaced: 0, .. } => Error::data("this file has no examples"),
            Self { without_label, misplaced, .. } => Error::data(format!(
                "all {} examples of this file are left out: they have no label, or an answer that is not at its \
                 start",
                without_label + misplaced
            )),
        };
        Err(problem.at(path))
    }

    /// Returns remarks on the examples that were left out.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let without_label = (self.without_label, "examples without a label are left out");
        let misplaced =
            (self.misplaced, "questions are left out, because an answer is not at its answer_start");
        let left_out = [without_label, misplaced].into_iter().filter(|(count, _)| *count > 0);
        left_out.map(|(count, text)| format!("{count} {text}"))
    }
}

/// The values that pandas reads as missing (its default `na_values`), and spellings of other programs. The empty text is
/// missing too.
const MISSING: [&str; 20] = [
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null", "Null",
];

/// Returns whether the text of a label, class or tag is a mark for a missing one.
pub(crate) fn is_missing(label: &str) -> bool {
    label.is_empty() || MISSING.contains(&label)
}

/// Returns whether the text in place of a class is a mark for a missing class. The library `datasets` writes -1.
pub(crate) fn is_missing_class(label: &str) -> bool {
    is_missing(label) || label.parse() == Ok(-1.0)
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

    /// `pandas._libs.parsers.STR_NA_VALUES` of pandas 3.1.
    #[test]
    fn missing_values_of_pandas_are_known() {
        for word in [
            "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
            "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
        ] {
            assert!(is_missing(word), "{word}");
        }
        assert!(["none", "na", "0", "-1", "O", "no"].iter().all(|word| !is_missing(word)));
        assert!(["-1", "-1.0"].iter().all(|word| is_missing_class(word)) && !is_missing_class("-10"));
    }
}
