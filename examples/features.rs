//! Computes hidden states of texts with a Hugging Face folder: one vector per text, and the most similar texts.
//!
//! `cargo run --example features [-- FOLDER]`, where FOLDER is a run of `pretrain`, a Hugging Face folder or `tiny-en`.

use std::path::Path;

use bert::prelude::*;

const TEXTS: [&str; 3] = ["a warm day", "a warm and sunny day", "the rain is cold"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "tiny-en".to_string()); // the default is the built-in model
    let folder = resolve_model_folder(Path::new(&folder), &mut |warning| eprintln!("{warning}"))?;

    // By default, the extractor returns layer -1, the last one. The extract_features.py of the reference uses -1 to -4.
    let extractor = Extractor::open(&folder, ModelOptions::default())?;
    let lines = extractor.encode(&TEXTS)?;
    let vectors: Vec<Vec<f32>> =
        lines.iter().map(|line| mean(&line.layers[0], extractor.hidden_size())).collect();
    for (text, vector) in TEXTS.iter().zip(&vectors) {
        println!("{:.3} {text}", cosine(&vectors[0], vector));
    }
    Ok(())
}

/// Returns the mean of the vectors of all tokens.
fn mean(states: &[f32], width: usize) -> Vec<f32> {
    let tokens = states.len() / width;
    (0..width).map(|at| states.iter().skip(at).step_by(width).sum::<f32>() / tokens as f32).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
