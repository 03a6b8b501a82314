//! Replaces one word of a text and reports which predictions change, and by how much.
//!
//! The texts are single texts, the lines of a file or the instances of a data folder. Each replacement is reported with
//! the predictions before and after it: a classifier predicts the class or score of the text, and a pre-trained model
//! predicts every `[MASK]`. Words are the words of the tokenizer: a punctuation mark is a word, and a word of several
//! pieces is replaced as a whole.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use bert_storage::Class;
use bert_tasks::{EncodedPair, Example, InputText, TextSource};
use serde::Serialize;

use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::Error;
use crate::fill_mask::{MaskFiller, MaskProbabilities};
use crate::model_dir::model_options::ModelOptions;
use crate::prediction::classifier::{Answer, Classifier};
use crate::probe::word_edits::{Edit, Replacement, Target, with_ids_at, word_ranges, word_text};

/// A prediction with its probability.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Guess {
    /// A label, a word, or a score.
    pub answer: String,
    /// The probability of the answer; `None` for a score.
    pub probability: Option<f32>,
}

/// One prediction before and after a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Prediction {
    /// The predicted item: `class`, `score`, or `[MASK]` with its word number.
    pub of: String,
    /// The masked word, if the data records it.
    pub truth: Option<String>,
    /// The prediction before the change.
    pub before: Guess,
    /// The prediction after the change.
    pub after: Guess,
    /// The probability of the earlier answer after the change; `None` for a score.
    pub before_now: Option<f32>,
    /// Whether the answer changed; always false for a score.
    pub flips: bool,
}

/// One replaced word and its effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Probe {
    /// Origin of the text: `text`, `line 3`, `instance 3`.
    pub source: String,
    /// The text before the change.
    pub text: String,
    /// Position of the replaced word, from 1.
    pub position: usize,
    /// The original word.
    pub word: String,
    /// The replacement.
    pub replaced_by: String,
    /// All predictions.
    pub predictions: Vec<Prediction>,
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.source, self.text)?;
        write!(f, "  word {}: {} -> {}", self.position, self.word, self.replaced_by)?;
        let shown = |guess: &Guess| match guess.probability {
            Some(probability) => format!("{} {probability:.4}", guess.answer),
            None => guess.answer.clone(),
        };
        for prediction in &self.predictions {
            let Prediction { of, truth, before, after, before_now, flips } = prediction;
            write!(f, "\n  {of}: {} -> {}", shown(before), shown(after))?;
            if let (true, Some(now)) = (flips, before_now) {
                write!(f, " ({} now {now:.4}), flips", before.answer)?;
            }
            if let Some(truth) = truth {
                write!(f, "; was {truth}")?;
            }
        }
        Ok(())
    }
}

/// An encoded text and the words masked in it.
pub struct Subject {
    /// The source of the text, such as `line 3`.
    pub source: String,
    /// The tokens.
    pub encoded: EncodedPair,
    /// The masked words.
    pub masked: Vec<MaskedWord>,
}

/// A word that the data masks.
pub struct MaskedWord {
    /// Position in the sequence.
    pub position: usize,
    /// Id of the token that was masked.
    pub id: u32,
}

pub(super) enum Head {
    Masks(Box<MaskFiller>),
    Class(Box<Classifier>),
}

/// A model that predicts texts before and after a replacement.
pub struct Prober {
    pub(super) head: Head,
}

impl Prober {
    /// Opens a model folder. Uses its classifier if it has one (for an adapter, see [`Classifier::open`]), else its
    /// masked-LM head.
    ///
    /// # Errors
    /// Fails when the folder has neither a classifier nor a masked-LM head, or cannot be read.
    pub fn open(folder: &Path, options: ModelOptions<'_>) -> Result<Self, Error> {
        let head = match Classifier::open(folder, options) {
            Ok(classifier) => Head::Class(Box::new(classifier)),
            Err(error) if error.class() == Class::Model && error.is_absent() => {
                Head::Masks(Box::new(MaskFiller::open(folder, options)?))
            }
            Err(error) => return Err(error),
        };
        Ok(Self { head })
    }

    /// Applies all replacements to one text or pair, and returns their effects.
    ///
    /// A word that the text lacks has no effects. A masked-LM model predicts nothing for a text without `[MASK]`.
    ///
    /// # Errors
    /// Fails when the text has no word at a position, when a replacement has no tokens, or when the changed text is longer
    /// than the model reads.
    pub fn text<'a>(
        &self,
        text: impl Into<InputText<'a>>,
        replacements: &[Replacement],
    ) -> Result<Vec<Probe>, Error> {
        let encoded = self.tokenizer().encode(text, self.max_length());
        self.probe(&Subject { source: "text".into(), encoded, masked: Vec::new() }, replacements)
    }

    /// Applies all replacements to the texts of a source, and returns their effects.
    ///
    /// # Errors
    /// Fails as [`Self::text`] does, or when the input is invalid; the error then names the line.
    pub fn source(&self, texts: &dyn TextSource, replacements: &[Replacement]) -> Result<Vec<Probe>, Error> {
        let trained = match &self.head {
            Head::Class(classifier) => classifier.opened.description.task.clone(),
            Head::Masks(_) => None,
        };
        let mut probes = Vec::new();
        for window in texts.windows(trained.as_ref(), 1)? {
            let window = window?;
            if let Head::Class(classifier) = &self.head {
                classifier.check_forms(texts.name(), &window.examples)?;
            }
            for Example { index, text_a, text_b, .. } in &window.examples {
                let text = InputText { first: text_a, second: text_b.as_deref() };
                let encoded = self.tokenizer().encode(text, self.max_length());
                let subject = Subject { source: format!("line {index}"), encoded, masked: Vec::new() };
                probes.extend(self.probe(&subject, replacements)?);
            }
        }
        Ok(probes)
    }

    /// Returns the words of a text or pair, as `--replace` names them.
    pub fn words_of<'a>(&self, text: impl Into<InputText<'a>>) -> Vec<String> {
        let words = self.tokenizer();
        let encoded = self.tokenizer().encode(text, self.max_length());
        let ranges = word_ranges(&encoded, &words.vocabulary);
        ranges.into_iter().map(|range| word_text(&encoded.input_ids[range], &words.vocabulary)).collect()
    }

    /// Checks that the model has a masked-LM head, which instances of a data folder need.
    ///
    /// # Errors
    /// Fails when the model is a classifier.
    pub fn require_masks(&self) -> Result<(), Error> {
        if let Head::Class(_) = self.head {
            let reason = "the instances of a data folder have masks, but this model is a classifier; give texts with \
                          `.input`";
            return Err(Error::option("data", reason.to_string()));
        }
        Ok(())
    }

    pub(super) fn tokenizer(&self) -> &ModelTokenizer {
        match &self.head {
            Head::Masks(filler) => &filler.opened.text,
            Head::Class(classifier) => &classifier.opened.text,
        }
    }

    pub(super) fn max_length(&self) -> usize {
        match &self.head {
            Head::Masks(filler) => filler.opened.length.tokens,
            Head::Class(classifier) => classifier.opened.length.tokens,
        }
    }

    /// Applies all replacements to a text, and returns their effects.
    ///
    /// # Errors
    /// Fails as [`Self::text`] does.
    pub fn probe(&self, subject: &Subject, replacements: &[Replacement]) -> Result<Vec<Probe>, Error> {
        let text = self.tokenizer();
        let words = word_ranges(&subject.encoded, &text.vocabulary);
        let word_at =
            |range: &Range<usize>| word_text(&subject.encoded.input_ids[range.clone()], &text.vocabulary);
        let mut probes = Vec::new();
        let mut before = None;
        for Replacement { target, replacements } in replacements {
            for at in positions(target, &words, subject, text)? {
                for word in replacements {
                    let ids = text.ids(word);
                    let changed = with_ids_at(&subject.encoded, words[at].clone(), &ids);
                    if ids.is_empty() || changed.input_ids.len() > self.max_length() {
                        let length = changed.input_ids.len();
                        let max = self.max_length();
                        let reason =
                            format!("with {word:?} the text has {length} tokens, but the model reads {max}");
                        return Err(Error::option("replace", reason));
                    }
                    if before.is_none() {
                        before = Some(self.predict(&subject.encoded)?);
                    }
                    let after = self.predict(&changed)?;
                    let growth = ids.len() as isize - words[at].len() as isize;
                    let edit = Edit { start: words[at].start, growth };
                    probes.push(Probe {
                        source: subject.source.clone(),
                        text: words.iter().map(word_at).collect::<Vec<_>>().join(" "),
                        position: at + 1,
                        word: word_at(&words[at]),
                        replaced_by: word.clone(),
                        predictions: self.compare(
                            subject,
                            &words,
                            &edit,
                            before.as_ref().expect("set above"),
                            &after,
                        ),
                    });
                }
            }
        }
        Ok(probes)
    }

    fn predict(&self, encoded: &EncodedPair) -> Result<ModelOutput, Error> {
        Ok(match &self.head {
            Head::Masks(filler) => ModelOutput::Masks(filler.probabilities(encoded)?),
            Head::Class(classifier) => ModelOutput::Text(classifier.answer_encoded(encoded.clone())?),
        })
    }

    /// Returns the predictions that exist before and after an edit.
    fn compare(
        &self,
        subject: &Subject,
        words: &[Range<usize>],
        edit: &Edit,
        before: &ModelOutput,
        after: &ModelOutput,
    ) -> Vec<Prediction> {
        let (before, after) = match (before, after) {
            (ModelOutput::Text(before), ModelOutput::Text(after)) => {
                return vec![text_prediction(before, after)];
            }
            (ModelOutput::Masks(before), ModelOutput::Masks(after)) => (before, after),
            _ => unreachable!("one head"),
        };
        let vocabulary = &self.tokenizer().vocabulary;
        let token = |id: usize| vocabulary.token(id as u32).to_string();
        let prediction = |mask: &MaskProbabilities| {
            let MaskProbabilities { position, probabilities: row } = mask;
            let moved = edit.moved(*position);
            // The mask itself may have been replaced.
            let now = &after.iter().find(|mask| mask.position == moved)?.probabilities;
            let best = largest(row);
            let best_now = largest(now);
            let truth = subject.masked.iter().find(|masked| masked.position == *position);
            Some(Prediction {
                of: format!("[MASK] {}", word_number(words, *position)),
                truth: truth.map(|masked| token(masked.id as usize)),
                before: Guess { answer: token(best), probability: Some(row[best]) },
                after: Guess { answer: token(best_now), probability: Some(now[best_now]) },
                before_now: Some(now[best]),
                flips: best != best_now,
            })
        };
        before.iter().filter_map(prediction).collect()
    }
}

/// A model's prediction for a text, or for each of its masks.
enum ModelOutput {
    Text(Answer),
    Masks(Vec<MaskProbabilities>),
}

/// Returns the prediction for a text before and after a change.
fn text_prediction(before: &Answer, after: &Answer) -> Prediction {
    let probability = |answer: &Answer, label: &str| match answer {
        Answer::Class { probabilities, .. } => probabilities.get(label).copied(),
        Answer::Score { .. } => None,
    };
    let guess = |answer: &Answer| {
        let short = answer.short();
        Guess { probability: probability(answer, &short), answer: short }
    };
    let was = guess(before);
    let now = guess(after);
    let is_class = matches!(before, Answer::Class { .. });
    Prediction {
        of: if is_class { "class" } else { "score" }.to_string(),
        truth: None,
        before_now: probability(after, &was.answer),
        flips: is_class && was.answer != now.answer,
        before: was,
        after: now,
    }
}

/// Returns the indices of the words that a replacement matches.
fn positions(
    target: &Target,
    words: &[Range<usize>],
    subject: &Subject,
    text: &ModelTokenizer,
) -> Result<Vec<usize>, Error> {
    match target {
        Target::Word(word) => {
            let ids = text.ids(word);
            let same = |range: &Range<usize>| subject.encoded.input_ids[range.clone()] == ids[..];
            Ok((0..words.len()).filter(|&at| same(&words[at])).collect())
        }
        Target::Position(position) if *position <= words.len() => Ok(vec![position - 1]),
        Target::Position(position) => {
            let reason = format!("{} has {} words, so no word {position}", subject.source, words.len());
            Err(Error::option("replace", reason))
        }
    }
}

/// Returns the number of the word at a position, from 1; 0 if no word is there.
pub(super) fn word_number(words: &[Range<usize>], position: usize) -> usize {
    words.iter().position(|word| word.contains(&position)).map_or(0, |at| at + 1)
}

/// Returns the index of the largest value; ties go to the first.
pub(super) fn largest(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best })
}
