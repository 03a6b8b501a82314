//! Shows which words a prediction depends on: by replacing a word, by leaving it out, and by gradients.

mod prober;
mod saliency;
pub(crate) mod word_edits;

pub use prober::{Guess, MaskedWord, Prediction, Probe, Prober, Subject};
pub use saliency::{Saliency, WordSaliency};
pub use word_edits::Replacement;
