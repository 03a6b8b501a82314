//! Loads a model with the pre-training heads from a folder that may lack some of them.

use std::path::Path;

use bert_model::{
    Architecture, BertConfig, BertForPreTraining, LoadPolicy, NamedTensors, load_named_tensors,
    read_pretrained_tensors,
};
use burn::tensor::Device;

use crate::error::{Error, no_head};

/// The heads that a folder must have in addition to the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heads {
    /// Masked LM, pooler and next-sentence prediction.
    Both,
    /// Masked LM, as in `BertForMaskedLM` of `transformers`.
    MaskedLm,
    /// None: missing heads are initialized at random.
    None,
}

/// A model with both heads.
pub struct Pretrained {
    /// The model.
    pub model: BertForPreTraining,
    /// Parameters that the folder did not have, initialized at random.
    pub fresh: Vec<String>,
}

/// The heads that a checkpoint must have.
#[derive(Clone, Copy, Debug)]
pub struct RequiredHeads {
    /// The heads.
    pub heads: Heads,
    /// The hint for the user how to proceed if a head is missing.
    pub hint: &'static str,
}

/// Loads the weights of a folder into a model with both heads; optional parts that are missing are initialized at
/// random from `seed`. An error about a missing head ends with the hint.
///
/// # Errors
/// Fails when the folder lacks a required head, or when the weights cannot be read or do not match the configuration.
pub fn load_pretraining(
    config: &BertConfig,
    folder: &Path,
    required: RequiredHeads,
    seed: u64,
    device: &Device,
) -> Result<Pretrained, Error> {
    let RequiredHeads { heads, hint } = required;
    let tensors = read_pretrained_tensors(folder)?;
    let policy = match heads {
        Heads::Both => LoadPolicy::Exact,
        Heads::MaskedLm => LoadPolicy::MaskedLm,
        Heads::None => LoadPolicy::FreshHeads,
    };
    // The heads are checked first, so that a missing head is reported as a head and not tensor by tensor. Without an
    // encoder, all missing tensors are reported.
    let has_encoder = tensors.keys().any(|name| name.ends_with("embeddings.word_embeddings.weight"));
    if let Some(head) = missing_head(&tensors, heads).filter(|_| has_encoder) {
        return Err(no_head(head, hint).at(folder));
    }
    let fresh = BertForPreTraining::new(config, seed, device);
    let (model, report) = load_named_tensors(fresh, tensors, policy).map_err(|error| error.at(folder))?;
    Ok(Pretrained { model, fresh: report.missing })
}

/// Returns the first required head of which every tensor is missing.
fn missing_head(tensors: &NamedTensors, heads: Heads) -> Option<&'static str> {
    let has = |parts: &[&str]| tensors.keys().any(|name| parts.iter().any(|part| name.starts_with(part)));
    let missing = |parts: &[&str], needed: bool| needed && !has(parts);
    if missing(&["cls.predictions."], heads != Heads::None) {
        return Some("masked-LM head (cls.predictions)");
    }
    if missing(&["cls.seq_relationship."], heads == Heads::Both) {
        return Some("next-sentence head (cls.seq_relationship)");
    }
    missing(&["bert.pooler.", "pooler."], heads == Heads::Both).then_some("pooler (bert.pooler)")
}
