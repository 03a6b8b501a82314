//! Reads files in the CoNLL-2003 format: one word per line with its tag in the last column, and an empty line after
//! every sentence.
//!
//! Columns are separated by tabs if a line has any, else by spaces; every word must have the same number of columns as
//! the first. Two kinds of lines are skipped: `-DOCSTART-` lines, which separate documents, and comments before a
//! sentence, which begin with `#` and are not a tagged word, as in MultiCoNER (`# id 17 domain=train`).

use std::path::Path;

use bert_storage::Class;
use bert_tasks::{Error, Sentence, is_entity_tag};

use crate::lines::{ExampleFile, LabelUse, for_each_line, is_missing};

/// Reads the sentences of a file. If labels are ignored, a line may be a single word. `labels` decides whether a
/// sentence with an untagged word is an error or is left out.
///
/// # Errors
/// Fails when the file cannot be read or has no examples, when a word has no tag, when a line has a different number of
/// columns than the first one, or when the words are in the second column; errors in a line name it.
pub fn read_sentences(path: &Path, labels: LabelUse) -> Result<ExampleFile<Sentence>, Error> {
    let width = column_count(path)?;
    let has_tags = labels.are_read();
    let mut read = ExampleFile { examples: Vec::new(), without_label: 0, misplaced: 0 };
    let mut sentence = Sentence::default();
    // Adds a sentence, unless one of its words has no tag.
    let mut add = |sentence: Sentence| {
        if has_tags && sentence.words.len() != sentence.tags.len() {
            read.without_label += 1;
        } else if !sentence.words.is_empty() {
            read.examples.push(sentence);
        }
    };
    let mut documents = 0;
    for_each_line(path, |line, text| {
        let columns = split_columns(text);
        let Some(&word) = columns.first() else {
            add(std::mem::take(&mut sentence));
            return Ok(());
        };
        let begins = sentence.words.is_empty();
        documents += u64::from(word == "-DOCSTART-");
        if word == "-DOCSTART-" || (begins && is_comment(&columns, width, has_tags)) {
            return Ok(());
        }
        let mut is_whole = true;
        if has_tags {
            let tag = columns[1..].last().filter(|tag| !is_missing(tag));
            let advice = "`.skip_unlabelled` leaves such sentences out";
            let missing = || format!("the word {word:?} has no tag in the last column; {advice}");
            let tag = labels.unless_left_out(tag.ok_or_else(|| Error::new(Class::Unlabelled, missing())))?;
            is_whole = tag.is_some();
            sentence.tags.extend(tag.map(|tag| tag.to_string()));
        }
        if is_whole && columns.len() != width {
            return Err(Error::data(format!(
                "{} columns, but the first word of the file has {width}",
                columns.len()
            )));
        }
        if begins {
            sentence.line = line;
            sentence.document = Some(documents);
        }
        sentence.words.push(word.to_string());
        Ok(())
    })?;
    add(sentence);
    let sentences = &mut read.examples;
    if sentences.first().map(|first| first.document) == sentences.last().map(|last| last.document) {
        sentences.iter_mut().for_each(|sentence| sentence.document = None);
    }
    if width > 1 && sentences.iter().all(has_numbered_words) && !sentences.is_empty() {
        Err(Error::data(
            "the first column numbers the words, as in CoNLL-U; expected the word in the first column and its tag in \
             the last",
        )
        .at(path))
    } else {
        read.non_empty(path)
    }
}

/// Returns the columns of a line; empty for a blank line.
fn split_columns(line: &str) -> Vec<&str> {
    let line = line.trim_end();
    if line.contains('\t') {
        line.split('\t').map(str::trim).collect()
    } else {
        line.split(' ').filter(|column| !column.is_empty()).collect()
    }
}

/// Returns the number of columns of the first word in a file.
fn column_count(path: &Path) -> Result<usize, Error> {
    let mut width = None;
    for_each_line(path, |_, text| {
        let columns = split_columns(text);
        let is_word = columns.first().is_some_and(|word| *word != "-DOCSTART-" && !word.starts_with('#'));
        if is_word && width.is_none() {
            width = Some(columns.len());
        }
        Ok(())
    })?;
    // If every line begins with a hash, the hashes are words, and a line has two columns.
    Ok(width.unwrap_or(2))
}

/// Returns whether a line before the first word of a sentence is a comment. A hash is a word if its line has `width`
/// columns and ends with an entity tag or, if tags are ignored, has no column with `=`.
fn is_comment(columns: &[&str], width: usize, has_tags: bool) -> bool {
    let is_word = columns.len() == width
        && if has_tags {
            columns.last().is_some_and(|tag| is_entity_tag(tag))
        } else {
            !columns.iter().any(|column| column.contains('='))
        };
    columns[0].starts_with('#') && !is_word
}

/// Returns whether the words of a sentence are the word numbers of CoNLL-U: 1, 2, 3, possibly with ranges such as 2-3
/// or empty nodes such as 2.1. Returns false for a sentence of one word.
fn has_numbered_words(sentence: &Sentence) -> bool {
    let is_number = |word: &String| {
        let number = word.split(['-', '.']).next().unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    sentence.words[0].starts_with('1') && sentence.words.len() > 1 && sentence.words.iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use bert_tasks::tags_of;

    use super::*;

    fn read(text: &str, has_tags: bool) -> Result<Vec<Sentence>, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let labels = if has_tags { LabelUse::Required } else { LabelUse::Ignored };
        read_sentences(file.path(), labels).map(|file| file.examples)
    }

    const TEXT: &str = "-DOCSTART- -X- -X- O\n\nAnna NNP B-NP B-PER\nrows VBZ B-VP \
                        O\n\n\nto\tTO\tB-PP\tO\r\nBergen\tNNP\tB-NP\tB-LOC\r\n";

    #[test]
    fn sentences_end_at_empty_lines_and_file_end() {
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
    fn comments_before_a_sentence_are_skipped() {
        let text = "# id 5239d808-f300 domain=train\nAnna _ _ B-PER\n# _ _ O\n\n\
                    # text = Anna rows\n# _ _ O\nrows _ _ O\n";
        let words = |has_tags| -> Vec<Vec<String>> {
            read(text, has_tags).unwrap().into_iter().map(|sentence| sentence.words).collect()
        };
        assert_eq!(words(true), [["Anna", "#"], ["#", "rows"]]);
        assert_eq!(words(false), words(true));
        assert_eq!(read("#fun O\n", true).unwrap()[0].words, ["#fun"]);
        assert_eq!(read("New York\tB-LOC\n", true).unwrap()[0].words, ["New York"]);
    }

    #[test]
    fn a_different_number_of_columns_is_an_error() {
        let message = |text: &str| {
            let error = read(text, true).unwrap_err();
            assert_eq!(error.exit_code(), 3);
            error.to_string().rsplit_once('/').unwrap().1.split_once(':').unwrap().1.to_string()
        };
        assert_eq!(message("Anna O\nrows VBZ O\n"), "2: 3 columns, but the first word of the file has 2");
        assert!(message("1\tAnna\tO\n2-3\trows\tO\n\n1\ta\tO\n2\tb\tO\n").contains("as in CoNLL-U"));
    }

    #[test]
    fn a_missing_tag_is_an_error_with_its_line() {
        let error = read("Anna B-PER\nrows\n", true).unwrap_err();
        assert!(error.to_string().contains(":2: the word \"rows\" has no tag in the last column"), "{error}");
        assert_eq!(error.exit_code(), 3);
        assert!(
            read("-DOCSTART- O\n\n", true).unwrap_err().to_string().ends_with(": this file has no examples")
        );
    }
}
