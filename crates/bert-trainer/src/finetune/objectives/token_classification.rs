//! Implements token classification: predicts a tag for every word, as in named entity recognition.

use std::io::Write;
use std::path::Path;
use std::slice;

use bert_model::{BertConfig, BertForTokenClassification, Mode, token_loss};
use bert_storage::digest_bytes;
use burn::tensor::Tensor;

use super::{Objective, TokenBatch};
use crate::encoding::sentences::EncodedSentences;
use crate::error::Error;
use crate::finetune::model::pretrained::{Opened, Setup};
use crate::finetune::objectives::datasets::{Purpose, Sets};
use crate::finetune::output::Output;
use crate::training::stop_flag::{StopFlag, StopRequested};
use bert_storage::Locate;
use bert_tasks::decode::entities::{EntityCounts, is_known, score_entities};
use bert_tasks::read::conll::{Sentence, read_sentences, tags_of};
use bert_tasks::statistics::{SeedRun, SeedSummary, share_interval};
use bert_tasks::{Metric, Scores, TaskError, TaskProblem};

/// Sentences as words and as tokens.
pub(in crate::finetune) struct Sentences {
    sentences: Vec<Sentence>,
    encoded: EncodedSentences,
}

/// The objective of token classification.
pub(in crate::finetune) struct Tags<'a> {
    sets: Sets<'a, Sentences>,
    /// Tag names, in the order of their numbers.
    names: Vec<String>,
}

impl<'a> Tags<'a> {
    /// Reads the task's files.
    ///
    /// # Errors
    /// When a file is missing or invalid, with the line; [`TaskProblem::UnknownTag`] for a tag that does not occur in
    /// the training file.
    pub(in crate::finetune) fn read(setup: Setup<'a>) -> Result<Self, Error> {
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
        let set = |sentences: Vec<Sentence>| Sentences {
            encoded: EncodedSentences::new(&sentences, &setup.opened.text, setup.max_seq_length),
            sentences,
        };
        let mut sets = Sets::read(setup, read, set)?;
        let max = setup.max_seq_length;
        let parts = sets.parts.iter().map(|(part, set)| (part.to_string(), set));
        let notes = parts.chain([("the training set".to_string(), &sets.train)]).filter_map(|(name, set)| {
            let beyond = set.beyond();
            (beyond > 0).then(|| {
                format!(
                    "{beyond} words of {name} are beyond --max-seq-length {max}: they are not read, and their \
                     predicted tag is O"
                )
            })
        });
        sets.notes = notes.collect();
        Ok(Self { sets, names })
    }
}

impl Sentences {
    /// Returns the number of words beyond the maximum sequence length.
    fn beyond(&self) -> usize {
        let words = self.sentences.iter().enumerate();
        words.map(|(at, sentence)| self.encoded.beyond(at, sentence.words.len())).sum()
    }
}

/// Rejects tags that do not form valid entities.
fn check_scheme(path: &Path, sentences: &[Sentence]) -> Result<(), TaskError> {
    for sentence in sentences {
        if let Some(at) = sentence.tags.iter().position(|tag| !is_known(tag)) {
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

impl Objective for Tags<'_> {
    type Model = BertForTokenClassification;
    type Set = Sentences;
    /// Sentences, with the positions and numbers of their words' tags.
    type Batch = TokenBatch;
    /// The tags of every word in every sentence.
    type Answers = Vec<Vec<String>>;

    fn sets(&self) -> &Sets<'_, Sentences> {
        &self.sets
    }

    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        checkpoint.with_labels(&self.names)
    }

    fn items(&self) -> usize {
        self.sets.train.sentences.len()
    }

    fn micro_batch(&self, items: &[usize], whole: &[usize]) -> (TokenBatch, usize) {
        let Sentences { sentences, encoded } = &self.sets.train;
        let padded = encoded.batch(items, encoded.padded_length(whole));
        let (mut places, mut tags) = (Vec::new(), Vec::new());
        for (row, &item) in items.iter().enumerate() {
            for (place, tag) in encoded.places(item).iter().zip(&sentences[item].tags) {
                let number = self.names.iter().position(|name| name == tag).expect("a tag of train");
                places.push((row * padded.seq_length + place) as i32);
                tags.push(number as i32);
            }
        }
        let targets = tags.len();
        (TokenBatch { padded, targets: [places, tags] }, targets)
    }

    fn loss(
        &self,
        model: &BertForTokenClassification,
        _frozen: Option<&Tensor<2>>,
        batch: &TokenBatch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1> {
        let Setup { config, opened: Opened { device, .. }, .. } = self.setup();
        let input = batch.padded.input(device);
        let logits = match config.freeze_encoder {
            true => model.forward_frozen(input, mode),
            false => model.forward(input, mode),
        };
        let [places, tags] = batch.targets(device);
        token_loss(logits, places, tags, targets as f64)
    }

    /// Loss of a uniform distribution over the tags.
    fn guessing_loss(&self) -> f64 {
        (self.names.len() as f64).ln()
    }

    fn answer(
        &self,
        model: &BertForTokenClassification,
        of: &Sentences,
        stop: &StopFlag,
    ) -> Result<Vec<Vec<String>>, StopRequested> {
        of.encoded.tags(&of.sentences, model, &self.names, &self.setup().opened.plain(), stop)
    }

    fn score(&self, of: &Sentences, answers: &Vec<Vec<String>>) -> Scores {
        let tags: Vec<Vec<String>> = of.sentences.iter().map(|sentence| sentence.tags.clone()).collect();
        let entities = score_entities(&tags, answers);
        let scores = [
            (Metric::F1, entities.f1()),
            (Metric::Precision, entities.precision()),
            (Metric::Recall, entities.recall()),
        ];
        scores.into_iter().collect()
    }

    fn is_degenerate(&self, answers: &Vec<Vec<String>>) -> bool {
        let mut tags = answers.iter().flatten();
        let first = tags.next();
        tags.all(|tag| Some(tag) == first)
    }

    fn summary(&self, of: &Sentences, runs: Vec<SeedRun>, answers: &[&Vec<Vec<String>>]) -> SeedSummary {
        let sentences = &of.sentences;
        let f1 = |(sentence, tags): (&Sentence, &Vec<String>)| {
            let EntityCounts { right, predicted, real } =
                score_entities(slice::from_ref(&sentence.tags), slice::from_ref(tags));
            (2.0 * right as f64, (predicted + real) as f64)
        };
        let runs_of = answers.iter().map(|answers| sentences.iter().zip(answers.iter()).map(f1).collect());
        let interval = share_interval(Metric::F1, runs_of.collect());
        let summary = SeedSummary::new(self.setup().config.task, sentences.len(), runs, Scores::default());
        SeedSummary { interval: Some(interval), ..summary }
    }

    fn digest(of: &Sentences) -> String {
        digest_bytes(format!("{:?}", of.sentences).as_bytes())
    }

    /// Writes `predictions.txt` in the format of `conlleval`: one word per line with its true tag, if known, and its
    /// predicted tag.
    fn write(
        &self,
        output: &Output,
        stem: &str,
        of: &Sentences,
        answers: &Vec<Vec<String>>,
    ) -> Result<(), Error> {
        output.write(&format!("{stem}predictions.txt"), |out| write_tags(out, &of.sentences, answers))
    }
}

/// Writes words, their true tags if known, and the predicted tags; an empty line ends a sentence. A blank within a word
/// is written as `_`, since blanks separate the columns.
fn write_tags(out: &mut dyn Write, sentences: &[Sentence], predicted: &[Vec<String>]) -> std::io::Result<()> {
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
