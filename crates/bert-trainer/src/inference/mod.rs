//! Applies trained models to new texts.
//!
//! | task | type or function | file |
//! |---|---|---|
//! | the answer of any fine-tuned head to each text | [`Predictor`], [`predict_file`] | `predict.rs` |
//! | loading a model folder, or an adapter with its encoder | | `model_folder.rs` |
//! | labels with probabilities, or scores | [`Classifier`] | `classifier.rs` |
//! | answers to questions, quoted from a text | [`Answerer`] | `question_answerer.rs` |
//! | a tag for every word | [`Tagger`] | `token_tagger.rs` |
//! | hidden states of every token | [`Extractor`] | `hidden_states.rs` |
//! | word and sentence embeddings by principal components | [`Embeddings`] | `embeddings.rs` |
//! | attention weights, queries and keys of every head | [`Attention`] | `attention/` |
//! | the most probable words at each `[MASK]` | [`fill_mask::MaskFiller`] | `fill_mask.rs` |
//! | the predictions that flip when one word changes, and the effect of every word | [`Prober`] | `probe/` |
//!
//! Texts come from files or standard input in windows ([`NewTexts`], `text_input.rs`), so memory stays bounded.
//! `columns.rs` finds the text columns of a table, and `training_record.rs` reads the training settings from the
//! model's report. Batches are sorted by length within a window, and results keep the order of the input.

pub(crate) mod attention;
mod classifier;
mod columns;
mod embeddings;
pub mod fill_mask;
pub(crate) mod hidden_states;
pub(crate) mod model_folder;
mod predict;
pub(crate) mod probe;
pub(crate) mod question_answerer;
mod text_input;
pub(crate) mod token_tagger;
mod training_record;

use std::io::Write;
use std::path::Path;

use bert_model::{BertConfig, BertModel, LoadPolicy, load_pretrained};
use burn::tensor::Device;
use serde::Serialize;

pub use crate::inference::hidden_states::{
    Extractor, LineFeatures, Pooling, all_layers, write_json_lines, write_parquet,
};
pub use crate::inference::question_answerer::{Answerer, TextAnswer};
pub use crate::inference::token_tagger::{NamedEntity, TaggedText, Tagger};
pub use attention::{Attention, AttentionOptions, NamedAttention, QueriesAndKeys, write_attention_parquet};
pub use classifier::{Answer, Classifier};
pub use columns::TextColumns;
pub use embeddings::{Embeddings, ProjectedPoint, Projection};
pub use predict::{Predictor, predict_file};
pub use probe::{Guess, Prediction, Probe, Prober, Replacement, Saliency, WordSaliency};
pub use text_input::{NewTexts, STANDARD_INPUT, TextFormat};
pub use training_record::ModelOptions;

use crate::error::Error;

/// Loads the encoder of a model folder, ignoring its heads. If the folder has no pooler, the pooler is random.
pub(crate) fn load_encoder(folder: &Path, device: &Device) -> Result<(BertModel, BertConfig), Error> {
    let (model, config, _) = load_pretrained(folder, |config| config, LoadPolicy::FreshHeads, 0, device)?;
    Ok((model, config))
}

/// Writes a line of JSON Lines.
fn write_line(out: &mut dyn Write, line: &impl Serialize) -> Result<(), Error> {
    serde_json::to_writer(&mut *out, line).map_err(|error| Error::Results(error.into()))?;
    out.write_all(b"\n").map_err(Error::Results)
}
