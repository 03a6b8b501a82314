//! Computes the attention weights of every layer and head for one text, and the queries and keys that they come from.

mod words;

use std::path::Path;

use bert_model::BertConfig;
use bert_tasks::InputText;
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::compute::host_tensors::read;
use crate::encoding::examples::PaddedBatch;
use crate::encoding::model_tokenizer::check_segments;
use crate::error::Error;
use crate::model_dir::loaded_model::{OpenedModel, load_encoder, no_layer};
use crate::model_dir::model_options::ModelOptions;

/// The options of the model, and the layers and heads to keep.
#[derive(Clone, Debug, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct AttentionOptions<'a> {
    /// The device, the maximum number of word pieces, and the encoder of an adapter.
    pub model: ModelOptions<'a>,
    /// Layer numbers from 0, or negative numbers that count from the end; empty for all layers.
    pub layers: Vec<i32>,
    /// Head numbers from 0; empty for all heads.
    pub heads: Vec<usize>,
}

/// The attention weights of a model for one text: probabilities, before dropout.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Word pieces, including `[CLS]` and `[SEP]`.
    pub tokens: Vec<String>,
    /// For each token, 0 for the first text and 1 for the second.
    pub segments: Vec<u32>,
    /// For each token, the number of its word. The pieces of a word, and the characters of a Chinese word that jieba
    /// finds, have the same number; `[CLS]` and `[SEP]` are words of one token.
    pub words: Vec<usize>,
    /// A remark on the length for the user.
    pub remark: Option<String>,
    /// Number of word pieces of the whole text; more than `tokens` if the text was truncated.
    pub untruncated_length: usize,
    /// Number of `[UNK]` tokens.
    pub unknown: usize,
    /// The numbers that the layers in `layers` have in the model, counted from 0.
    pub layer_numbers: Vec<usize>,
    /// The numbers that the heads in `layers` have in the model, counted from 0.
    pub head_numbers: Vec<usize>,
    /// For each layer and each head, the weights of all pairs of tokens: row by row, the weight of every key token for a
    /// query token.
    pub layers: Vec<Vec<Vec<f32>>>,
    /// For each layer and each head, the query and the key of every token.
    pub vectors: Vec<Vec<QueriesAndKeys>>,
}

/// The attention of one model, with its name in pages and files.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NamedAttention<'a> {
    /// The name of the model.
    pub name: &'a str,
    /// The attention of the model.
    #[serde(flatten)]
    pub attention: &'a Attention,
}

/// The queries and keys of one head.
///
/// The attention weights of a query are the softmax over the keys of `query * key / sqrt(dimensions)`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueriesAndKeys {
    /// `[tokens, dimensions]`, row by row.
    pub queries: Vec<f32>,
    /// `[tokens, dimensions]`, row by row.
    pub keys: Vec<f32>,
}

impl Attention {
    /// Computes the attention of a model folder or an adapter's folder (see
    /// [`crate::model_dir::model_folder::resolve_tuned_folder`]) for a text or pair.
    ///
    /// # Errors
    /// Fails when the model lacks a layer or a head, when it has fewer positions than the options ask for, when an
    /// encoder is given for a model that has one, when the text is a pair and the model has one segment, when the
    /// folder cannot be read, or when its vocabulary does not fit its model.
    pub fn from_model<'a>(
        folder: &Path,
        text: impl Into<InputText<'a>>,
        options: &AttentionOptions<'_>,
    ) -> Result<Self, Error> {
        let text = text.into();
        let device = options.model.device.open()?;
        let loaded = load_encoder(folder, options.model, &device)?;
        let opened = OpenedModel::new(loaded, device, options.model.max_length, usize::MAX)?;
        let OpenedModel { model, config, text: tokenizer, device, length, .. } = opened;
        let layer_numbers = chosen_layers(&options.layers, config.num_hidden_layers)?;
        let head_numbers = chosen_heads(&options.heads, config.num_attention_heads)?;
        let encoded = tokenizer.encode(text, length.tokens);
        check_segments(&config, encoded.is_pair())?;
        let states = model.forward_with_states(PaddedBatch::single(&encoded).input(&device));
        let pairs = encoded.input_ids.len().pow(2);
        let layers = layer_numbers.iter().map(|&layer| {
            let weights = read(states.attentions[layer].clone())?;
            let for_head = |head: &usize| weights[head * pairs..(head + 1) * pairs].to_vec();
            Ok(head_numbers.iter().map(for_head).collect())
        });
        let layers = layers.collect::<Result<_, Error>>()?;
        let vectors = layer_numbers.iter().map(|&layer| {
            let attention = &model.encoder.layer[layer].attention.self_attention;
            let [queries, keys] = attention.queries_and_keys(states.hidden_states[layer].clone());
            let all_heads = [read(queries)?, read(keys)?];
            let for_head = |&head: &usize| QueriesAndKeys::for_head(&all_heads, head, &config);
            Ok(head_numbers.iter().map(for_head).collect())
        });
        let vectors = vectors.collect::<Result<_, Error>>()?;
        let vocabulary = &tokenizer.vocabulary;
        Ok(Self {
            tokens: encoded.input_ids.iter().map(|&id| vocabulary.token(id).to_string()).collect(),
            segments: encoded.segment_ids.clone(),
            words: words::word_numbers(&encoded, vocabulary),
            remark: length.remark,
            untruncated_length: tokenizer.encode(text, usize::MAX).input_ids.len(),
            unknown: encoded.input_ids.iter().filter(|&&id| id == vocabulary.unk_id()).count(),
            layer_numbers,
            head_numbers,
            layers,
            vectors,
        })
    }

    /// Returns the weight with which a query token attends to a key token. All numbers count from 0.
    ///
    /// # Panics
    /// Panics if the layer, the head or the token is out of range.
    pub fn weight(&self, layer: usize, head: usize, query: usize, key: usize) -> f32 {
        let tokens = self.tokens.len();
        assert!(key < tokens, "token {key} of {tokens}");
        self.layers[layer][head][query * tokens + key]
    }

    /// Returns a warning if more than half of the tokens are `[UNK]`; `[CLS]` and `[SEP]` do not count.
    pub fn warning(&self) -> Option<String> {
        let special = |token: &&String| ["[CLS]", "[SEP]"].contains(&token.as_str());
        let count = self.tokens.len() - self.tokens.iter().filter(special).count();
        (2 * self.unknown > count).then(|| {
            format!(
                "{} of the {count} tokens are [UNK]: the vocabulary of this model does not have the words of this \
                 text, so the attention says little about it",
                self.unknown
            )
        })
    }
}

impl QueriesAndKeys {
    /// Returns the queries and keys of one head, cut from the vectors of all heads.
    fn for_head([queries, keys]: &[Vec<f32>; 2], head: usize, config: &BertConfig) -> Self {
        let hidden = config.hidden_size;
        let dimensions = config.hidden_size / config.num_attention_heads;
        let part = |all: &Vec<f32>| {
            let rows = all.chunks(hidden);
            rows.flat_map(|row| &row[head * dimensions..(head + 1) * dimensions]).copied().collect()
        };
        Self { queries: part(queries), keys: part(keys) }
    }
}

/// Returns layer numbers counted from 0; an empty list means all layers.
fn chosen_layers(layers: &[i32], count: usize) -> Result<Vec<usize>, Error> {
    if layers.is_empty() {
        return Ok((0..count).collect());
    }
    let number = |&layer: &i32| {
        let from_start = if layer < 0 { layer + count as i32 } else { layer };
        let found = usize::try_from(from_start).ok().filter(|layer| *layer < count);
        found.ok_or_else(|| no_layer(layer, count as i32))
    };
    layers.iter().map(number).collect()
}

/// Returns the numbers of the chosen heads; all heads if the list is empty.
fn chosen_heads(heads: &[usize], count: usize) -> Result<Vec<usize>, Error> {
    if let Some(head) = heads.iter().find(|head| **head >= count) {
        let reason = format!("the model has no head {head}; the heads of a layer are 0 to {}", count - 1);
        return Err(Error::option("heads", reason));
    }
    Ok(if heads.is_empty() { (0..count).collect() } else { heads.to_vec() })
}

/// Serializes as `{"tokens", "segments", "words", "layers", "heads", "weights"}`; the weights are indexed by layer,
/// head, query and key.
impl Serialize for Attention {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tokens = self.tokens.len();
        let rows = |head: &'_ Vec<f32>| head.chunks(tokens).map(<[f32]>::to_vec).collect::<Vec<_>>();
        let weights: Vec<Vec<_>> = self.layers.iter().map(|heads| heads.iter().map(rows).collect()).collect();
        let mut out = serializer.serialize_struct("Attention", 6)?;
        out.serialize_field("tokens", &self.tokens)?;
        out.serialize_field("segments", &self.segments)?;
        out.serialize_field("words", &self.words)?;
        out.serialize_field("layers", &self.layer_numbers)?;
        out.serialize_field("heads", &self.head_numbers)?;
        out.serialize_field("weights", &weights)?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_and_heads_are_chosen_by_number() {
        assert_eq!(chosen_layers(&[], 3).unwrap(), [0, 1, 2]);
        assert_eq!(chosen_layers(&[-1, 0], 3).unwrap(), [2, 0]);
        assert_eq!(chosen_heads(&[1], 2).unwrap(), [1]);
        for layer in [3, -4] {
            let error = chosen_layers(&[layer], 3).unwrap_err().to_string();
            assert!(error.contains(&format!("no layer {layer}; its layers are 0 to 2")), "{error}");
        }
        assert!(chosen_heads(&[2], 2).unwrap_err().to_string().contains("heads of a layer are 0 to 1"));
    }

    #[test]
    fn unknown_tokens_are_warned_about() {
        let words = ["[CLS]", "a", "b", "c", "d", "[SEP]"];
        let mut attention = Attention {
            tokens: words.map(String::from).to_vec(),
            segments: vec![0; 6],
            words: (0..6).collect(),
            remark: None,
            untruncated_length: 6,
            unknown: 2,
            layer_numbers: vec![0],
            head_numbers: vec![0],
            layers: vec![vec![vec![1.0 / 6.0; 36]]],
            vectors: Vec::new(),
        };
        assert_eq!(attention.warning(), None, "half of the tokens");
        attention.unknown = 3;
        assert!(attention.warning().unwrap().starts_with("3 of the 4 tokens are [UNK]"));
    }

    #[test]
    fn json_is_indexed_by_layer_head_and_query() {
        let head = |first: u8| (0..9).map(|at| f32::from(first + at)).collect::<Vec<f32>>();
        let attention = Attention {
            tokens: ["a", "##b", "c"].map(String::from).to_vec(),
            segments: vec![0; 3],
            words: vec![0, 0, 1],
            remark: None,
            untruncated_length: 3,
            unknown: 0,
            layer_numbers: vec![0, 1],
            head_numbers: vec![0, 1],
            layers: vec![vec![head(0), head(10)], vec![head(20), head(30)]],
            vectors: Vec::new(),
        };
        let json = serde_json::to_value(&attention).unwrap();
        let weight = json["weights"][1][0][2][1].as_f64().unwrap();
        assert!((weight - f64::from(attention.weight(1, 0, 2, 1))).abs() < 1e-9);
        assert_eq!(json["words"], serde_json::json!([0, 0, 1]));
    }
}
