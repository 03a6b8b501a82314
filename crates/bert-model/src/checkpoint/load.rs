//! Loads a checkpoint's tensors into a model and reports missing and unexpected tensors.
//!
//! [`load_named_tensors`] accepts the tensor names of current and older versions of `transformers`. It returns the
//! model with the loaded values and a [`LoadReport`], or an error that names every missing, unexpected and misshapen
//! tensor.

use std::collections::BTreeSet;

use burn::module::{Module, ParamId};

use crate::checkpoint::parameter_names::{
    NamedTensors, canonical, map_parameters, named_parameters, rename_tensors,
};
use crate::error::{Error, LoadReport, not_tied, tensor_twice};

/// The differences between a checkpoint and a model that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPolicy {
    /// No difference.
    Exact,
    /// Heads and pooler may be missing or unexpected. If they are missing, the model keeps its values; if they are
    /// unexpected, they are ignored. The encoder must be complete. This policy is for fine-tuning a pre-trained
    /// checkpoint.
    FreshHeads,
    /// The pooler may be missing or unexpected, because the model does not use it. `transformers` saves models for
    /// question answering and token classification without a pooler.
    WithoutPooler,
    /// The pooler and the next-sentence head may be missing or unexpected, as in `BertForMaskedLM` of `transformers`.
    MaskedLm,
}

impl LoadPolicy {
    fn accepts(self, name: &str) -> bool {
        const POOLER: [&str; 2] = ["bert.pooler.", "pooler."];
        let others: &[&str] = match self {
            Self::Exact => return false,
            Self::FreshHeads => &["cls.", "classifier.", "head.", "qa_outputs."],
            Self::WithoutPooler => &[],
            Self::MaskedLm => &["cls.seq_relationship."],
        };
        POOLER.iter().chain(others).any(|part| name.starts_with(part))
    }

    /// Returns whether the policy ignores a masked-LM decoder that differs from the word embeddings.
    fn ignores_untied_decoder(self) -> bool {
        self == Self::FreshHeads
    }
}

/// Loads a checkpoint's tensors into a model. Returns the model, and a report of the parameters that kept their values
/// (`missing`) and the tensors that were ignored (`unexpected`).
///
/// Accepts the old names of LayerNorm's parameters (`gamma`, `beta`), and names with or without the prefix `bert.`.
/// Copies of the tied word embedding table and of the output bias must equal the original and are then ignored. With
/// [`LoadPolicy::FreshHeads`], a copy that differs is reported as unexpected.
///
/// # Errors
/// Fails when a tensor is misshapen, or when it is missing or unexpected and the policy does not accept that; the error
/// names every such tensor. Also fails when a copy of a tied tensor differs from the original, or when two names in the
/// file refer to one parameter.
pub fn load_named_tensors<M: Module>(
    model: M,
    tensors: NamedTensors,
    policy: LoadPolicy,
) -> Result<(M, LoadReport), Error> {
    let parameters = named_parameters(&model);
    let CurrentTensors { tensors, untied } = current_names(tensors)?;
    if let Some((name, tied_to)) = untied.first().filter(|_| !policy.ignores_untied_decoder()) {
        return Err(not_tied(name, tied_to));
    }
    let mut tensors = align_prefix(tensors, &parameters);

    let mut report = compare_with_parameters(&parameters, &tensors);
    let rejected = LoadReport {
        missing: rejected(&report.missing, policy),
        unexpected: rejected(&report.unexpected, policy),
        misshapen: report.misshapen.clone(),
    };
    if rejected != LoadReport::default() {
        return Err(Error::from(rejected));
    }
    report.unexpected.extend(untied.iter().map(|(name, _)| (*name).to_string()));
    let model = map_parameters(model, |name, _| tensors.remove(name).map(|(_, values)| values));
    Ok((model, report))
}

/// Returns the differences between tensors and parameters.
pub(crate) fn compare_with_parameters(
    parameters: &[(String, ParamId, Vec<usize>)],
    tensors: &NamedTensors,
) -> LoadReport {
    let mut report = LoadReport::default();
    for (name, _, shape) in parameters {
        match tensors.get(name) {
            None => report.missing.push(name.clone()),
            Some((found, _)) if found != shape => {
                report.misshapen.push((name.clone(), shape.clone(), found.clone()));
            }
            Some(_) => {}
        }
    }
    let known: BTreeSet<&String> = parameters.iter().map(|(name, ..)| name).collect();
    report.unexpected = tensors.keys().filter(|name| !known.contains(name)).cloned().collect();
    report
}

/// Returns the names that the policy does not accept.
fn rejected(names: &[String], policy: LoadPolicy) -> Vec<String> {
    let rejected = names.iter().filter(|name| !policy.accepts(name));
    rejected.cloned().collect()
}

/// Tensors with current names and without tied copies.
pub struct CurrentTensors {
    /// The tensors.
    pub tensors: NamedTensors,
    /// The name of each copy that differed from the tensor to which it is tied, and the name of that tensor.
    pub untied: Vec<(&'static str, &'static str)>,
}

/// Renames old names to current names, and removes buffers and tied copies.
///
/// # Errors
/// Fails when two names in the file refer to one parameter.
pub fn current_names(tensors: NamedTensors) -> Result<CurrentTensors, Error> {
    let mut present = NamedTensors::new();
    for (name, tensor) in tensors {
        // This is a buffer of older versions of `transformers`, not a parameter.
        if name.ends_with("embeddings.position_ids") {
            continue;
        }
        let name = match name.rsplit_once('.') {
            Some((stem, "gamma")) => format!("{stem}.weight"),
            Some((stem, "beta")) => format!("{stem}.bias"),
            _ => name,
        };
        if present.contains_key(&name) {
            return Err(tensor_twice(&name));
        }
        present.insert(name, tensor);
    }
    let table = ["bert.embeddings.word_embeddings.weight", "embeddings.word_embeddings.weight"];
    let table = table.into_iter().find(|name| present.contains_key(*name));
    if let Some(bias) = present.get("cls.predictions.decoder.bias").cloned() {
        present.entry("cls.predictions.bias".into()).or_insert(bias);
    }
    let tied = [
        ("cls.predictions.decoder.weight", table),
        ("cls.predictions.decoder.bias", Some("cls.predictions.bias")),
    ];
    let mut untied = Vec::new();
    for (copy, kept) in tied {
        let Some(kept) = kept else { continue };
        if present.remove(copy).is_some_and(|tensor| tensor != present[kept]) {
            untied.push((copy, kept));
        }
    }
    Ok(CurrentTensors { tensors: present, untied })
}

/// Adds or removes the prefix `bert.` so that the names match the model: `BertModel` is published without it, and
/// models with heads are published with it.
pub(crate) fn align_prefix(
    tensors: NamedTensors,
    parameters: &[(String, ParamId, Vec<usize>)],
) -> NamedTensors {
    let with_prefix = parameters.iter().any(|(name, ..)| name.starts_with("bert."));
    rename_tensors(tensors, |name| {
        if with_prefix { canonical(name) } else { name.strip_prefix("bert.").unwrap_or(name).to_string() }
    })
}
