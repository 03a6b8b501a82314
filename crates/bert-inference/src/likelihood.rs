//! Scores sentences by their pseudo-log-likelihood (Salazar et al. 2020). Compares the scores of the two sentences of
//! minimal pairs, as in BLiMP (Warstadt et al. 2020).
//!
//! A sentence's score is the sum over its tokens of the log probability of the token when it is masked. The later
//! pieces of the same word are masked too (Kauf and Ivanova 2023). Otherwise, they would make the earlier pieces of a
//! rare word predictable, and rare words would score too high.

use bert_model::{Mode, PretrainingInput};
use bert_tasks::{EncodedPair, Error, Example, Label, Metric, TextSource, Truncation, confidence_interval};
use burn::tensor::activation;
use serde::Serialize;
use serde_json::Value;

use crate::compute::host_tensors::{int_vector, read};
use crate::encoding::examples::{PaddedBatch, by_length};
use crate::fill_mask::MaskFiller;
use crate::model_dir::loaded_model::{OpenedModel, line_of};
use crate::probe::word_edits::word_ranges;

/// Masked copies of sentences in one forward pass.
const BATCH: usize = 32;
/// Minimal pairs in memory at a time.
const WINDOW: usize = 64;

/// The score of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Likelihood {
    /// The pseudo-log-likelihood in nats.
    pub nats: f64,
    /// Number of tokens, without `[CLS]` and `[SEP]`.
    pub tokens: usize,
}

/// A minimal pair with the scores of its sentences.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ScoredPair {
    /// Number of the row in its file, from 1.
    pub row: u64,
    /// The phenomenon that the pair tests.
    pub phenomenon: String,
    /// The acceptable sentence.
    pub good: String,
    /// The unacceptable sentence.
    pub bad: String,
    /// Pseudo-log-likelihood of the acceptable sentence, in nats.
    pub good_nats: f64,
    /// Pseudo-log-likelihood of the unacceptable sentence, in nats.
    pub bad_nats: f64,
}

impl ScoredPair {
    /// Returns whether the model prefers the acceptable sentence. Equal scores count as wrong.
    pub fn is_correct(&self) -> bool {
        self.good_nats > self.bad_nats
    }
}

/// The share of pairs in which the model prefers the acceptable sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PairAccuracy {
    /// The phenomenon; `all` for all pairs.
    pub phenomenon: String,
    /// Number of pairs.
    pub pairs: usize,
    /// Share of correct pairs in per cent; guessing gives 50.
    pub accuracy: f64,
    /// Lower end of the 95 % confidence interval (Wilson) of the accuracy, over the pairs.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl PairAccuracy {
    /// Returns the accuracy of some pairs.
    ///
    /// # Panics
    /// Panics if there is no pair.
    pub fn new(phenomenon: &str, pairs: &[&ScoredPair]) -> Self {
        let answers: Vec<Label> = pairs.iter().map(|pair| Label::Class(pair.is_correct().into())).collect();
        let labels = vec![Label::Class(1); answers.len()];
        let interval = confidence_interval(Metric::Accuracy, &labels, &[&answers]);
        let interval = interval.expect("the accuracy compares single answers");
        let correct = pairs.iter().filter(|pair| pair.is_correct()).count();
        Self {
            phenomenon: phenomenon.to_string(),
            pairs: pairs.len(),
            accuracy: 100.0 * correct as f64 / pairs.len() as f64,
            low: 100.0 * interval.low,
            high: 100.0 * interval.high,
        }
    }

    /// Returns the accuracy of each phenomenon in the order of its first pair, and of all pairs if there are several.
    pub fn by_phenomenon(pairs: &[ScoredPair]) -> Vec<Self> {
        let mut names: Vec<&str> = Vec::new();
        for pair in pairs {
            if !names.contains(&pair.phenomenon.as_str()) {
                names.push(&pair.phenomenon);
            }
        }
        let all: Vec<&ScoredPair> = pairs.iter().collect();
        let one = |name: &&str| {
            let pairs: Vec<&ScoredPair> = pairs.iter().filter(|pair| pair.phenomenon == *name).collect();
            Self::new(name, &pairs)
        };
        let mut rows: Vec<Self> = names.iter().map(one).collect();
        if rows.len() > 1 {
            rows.push(Self::new("all", &all));
        }
        rows
    }
}

/// A sentence in which some tokens are masked, and the token whose probability is read.
struct MaskedCopy {
    /// Index of the sentence.
    sentence: usize,
    encoded: EncodedPair,
    /// Position of the token.
    position: usize,
    /// The token.
    id: u32,
}

impl MaskFiller {
    /// Returns the pseudo-log-likelihood of sentences, in their order. Counts the sentences that were cut in
    /// `truncation`.
    ///
    /// # Errors
    /// Fails when the device fails.
    pub fn likelihoods(
        &self,
        sentences: &[&str],
        truncation: &mut Truncation,
    ) -> Result<Vec<Likelihood>, Error> {
        let OpenedModel { text: tokenizer, length, .. } = &self.opened;
        let encode = |text: &&str| {
            let encoded = tokenizer.encode(*text, length.tokens);
            truncation.add(self.untruncated_length(*text), encoded.input_ids.len());
            encoded
        };
        let encoded: Vec<EncodedPair> = sentences.iter().map(encode).collect();
        let copies: Vec<MaskedCopy> =
            encoded.iter().enumerate().flat_map(|(at, encoded)| self.masked_copies(at, encoded)).collect();
        let mut likelihoods = vec![Likelihood { nats: 0.0, tokens: 0 }; sentences.len()];
        let lengths: Vec<usize> = copies.iter().map(|copy| copy.encoded.input_ids.len()).collect();
        for batch in by_length(&lengths, BATCH) {
            let batch: Vec<&MaskedCopy> = batch.into_iter().map(|at| &copies[at]).collect();
            for (copy, nats) in batch.iter().zip(self.log_probabilities(&batch)?) {
                let likelihood = &mut likelihoods[copy.sentence];
                likelihood.nats += f64::from(nats);
                likelihood.tokens += 1;
            }
        }
        Ok(likelihoods)
    }

    /// Scores the minimal pairs of a table whose two text columns are the acceptable and the unacceptable sentence. The
    /// phenomenon is the id of a row, or else `name`.
    ///
    /// # Errors
    /// Fails when the input is invalid; the error names the line. Also fails when the device fails.
    pub fn score_pairs(
        &self,
        pairs: &dyn TextSource,
        name: &str,
        truncation: &mut Truncation,
    ) -> Result<Vec<ScoredPair>, Error> {
        let mut scored = Vec::new();
        for window in pairs.windows(None, WINDOW)? {
            let window = window?;
            let mut sentences: Vec<&str> = Vec::new();
            for example in &window.examples {
                sentences.extend([example.text_a.as_str(), unacceptable(pairs, example)?]);
            }
            let likelihoods = self.likelihoods(&sentences, truncation)?;
            for (at, example) in window.examples.iter().enumerate() {
                scored.push(ScoredPair {
                    row: line_of(example),
                    phenomenon: window.ids[at].as_ref().map_or_else(|| name.to_string(), written),
                    good: sentences[2 * at].to_string(),
                    bad: sentences[2 * at + 1].to_string(),
                    good_nats: likelihoods[2 * at].nats,
                    bad_nats: likelihoods[2 * at + 1].nats,
                });
            }
        }
        Ok(scored)
    }

    /// Returns a masked copy of a sentence for each of its tokens.
    fn masked_copies(&self, sentence: usize, encoded: &EncodedPair) -> Vec<MaskedCopy> {
        let vocabulary = &self.opened.text.vocabulary;
        let copy = |(position, end): (usize, usize)| {
            let mut masked = encoded.clone();
            masked.input_ids[position..end].fill(vocabulary.mask_id());
            MaskedCopy { sentence, encoded: masked, position, id: encoded.input_ids[position] }
        };
        let words = word_ranges(encoded, vocabulary).into_iter();
        words.flat_map(|word| word.clone().map(move |at| (at, word.end))).map(copy).collect()
    }

    /// Returns the log probability of the token of each copy.
    fn log_probabilities(&self, copies: &[&MaskedCopy]) -> Result<Vec<f32>, Error> {
        let rows: Vec<&EncodedPair> = copies.iter().map(|copy| &copy.encoded).collect();
        let OpenedModel { model, text, device, length, .. } = &self.opened;
        let pad_id = text.vocabulary.pad_id() as i32;
        let padded = PaddedBatch::new(&rows, pad_id, length.tokens);
        let place = |(row, copy): (usize, &&MaskedCopy)| (row * padded.seq_length + copy.position) as i32;
        let positions: Vec<i32> = copies.iter().enumerate().map(place).collect();
        let input = PretrainingInput {
            bert: padded.input(device),
            masked_lm_positions: int_vector(&positions, device),
        };
        let logits = model.forward(input, Mode::Eval).prediction_logits;
        let [_, vocab] = logits.dims();
        let rows = read(activation::log_softmax(logits, 1))?;
        Ok(copies.iter().zip(rows.chunks(vocab)).map(|(copy, row)| row[copy.id as usize]).collect())
    }
}

/// Returns the second sentence of a pair.
fn unacceptable<'a>(pairs: &dyn TextSource, example: &'a Example) -> Result<&'a str, Error> {
    let found = example.text_b.as_deref().filter(|text| !text.trim().is_empty());
    found.ok_or_else(|| {
        let column = pairs.second_column().to_string();
        let problem = Error::data(format!("\"{column}\" is missing, expected the unacceptable sentence"));
        problem.at_line(pairs.name(), line_of(example))
    })
}

/// Returns the value of a column as it is written in a table.
fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}
