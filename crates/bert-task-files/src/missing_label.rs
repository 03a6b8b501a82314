//! Recognizes the marks by which other programs write a missing label.

use std::path::Path;

use bert_storage::Class;
use bert_tasks::Error;

/// How the labels of a file are used.
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

    /// Returns the value of an example, or `None` for one that is left out because of the problem.
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
    /// Number of questions that were left out, because an answer is not at its start.
    pub misplaced: usize,
}

impl<T> ExampleFile<T> {
    /// Returns an error that names the file if no example is left.
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

/// Returns whether a label, class or tag marks an example without one.
pub(crate) fn is_missing(label: &str) -> bool {
    label.is_empty() || MISSING.contains(&label)
}

/// Returns whether the text in place of a class marks an example without one. The library `datasets` writes -1.
pub(crate) fn is_missing_class(label: &str) -> bool {
    is_missing(label) || label.parse() == Ok(-1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
