//! Attention of an invented model, for tests.

use bert_inference::{Attention, QueriesAndKeys};

/// Returns attention with pseudo-random weights, a softmax in each row, and vectors.
pub(crate) fn sample(layers: usize, heads: usize, tokens: usize, dimensions: usize) -> Attention {
    let mut state = 1u32;
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from((state >> 16) as u16) / 32_768.0 - 1.0
    };
    let mut softmax = |sharpness: f32| -> Vec<f32> {
        let row: Vec<f32> = (0..tokens).map(|_| (sharpness * random()).exp()).collect();
        let sum: f32 = row.iter().sum();
        row.into_iter().map(|weight| weight / sum).collect()
    };
    let mut head =
        |at: usize| -> Vec<f32> { (0..tokens).flat_map(|_| softmax(1.0 + (at % 8) as f32)).collect() };
    let layer_weights = (0..layers).map(|layer| (0..heads).map(|h| head(layer + h)).collect()).collect();
    let mut other = random;
    let mut vector = || (0..tokens * dimensions).map(|_| other()).collect::<Vec<f32>>();
    let mut pair = || QueriesAndKeys { queries: vector(), keys: vector() };
    Attention {
        tokens: (0..tokens).map(|at| format!("token{at}")).collect(),
        segments: (0..tokens).map(|at| u32::from(at > tokens / 2)).collect(),
        words: (0..tokens).map(|at| at / 2).collect(),
        remark: None,
        untruncated_length: tokens,
        unknown: 0,
        layer_numbers: (0..layers).collect(),
        head_numbers: (0..heads).collect(),
        layers: layer_weights,
        vectors: (0..layers).map(|_| (0..heads).map(|_| pair()).collect()).collect(),
    }
}
