//! Stores attention weights, queries and keys in 8 bits each, for a page.

use bert_inference::{Attention, QueriesAndKeys};
use bert_pages::packed;
use serde_json::{Value, json};

/// The code of the weight 1.
const LARGEST: f32 = 255.0;
/// Largest code of a component of a query or key; 6 bits and a sign are enough for a bar.
const LARGEST_COMPONENT: f32 = 63.0;

/// Returns the codes of all weights: for each layer, head and key, the weights of all queries, times 255 and rounded.
///
/// Codes below `least` are 0. One key's weights are similar, so this order compresses better than query by query.
pub(super) fn weight_codes(attention: &Attention, least: u8) -> Vec<u8> {
    let tokens = attention.tokens.len();
    let heads = attention.layers.iter().flatten();
    let mut codes = Vec::new();
    for weights in heads {
        for key in 0..tokens {
            codes.extend(weights.iter().skip(key).step_by(tokens).map(|weight| {
                let code = (weight * LARGEST).round() as u8;
                if code < least { 0 } else { code }
            }));
        }
    }
    codes
}

/// Weights in 8 bits, compressed.
pub(super) struct PackedWeights {
    /// The compressed codes in Base64, which a script reads with `DecompressionStream`.
    pub(super) text: String,
    /// Minimum weight; smaller weights are stored as 0.
    pub(super) least: f32,
}

impl PackedWeights {
    /// Packs the weights of a text in at most `limit` bytes: the smallest weights become 0 until the others fit.
    pub(super) fn within(attention: &Attention, limit: usize) -> Self {
        let mut least = 1;
        loop {
            let text = packed(&weight_codes(attention, least));
            if text.len() <= limit || least == u8::MAX {
                return Self { text, least: (f32::from(least) - 0.5) / LARGEST };
            }
            // Near the limit, raise the least code by one only.
            least = least.saturating_add(if text.len() > 2 * limit { 1 + least / 2 } else { 1 });
        }
    }
}

/// Packs the queries and keys of some layers: `{"layers", "dimensions", "scales", "data"}`, with the indices of the
/// layers on the page.
///
/// For each layer and head, `data` has the queries and then the keys, row by row, one signed byte per component, and
/// `scales` has the value of one unit, first for the queries and then for the keys.
pub(super) fn packed_vectors(attention: &Attention, layers: &[usize]) -> Value {
    let mut codes = Vec::new();
    let mut scales = Vec::new();
    let mut dimensions = 0;
    for &layer in layers {
        for QueriesAndKeys { queries, keys } in &attention.vectors[layer] {
            dimensions = queries.len() / attention.tokens.len();
            for vectors in [queries, keys] {
                let largest = vectors.iter().fold(f32::MIN_POSITIVE, |max, x| max.max(x.abs()));
                let scale = largest / LARGEST_COMPONENT;
                codes.extend(vectors.iter().map(|x| (x / scale).round() as i8 as u8));
                scales.push(json!(scale));
            }
        }
    }
    json!({ "layers": layers, "dimensions": dimensions, "scales": scales, "data": packed(&codes) })
}

/// Returns the mean weights over the heads of a layer, in 8 bits, row by row; a square root makes small weights
/// visible.
pub(super) fn mean_of_heads(attention: &Attention, layer: usize) -> Vec<u8> {
    let heads = &attention.layers[layer];
    let mean = |at: usize| heads.iter().map(|head| head[at]).sum::<f32>() / heads.len() as f32;
    (0..heads[0].len()).map(|at| (LARGEST * mean(at).sqrt()).round() as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention_page::sample::sample;

    #[test]
    fn codes_are_key_by_key_and_at_most_half_a_unit_off() {
        let attention = sample(2, 2, 5, 2);
        let codes = weight_codes(&attention, 1);
        assert_eq!(codes.len(), 2 * 2 * 25);
        for (at, code) in codes.iter().enumerate() {
            let layer = at / 50;
            let head = at / 25 % 2;
            let key = at / 5 % 5;
            let query = at % 5;
            let weight = attention.weight(layer, head, query, key);
            assert!((f32::from(*code) / 255.0 - weight).abs() <= 0.5 / 255.0 + 1e-6);
        }
        let coarse = weight_codes(&attention, 60);
        assert!(coarse.iter().zip(&codes).all(|(a, b)| *a == if *b < 60 { 0 } else { *b }));
    }

    #[test]
    fn smallest_weights_are_dropped_to_fit() {
        let attention = sample(4, 4, 24, 2);
        let all = PackedWeights::within(&attention, usize::MAX);
        assert!((all.least - 0.5 / 255.0).abs() < 1e-9);
        let some = PackedWeights::within(&attention, all.text.len() / 2);
        assert!(some.text.len() <= all.text.len() / 2 && some.least > all.least && some.least < 0.5);
    }

    #[test]
    fn vectors_have_a_scale_per_head() {
        let attention = sample(2, 2, 3, 4);
        let packed = packed_vectors(&attention, &[1]);
        assert_eq!(packed["dimensions"], 4);
        assert_eq!(packed["scales"].as_array().unwrap().len(), 4, "queries and keys of two heads");
        let scale = packed["scales"][1].as_f64().unwrap() as f32;
        let keys = &attention.vectors[1][0].keys;
        let largest = keys.iter().fold(0f32, |max, x| max.max(x.abs()));
        assert!((scale * 63.0 - largest).abs() < 1e-5);
    }
}
