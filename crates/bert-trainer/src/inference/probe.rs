//! Replaces one word of a text and reports which predictions change, and by how much.
//!
//! The texts are single texts, the lines of a file or the instances of a data folder. Each replacement is reported with
//! the predictions before and after it: a classifier predicts the text, a pre-trained model every `[MASK]`. Words are
//! the tokenizer's words: a punctuation mark is a word, and a word of several pieces is replaced as a whole.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use bert_data::{StoredRows, Vocabulary};
use bert_model::read_pretrained_config;
use serde::Serialize;

use super::classifier::{Answer, Classifier};
use super::text_input::NewTexts;
use super::trained::ModelOptions;
use crate::compute::device::DeviceName;
use crate::data_loader::DataLoader;
use crate::encoding::model_tokenizer::{PAIR_SEPARATOR, ModelTokenizer};
use crate::error::{Error, FolderProblem};
use crate::inference::fill_mask::MaskFiller;
use bert_storage::Located;
use bert_tasks::{EncodedPair, Example};

/// A word to replace and its replacements, each applied separately.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    place: Place,
    with: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Place {
    /// The word at this position, from 1.
    Position(usize),
    /// Every occurrence of this word.
    Word(String),
}

impl FromStr for Replacement {
    type Err = String;

    /// Parses `POSITION=WORD,WORD,...` or `WORD=WORD,WORD,...`.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected POSITION=WORD[,WORD...] or WORD=WORD[,WORD...]".to_string();
        let (place, with) = text.split_once('=').ok_or_else(expected)?;
        let with: Vec<String> = with.split(',').map(|word| word.trim().to_string()).collect();
        if place.trim().is_empty() || with.iter().any(String::is_empty) {
            return Err(expected());
        }
        let place = match place.trim().parse() {
            Ok(0) => return Err("words are counted from 1".to_string()),
            Ok(position) => Place::Position(position),
            Err(_) => Place::Word(place.trim().to_string()),
        };
        Ok(Self { place, with })
    }
}

/// A prediction with its probability.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Guess {
    /// A label, a word, or a score.
    pub answer: String,
    /// Its probability; `None` for a score.
    pub probability: Option<f32>,
}

/// One prediction before and after a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The predicted item: `class`, `score`, or `[MASK]` with its word number.
    pub of: String,
    /// The masked word, if the data records it.
    pub truth: Option<String>,
    /// Before the change.
    pub before: Guess,
    /// After it.
    pub after: Guess,
    /// The probability of the earlier answer after the change; `None` for a score.
    pub before_now: Option<f32>,
    /// Whether the answer changed; always false for a score.
    pub flips: bool,
}

/// One replaced word and its effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
struct Subject {
    source: String,
    encoded: EncodedPair,
    masked: Vec<(usize, u32)>,
}

enum Head {
    Masks(Box<MaskFiller>),
    Class(Box<Classifier>),
}

/// A model that predicts texts before and after a replacement.
pub struct Prober {
    head: Head,
}

impl Prober {
    /// Opens a model folder. Uses its classifier if it has one (for an adapter, see [`Classifier::open`]), else its
    /// masked-LM head.
    ///
    /// # Errors
    /// When the folder has neither or cannot be read.
    pub fn open(folder: &Path, encoder: Option<&Path>, device: DeviceName) -> Result<Self, Error> {
        let head = match Classifier::open(folder, ModelOptions { encoder, device, ..ModelOptions::default() })
        {
            Ok(classifier) => Head::Class(Box::new(classifier)),
            Err(Error::Folder(Located { problem: FolderProblem::NoHead { .. }, .. })) => {
                Head::Masks(Box::new(MaskFiller::open(folder, device)?))
            }
            Err(error) => return Err(error),
        };
        Ok(Self { head })
    }

    /// Applies all replacements to one text; `A ||| B` is a pair.
    ///
    /// # Errors
    /// [`Error::Configuration`] when the text lacks the word, lacks a required `[MASK]`, or gets too long.
    pub fn text(&self, text: &str, replacements: &[Replacement]) -> Result<Vec<Probe>, Error> {
        let encoded = self.words().encode_with_masks(text, self.max_length());
        self.subject(&Subject { source: "text".into(), encoded, masked: Vec::new() }, replacements)
    }

    /// Applies all replacements to the texts of a file, or of standard input.
    ///
    /// # Errors
    /// As [`Self::text`], and invalid input with its line.
    pub fn file(&self, texts: &NewTexts<'_>, replacements: &[Replacement]) -> Result<Vec<Probe>, Error> {
        let trained = match &self.head {
            Head::Class(classifier) => classifier.trained.task(),
            Head::Masks(_) => None,
        };
        let mut probes = Vec::new();
        texts.for_each_window(trained, 1, &mut |window| {
            if let Head::Class(classifier) = &self.head {
                classifier.check_forms(texts.path(), &window.examples)?;
            }
            for Example { index, text_a, text_b, .. } in &window.examples {
                let encoded = match text_b {
                    Some(b) => format!("{text_a}{PAIR_SEPARATOR}{b}"),
                    None => text_a.clone(),
                };
                let encoded = self.words().encode_with_masks(&encoded, self.max_length());
                let subject = Subject { source: format!("line {index}"), encoded, masked: Vec::new() };
                probes.extend(self.subject(&subject, replacements)?);
            }
            Ok(())
        })?;
        Ok(probes)
    }

    /// Returns the words of a text, as `--replace` names them.
    pub fn words_of(&self, text: &str) -> Vec<String> {
        let (words, encoded) = (self.words(), self.words().encode_with_masks(text, self.max_length()));
        let ranges = word_ranges(&encoded, &words.vocabulary);
        ranges.into_iter().map(|range| shown(&encoded.input_ids[range], &words.vocabulary)).collect()
    }

    /// Applies all replacements to the first `instances` instances of a data folder.
    ///
    /// # Errors
    /// As [`Self::text`]; when the data does not fit the model, or the model has no masked-LM head.
    pub fn data(
        &self,
        folder: &Path,
        data: &Path,
        instances: u64,
        replacements: &[Replacement],
    ) -> Result<Vec<Probe>, Error> {
        if let Head::Class(_) = self.head {
            let reason =
                "the instances of a data folder have masks, but this model is a classifier; give texts with \
                          --input"
                    .to_string();
            return Err(Error::Configuration { flag: "data", reason });
        }
        let config = read_pretrained_config(folder)?;
        let loader = DataLoader::open(data, 0)?;
        loader.check_fits(&config, Some(&ModelTokenizer::open(folder)?))?;
        let mut rows = StoredRows::new(loader.data());
        let mut probes = Vec::new();
        for index in 0..instances.min(rows.len()) {
            let row = rows.row(index)?;
            let encoded = EncodedPair {
                input_ids: row.input_ids.to_vec(),
                segment_ids: row.segment_ids.iter().map(|&segment| segment as u32).collect(),
            };
            let masked = row.masked_lm_positions.iter().zip(row.masked_lm_ids);
            let masked = masked.map(|(&at, &id)| (at as usize, id)).collect();
            let subject = Subject { source: format!("instance {index}"), encoded, masked };
            probes.extend(self.subject(&subject, replacements)?);
        }
        Ok(probes)
    }

    fn words(&self) -> &ModelTokenizer {
        match &self.head {
            Head::Masks(filler) => filler.text(),
            Head::Class(classifier) => &classifier.text,
        }
    }

    fn max_length(&self) -> usize {
        match &self.head {
            Head::Masks(filler) => filler.max_length(),
            Head::Class(classifier) => classifier.max_length,
        }
    }

    fn subject(&self, subject: &Subject, replacements: &[Replacement]) -> Result<Vec<Probe>, Error> {
        let text = self.words();
        let words = word_ranges(&subject.encoded, &text.vocabulary);
        let shown = |range: &Range<usize>| shown(&subject.encoded.input_ids[range.clone()], &text.vocabulary);
        let mut probes = Vec::new();
        let mut before = None;
        for Replacement { place, with } in replacements {
            for at in positions(place, &words, subject, text)? {
                for word in with {
                    let ids = text.ids(word);
                    let changed = spliced(&subject.encoded, words[at].clone(), &ids);
                    if ids.is_empty() || changed.input_ids.len() > self.max_length() {
                        let (length, most) = (changed.input_ids.len(), self.max_length());
                        let reason = format!(
                            "with {word:?} the text has {length} tokens, but the model has {most} positions"
                        );
                        return Err(Error::Configuration { flag: "replace", reason });
                    }
                    let before = before.get_or_insert_with(|| self.ask(&subject.encoded));
                    let after = self.ask(&changed);
                    let grown = ids.len() as isize - words[at].len() as isize;
                    probes.push(Probe {
                        source: subject.source.clone(),
                        text: words.iter().map(shown).collect::<Vec<_>>().join(" "),
                        position: at + 1,
                        word: shown(&words[at]),
                        replaced_by: word.clone(),
                        predictions: self.compare(subject, &words, (words[at].start, grown), before, &after),
                    });
                }
            }
        }
        Ok(probes)
    }

    fn ask(&self, encoded: &EncodedPair) -> Said {
        match &self.head {
            Head::Masks(filler) => Said::AtMasks(filler.probabilities(encoded)),
            Head::Class(classifier) => Said::OfText(classifier.answer_encoded(encoded.clone())),
        }
    }

    /// Compares the predictions that exist before and after; `moved` gives the position where the text grew, and by how
    /// much.
    fn compare(
        &self,
        subject: &Subject,
        words: &[Range<usize>],
        moved: (usize, isize),
        before: &Said,
        after: &Said,
    ) -> Vec<Prediction> {
        let (before, after) = match (before, after) {
            (Said::OfText(before), Said::OfText(after)) => return vec![of_text(before, after)],
            (Said::AtMasks(before), Said::AtMasks(after)) => (before, after),
            _ => unreachable!("one head"),
        };
        let vocabulary = &self.words().vocabulary;
        let token = |id: usize| vocabulary.token(id as u32).to_string();
        let prediction = |(at, row): &(usize, Vec<f32>)| {
            let there = if *at > moved.0 { (*at as isize + moved.1) as usize } else { *at };
            // The mask itself may have been replaced.
            let (_, now) = after.iter().find(|(place, _)| *place == there)?;
            let (best, best_now) = (largest(row), largest(now));
            let number = words.iter().position(|word| word.contains(at)).map_or(0, |word| word + 1);
            let truth = subject.masked.iter().find(|(place, _)| place == at);
            Some(Prediction {
                of: format!("[MASK] {number}"),
                truth: truth.map(|&(_, id)| token(id as usize)),
                before: Guess { answer: token(best), probability: Some(row[best]) },
                after: Guess { answer: token(best_now), probability: Some(now[best_now]) },
                before_now: Some(now[best]),
                flips: best != best_now,
            })
        };
        before.iter().filter_map(prediction).collect()
    }
}

/// A model's prediction for a text, or for each of its masks: the position and all probabilities.
enum Said {
    OfText(Answer),
    AtMasks(Vec<(usize, Vec<f32>)>),
}

fn of_text(before: &Answer, after: &Answer) -> Prediction {
    let probability = |answer: &Answer, label: &str| match answer {
        Answer::Class { probabilities, .. } => probabilities.get(label).copied(),
        Answer::Score { .. } => None,
    };
    let guess = |answer: &Answer| {
        let short = answer.short();
        Guess { probability: probability(answer, &short), answer: short }
    };
    let (was, now) = (guess(before), guess(after));
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

/// Returns the token range of each word, without `[CLS]` and `[SEP]`; continuation pieces belong to their word.
fn word_ranges(encoded: &EncodedPair, vocabulary: &Vocabulary) -> Vec<Range<usize>> {
    let special = [vocabulary.cls_id(), vocabulary.sep_id()];
    let mut words: Vec<Range<usize>> = Vec::new();
    for (at, &id) in encoded.input_ids.iter().enumerate() {
        match words.last_mut() {
            _ if special.contains(&id) => {}
            Some(word) if word.end == at && vocabulary.token(id).starts_with("##") => word.end = at + 1,
            _ => words.push(at..at + 1),
        }
    }
    words
}

fn shown(ids: &[u32], vocabulary: &Vocabulary) -> String {
    let piece = |(at, &id): (usize, &u32)| {
        let token = vocabulary.token(id);
        if at > 0 { token.trim_start_matches("##") } else { token }
    };
    ids.iter().enumerate().map(piece).collect()
}

/// Returns the indices of the words that a replacement matches.
fn positions(
    place: &Place,
    words: &[Range<usize>],
    subject: &Subject,
    text: &ModelTokenizer,
) -> Result<Vec<usize>, Error> {
    match place {
        Place::Word(word) => {
            let ids = text.ids(word);
            let same = |range: &Range<usize>| subject.encoded.input_ids[range.clone()] == ids[..];
            Ok((0..words.len()).filter(|&at| same(&words[at])).collect())
        }
        Place::Position(position) if *position <= words.len() => Ok(vec![position - 1]),
        Place::Position(position) => {
            let reason = format!("{} has {} words, so no word {position}", subject.source, words.len());
            Err(Error::Configuration { flag: "replace", reason })
        }
    }
}

fn spliced(encoded: &EncodedPair, range: Range<usize>, ids: &[u32]) -> EncodedPair {
    let mut changed = encoded.clone();
    let segment = changed.segment_ids[range.start];
    changed.segment_ids.splice(range.clone(), std::iter::repeat_n(segment, ids.len()));
    changed.input_ids.splice(range, ids.iter().copied());
    changed
}

/// Returns the index of the largest value; ties go to the first.
fn largest(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_read() {
        let read = |text: &str| text.parse::<Replacement>();
        let with = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
        assert_eq!(
            read("3=bad, worse"),
            Ok(Replacement { place: Place::Position(3), with: with(&["bad", "worse"]) })
        );
        assert_eq!(read("he=she"), Ok(Replacement { place: Place::Word("he".into()), with: with(&["she"]) }));
        for wrong in ["he", "=she", "he=", "he=she,", "0=she"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_are_found_and_replaced_whole() {
        let file = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nplay\n##ing\n.\n##x\n".to_vec();
        let vocabulary = Vocabulary::from_bytes(file, Path::new("vocab.txt")).unwrap();
        let encoded = EncodedPair {
            input_ids: vec![2, 5, 6, 7, 3, 4, 6, 3],
            segment_ids: vec![0, 0, 0, 0, 0, 1, 1, 1],
        };
        let words = word_ranges(&encoded, &vocabulary);
        assert_eq!(words, [1..3, 3..4, 5..7]);
        assert_eq!(shown(&encoded.input_ids[1..3], &vocabulary), "playing");
        let changed = spliced(&encoded, 1..3, &[7]);
        assert_eq!(changed.input_ids, [2, 7, 7, 3, 4, 6, 3]);
        assert_eq!(changed.segment_ids, [0, 0, 0, 0, 1, 1, 1]);
    }
}
