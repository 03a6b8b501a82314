//! Loads a model with the pre-training heads from a folder that may lack some of them.

use std::path::Path;

use bert_model::{
    Architecture, BertConfig, BertForPreTraining, LoadPolicy, NamedTensors, load_named_tensors,
    read_pretrained_tensors,
};
use burn::tensor::Device;

use crate::error::{Error, no_head};

/// The heads that a checkpoint must have.
#[derive(Clone, Copy, Debug)]
pub struct RequiredHeads {
    /// The heads: `Exact` for both, `MaskedLm`, or `FreshHeads` for none.
    pub policy: LoadPolicy,
    /// A hint for the user on how to proceed if a head is missing.
    pub hint: &'static str,
}

/// Loads the weights of a folder into a model with both heads; optional parts that are missing are initialized at
/// random from `seed`. Returns the model and the names of these parameters. An error about a missing head ends with the
/// hint.
///
/// # Errors
/// Fails when the folder lacks a required head, or when the weights cannot be read or do not match the configuration.
pub fn load_pretraining(
    config: &BertConfig,
    folder: &Path,
    required: RequiredHeads,
    seed: u64,
    device: &Device,
) -> Result<(BertForPreTraining, Vec<String>), Error> {
    let RequiredHeads { policy, hint } = required;
    let tensors = read_pretrained_tensors(folder)?;
    // The heads are checked first, so that a missing head is reported as a head and not tensor by tensor. Without an
    // encoder, all missing tensors are reported.
    let has_encoder = tensors.keys().any(|name| name.ends_with("embeddings.word_embeddings.weight"));
    if let Some(head) = missing_head(&tensors, policy).filter(|_| has_encoder) {
        return Err(no_head(head, hint).at(folder));
    }
    let fresh = BertForPreTraining::new(config, seed, device);
    let (model, report) = load_named_tensors(fresh, tensors, policy).map_err(|error| error.at(folder))?;
    Ok((model, report.missing))
}

/// Returns the first required head of which every tensor is missing.
fn missing_head(tensors: &NamedTensors, policy: LoadPolicy) -> Option<&'static str> {
    let has = |parts: &[&str]| tensors.keys().any(|name| parts.iter().any(|part| name.starts_with(part)));
    let missing = |parts: &[&str], needed: bool| needed && !has(parts);
    if missing(&["cls.predictions."], policy != LoadPolicy::FreshHeads) {
        return Some("masked-LM head (cls.predictions)");
    }
    if missing(&["cls.seq_relationship."], policy == LoadPolicy::Exact) {
        return Some("next-sentence head (cls.seq_relationship)");
    }
    missing(&["bert.pooler.", "pooler."], policy == LoadPolicy::Exact).then_some("pooler (bert.pooler)")
}
