//! Counts: initial values from a log-bilinear model of neighbouring tokens (bigram counts).
//!
//! BERT has the neighbour heads of [`super::neighbours`] here. Its word embeddings begin with the table of the
//! log-bilinear model, the values and outputs of those heads with its matrices, and the rest of the way to the logits
//! is as near to the identity as BERT allows. Before its first step BERT predicts a masked token from its neighbours.
//!
//! A `[MASK]` place then carries the sum of what its neighbours predict, because the embedding of `[MASK]` is zero
//! but for its position, and the feed-forward network of the first layer begins with zero. The head of the masked LM
//! is the identity with a large bias, where GELU is linear; the LayerNorm behind it takes the bias away again. For
//! the next sentence `[CLS]` compares the segments ([`super::comparison`]).

use super::comparison::{self, Comparison};
use super::neighbours::{EMBEDDING_STD, FIRST_LAYER, Neighbours};
use super::{LogBilinear, LogBilinearShape, LogBilinearSide, truncated_normal};
use crate::config::BertConfig;
use crate::error::Error;

/// The size of the output of a direct neighbour's head, relative to embeddings of size 1.
const HEAD_GAIN: f64 = 1.5;
/// The output of the heads of farther neighbours, as a fraction of `HEAD_GAIN`.
const FARTHER_SHARE: f64 = 0.6;
/// The bias of the masked-LM head, where GELU is linear.
const LINEAR: f32 = 3.0;
/// Logits as a share of what each side alone was fitted to give: two sides know some things twice.
const LOGIT_SHARE: f64 = 0.7;

/// The values of a model that begins with counts.
pub(super) struct Counts<'a> {
    neighbours: Neighbours<'a>,
    /// Changes values so that `[CLS]` compares segments. A model of one layer has no second one that compares.
    pub(super) comparison: Option<Comparison>,
    fitted: &'a LogBilinear,
    shape: LogBilinearShape,
    hidden: usize,
    head_size: usize,
    seed: u64,
}

impl<'a> Counts<'a> {
    pub(super) fn new(config: &'a BertConfig, fitted: &'a LogBilinear, seed: u64) -> Result<Self, Error> {
        let (shape, neighbours) = (LogBilinear::shape(config)?, Neighbours::new(config, seed)?);
        let (expected, found) = (config.vocab_size, fitted.bias.len());
        let fits = |side: &LogBilinearSide| {
            side.inputs.len() == shape.rank * shape.width && side.outputs.len() == side.inputs.len()
        };
        let fits = fitted.sides.iter().all(fits) && fitted.sides.len() == shape.offsets.len();
        if !fits || found == 0 || found > expected || fitted.table.len() != found * shape.width {
            return Err(Error::LogBilinear { found, expected });
        }
        let (hidden, head_size) = (config.hidden_size, config.hidden_size / config.num_attention_heads);
        let compares = config.num_hidden_layers >= 2 && config.type_vocab_size >= 2;
        let comparison = compares.then(|| Comparison::new(config, fitted, shape.width, seed));
        Ok(Self { neighbours, comparison, fitted, shape, hidden, head_size, seed })
    }

    /// The values of a parameter, where they are not the reference's.
    pub(super) fn values(&self, name: &str, shape: &[usize]) -> Option<Vec<f32>> {
        let len = shape.iter().product();
        match name {
            "bert.embeddings.word_embeddings.weight" => {
                let drawn = truncated_normal::values(name, shape, EMBEDDING_STD, self.seed);
                Some(self.words(self.neighbours.without_positions(drawn)))
            }
            "bert.embeddings.token_type_embeddings.weight" => {
                Some(comparison::segments(len, self.hidden, self.shape.width))
            }
            "cls.predictions.transform.dense.weight" => Some(identity(self.hidden)),
            "cls.predictions.transform.dense.bias" => Some(vec![LINEAR; len]),
            "cls.predictions.transform.LayerNorm.weight" => Some(vec![self.logit_gain() as f32; len]),
            "cls.predictions.bias" => {
                // Rows that a table has beyond the vocabulary are as unlikely as the rarest token.
                let mut bias = self.fitted.bias.clone();
                bias.resize(len, bias.iter().copied().fold(f32::INFINITY, f32::min));
                Some(bias)
            }
            _ => match name.strip_prefix(FIRST_LAYER) {
                Some("attention.self.value.weight") => Some(self.looks(self.neighbours.values(name, shape)?)),
                Some("attention.output.dense.weight") => {
                    Some(self.says(self.neighbours.values(name, shape)?))
                }
                Some("output.dense.weight") => Some(vec![0.0; len]),
                _ => self.neighbours.values(name, shape),
            },
        }
    }

    /// Returns the factor that gives the table the standard deviation of embeddings.
    fn table_scale(&self) -> f64 {
        let squares: f64 = self.fitted.table.iter().map(|&value| f64::from(value).powi(2)).sum();
        EMBEDDING_STD / (squares / self.fitted.table.len() as f64).sqrt()
    }

    /// Returns the mean output size of the direct neighbours in the fitted model.
    fn fitted_size(&self) -> f64 {
        (self.fitted.sides[0].size + self.fitted.sides[1].size) / 2.0
    }

    /// Returns the weight of the last LayerNorm, chosen so that the logits match the fitted model's.
    fn logit_gain(&self) -> f64 {
        let said = 2.0 * HEAD_GAIN.powi(2) * self.shape.width as f64;
        // The share of a mask's vector that the neighbours said; the rest is its position.
        let share = (said / (self.hidden as f64 + said)).sqrt();
        let both = 2f64.sqrt() * self.fitted_size();
        LOGIT_SHARE * both / (self.table_scale() * share * (self.hidden as f64).sqrt())
    }

    fn words(&self, mut table: Vec<f32>) -> Vec<f32> {
        let scale = self.table_scale();
        let rows = table.chunks_exact_mut(self.hidden).zip(self.fitted.table.chunks_exact(self.shape.width));
        for (id, (row, fitted)) in rows.enumerate() {
            if id == self.fitted.mask_id {
                row.fill(0.0);
            } else if !self.fitted.special.contains(&id) {
                self.put(row, scale, fitted);
            }
        }
        table
    }

    /// The values of the heads, `[hidden, hidden]`: each row of a neighbour head is a direction in which a neighbour is
    /// looked at.
    fn looks(&self, mut weights: Vec<f32>) -> Vec<f32> {
        for (at, scale, inputs, _) in self.directions() {
            self.put(&mut weights[at * self.hidden..(at + 1) * self.hidden], scale, inputs);
        }
        weights
    }

    /// The output of the attention, `[hidden, hidden]`: each column of a neighbour head is what one of those directions
    /// adds.
    fn says(&self, mut weights: Vec<f32>) -> Vec<f32> {
        let mut column = vec![0.0; self.hidden];
        for (at, scale, _, outputs) in self.directions() {
            self.put(&mut column, scale, outputs);
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
    fn put(&self, row: &mut [f32], scale: f64, direction: &[f32]) {
        row.fill(0.0);
        let words = &mut row[self.hidden - self.shape.width..];
        words.iter_mut().zip(direction).for_each(|(to, &from)| *to = (scale * f64::from(from)) as f32);
    }
}

fn identity(size: usize) -> Vec<f32> {
    (0..size * size).map(|at| if at / size == at % size { 1.0 } else { 0.0 }).collect()
}
