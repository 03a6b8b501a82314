//! Initial weights of a Transformer: Glorot's uniform distribution for matrices, `N(0, 1 / hidden)` for embeddings.
//!
//! These are the choices of fairseq, in which Zhu et al. wrote the BERT-fused model. Every parameter is a pure function
//! of the seed and its name, so parameters of the same name are equal in all three kinds of model.

use bert_model::map_parameters;
use bert_random::{normal, uniform};

use crate::model::transformer::Transformer;

/// Fills every parameter of a Transformer.
#[must_use]
pub fn initialize(transformer: Transformer, seed: u64) -> Transformer {
    map_parameters(transformer, |name, shape| {
        let len = shape.iter().product();
        Some(match shape {
            [_, hidden] if name.ends_with("_embeddings.weight") => {
                normal(name, len, 1.0 / (*hidden as f64).sqrt(), seed)
            }
            [outputs, inputs] => uniform(name, len, (6.0 / (inputs + outputs) as f64).sqrt(), seed),
            _ if name.ends_with("LayerNorm.weight") => vec![1.0; len],
            _ => vec![0.0; len],
        })
    })
}
