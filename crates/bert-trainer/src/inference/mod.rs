//! Applies trained models to new texts.
//!
//! | what | with | file |
//! |---|---|---|
//! | what the head of a fine-tuned folder says of each text | [`Predictor`], [`predict_file`] | `predict.rs` |
//! | an adapter joined with its encoder into a classifier | | `adapted.rs` |
//! | labels with probabilities, or scores | [`Classifier`] | `classifier.rs` |
//! | answers to questions, in words of a text | [`Answerer`] | `answerer.rs` |
//! | a tag for every word | [`Tagger`] | `tagger.rs` |
//! | hidden states of every token | [`Extractor`] | `features.rs`, `feature_rows.rs` |
//! | the predictions that flip when one word changes | [`Prober`] | `probe.rs` |
//!
//! Texts come from files or standard input in windows ([`TextFormat`], `text_input.rs`), so memory stays bounded.
//! Batches are made by length within a window, and results keep the order of the input.

mod adapted;
mod answerer;
mod classifier;
mod feature_rows;
mod features;
mod model_folder;
mod predict;
mod probe;
mod tagger;
mod text_input;

use std::path::Path;

use bert_model::{
    Architecture, BertConfig, BertModel, LoadPolicy, load_pretrained_weights, read_pretrained_config,
};
use burn::tensor::Device;

pub use answerer::{Answerer, TextAnswer};
pub use classifier::{Answer, Classifier, Probabilities};
pub use feature_rows::{write_json_lines, write_parquet};
pub use features::{Extractor, LineFeatures};
pub use predict::{Predictor, predict_file};
pub use probe::{Guess, Prediction, Probe, Prober, Replacement};
pub use tagger::{NamedEntity, TaggedText, Tagger};
pub use text_input::{STANDARD_INPUT, TextFormat};

use crate::error::Error;

/// The encoder of a model folder, whatever heads it has.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn load_encoder(folder: &Path, device: &Device) -> Result<(BertModel, BertConfig), Error> {
    let config = read_pretrained_config(folder)?;
    let model = BertModel::new(&config, 0, device);
    let (model, _) = load_pretrained_weights(model, folder, LoadPolicy::FreshHeads)?;
    Ok((model, config))
}

/// Hands a failed write to the caller.
fn unwritten(source: std::io::Error) -> Error {
    Error::Results(source)
}
