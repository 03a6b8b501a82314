//! Returns the attention weights of every layer and head for one text.

use std::path::Path;

use super::load_encoder;
use crate::compute::device::DeviceName;
use crate::compute::host_tensors::values;
use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::encoding::padded_batch::PaddedBatch;
use crate::error::Error;

/// The attention weights of a model for one text: probabilities, before dropout.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Word pieces, including `[CLS]` and `[SEP]`.
    pub tokens: Vec<String>,
    /// Number of word pieces of the whole text; more than `tokens` if the text was truncated.
    pub untruncated_length: usize,
    /// For each layer and each head, the weights of all pairs of tokens.
    layers: Vec<Vec<Vec<f32>>>,
}

impl Attention {
    /// Computes the attention of a model folder (see [`crate::run_dir::model_folder::resolve_model_folder`]) for a text
    /// (`A ||| B` is a pair), truncated to `max_length` word pieces.
    ///
    /// # Errors
    /// When the folder cannot be read, or its vocabulary and its model do not fit.
    pub fn of_text(folder: &Path, text: &str, max_length: usize, device: DeviceName) -> Result<Self, Error> {
        let device = device.open()?;
        let (model, config) = load_encoder(folder, &device)?;
        let words = ModelTokenizer::open(folder)?;
        words.check_fits(&config, 0)?;
        let encoded = words.encode_with_masks(text, max_length.min(config.max_position_embeddings));
        let states = model.forward_with_states(PaddedBatch::of_one(&encoded).input(&device));
        let tokens: Vec<String> =
            encoded.input_ids.iter().map(|&id| words.vocabulary.token(id).to_string()).collect();
        let pairs = tokens.len() * tokens.len();
        let heads = |weights| values(weights).chunks(pairs).map(<[f32]>::to_vec).collect();
        Ok(Self {
            layers: states.attentions.into_iter().map(heads).collect(),
            untruncated_length: words.encode_with_masks(text, usize::MAX).input_ids.len(),
            tokens,
        })
    }

    /// Returns the number of layers.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Returns the weights of each head of a layer: row by row, the weight of every key token for a query token.
    ///
    /// # Shapes
    /// Each head has `[tokens * tokens]` weights.
    ///
    /// # Panics
    /// When the model has fewer layers.
    pub fn heads(&self, layer: usize) -> &[Vec<f32>] {
        &self.layers[layer]
    }

    /// Returns the weight with which a query token attends to a key token. All numbers count from 0.
    ///
    /// # Panics
    /// When the layer, the head or the token is out of range.
    pub fn weight(&self, layer: usize, head: usize, query: usize, key: usize) -> f32 {
        let tokens = self.tokens.len();
        assert!(key < tokens, "token {key} of {tokens}");
        self.layers[layer][head][query * tokens + key]
    }
}
