//! Initial values of the parameters: the reference's, or values with which short runs learn faster.
//!
//! [`Initialization`] selects the method; [`initialize`] fills a module. Every parameter is a pure function of (seed,
//! published name, initialization), with random numbers from `bert_random`. It does not depend on the order of
//! creation, the number of threads or burn's random state, and parameters of the same name are equal in all models.
//!
//! `truncated_normal` has the reference's values. `previous_next` sets heads of the first layer to the neighbours of a
//! token; `bigram` and `log_bilinear` add statistics of a corpus to the tables, and `segment_comparison` adds a
//! comparison of the two segments.

pub(crate) mod bigram;
pub(crate) mod log_bilinear;
pub(crate) mod previous_next;
pub(crate) mod segment_comparison;
mod truncated_normal;

use burn::module::Module;

use crate::checkpoint::parameter_names::{canonical, map_parameters};
use crate::config::BertConfig;
use crate::error::Error;
use crate::init::log_bilinear::LogBilinear;

use crate::init::bigram::BigramWeights;
use crate::init::previous_next::PreviousNextWeights;

/// A method of initialization.
#[derive(Clone, Copy, Debug)]
pub enum Initialization<'a> {
    /// Truncated normal distribution with standard deviation `initializer_range`, as in the reference.
    Reference,
    /// Two heads of the first layer attend to the previous and to the next token. With at least four heads, two more
    /// attend to the tokens at distance 2.
    PreviousNext,
    /// The heads of [`Self::PreviousNext`], with word embeddings and masked-LM bias from a log-bilinear model of bigram
    /// counts. `[CLS]` compares the two segments.
    Bigram(&'a LogBilinear),
}

/// Fills every parameter of a module.
///
/// # Errors
/// Fails, except with [`Initialization::Reference`], if the model has fewer than two heads, or heads that are too
/// narrow. With [`Initialization::Bigram`], also fails if the log-bilinear model has a different shape, or more tokens
/// than the vocabulary.
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
        // The classifier of a head on frozen features has the same initial values as any other classifier.
        let classifier = name.strip_prefix("head.").filter(|part| part.starts_with("classifier."));
        let name = canonical(classifier.unwrap_or(name));
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
