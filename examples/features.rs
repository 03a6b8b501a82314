//! Computes hidden states of texts with a Hugging Face folder: one vector per text, and the most similar texts.
//!
//! `cargo run --example features [-- FOLDER]`, FOLDER with `config.json`, `model.safetensors` and `vocab.txt`

use bert_data::PartialSettings;
use std::path::{Path, PathBuf};

use bert_model::{BertConfig, Preset};
use bert_trainer::DeviceName;
use bert_trainer::encoding::model_tokenizer::ModelTokenizer;
use bert_trainer::export::export_fresh;
use bert_trainer::inference::Extractor;
use bert_trainer::initialization::{FreshWeights, InitializationChoice};

const TEXTS: &str = "a warm day\na warm and sunny day\nthe rain is cold\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let folder = match std::env::args().nth(1) {
        Some(folder) => PathBuf::from(folder),
        None => fresh(scratch.path())?,
    };
    let input = scratch.path().join("texts.txt");
    std::fs::write(&input, TEXTS)?;

    // Layer -1 is the last; the reference's extract_features.py uses -1 to -4.
    let extractor = Extractor::open(&folder, &[-1], None, DeviceName::Flex)?;
    let mut vectors = Vec::new();
    extractor.each_line(&input, &mut |lines| {
        vectors.extend(lines.iter().map(|line| mean(&line.layers[0], extractor.hidden_size())));
        Ok(())
    })?;
    for (text, vector) in TEXTS.lines().zip(&vectors) {
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
        ModelTokenizer::of_vocabulary(&folder.join("vocab.txt"), PartialSettings::default())?,
        folder.join("fresh"),
    );
    let weights = FreshWeights::uncounted(InitializationChoice::Reference)?;
    export_fresh(&weights, &BertConfig::preset(Preset::Tiny, 17), 1, &text, &output)?;
    Ok(output)
}
