//! Turns a table of neighbour counts into embeddings, for the initialization `counts`.
//!
//! How often each token stands beside each other one predicts a masked token far better than word frequencies do.
//! This module fits a log-bilinear model (Mnih and Hinton, 2007) to these counts. In it a token stands beside the
//! neighbour `c` with the probability
//!
//! ```text
//! softmax over tokens t of (bias[t] + table[t] . O V x)        x = table[c], made as long as a LayerNorm makes it
//! ```
//!
//! There is a pair of matrices O, V for each offset, and one table for both roles, because BERT's masked LM has
//! one. The text is read once. The fit takes some hundred steps, each with the whole counted distributions of a few
//! neighbours. The result is a function of (text, seed, shape): the number of threads changes no bit.

mod fit;

use bert_data::DataSet;
use bert_model::{BertConfig, LogBilinear};

use crate::error::{Error, FolderProblem};
use crate::neighbour_counts::NeighbourCounts;
use bert_storage::Locate;
use fit::fit;

/// Counts the text of a data set and fits a model to it that a BERT of this shape can begin with.
///
/// # Errors
/// When a shard cannot be read or is not what the manifest says, when the text has no words, when the shape has no
/// room for neighbour heads, or when the default device is not in this build.
pub fn log_bilinear(data: &DataSet, model: &BertConfig, seed: u64) -> Result<LogBilinear, Error> {
    let shape = LogBilinear::shape(model)?;
    let farthest = shape.offsets.iter().map(|offset| offset.unsigned_abs()).max().unwrap_or(0);
    let counts = NeighbourCounts::of_data(data, farthest as usize)?;
    fit(counts, data.vocabulary(), &shape, seed)?
        .ok_or_else(|| FolderProblem::NoInstances.at(data.folder()).into())
}
