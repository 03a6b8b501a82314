//! Implements the objective of token classification: a tag for every word, as for named entities.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::slice;

use bert_model::{BertConfig, BertForTokenClassification, Mode, token_loss};
use bert_storage::digest_bytes;
use burn::tensor::Tensor;

use super::Objective;
use super::Part;
use crate::error::Error;
use crate::finetune::output::Output;
use crate::finetune::setup::Setup;
use crate::finetune::subset::{TrainingParts, divide};
use crate::host::int_vector;
use crate::padding::PaddedBatch;
use crate::significance::share_interval;
use crate::tasks::{Metric, Scores, SeedRun, SeedSummary, Split, TaskError};
use crate::token_classification::conll::{Sentence, read_sentences, tags_of};
use crate::token_classification::entities::{EntityCounts, score_entities};
use crate::token_classification::inputs::EncodedSentences;

/// Sentences as words and as the model sees them.
struct Sentences {
    sentences: Vec<Sentence>,
    encoded: EncodedSentences,
}

impl Sentences {
    fn new(sentences: Vec<Sentence>, setup: Setup<'_>) -> Self {
        Self { encoded: EncodedSentences::new(&sentences, setup.text, setup.max_seq_length), sentences }
    }

    fn tags(&self) -> Vec<Vec<String>> {
        self.sentences.iter().map(|sentence| sentence.tags.clone()).collect()
    }

    fn digest(&self) -> String {
        digest_bytes(format!("{:?}", self.sentences).as_bytes())
    }
}

/// Some sentences and the places and numbers of their words' tags.
pub(in crate::finetune) struct TagBatch {
    padded: PaddedBatch,
    places: Vec<i32>,
    tags: Vec<i32>,
}

/// A task of tags.
pub(in crate::finetune) struct Tags<'a> {
    setup: Setup<'a>,
    /// The tags in the order of their numbers.
    names: Vec<String>,
    train: Sentences,
    training: TrainingParts,
    parts: BTreeMap<Part, Sentences>,
    to_predict: Option<Sentences>,
}

impl<'a> Tags<'a> {
    /// Reads the task's files.
    ///
    /// # Errors
    /// When one of them is missing or bad, with the line; [`TaskError::UnknownTag`] for a tag that training does not
    /// have.
    pub(in crate::finetune) fn read(setup: Setup<'a>) -> Result<Self, Error> {
        let train_path = setup.needed_file(Split::Train)?.path;
        let all = read_sentences(&train_path, true)?;
        let names = tags_of(&all);
        let (train, held_out, training) = divide(setup.config, all)?;
        let mut parts = BTreeMap::new();
        if training.held_out > 0 {
            parts.insert(Part::HeldOut, Sentences::new(held_out, setup));
        }
        for (part, split) in [(Part::Dev, Split::Dev), (Part::Test, Split::Test)] {
            let file = match split {
                Split::Dev => Some(setup.needed_file(split)?),
                _ => setup.labelled_file(split)?,
            };
            if let Some(file) = file {
                let sentences = read_sentences(&file.path, true)?;
                check_tags(&file.path, &sentences, &names)?;
                parts.insert(part, Sentences::new(sentences, setup));
            }
        }
        let to_predict = setup.config.predict.as_ref().map(|path| read_sentences(path, false)).transpose()?;
        Ok(Self {
            names,
            train: Sentences::new(train, setup),
            training,
            parts,
            to_predict: to_predict.map(|sentences| Sentences::new(sentences, setup)),
            setup,
        })
    }

    fn tags(&self, model: &BertForTokenClassification, of: &Sentences) -> Vec<Vec<String>> {
        of.encoded.tags(&of.sentences, model, &self.names, &self.setup.plain())
    }
}

/// Refuses tags that training does not have: no model could ever give them.
fn check_tags(path: &Path, sentences: &[Sentence], known: &[String]) -> Result<(), TaskError> {
    for sentence in sentences {
        if let Some(at) = sentence.tags.iter().position(|tag| !known.contains(tag)) {
            let (line, tag) = (sentence.line + at, sentence.tags[at].clone());
            return Err(TaskError::UnknownTag { path: path.into(), line, tag, known: known.to_vec() });
        }
    }
    Ok(())
}

impl Objective for Tags<'_> {
    type Model = BertForTokenClassification;
    type Batch = TagBatch;
    /// The tags of every word of every sentence.
    type Answers = Vec<Vec<String>>;

    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        checkpoint.with_labels(&self.names)
    }

    fn items(&self) -> usize {
        self.train.sentences.len()
    }

    fn training(&self) -> TrainingParts {
        self.training
    }

    fn batch(&self, items: &[usize]) -> TagBatch {
        let padded = self.train.encoded.batch(items);
        let (mut places, mut tags) = (Vec::new(), Vec::new());
        for (row, &item) in items.iter().enumerate() {
            let words = self.train.encoded.places(item).iter().zip(&self.train.sentences[item].tags);
            for (place, tag) in words {
                let number = self.names.iter().position(|name| name == tag).expect("a tag of train");
                places.push((row * padded.seq_length + place) as i32);
                tags.push(number as i32);
            }
        }
        TagBatch { padded, places, tags }
    }

    fn targets(&self, batch: &TagBatch) -> usize {
        batch.tags.len()
    }

    fn loss(
        &self,
        model: &BertForTokenClassification,
        _frozen: Option<&Tensor<2>>,
        batch: &TagBatch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1> {
        let device = self.setup.device;
        let input = batch.padded.input(device);
        let logits = match self.setup.config.freeze_encoder {
            true => model.forward_frozen(input, mode),
            false => model.forward(input, mode),
        };
        let (places, tags) = (int_vector(&batch.places, device), int_vector(&batch.tags, device));
        token_loss(logits, places, tags, targets as f64)
    }

    fn has(&self, part: Part) -> bool {
        self.parts.contains_key(&part)
    }

    fn answer(&self, model: &BertForTokenClassification, part: Part) -> Vec<Vec<String>> {
        self.tags(model, &self.parts[&part])
    }

    fn score(&self, part: Part, answers: &Vec<Vec<String>>) -> Scores {
        let entities = score_entities(&self.parts[&part].tags(), answers).all;
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

    fn summary(&self, part: Part, runs: Vec<SeedRun>, answers: &[&Vec<Vec<String>>]) -> SeedSummary {
        let sentences = &self.parts[&part].sentences;
        let f1 = |(sentence, tags): (&Sentence, &Vec<String>)| {
            let EntityCounts { right, predicted, real } =
                score_entities(slice::from_ref(&sentence.tags), slice::from_ref(tags)).all;
            (2 * right as u32, (predicted + real) as u32)
        };
        let runs_of = answers.iter().map(|answers| sentences.iter().zip(answers.iter()).map(f1).collect());
        let interval = share_interval(Metric::F1, runs_of.collect());
        let summary = SeedSummary::new(self.setup.config.task, sentences.len(), runs, Scores::default());
        SeedSummary { interval: Some(interval), ..summary }
    }

    fn train_digest(&self) -> String {
        self.train.digest()
    }

    fn digest(&self, part: Part) -> Option<String> {
        self.parts.get(&part).map(Sentences::digest)
    }

    /// `dev_predictions.txt`: a word a line with its tag and the predicted one, as `conlleval` reads it.
    fn write_dev(&self, output: &Output<'_>, runs: &[(u64, &Vec<Vec<String>>)]) -> Result<(), Error> {
        let dev = &self.parts[&Part::Dev];
        runs.iter().try_for_each(|(seed, answers)| {
            output.write(&format!("seed-{seed}/dev_predictions.txt"), |out| {
                write_tags(out, &dev.sentences, answers)
            })
        })
    }

    /// `predictions.txt`: a word a line with its tag.
    fn write_predictions(
        &self,
        output: &Output<'_>,
        model: &BertForTokenClassification,
    ) -> Result<(), Error> {
        let Some(sentences) = &self.to_predict else { return Ok(()) };
        let tags = self.tags(model, sentences);
        output.write("predictions.txt", |out| write_tags(out, &sentences.sentences, &tags))
    }

    fn save_model(
        &self,
        output: &Output<'_>,
        model: &BertForTokenClassification,
        model_config: &BertConfig,
    ) -> Result<(), Error> {
        output.save_model("model", model, model_config, self.setup.text)
    }
}

/// Writes words, their tags where they have any, and the predicted ones; an empty line ends a sentence.
fn write_tags(out: &mut dyn Write, sentences: &[Sentence], predicted: &[Vec<String>]) -> std::io::Result<()> {
    for (sentence, predicted) in sentences.iter().zip(predicted) {
        for (at, (word, tag)) in sentence.words.iter().zip(predicted).enumerate() {
            match sentence.tags.get(at) {
                Some(real) => writeln!(out, "{word} {real} {tag}")?,
                None => writeln!(out, "{word} {tag}")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
