//! Prints the label of each line of the standard input: a text, or two texts with a tab between them.
//!
//! ```sh
//! bert export tuned/ onnx/ --format onnx
//! printf 'A cat sleeps.\tAn animal rests.\n' | cargo run --release -- onnx/
//! ```

use std::io::stdin;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use tokenizers::{EncodeInput, Tokenizer};
use tract_onnx::prelude::*;

/// An exported classifier.
struct Classifier {
    tokenizer: Tokenizer,
    labels: Vec<String>,
    model: Arc<TypedRunnableModel>,
}

impl Classifier {
    /// Opens the folder of an export.
    fn open(folder: &Path) -> Result<Self> {
        let tokenizer =
            Tokenizer::from_file(folder.join("tokenizer.json")).map_err(|error| anyhow!(error))?;
        let config: Value = serde_json::from_slice(&std::fs::read(folder.join("config.json"))?)?;
        let names = config["id2label"].as_object().context("config.json has no id2label")?;
        let label = |id: usize| names[&id.to_string()].as_str().unwrap_or_default().to_string();
        let labels = (0..names.len()).map(label).collect();
        let model = onnx().model_for_path(folder.join("model.onnx"))?.into_optimized()?.into_runnable()?;
        Ok(Self { tokenizer, labels, model })
    }

    /// Returns the most probable label of a text or of a pair of texts.
    fn label(&self, texts: &[&str]) -> Result<&str> {
        let input: EncodeInput<'_> = match texts {
            [first, second] => (*first, *second).into(),
            _ => texts[0].into(),
        };
        let encoding = self.tokenizer.encode(input, true).map_err(|error| anyhow!(error))?;
        let tensor = |values: &[u32]| -> Result<TValue> {
            let values: Vec<i64> = values.iter().map(|&value| value.into()).collect();
            Ok(Tensor::from_shape(&[1, values.len()], &values)?.into())
        };
        // The order of the inputs in the exported graph.
        let inputs = [encoding.get_ids(), encoding.get_attention_mask(), encoding.get_type_ids()];
        let inputs = inputs.into_iter().map(tensor).collect::<Result<TVec<TValue>>>()?;
        let outputs = self.model.run(inputs)?;
        let logits = outputs[0].to_plain_array_view::<f32>()?;
        let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).context("no labels")?.0;
        Ok(&self.labels[best])
    }
}

fn main() -> Result<()> {
    let folder: PathBuf = std::env::args_os().nth(1).context("usage: onnx-labels FOLDER < TEXTS")?.into();
    let classifier = Classifier::open(&folder)?;
    for line in stdin().lines() {
        let line = line?;
        println!("{}", classifier.label(&line.split('\t').collect::<Vec<_>>())?);
    }
    Ok(())
}
