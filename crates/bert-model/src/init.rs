//! Initial values of the parameters: the reference's, or values with which short runs learn faster.
//!
//! [`Initialization`] selects the method; [`initialize`] fills a module. Every parameter is a pure function of (seed,
//! published name, initialization), with random numbers from `bert_random`. It does not depend on the order of
//! creation, the number of threads or burn's random state, and parameters of the same name are equal in all models.

mod comparison;
mod counts;
mod neighbours;
mod truncated_normal;

use burn::module::Module;

use crate::config::BertConfig;
use crate::error::Error;
use crate::parameters::{canonical, map_parameters};

use counts::BigramWeights;
use neighbours::PreviousNextWeights;

/// The method of initialization.
#[derive(Clone, Copy, Debug)]
pub enum Initialization<'a> {
    /// Truncated normal distribution with standard deviation `initializer_range`, as in the reference.
    Reference,
    /// Two heads of the first layer attend to the previous and to the next token. With at least four heads, two more
    /// attend to the tokens at distance 2.
    PreviousNext,
    /// Same heads as [`Self::PreviousNext`], with word embeddings and masked-LM bias from a log-bilinear model of
    /// bigram counts. `[CLS]` compares the two segments.
    Bigram(&'a LogBilinear),
}

/// A log-bilinear model of a token given its neighbours (Mnih and Hinton, 2007), fitted to the bigram counts of a text.
///
/// The probability of a token at an offset from the neighbour `c` is `softmax_t(bias[t] + table[t] . O V x)`, where `x`
/// is `table[c]` scaled to the length `sqrt(width)`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogBilinear {
    /// `[vocabulary, width]`
    pub table: Vec<f32>,
    /// `[vocabulary]`
    pub bias: Vec<f32>,
    /// One side per offset of [`LogBilinearShape::offsets`].
    pub sides: Vec<LogBilinearSide>,
    /// Ids of the special tokens, which are not words and have no neighbours.
    pub special: Vec<usize>,
    /// The id of `[MASK]`.
    pub mask_id: usize,
    /// The id of `[CLS]`.
    pub cls_id: usize,
}

/// The matrices O and V of one offset, as `rank` pairs of directions.
#[derive(Clone, Debug, PartialEq)]
pub struct LogBilinearSide {
    /// `[rank, width]`, V: the directions onto which a neighbour's embedding is projected.
    pub inputs: Vec<f32>,
    /// `[rank, width]`, O transposed: the vector that each projection contributes.
    pub outputs: Vec<f32>,
    /// The root mean square length of `O V x` over the tokens of the text.
    pub size: f64,
}

/// The shape of the log-bilinear model that fits into a BERT model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBilinearShape {
    /// Columns of the table: the hidden size minus the dimensions of positions and marks.
    pub width: usize,
    /// Directions per side: the size of a head, at most `width`.
    pub rank: usize,
    /// Offsets of the neighbours in tokens; one head per offset.
    pub offsets: Vec<i64>,
}

impl LogBilinear {
    /// Returns the shape of the log-bilinear model that fits a BERT of this configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the model has fewer than two heads, or heads that are too narrow.
    pub fn shape(config: &BertConfig) -> Result<LogBilinearShape, Error> {
        let offsets = neighbours::offsets(config)?.to_vec();
        let width = config.hidden_size - neighbours::position_width(config) - neighbours::MARKS;
        let rank = (config.hidden_size / config.num_attention_heads).min(width);
        Ok(LogBilinearShape { width, rank, offsets })
    }
}

/// Fills every parameter of a module.
///
/// # Errors
///
/// Except with [`Initialization::Reference`]: [`Error::Config`] if the model has fewer than two heads, or heads that
/// are too narrow. With [`Initialization::Bigram`]: [`Error::LogBilinear`] if the log-bilinear model has another shape,
/// or more tokens than the vocabulary.
pub fn initialize<M: Module>(
    model: M,
    config: &BertConfig,
    initialization: Initialization<'_>,
    seed: u64,
) -> Result<M, Error> {
    let (previous_next, bigram) = match initialization {
        Initialization::Reference => (None, None),
        Initialization::PreviousNext => (Some(PreviousNextWeights::new(config, seed)?), None),
        Initialization::Bigram(fitted) => (None, Some(BigramWeights::new(config, fitted, seed)?)),
    };
    Ok(map_parameters(model, |name, shape| {
        let name = canonical(name);
        let previous_next = previous_next.as_ref().and_then(|weights| weights.values(&name, shape));
        let from_bigrams = bigram.as_ref().and_then(|weights| weights.values(&name, shape));
        let reference = || truncated_normal::values(&name, shape, config.initializer_range, seed);
        let mut values = previous_next.or(from_bigrams).unwrap_or_else(reference);
        if let Some(comparison) = bigram.as_ref().and_then(|weights| weights.comparison.as_ref()) {
            comparison.change(&name, &mut values);
        }
        Some(values)
    }))
}
