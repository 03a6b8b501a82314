//! Shows which words a prediction depends on: by replacing a word, by leaving it out, and by gradients.

mod prober;
mod saliency;
pub(super) mod word_edits;

pub use prober::{Guess, Prediction, Probe, Prober};
pub use saliency::{Saliency, WordSaliency};
pub use word_edits::Replacement;
