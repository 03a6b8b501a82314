//! The data of token classification.

use std::path::Path;

use bert_inference::Error;
use bert_inference::encoding::sentences::EncodedSentences;
use bert_storage::{Locate, digest_bytes};
use bert_tasks::read::conll::is_entity_tag;
use bert_tasks::read::conll::{Sentence, read_sentences, tags_of};
use bert_tasks::{TaskError, TaskProblem};

use crate::data::TaskData;
use crate::data::datasets::{Purpose, Sets};
use crate::setup::Setup;

/// Sentences as words and as tokens.
pub(crate) struct SentenceSet {
    pub(crate) sentences: Vec<Sentence>,
    pub(crate) encoded: EncodedSentences,
}

/// A task that predicts a tag for every word, as named entity recognition does.
pub(crate) struct TokenClassification<'a> {
    sets: Sets<'a, SentenceSet>,
    /// Tag names, in the order of their numbers.
    pub(crate) names: Vec<String>,
}

impl<'a> TokenClassification<'a> {
    /// Reads the task's files.
    ///
    /// # Errors
    /// When a file is missing or invalid, with the line; [`TaskProblem::UnknownTag`] for a tag that does not occur in
    /// the training file.
    pub(crate) fn read(setup: Setup<'a>) -> Result<Self, Error> {
        let mut names = Vec::new();
        let read = |path: &Path, purpose| {
            let sentences = read_sentences(path, purpose != Purpose::Predict)?;
            match purpose {
                Purpose::Train => {
                    check_scheme(path, &sentences)?;
                    names = tags_of(&sentences);
                }
                Purpose::Score => check_tags(path, &sentences, &names)?,
                Purpose::Predict => {}
            }
            Ok(sentences)
        };
        let set = |sentences: Vec<Sentence>| SentenceSet {
            encoded: EncodedSentences::new(&sentences, &setup.checkpoint.tokenizer, setup.max_seq_length),
            sentences,
        };
        let mut sets = Sets::read(setup, read, set)?;
        sets.notes = truncated_words(&sets);
        Ok(Self { sets, names })
    }
}

/// Returns a warning for each set with words beyond the maximum sequence length.
fn truncated_words(sets: &Sets<'_, SentenceSet>) -> Vec<String> {
    let max = sets.setup.max_seq_length;
    let notes = sets.with_names().filter_map(|(name, set)| {
        let beyond = set.words_beyond_max_length();
        (beyond > 0).then(|| {
            format!(
                "{beyond} words of {name} are beyond --max-seq-length {max}: they are not read, and their predicted \
                 tag is O"
            )
        })
    });
    notes.collect()
}

impl SentenceSet {
    fn words_beyond_max_length(&self) -> usize {
        let words = self.sentences.iter().enumerate();
        words.map(|(at, sentence)| self.encoded.beyond(at, sentence.words.len())).sum()
    }
}

/// Rejects tags that do not form valid entities.
fn check_scheme(path: &Path, sentences: &[Sentence]) -> Result<(), TaskError> {
    for sentence in sentences {
        if let Some(at) = sentence.tags.iter().position(|tag| !is_entity_tag(tag)) {
            let problem = TaskProblem::UnknownScheme(sentence.tags[at].clone());
            return Err(problem.at_line(path, sentence.line + at as u64).into());
        }
    }
    Ok(())
}

/// Rejects tags that do not occur in the training file, because no model could predict them.
fn check_tags(path: &Path, sentences: &[Sentence], known: &[String]) -> Result<(), TaskError> {
    for sentence in sentences {
        if let Some(at) = sentence.tags.iter().position(|tag| !known.contains(tag)) {
            let (tag, known) = (sentence.tags[at].clone(), known.to_vec());
            let line = sentence.line + at as u64;
            return Err(TaskProblem::UnknownTag { tag, known }.at_line(path, line).into());
        }
    }
    Ok(())
}

impl TaskData for TokenClassification<'_> {
    type Set = SentenceSet;

    fn sets(&self) -> &Sets<'_, SentenceSet> {
        &self.sets
    }

    fn items(&self) -> usize {
        self.sets.train.sentences.len()
    }

    fn digest(set: &SentenceSet) -> String {
        digest_bytes(format!("{:?}", set.sentences).as_bytes())
    }
}
