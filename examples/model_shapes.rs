//! Prints the shape of every stage of a forward pass, and checks three facts: a row of attention sums to 1, LayerNorm's
//! output has the norm sqrt(d), and for d = 2 it is [1, -1] or [-1, 1].
//!
//! `cargo run --example model_shapes [-- FOLDER TEXT]`, where FOLDER is a run of `pretrain`, a Hugging Face folder or
//! `tiny-en`.

use std::path::Path;

use bert::model::BertStates;
use bert::prelude::*;
use bert_kernels::Compute;
use bert_kernels::layer_norm::{LayerNormParameters, layer_norm};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// BERT's epsilon of LayerNorm. With 0, both facts about LayerNorm would hold exactly.
const EPSILON: f64 = 1e-12;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "tiny-en".to_string()); // the default is the built-in model
    let folder = resolve_model_folder(Path::new(&folder), &mut |warning| eprintln!("{warning}"))?;
    let text = arguments.next().unwrap_or_else(|| "the cat sat on the mat .".to_string());
    let device = DeviceName::Flex.open()?;

    let states = forward(&folder, &text, &device)?;
    println!("hidden states {:?}: batch, tokens, hidden size", states.hidden_states[0].dims());
    println!("attention {:?}: batch, heads, queries, keys", states.attentions[0].dims());
    println!("pooled output {:?}: batch, hidden size", states.output.pooled_output.dims());
    let sums = numbers(states.attentions[0].clone().sum_dim(3));
    let error = sums.iter().map(|sum| (sum - 1.0).abs()).fold(0.0, f32::max);
    println!("sums of the {} rows of attention: 1, to {error:.6}", sums.len());
    assert!(error < 1e-5);

    for width in [2, 3, 128, 768] {
        let norms: Vec<f32> = (0..100).map(|seed| norm(&normalized(width, seed, &device))).collect();
        let expected = (width as f32).sqrt();
        let error = norms.iter().map(|norm| (norm - expected).abs()).fold(0.0, f32::max);
        println!("d = {width}: norm {:.4}, sqrt(d) {expected:.4}", norms[0]);
        assert!(error < 1e-3, "d = {width}: off by {error}");
    }
    for seed in 0..100 {
        let pair = normalized(2, seed, &device);
        let is_fixed = (pair[0].abs() - 1.0).abs() < 1e-3 && (pair[0] + pair[1]).abs() < 1e-3;
        assert!(is_fixed, "d = 2: {pair:?}");
    }
    println!("d = 2: 100 random inputs give [1, -1] or [-1, 1]");
    Ok(())
}

/// Returns the states of the model of a folder for a text.
fn forward(folder: &Path, text: &str, device: &Device) -> Result<BertStates, Box<dyn std::error::Error>> {
    let words = ModelFiles::open(folder)?.tokenizer;
    let mut ids = vec![words.vocabulary.cls_id()];
    words.tokenizer.encode(text, &mut ids);
    ids.push(words.vocabulary.sep_id());
    let shape = [1, ids.len()];
    let row = |values: Vec<i32>| Tensor::<2, Int>::from_data(TensorData::new(values, shape), device);
    let input = BertInput {
        input_ids: row(ids.iter().map(|&id| id as i32).collect()),
        input_mask: row(vec![1; ids.len()]),
        segment_ids: row(vec![0; ids.len()]),
    };
    let (model, ..) =
        load_pretrained::<BertModel>(folder, |config| config, LoadPolicy::FreshHeads, 0, device)?;
    Ok(model.forward_with_states(input))
}

/// Returns LayerNorm of a random vector, with gamma 1 and beta 0.
fn normalized(width: usize, seed: u64, device: &Device) -> Vec<f32> {
    let input = bert_random::normal("input", width, 3.0, seed);
    let vector = |values: Vec<f32>| Tensor::<1>::from_data(TensorData::new(values, [width]), device);
    let row = vector(input).reshape([1, width]);
    let gamma = vector(vec![1.0; width]);
    let beta = vector(vec![0.0; width]);
    numbers(layer_norm::<2>(Compute::default(), row, LayerNormParameters { gamma, beta, epsilon: EPSILON }))
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("numbers of type f32")
}

fn norm(vector: &[f32]) -> f32 {
    vector.iter().map(|value| value * value).sum::<f32>().sqrt()
}
