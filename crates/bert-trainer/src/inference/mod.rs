//! A model at work: what it says of texts that no task or corpus holds.
//!
//! | in | out | file |
//! |---|---|---|
//! | a fine-tuned folder, texts | what its head says of each | `predict.rs` |
//! | an adapter, its encoder | a classifier | `adapted.rs` |
//! | a classifier | labels with probabilities, or scores | `classifier.rs` |
//! | a model of answers | words of a text | `answerer.rs` |
//! | a model of tags | a tag for every word | `tagger.rs` |
//! | any model folder, texts | hidden states of every token | `features.rs`, `feature_rows.rs` |
//! | a model, a text, one changed word | the predictions that flip | `probe.rs` |
//!
//! Texts come from files or standard input in windows ([`TextFormat`], `text_input.rs`): memory stays bounded, batches
//! are made by length within a window, and results keep the order of the input.

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
    Error::Results { source }
}
