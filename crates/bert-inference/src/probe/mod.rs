//! Shows on which words a prediction depends: replaces a word, removes a word, or computes gradients.

mod prober;
mod saliency;
pub(crate) mod word_edits;

pub use prober::{Guess, MaskedWord, Prediction, Probe, Prober, Subject};
pub use saliency::{Saliency, WordSaliency};
pub use word_edits::Replacement;
