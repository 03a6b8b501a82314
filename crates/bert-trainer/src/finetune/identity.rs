//! What a fine-tuning computes, in digests: what is compared before one goes on, and before two are compared.

use std::path::Path;

use bert_data::files::{digest_bytes, digest_file};
use serde_json::{Value, json};

use super::{FinetuneConfig, LabelledSplit, Splits};
use crate::error::Error;
use crate::tasks::Example;

/// What decides the numbers of every run: settings, weights and data. Which seeds there are decides nothing for one.
///
/// # Errors
/// When a file of the checkpoint cannot be read.
pub(super) fn identity(config: &FinetuneConfig, start: &Path, splits: &Splits) -> Result<Value, Error> {
    let mut settings = serde_json::to_value(config).expect("plain data");
    for place in ["seeds", "output", "predict", "data", "checkpoint"] {
        settings.as_object_mut().expect("a configuration").remove(place);
    }
    let digest = |split: &Option<LabelledSplit>| split.as_ref().map(|split| examples_digest(&split.examples));
    let file = |name: &str| match start.join(name) {
        path if path.exists() => digest_file(&path).map_err(Error::from),
        _ => Ok(String::new()),
    };
    Ok(json!({
        "config": settings,
        "start": file("model.safetensors")?,
        "vocabulary": file("vocab.txt")?,
        "train": examples_digest(&splits.train.examples),
        "held_out": digest(&splits.held_out),
        "dev": examples_digest(&splits.dev.examples),
        "dev_mismatched": digest(&splits.mismatched),
        "test": digest(&splits.test),
    }))
}

/// Texts and labels, in order.
pub(super) fn examples_digest(examples: &[Example]) -> String {
    let mut bytes = Vec::new();
    for Example { index: _, text_a, text_b, label } in examples {
        // Quoted, so that no text can look like two.
        bytes.extend(format!("{text_a:?} {text_b:?} {label:?}\n").into_bytes());
    }
    digest_bytes(&bytes)
}
