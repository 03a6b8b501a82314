//! Measures the effect of every word of a text on a prediction, in two ways.
//!
//! *Gradient times input*: the gradient of the predicted logit with respect to a token's vector after the embeddings,
//! multiplied by this vector and summed over the dimensions and the pieces of the word (Simonyan et al. 2013, Shrikumar
//! et al. 2016). *Leave-one-out*: the decrease of the prediction's probability when the word is removed (Li et al.
//! 2016).

use std::fmt;

use bert_model::{BertModel, Mode};
use bert_tasks::{EncodedPair, InputText};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use serde::Serialize;

use crate::compute::host_tensors::read;
use crate::encoding::examples::PaddedBatch;
use crate::error::Error;
use crate::fill_mask::{MaskFiller, MaskProbabilities};
use crate::prediction::classifier::{Answer, Classifier};
use crate::probe::prober::{Head, Prober, largest, word_number};
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
struct Target<'a> {
    of: String,
    answer: String,
    probability: Option<f32>,
    kind: TargetKind<'a>,
}

#[derive(Clone, Copy)]
enum TargetKind<'a> {
    /// The class or the score with this index.
    Output(&'a Classifier, usize),
    /// The word with the id `id` at the mask with the index `mask`; `position` is the position of this mask.
    Word { filler: &'a MaskFiller, id: usize, mask: usize, position: usize },
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

    fn targets(&self, encoded: &EncodedPair) -> Result<Vec<Target<'_>>, Error> {
        match &self.head {
            Head::Class(classifier) => {
                let answer = classifier.answer_encoded(encoded.clone())?;
                let index = classifier.output_of(&answer);
                let probability = probability_of(&answer, index);
                let of = if probability.is_some() { "class" } else { "score" }.to_string();
                let kind = TargetKind::Output(classifier, index);
                Ok(vec![Target { of, answer: answer.short(), probability, kind }])
            }
            Head::Masks(filler) => {
                let words = word_ranges(encoded, &self.tokenizer().vocabulary);
                let target = |(mask, found): (usize, MaskProbabilities)| {
                    let id = largest(&found.probabilities);
                    let position = found.position;
                    Target {
                        of: format!("[MASK] {}", word_number(&words, position)),
                        answer: self.tokenizer().vocabulary.token(id as u32).to_string(),
                        probability: Some(found.probabilities[id]),
                        kind: TargetKind::Word { filler, id, mask, position },
                    }
                };
                Ok(filler.probabilities(encoded)?.into_iter().enumerate().map(target).collect())
            }
        }
    }

    fn saliency_of(&self, encoded: &EncodedPair, target: Target<'_>) -> Result<Saliency, Error> {
        let Target { of, answer, probability, kind } = target;
        let vocabulary = &self.tokenizer().vocabulary;
        let gradients = kind.gradients(encoded)?;
        let before = kind.value(encoded)?;
        let words = word_ranges(encoded, vocabulary).into_iter().enumerate().map(|(at, range)| {
            let is_target = matches!(kind, TargetKind::Word { position, .. } if range.contains(&position));
            let is_mask = encoded.input_ids[range.clone()].contains(&vocabulary.mask_id());
            let leave_one_out = (!is_target && !is_mask)
                .then(|| Ok::<f32, Error>(before - kind.value(&with_ids_at(encoded, range.clone(), &[]))?))
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
}

impl TargetKind<'_> {
    /// Returns the probability or the score. Masks keep their indices when a word is removed.
    fn value(self, encoded: &EncodedPair) -> Result<f32, Error> {
        match self {
            Self::Output(classifier, index) => {
                let answer = classifier.answer_encoded(encoded.clone())?;
                Ok(match answer {
                    Answer::Score { score } => score,
                    Answer::Class { .. } => probability_of(&answer, index).unwrap_or(0.0),
                })
            }
            Self::Word { filler, id, mask, .. } => Ok(filler.probabilities(encoded)?[mask].probabilities[id]),
        }
    }

    /// Returns gradient times input of every token.
    fn gradients(self, encoded: &EncodedPair) -> Result<Vec<f32>, Error> {
        let (logits, target, hidden) = match self {
            Self::Output(classifier, index) => {
                let Some(model) = classifier.linear_model() else {
                    let reason = "the model is a head on frozen features, for which it is not available";
                    return Err(Error::option("saliency", reason.to_string()));
                };
                let model = model.clone().train();
                let (hidden, states) = states_of(&model.bert, encoded, &classifier.opened.device);
                (model.classify(model.bert.pooler.forward(states), Mode::Eval), index, hidden)
            }
            Self::Word { filler, id, position, .. } => {
                let model = filler.opened.model.clone().train();
                let (hidden, states) = states_of(&model.bert, encoded, &filler.opened.device);
                (model.prediction_logits(states.narrow(1, position, 1).squeeze_dim(0)), id, hidden)
            }
        };
        gradient_times_input(logits.narrow(1, target, 1).sum(), hidden)
    }
}

/// Returns the probability of a class; `None` for a score.
fn probability_of(answer: &Answer, class: usize) -> Option<f32> {
    match answer {
        Answer::Class { probabilities, .. } => probabilities.get_index(class).map(|(_, value)| *value),
        Answer::Score { .. } => None,
    }
}

/// Returns the embeddings of a text, with gradients enabled, and the states of the last layer.
///
/// # Shapes
/// Both are `[1, seq, hidden]`.
fn states_of(bert: &BertModel, encoded: &EncodedPair, device: &Device) -> (Tensor<3>, Tensor<3>) {
    let input = PaddedBatch::single(encoded).input(&device.clone().autodiff());
    let (hidden, bias) = bert.embed(input, Mode::Eval);
    let hidden = hidden.detach().require_grad();
    (hidden.clone(), bert.encoder.forward(hidden, bias, Mode::Eval))
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
