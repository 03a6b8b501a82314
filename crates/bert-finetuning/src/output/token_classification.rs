//! The output files of token classification.

use std::io::{self, Write};

use bert_inference::Error;
use bert_tasks::read::conll::Sentence;

use crate::data::token_classification::{SentenceSet, TokenClassification};
use crate::output::TaskOutput;
use crate::output::folder::OutputFolder;

impl TaskOutput for TokenClassification<'_> {
    /// Writes `predictions.txt` in the format of `conlleval`: one word per line with its true tag, if known, and its
    /// predicted tag.
    fn write_answers(
        &self,
        output: &OutputFolder,
        prefix: &str,
        set: &SentenceSet,
        answers: &Vec<Vec<String>>,
    ) -> Result<(), Error> {
        output.write(&format!("{prefix}predictions.txt"), |out| write_tags(out, &set.sentences, answers))
    }
}

/// Writes words, their true tags if known, and the predicted tags; an empty line ends a sentence. A blank within a word
/// is written as `_`, since blanks separate the columns.
fn write_tags(out: &mut dyn Write, sentences: &[Sentence], predicted: &[Vec<String>]) -> io::Result<()> {
    for (sentence, predicted) in sentences.iter().zip(predicted) {
        for (at, (word, tag)) in sentence.words.iter().zip(predicted).enumerate() {
            let word = word.replace(' ', "_");
            match sentence.tags.get(at) {
                Some(real) => writeln!(out, "{word} {real} {tag}")?,
                None => writeln!(out, "{word} {tag}")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
