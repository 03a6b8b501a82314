//! Token classification: a tag for every word; precision, recall and F1 of entities.

use std::io::{self, Write};
use std::path::Path;
use std::slice;

use bert_inference::{EncodedSentences, StopFlag};
use bert_model::{BertConfig, BertForTokenClassification, Mode, token_loss};
use bert_storage::digest_bytes;
use bert_task_files::read_sentences;
use bert_tasks::entities::{EntityCounts, score_entities};
use bert_tasks::{
    Error, Metric, Ratio, Scores, SeedRun, SeedSummary, Sentence, is_entity_tag, ratio_interval, tags_of,
};
use burn::tensor::Tensor;

use crate::data::datasets::{Purpose, Sets};
use crate::files::folder::OutputFolder;
use crate::kinds::{FinetuneTask, MicroBatch, TokenBatch};
use crate::setup::{BaseCheckpoint, Setup};

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
    /// Fails when a file is missing or invalid, or when a tag does not occur in the training file; the error names the
    /// line.
    pub(crate) fn read(setup: Setup<'a>) -> Result<Self, Error> {
        let mut names = Vec::new();
        let read = |path: &Path, labels, purpose| {
            let file = read_sentences(path, labels)?;
            match purpose {
                Purpose::Train => {
                    check_scheme(path, &file.examples)?;
                    names = tags_of(&file.examples);
                }
                Purpose::Score => check_tags(path, &file.examples, &names)?,
                Purpose::Predict => {}
            }
            Ok(file)
        };
        let set = |sentences: Vec<Sentence>| SentenceSet {
            encoded: EncodedSentences::new(&sentences, &setup.checkpoint.tokenizer, setup.max_seq_length),
            sentences,
        };
        let mut sets = Sets::read(setup, read, set)?;
        let notes: Vec<String> =
            truncated_words(&sets).into_iter().chain(sets_without_entities(&sets)).collect();
        sets.notes.extend(notes);
        Ok(Self { sets, names })
    }
}

impl FinetuneTask for TokenClassification<'_> {
    type Set = SentenceSet;
    type Model = BertForTokenClassification;
    /// Sentences, with the positions and numbers of their words' tags.
    type Batch = TokenBatch;
    /// The tags of every word in every sentence.
    type Answers = Vec<Vec<String>>;

    fn sets(&self) -> &Sets<'_, SentenceSet> {
        &self.sets
    }

    fn items(&self) -> usize {
        self.sets.train.sentences.len()
    }

    fn digest(set: &SentenceSet) -> String {
        // This text must not change: the digests in existing reports depend on it.
        let text = |Sentence { words, tags, line, .. }: &Sentence| {
            format!("Sentence {{ words: {words:?}, tags: {tags:?}, line: {line} }}")
        };
        let sentences: Vec<String> = set.sentences.iter().map(text).collect();
        digest_bytes(format!("[{}]", sentences.join(", ")).as_bytes())
    }

    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        checkpoint.without_feature_head().with_labels(&self.names)
    }

    fn micro_batch(&self, items: &[usize], whole: &[usize]) -> MicroBatch<TokenBatch> {
        let SentenceSet { sentences, encoded } = &self.sets().train;
        let padded = encoded.features.padded(items, encoded.features.padded_length(whole));
        let mut positions = Vec::new();
        let mut tags = Vec::new();
        for (row, &item) in items.iter().enumerate() {
            for (position, tag) in encoded.first_pieces(item).iter().zip(&sentences[item].tags) {
                let number = self.names.iter().position(|name| name == tag).expect("a tag of train");
                positions.push((row * padded.seq_length + position) as i32);
                tags.push(number as i32);
            }
        }
        let targets = tags.len();
        MicroBatch { batch: TokenBatch { padded, targets: [positions, tags] }, targets }
    }

    fn loss(
        &self,
        model: &BertForTokenClassification,
        _frozen: Option<&Tensor<2>>,
        batch: &TokenBatch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1> {
        let Setup { config, checkpoint: BaseCheckpoint { device, .. }, .. } = self.setup();
        let input = batch.padded.input(device);
        let logits = if config.freeze_encoder {
            model.forward_frozen(input, mode)
        } else {
            model.forward(input, mode)
        };
        let [positions, tags] = batch.targets(device);
        token_loss(logits, positions, tags, targets as f64)
    }

    /// Returns the loss of a uniform distribution over the tags.
    fn uniform_loss(&self) -> f64 {
        (self.names.len() as f64).ln()
    }

    fn answer(
        &self,
        model: &BertForTokenClassification,
        set: &SentenceSet,
        stop: &StopFlag,
    ) -> Result<Vec<Vec<String>>, bert_inference::Error> {
        let device = self.setup().checkpoint.inference_device();
        set.encoded.tags(&set.sentences, model, &self.names, &device, stop)
    }

    fn score(&self, set: &SentenceSet, answers: &Vec<Vec<String>>) -> Scores {
        let tags: Vec<Vec<String>> = set.sentences.iter().map(|sentence| sentence.tags.clone()).collect();
        let entities = score_entities(&tags, answers);
        let scores = [
            (Metric::F1, entities.f1()),
            (Metric::Precision, entities.precision()),
            (Metric::Recall, entities.recall()),
        ];
        scores.into_iter().collect()
    }

    fn is_degenerate(&self, set: &SentenceSet, answers: &Vec<Vec<String>>) -> bool {
        fn are_equal<'t>(mut tags: impl Iterator<Item = &'t String>) -> bool {
            let first = tags.next();
            tags.all(|tag| Some(tag) == first)
        }
        let right = set.sentences.iter().flat_map(|sentence| &sentence.tags);
        are_equal(answers.iter().flatten()) && !are_equal(right)
    }

    fn summary(&self, set: &SentenceSet, runs: Vec<SeedRun>, answers: &[&Vec<Vec<String>>]) -> SeedSummary {
        let sentences = &set.sentences;
        let f1 = |(sentence, tags): (&Sentence, &Vec<String>)| {
            let EntityCounts { correct, predicted, actual } =
                score_entities(slice::from_ref(&sentence.tags), slice::from_ref(tags));
            Ratio { numerator: 2.0 * correct as f64, denominator: (predicted + actual) as f64 }
        };
        let values = answers.iter().map(|answers| sentences.iter().zip(answers.iter()).map(f1).collect());
        let interval = ratio_interval(Metric::F1, values.collect());
        let summary = SeedSummary::new(&self.setup().config.task, sentences.len(), runs, Scores::default());
        SeedSummary { interval: Some(interval), ..summary }
    }

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

/// Returns a warning for each set with words beyond the maximum sequence length.
fn truncated_words(sets: &Sets<'_, SentenceSet>) -> Vec<String> {
    let max = sets.setup.max_seq_length;
    let notes = sets.with_names().filter_map(|(name, set)| {
        let beyond = set.words_beyond_max_length();
        (beyond > 0).then(|| {
            format!(
                "{beyond} words of {name} are beyond --max-seq-length {max} ({:.1} %): they are not read, and their \
                 predicted tag is O",
                100.0 * beyond as f64 / set.words() as f64
            )
        })
    });
    notes.collect()
}

/// Returns a warning for each set without an entity: nothing can be learned from such a training set, and F1 on such a
/// scored set is 0.
fn sets_without_entities(sets: &Sets<'_, SentenceSet>) -> Vec<String> {
    let has_entity = |sentence: &Sentence| sentence.tags.iter().any(|tag| tag != "O");
    let without = sets.with_names().filter(|(_, set)| !set.sentences.iter().any(has_entity));
    without.map(|(name, _)| format!("{name} has no entity: all its tags are O")).collect()
}

impl SentenceSet {
    fn words(&self) -> usize {
        self.sentences.iter().map(|sentence| sentence.words.len()).sum()
    }

    fn words_beyond_max_length(&self) -> usize {
        let words = self.sentences.iter().enumerate();
        words.map(|(at, sentence)| self.encoded.beyond(at, sentence.words.len())).sum()
    }
}

/// Rejects tags that are neither `O` nor a letter of a known scheme with an entity type, such as `B-PER`.
fn check_scheme(path: &Path, sentences: &[Sentence]) -> Result<(), Error> {
    for sentence in sentences {
        if let Some(at) = sentence.tags.iter().position(|tag| !is_entity_tag(tag)) {
            let problem = Error::data(format!(
                "the tag {:?} is in no known scheme: a tag is O, or a letter, a hyphen and a type, as in B-PER; the \
                 letters are B, I, E and S (IOB, IOE, IOBES), L and U (BILOU), M and W (BMEWO)",
                sentence.tags[at]
            ));
            return Err(problem.at_line(path, sentence.line + at as u64));
        }
    }
    Ok(())
}

/// Rejects tags that do not occur in the training file, because no model could predict them.
fn check_tags(path: &Path, sentences: &[Sentence], known: &[String]) -> Result<(), Error> {
    for sentence in sentences {
        if let Some(at) = sentence.tags.iter().position(|tag| !known.contains(tag)) {
            let tag = sentence.tags[at].clone();
            let known = known.to_vec();
            let line = sentence.line + at as u64;
            return Err(Error::data(format!(
                "the tag {tag:?} is not in the training file, which has {}",
                known.join(", ")
            ))
            .at_line(path, line));
        }
    }
    Ok(())
}

/// Writes words, their true tags if known, and the predicted tags; an empty line ends a sentence. A space within a word
/// is written as `_`, since spaces separate the columns.
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
