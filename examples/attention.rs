//! Prints the token to which each token of a text attends most, in every head.
//!
//! `cargo run --example attention [-- FOLDER TEXT TEXT_B]`, where FOLDER is a run of `pretrain`, a Hugging Face folder
//! or `tiny-en`.

use std::path::Path;

use bert::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "tiny-en".to_string()); // the default is the built-in model
    let folder = resolve_model_folder(Path::new(&folder), &mut |warning| eprintln!("{warning}"))?;
    let first = arguments.next().unwrap_or_else(|| "the cat sat on the mat .".to_string());
    let second = arguments.next().unwrap_or_else(|| "it was tired .".to_string());

    let options = AttentionOptions::default().with_model(ModelOptions::default().with_max_length(48));
    let attention = Attention::from_model(&folder, (first.as_str(), second.as_str()), &options)?;
    let tokens = &attention.tokens;
    for layer in 0..attention.layers.len() {
        for head in 0..attention.layers[layer].len() {
            let strongest = |query: usize| {
                let weight = |key: &usize| attention.weight(layer, head, query, *key);
                (0..tokens.len()).max_by(|a, b| weight(a).total_cmp(&weight(b))).unwrap_or(query)
            };
            let row =
                (0..tokens.len()).map(|query| format!("{} -> {}", tokens[query], tokens[strongest(query)]));
            println!("layer {layer}, head {head}: {}", row.collect::<Vec<String>>().join(", "));
        }
    }
    Ok(())
}
