//! Computes hidden states of texts with a Hugging Face folder: one vector per text, and the most similar texts.
//!
//! `cargo run --example features [-- FOLDER]`, where FOLDER contains `config.json`, `model.safetensors` and `vocab.txt`

use std::path::{Path, PathBuf};

use bert::prelude::*;

const TEXTS: [&str; 3] = ["a warm day", "a warm and sunny day", "the rain is cold"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let folder = match std::env::args().nth(1) {
        Some(folder) => PathBuf::from(folder),
        None => fresh(scratch.path())?,
    };

    // Layer -1 is the last; the reference's extract_features.py uses -1 to -4.
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

/// Writes a BERT-tiny with random weights, so that the example needs no download.
fn fresh(folder: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let words = "[PAD] [UNK] [CLS] [SEP] [MASK] the sun is warm today rain cold a and sunny day rainy";
    std::fs::write(folder.join("vocab.txt"), words.replace(' ', "\n"))?;
    let (text, output) = (
        ModelTokenizer::from_vocabulary(&folder.join("vocab.txt"), PartialSettings::default())?,
        folder.join("fresh"),
    );
    let weights = FreshWeights::uncounted(InitializationChoice::Reference)?;
    export_fresh(&weights, &BertConfig::preset(Preset::Tiny, 17), 1, &text, &output)?;
    Ok(output)
}
