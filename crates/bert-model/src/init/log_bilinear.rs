//! The low-rank matrices of a log-bilinear model, from which the word embeddings and the first layer begin.

use crate::config::BertConfig;
use crate::error::Error;
use crate::init::previous_next;

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
    /// Number of columns of the table: the hidden size minus the dimensions of positions and marks.
    pub width: usize,
    /// Number of directions per side: the size of a head, at most `width`.
    pub rank: usize,
    /// Offsets of the neighbours in tokens; one head per offset.
    pub offsets: Vec<i64>,
}

impl LogBilinear {
    /// Returns the shape of the log-bilinear model that fits a BERT of this configuration.
    ///
    /// # Errors
    /// Fails if the model has fewer than two heads, or heads that are too narrow.
    pub fn shape(config: &BertConfig) -> Result<LogBilinearShape, Error> {
        let offsets = previous_next::offsets(config)?.to_vec();
        let width = config.hidden_size - previous_next::position_width(config) - previous_next::MARKS;
        let rank = (config.hidden_size / config.num_attention_heads).min(width);
        Ok(LogBilinearShape { width, rank, offsets })
    }
}
