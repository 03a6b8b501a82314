//! Measures the effect of every word of a text on a prediction, in two ways.
//!
//! *Gradient times input*: the gradient of the predicted logit with respect to a token's vector after the embeddings,
//! multiplied by this vector and summed over the dimensions and the pieces of the word (Simonyan et al. 2013, Shrikumar
//! et al. 2016). *Leave-one-out*: the decrease of the prediction's probability when the word is removed (Li et al.
//! 2016).

use std::fmt;

use bert_model::Mode;
use bert_tasks::{EncodedPair, InputText};
use burn::module::Module;
use burn::tensor::Tensor;
use serde::Serialize;

use crate::compute::host_tensors::read;
use crate::encoding::examples::PaddedBatch;
use crate::error::Error;
use crate::fill_mask::MaskFiller;
use crate::prediction::classifier::{Answer, Classifier};
use crate::probe::prober::{Head, Prober};
use crate::probe::word_edits::{with_ids_at, word_ranges, word_text};

/// The effect of one word on a prediction. Positive values support the prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WordSaliency {
    /// Position of the word, from 1.
    pub position: usize,
    /// The word.
    pub word: String,
    /// Gradient of the logit or of the score, times the input.
    pub gradient_times_input: f32,
    /// Decrease of the probability or of the score without the word; `None` for the `[MASK]` itself.
    pub leave_one_out: Option<f32>,
}

/// A prediction, and the effect of every word on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Saliency {
    /// The predicted item: `class`, `score`, or `[MASK]` with its word number, such as `[MASK] 4`.
    pub of: String,
    /// The answer.
    pub answer: String,
    /// The probability of the answer; `None` for a score.
    pub probability: Option<f32>,
    /// The words of the text.
    pub words: Vec<WordSaliency>,
}

impl fmt::Display for Saliency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let probability = self.probability.map_or(String::new(), |value| format!(" {value:.4}"));
        write!(f, "{}: {}{probability}", self.of, self.answer)?;
        let width = self.words.iter().map(|word| word.word.chars().count()).max().unwrap_or(0);
        write!(f, "\n  {:>3}  {:<width$}  gradient x input  leave one out", "", "word")?;
        for WordSaliency { position, word, gradient_times_input, leave_one_out } in &self.words {
            let left_out = leave_one_out.map_or("-".to_string(), |value| format!("{value:+.4}"));
            write!(f, "\n  {position:>3}  {word:<width$}  {gradient_times_input:>+16.4}  {left_out:>13}")?;
        }
        Ok(())
    }
}

/// A prediction and its target.
struct Target {
    of: String,
    answer: String,
    probability: Option<f32>,
    kind: TargetKind,
}

#[derive(Clone, Copy)]
enum TargetKind {
    /// The class or the score with this index.
    Output(usize),
    /// The word with this id at the mask with this number; `position` is the position of the mask.
    Word { id: usize, mask: usize, position: usize },
}

impl Prober {
    /// Returns the effect of every word on the class or score of a text or pair, or on the best word at every `[MASK]`.
    ///
    /// # Errors
    /// Fails when nothing is predicted, or when the model is a head on frozen features.
    pub fn saliency<'a>(&self, text: impl Into<InputText<'a>>) -> Result<Vec<Saliency>, Error> {
        let encoded = self.tokenizer().encode(text, self.max_length());
        let targets = self.targets(&encoded)?;
        if targets.is_empty() {
            let reason = "the model has no classifier and the text no [MASK], so nothing is predicted: add a [MASK] to \
                          the text";
            return Err(Error::option("saliency", reason.to_string()));
        }
        targets.into_iter().map(|target| self.saliency_of(&encoded, target)).collect()
    }

    fn targets(&self, encoded: &EncodedPair) -> Result<Vec<Target>, Error> {
        match &self.head {
            Head::Class(classifier) => {
                let answer = classifier.answer_encoded(encoded.clone())?;
                let index = classifier.output_of(&answer);
                let probability = probability_of(&answer, index);
                let of = if probability.is_some() { "class" } else { "score" }.to_string();
                let kind = TargetKind::Output(index);
                Ok(vec![Target { of, answer: answer.short(), probability, kind }])
            }
            Head::Masks(filler) => {
                let words = word_ranges(encoded, &self.tokenizer().vocabulary);
                let target = |(mask, found): (usize, crate::fill_mask::MaskProbabilities)| {
                    let id = super::prober::largest(&found.probabilities);
                    let position = found.position;
                    let number =
                        words.iter().position(|word| word.contains(&position)).map_or(0, |at| at + 1);
                    Target {
                        of: format!("[MASK] {number}"),
                        answer: self.tokenizer().vocabulary.token(id as u32).to_string(),
                        probability: Some(found.probabilities[id]),
                        kind: TargetKind::Word { id, mask, position },
                    }
                };
                Ok(filler.probabilities(encoded)?.into_iter().enumerate().map(target).collect())
            }
        }
    }

    fn saliency_of(&self, encoded: &EncodedPair, target: Target) -> Result<Saliency, Error> {
        let Target { of, answer, probability, kind } = target;
        let vocabulary = &self.tokenizer().vocabulary;
        let gradients = match (&self.head, kind) {
            (Head::Class(classifier), TargetKind::Output(index)) => {
                class_gradients(classifier, encoded, index)?
            }
            (Head::Masks(filler), TargetKind::Word { id, position, .. }) => {
                word_gradients(filler, encoded, id, position)?
            }
            _ => unreachable!("one head"),
        };
        let before = self.value(encoded, kind)?;
        let words = word_ranges(encoded, vocabulary).into_iter().enumerate().map(|(at, range)| {
            let is_target = matches!(kind, TargetKind::Word { position, .. } if range.contains(&position));
            let is_mask = encoded.input_ids[range.clone()].contains(&vocabulary.mask_id());
            let leave_one_out = (!is_target && !is_mask)
                .then(|| {
                    Ok::<f32, Error>(before - self.value(&with_ids_at(encoded, range.clone(), &[]), kind)?)
                })
                .transpose()?;
            Ok(WordSaliency {
                position: at + 1,
                word: word_text(&encoded.input_ids[range.clone()], vocabulary),
                gradient_times_input: gradients[range].iter().sum(),
                leave_one_out,
            })
        });
        let words = words.collect::<Result<_, Error>>()?;
        Ok(Saliency { of, answer, probability, words })
    }

    /// Returns the probability or the score of a target. Masks keep their number when a word is removed.
    fn value(&self, encoded: &EncodedPair, kind: TargetKind) -> Result<f32, Error> {
        Ok(match (&self.head, kind) {
            (Head::Class(classifier), TargetKind::Output(index)) => {
                let answer = classifier.answer_encoded(encoded.clone())?;
                match answer {
                    Answer::Score { score } => score,
                    Answer::Class { .. } => probability_of(&answer, index).unwrap_or(0.0),
                }
            }
            (Head::Masks(filler), TargetKind::Word { id, mask, .. }) => {
                filler.probabilities(encoded)?[mask].probabilities[id]
            }
            _ => unreachable!("one head"),
        })
    }
}

/// Returns the probability of a class; `None` for a score.
fn probability_of(answer: &Answer, class: usize) -> Option<f32> {
    match answer {
        Answer::Class { probabilities, .. } => probabilities.get_index(class).map(|(_, value)| *value),
        Answer::Score { .. } => None,
    }
}

/// Returns gradient times input of every token for an output of a classifier.
fn class_gradients(classifier: &Classifier, encoded: &EncodedPair, output: usize) -> Result<Vec<f32>, Error> {
    let Some(model) = classifier.linear_model() else {
        let reason = "the model is a head on frozen features, for which it is not available".to_string();
        return Err(Error::option("saliency", reason));
    };
    let model = model.clone().train();
    let device = classifier.opened.device.clone().autodiff();
    let (hidden, bias) = model.bert.embed(PaddedBatch::single(encoded).input(&device), Mode::Eval);
    let hidden = hidden.detach().require_grad();
    let states = model.bert.encoder.forward(hidden.clone(), bias, Mode::Eval);
    let logits = model.classify(model.bert.pooler.forward(states), Mode::Eval);
    gradient_times_input(logits.narrow(1, output, 1).sum(), hidden)
}

/// Returns gradient times input of every token for a word at a mask.
fn word_gradients(
    filler: &MaskFiller,
    encoded: &EncodedPair,
    id: usize,
    position: usize,
) -> Result<Vec<f32>, Error> {
    let model = filler.opened.model.clone().train();
    let device = filler.opened.device.clone().autodiff();
    let (hidden, bias) = model.bert.embed(PaddedBatch::single(encoded).input(&device), Mode::Eval);
    let hidden = hidden.detach().require_grad();
    let states = model.bert.encoder.forward(hidden.clone(), bias, Mode::Eval); // [1, seq, hidden]
    let logits = model.prediction_logits(states.narrow(1, position, 1).squeeze_dim(0));
    gradient_times_input(logits.narrow(1, id, 1).sum(), hidden)
}

/// Returns for each token the sum of its vector times the gradient of a scalar.
///
/// # Shapes
/// - hidden: `[1, seq, hidden]`
fn gradient_times_input(scalar: Tensor<1>, hidden: Tensor<3>) -> Result<Vec<f32>, Error> {
    let gradients = scalar.backward();
    let gradient = hidden.grad(&gradients).expect("the output depends on every token");
    read((gradient * hidden.inner()).sum_dim(2))
}
