//! Initial values: the reference's, or those from which small runs learn at once.
//!
//! [`Initialization`] says which; [`initialize`] gives a module its values. Every parameter is a pure function of
//! (seed, its published name, the initialization); the draws come from `bert_random`. So neither the order of
//! creation nor the number of threads nor burn's own random state matters, and two models share the values of the
//! parameters that they share.

mod comparison;
mod counts;
mod neighbours;
mod truncated_normal;

use burn::module::Module;

use crate::config::BertConfig;
use crate::error::Error;
use crate::parameters::{canonical, map_parameters};

use counts::Counts;
use neighbours::Neighbours;

/// How fresh weights begin.
#[derive(Clone, Copy, Debug)]
pub enum Initialization<'a> {
    /// A truncated normal of standard deviation `initializer_range`, as in the reference.
    Reference,
    /// Heads of the first layer look at the previous and at the next token, and where there are four at those beyond.
    Neighbours,
    /// The same, word embeddings and the bias of the masked-LM head begin with what counting the text gives, and
    /// `[CLS]` compares the segments.
    Counts(&'a LogBilinear),
}

/// A log-bilinear model of a token and its neighbours, fitted to the counts of a text.
///
/// The probability of a token at an offset from the neighbour `c` is `softmax_t(bias[t] + table[t] . O V x)`, where `x`
/// is `table[c]` scaled to the length `sqrt(width)`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogBilinear {
    /// `[vocabulary, width]`
    pub table: Vec<f32>,
    /// `[vocabulary]`
    pub bias: Vec<f32>,
    /// One for each offset of its shape.
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
    /// `[rank, width]`, V: the directions in which a neighbour is looked at.
    pub inputs: Vec<f32>,
    /// `[rank, width]`, O transposed: what each of them adds.
    pub outputs: Vec<f32>,
    /// The root of the mean square length of `O V x` over running text.
    pub size: f64,
}

/// The log-bilinear model that a BERT has room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBilinearShape {
    /// Columns of the table: the dimensions that do not belong to positions and marks.
    pub width: usize,
    /// Directions of a side: those that a head has.
    pub rank: usize,
    /// Where the neighbours stand, a head for each.
    pub offsets: Vec<i64>,
}

impl LogBilinear {
    /// Returns the shape of the log-bilinear model that fits a BERT of this configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when the shape has no room for neighbour heads.
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
/// [`Error::Config`] when the shape has no room for neighbour heads; [`Error::LogBilinear`] when the counts have
/// another vocabulary or shape.
pub fn initialize<M: Module>(
    model: M,
    config: &BertConfig,
    initialization: Initialization<'_>,
    seed: u64,
) -> Result<M, Error> {
    let (neighbours, counts) = match initialization {
        Initialization::Reference => (None, None),
        Initialization::Neighbours => (Some(Neighbours::new(config, seed)?), None),
        Initialization::Counts(fitted) => (None, Some(Counts::new(config, fitted, seed)?)),
    };
    Ok(map_parameters(model, |name, shape| {
        let name = canonical(name);
        let neighbours = neighbours.as_ref().and_then(|neighbours| neighbours.values(&name, shape));
        let counted = counts.as_ref().and_then(|counts| counts.values(&name, shape));
        let reference = || truncated_normal::values(&name, shape, config.initializer_range, seed);
        let mut values = neighbours.or(counted).unwrap_or_else(reference);
        if let Some(comparison) = counts.as_ref().and_then(|counts| counts.comparison.as_ref()) {
            comparison.change(&name, &mut values);
        }
        Some(values)
    }))
}
