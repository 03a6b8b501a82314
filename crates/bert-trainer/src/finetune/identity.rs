//! Describes what a fine-tuning computes: its settings, and digests of its weights and its data.
//!
//! A fine-tuning resumes only if the description is unchanged. The digests of dev show whether two fine-tunings
//! were scored on the same examples.

use bert_storage::{digest_bytes, digest_file};
use serde_json::{Value, json};

use super::adapter::read_adapters;
use super::objectives::{Objective, Part};
use crate::error::Error;
use crate::finetune::setup::Setup;

/// What decides the numbers of every run: settings, weights and data. Which seeds there are decides nothing for one.
///
/// # Errors
/// When a file of the checkpoint cannot be read.
pub(super) fn identity<O: Objective>(objective: &O) -> Result<Value, Error> {
    let Setup { config, opened, .. } = objective.setup();
    let mut settings = serde_json::to_value(config).expect("plain data");
    for place in ["seeds", "output", "predict", "data", "checkpoint", "fusion"] {
        settings.as_object_mut().expect("a configuration").remove(place);
    }
    let file = |name: &str| match opened.start.join(name) {
        path if path.exists() => digest_file(&path).map_err(Error::from),
        _ => Ok(String::new()),
    };
    let adapters = read_adapters(&config.fusion)?.into_iter();
    let adapters =
        adapters.map(|(path, _)| digest_file(&path.join("adapter.safetensors")).map_err(Error::from));
    let digest = |part| objective.has(part).then(|| O::digest(objective.part(part)));
    Ok(json!({
        "config": settings,
        "fusion": adapters.collect::<Result<Vec<String>, Error>>()?,
        "start": file("model.safetensors")?,
        "vocabulary": digest_bytes(opened.text.vocabulary.bytes()),
        "train": O::digest(&objective.sets().train),
        "held_out": digest(Part::HeldOut),
        "dev": digest(Part::Dev),
        "dev_mismatched": digest(Part::DevMismatched),
        "test": digest(Part::Test),
    }))
}
