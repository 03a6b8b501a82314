//! Reads files in the form of CoNLL-2003: one word per line with its tag in the last column, and an empty line
//! after every sentence.
//!
//! Blanks or tabs separate the columns. Lines that begin with `-DOCSTART-` divide documents and are left out.

use std::path::Path;

use crate::tasks::{TaskError, TaskProblem, for_each_line, some};

/// A sentence and the tags of its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentence {
    /// Its words.
    pub words: Vec<String>,
    /// As many tags; empty where the file has none that count.
    pub tags: Vec<String>,
    /// The line of its first word.
    pub line: u64,
}

/// Reads the sentences of a file. Without `has_tags` a line may be a word alone, and tags are left alone.
///
/// # Errors
/// [`TaskProblem::MissingTag`] with the line of a word without a tag, [`TaskProblem::NoExamples`], and those of reading
/// lines.
pub fn read_sentences(path: &Path, has_tags: bool) -> Result<Vec<Sentence>, TaskError> {
    let mut sentences = Vec::new();
    let mut sentence = Sentence::default();
    for_each_line(path, |line, text| {
        let mut columns = text.split([' ', '\t']).filter(|column| !column.is_empty());
        let Some(word) = columns.next() else {
            if !sentence.words.is_empty() {
                sentences.push(std::mem::take(&mut sentence));
            }
            return Ok(());
        };
        if word == "-DOCSTART-" {
            return Ok(());
        }
        if has_tags {
            let missing = || TaskProblem::MissingTag(word.into());
            sentence.tags.push(columns.next_back().ok_or_else(missing)?.to_string());
        }
        if sentence.words.is_empty() {
            sentence.line = line;
        }
        sentence.words.push(word.to_string());
        Ok(())
    })?;
    if !sentence.words.is_empty() {
        sentences.push(sentence);
    }
    some(sentences, path)
}

/// The tags of some sentences, each once: `O` first, the others in order of their bytes.
#[must_use]
pub fn tags_of(sentences: &[Sentence]) -> Vec<String> {
    let all: std::collections::BTreeSet<&String> =
        sentences.iter().flat_map(|sentence| &sentence.tags).collect();
    let outside = ["O".to_string()];
    let others = all.into_iter().filter(|tag| *tag != "O").cloned();
    outside.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, has_tags: bool) -> Result<Vec<Sentence>, TaskError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_sentences(file.path(), has_tags)
    }

    const TEXT: &str = "-DOCSTART- -X- -X- O\n\nAnna NNP B-NP B-PER\nrows VBZ B-VP O\n\n\nto\tTO\tB-PP\tO\r\nBergen\tNNP\tB-NP\tB-LOC\r\n";

    #[test]
    fn sentences_end_at_empty_lines_and_at_the_end() {
        let sentences = read(TEXT, true).unwrap();
        assert_eq!(sentences.len(), 2);
        assert_eq!(
            (&sentences[0].words[..], &sentences[0].tags[..]),
            (&["Anna".into(), "rows".into()][..], &["B-PER".into(), "O".into()][..])
        );
        assert_eq!(sentences[1].words, ["to", "Bergen"]);
        assert_eq!((sentences[0].line, sentences[1].line), (3, 7));
        assert_eq!(tags_of(&sentences), ["O", "B-LOC", "B-PER"]);
        let untagged = read("Anna\nrows\n", false).unwrap();
        assert!(untagged[0].tags.is_empty() && untagged[0].words.len() == 2);
    }

    #[test]
    fn a_word_without_a_tag_has_its_line() {
        let error = read("Anna B-PER\nrows\n", true).unwrap_err();
        assert!(error.to_string().ends_with(":2: the word \"rows\" has no tag in a last column"), "{error}");
        assert_eq!(error.exit_code(), 3);
        assert!(
            read("-DOCSTART- O\n\n", true).unwrap_err().to_string().ends_with(": no examples in this file")
        );
    }
}
