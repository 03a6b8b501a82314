//! Shows on which words a prediction depends. The methods are replacing a word, leaving it out, and gradients.

mod prober;
mod saliency;
pub(crate) mod word_edits;

pub use prober::{Guess, MaskedWord, Prediction, Probe, Prober, Subject};
pub use saliency::{Saliency, WordSaliency};
pub use word_edits::Replacement;
