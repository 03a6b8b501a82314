//! Bigram initialization: initial values from a log-bilinear model of neighbouring tokens (bigram counts).
//!
//! The model has the previous-next heads of `previous_next`. The word embeddings are initialized to the table of the
//! log-bilinear model, and the value and output weights of those heads to its matrices. The path to the logits begins
//! close to the identity. Therefore, an untrained model predicts a masked token from its neighbours.
//!
//! At a `[MASK]` position the hidden state is the sum of the position embedding and the neighbours' predictions,
//! because the word embedding of `[MASK]` and the feed-forward output of the first layer are zero. The transform of the
//! masked-LM head is the identity with a large bias, which keeps GELU in its linear range; the LayerNorm after it
//! removes the bias. For the next-sentence prediction, `[CLS]` compares the segments
//! ([`crate::init::segment_comparison`]).

use super::truncated_normal;
use crate::config::BertConfig;
use crate::error::Error;
use crate::init::log_bilinear::{LogBilinear, LogBilinearShape, LogBilinearSide};
use crate::init::previous_next::{EMBEDDING_STD, FIRST_LAYER, PreviousNextWeights};
use crate::init::segment_comparison;
use crate::init::segment_comparison::Comparison;

/// The size of the output of a direct neighbour's head, relative to embeddings of size 1.
const HEAD_GAIN: f64 = 1.5;
/// The output of the heads of farther neighbours, as a fraction of `HEAD_GAIN`.
const FARTHER_SHARE: f64 = 0.6;
/// The bias of the transform of the masked-LM head: GELU is approximately linear around it.
const LINEAR: f32 = 3.0;
/// The factor by which the sum of both sides' logits is multiplied. Each side was fitted alone, so their sum
/// counts the information that they share twice.
const LOGIT_SHARE: f64 = 0.7;

/// The initial values of [`Initialization::Bigram`](super::Initialization::Bigram).
pub(super) struct BigramWeights<'a> {
    previous_next: PreviousNextWeights<'a>,
    /// The values with which `[CLS]` compares segments; `None` for a model with one segment type, or with one layer,
    /// because the second layer makes the comparison.
    pub(super) comparison: Option<Comparison>,
    fitted: &'a LogBilinear,
    shape: LogBilinearShape,
    hidden: usize,
    head_size: usize,
    seed: u64,
}

impl<'a> BigramWeights<'a> {
    pub(super) fn new(config: &'a BertConfig, fitted: &'a LogBilinear, seed: u64) -> Result<Self, Error> {
        let shape = LogBilinear::shape(config)?;
        let previous_next = PreviousNextWeights::new(config, seed)?;
        let expected = config.vocab_size;
        let found = fitted.bias.len();
        let fits = |side: &LogBilinearSide| {
            side.inputs.len() == shape.rank * shape.width && side.outputs.len() == side.inputs.len()
        };
        let fits = fitted.sides.iter().all(fits) && fitted.sides.len() == shape.offsets.len();
        if !fits || found == 0 || found > expected || fitted.table.len() != found * shape.width {
            return Err(Error::model(format!(
                "the log-bilinear model does not match this BERT model: it has {found} tokens and `vocab_size` is \
                 {expected}, or the hidden size or the heads differ; fit it for this configuration"
            )));
        }
        let hidden = config.hidden_size;
        let head_size = config.hidden_size / config.num_attention_heads;
        let compares = config.num_hidden_layers >= 2 && config.type_vocab_size >= 2;
        let comparison = compares.then(|| Comparison::new(config, fitted, shape.width, seed));
        Ok(Self { previous_next, comparison, fitted, shape, hidden, head_size, seed })
    }

    /// Returns the values of a parameter in the published layout; `None` for the reference's values.
    pub(super) fn values(&self, name: &str, shape: &[usize]) -> Option<Vec<f32>> {
        let len = shape.iter().product();
        match name {
            "bert.embeddings.word_embeddings.weight" => {
                let drawn = truncated_normal::values(name, shape, EMBEDDING_STD, self.seed);
                Some(self.words(self.previous_next.without_positions(drawn)))
            }
            "bert.embeddings.token_type_embeddings.weight" => {
                Some(segment_comparison::segments(len, self.hidden, self.shape.width))
            }
            "cls.predictions.transform.dense.weight" => Some(identity(self.hidden)),
            "cls.predictions.transform.dense.bias" => Some(vec![LINEAR; len]),
            "cls.predictions.transform.LayerNorm.weight" => Some(vec![self.logit_gain() as f32; len]),
            "cls.predictions.bias" => {
                // Rows of the table beyond the vocabulary get the bias of the rarest token.
                let mut bias = self.fitted.bias.clone();
                bias.resize(len, bias.iter().copied().fold(f32::INFINITY, f32::min));
                Some(bias)
            }
            _ => match name.strip_prefix(FIRST_LAYER) {
                Some("attention.self.value.weight") => {
                    Some(self.value_weights(self.previous_next.values(name, shape)?))
                }
                Some("attention.output.dense.weight") => {
                    Some(self.output_weights(self.previous_next.values(name, shape)?))
                }
                Some("output.dense.weight") => Some(vec![0.0; len]),
                _ => self.previous_next.values(name, shape),
            },
        }
    }

    /// Returns the factor that gives the table the standard deviation of embeddings.
    fn table_scale(&self) -> f64 {
        let squares: f64 = self.fitted.table.iter().map(|&value| f64::from(value).powi(2)).sum();
        EMBEDDING_STD / (squares / self.fitted.table.len() as f64).sqrt()
    }

    /// Returns the size of a direct neighbour's output in the fitted model, averaged over both sides.
    fn fitted_size(&self) -> f64 {
        (self.fitted.sides[0].size + self.fitted.sides[1].size) / 2.0
    }

    /// Returns the weight of the last LayerNorm, chosen so that the logits match the fitted model's.
    fn logit_gain(&self) -> f64 {
        let signal = 2.0 * HEAD_GAIN.powi(2) * self.shape.width as f64;
        // The neighbours' share of the norm at `[MASK]`; the rest is the position embedding.
        let share = (signal / (self.hidden as f64 + signal)).sqrt();
        let both = 2f64.sqrt() * self.fitted_size();
        LOGIT_SHARE * both / (self.table_scale() * share * (self.hidden as f64).sqrt())
    }

    /// Returns the word embeddings, `[vocab_size, hidden]`, given the random values of all rows.
    fn words(&self, mut table: Vec<f32>) -> Vec<f32> {
        let scale = self.table_scale();
        let rows = table.chunks_exact_mut(self.hidden).zip(self.fitted.table.chunks_exact(self.shape.width));
        for (id, (row, fitted)) in rows.enumerate() {
            if id == self.fitted.mask_id {
                row.fill(0.0);
            } else if !self.fitted.special.contains(&id) {
                self.write_direction(row, scale, fitted);
            }
        }
        table
    }

    /// Returns the value weights, `[hidden, hidden]`: each row of a previous-next head is one of the input directions.
    fn value_weights(&self, mut weights: Vec<f32>) -> Vec<f32> {
        for (at, scale, inputs, _) in self.directions() {
            self.write_direction(&mut weights[at * self.hidden..(at + 1) * self.hidden], scale, inputs);
        }
        weights
    }

    /// Returns the weights of the attention output, `[hidden, hidden]`: each column of a previous-next head is one of
    /// the output directions.
    fn output_weights(&self, mut weights: Vec<f32>) -> Vec<f32> {
        let mut column = vec![0.0; self.hidden];
        for (at, scale, _, outputs) in self.directions() {
            self.write_direction(&mut column, scale, outputs);
            for (row, value) in column.iter().enumerate() {
                weights[row * self.hidden + at] = *value;
            }
        }
        weights
    }

    /// Returns, for each dimension of each neighbour head, its index among the dimensions of all heads, the scale of
    /// inputs and outputs, and both directions. The directions are empty where a head has more dimensions than the
    /// fitted model.
    fn directions(&self) -> impl Iterator<Item = (usize, f64, &[f32], &[f32])> {
        let sides = self.fitted.sides.iter().zip(&self.shape.offsets).enumerate();
        sides.flat_map(move |(head, (side, offset))| {
            let share = if offset.abs() == 1 { 1.0 } else { FARTHER_SHARE };
            let scale = share * HEAD_GAIN * (self.shape.width as f64).sqrt() / self.fitted_size();
            (0..self.head_size).map(move |dimension| {
                let part = dimension * self.shape.width..(dimension + 1) * self.shape.width;
                let get = |values: &'a [f32]| values.get(part.clone()).unwrap_or_default();
                (head * self.head_size + dimension, scale.sqrt(), get(&side.inputs), get(&side.outputs))
            })
        })
    }

    /// Writes a direction into the word dimensions of a row, and zeros elsewhere.
    fn write_direction(&self, row: &mut [f32], scale: f64, direction: &[f32]) {
        row.fill(0.0);
        let words = &mut row[self.hidden - self.shape.width..];
        words.iter_mut().zip(direction).for_each(|(to, &from)| *to = (scale * f64::from(from)) as f32);
    }
}

fn identity(size: usize) -> Vec<f32> {
    (0..size * size).map(|at| if at / size == at % size { 1.0 } else { 0.0 }).collect()
}
