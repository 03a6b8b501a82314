//! Puts a checkpoint's tensors into a model, with an account of what did not fit.
//!
//! [`load_named_tensors`] takes the names of present and older versions of `transformers`. It gives the model with
//! those values and a [`LoadReport`], or an error that names every tensor that is missing, unexpected or misshapen.

use burn::module::{Module, ParamId};

use crate::error::Error;
use crate::load_report::LoadReport;
use crate::parameters::{NamedTensors, canonical, map_parameters, named_parameters, renamed};

/// Differences between a checkpoint and a model that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPolicy {
    /// None.
    Exact,
    /// The encoder must be there; heads and pooler may be missing (and stay as they are in the model) or
    /// may be there without use. This is how a pre-trained checkpoint becomes a classifier.
    FreshHeads,
    /// The pooler may be missing: the model does not use it. `transformers` writes question answering and token
    /// classification without one.
    WithoutPooler,
    /// Everything that the masked LM does not use may be missing, as in `BertForMaskedLM` of `transformers`: the pooler
    /// and the next-sentence head.
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
}

/// Puts a checkpoint's tensors into a model.
///
/// Names may be old (`gamma`, `beta`) and may lack or have the prefix `bert.`; copies of the tied table
/// are checked and dropped. The report says which parameters stayed fresh and which tensors were not used.
///
/// # Errors
///
/// [`Error::TensorMismatch`] names every tensor that is missing, unexpected or misshapen under the
/// policy; a wrong shape is never accepted. [`Error::TiedTensorDiffers`], [`Error::DuplicateTensor`].
pub fn load_named_tensors<M: Module>(
    model: M,
    tensors: NamedTensors,
    policy: LoadPolicy,
) -> Result<(M, LoadReport), Error> {
    let parameters = named_parameters(&model);
    let mut tensors = align_prefix(present_names(tensors)?, &parameters);

    let report = LoadReport::new(&parameters, &tensors);
    let refused = LoadReport {
        missing: rejected(&report.missing, policy),
        unexpected: rejected(&report.unexpected, policy),
        misshapen: report.misshapen.clone(),
    };
    if refused != LoadReport::default() {
        return Err(Error::TensorMismatch(refused));
    }
    let model = map_parameters(model, |name, _| tensors.remove(name).map(|(_, values)| values));
    Ok((model, report))
}

fn rejected(names: &[String], policy: LoadPolicy) -> Vec<String> {
    let rejected = names.iter().filter(|name| !policy.accepts(name));
    rejected.cloned().collect()
}

/// Old names made new; buffers and tied copies dropped.
fn present_names(tensors: NamedTensors) -> Result<NamedTensors, Error> {
    let mut present = NamedTensors::new();
    for (name, tensor) in tensors {
        // A buffer of older versions of `transformers`, not a parameter.
        if name.ends_with("embeddings.position_ids") {
            continue;
        }
        let name = match name.rsplit_once('.') {
            Some((stem, "gamma")) => format!("{stem}.weight"),
            Some((stem, "beta")) => format!("{stem}.bias"),
            _ => name,
        };
        if present.contains_key(&name) {
            return Err(Error::DuplicateTensor(name));
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
    for (copy, kept) in tied {
        let Some(kept) = kept else { continue };
        if present.remove(copy).is_some_and(|tensor| tensor != present[kept]) {
            return Err(Error::TiedTensorDiffers { name: copy.into(), tied_to: kept.into() });
        }
    }
    Ok(present)
}

/// `BertModel` is published without the prefix `bert.`, models with heads have it: the checkpoint's names
/// take the model's side.
fn align_prefix(tensors: NamedTensors, parameters: &[(String, ParamId, Vec<usize>)]) -> NamedTensors {
    let with_prefix = parameters.iter().any(|(name, ..)| name.starts_with("bert."));
    renamed(tensors, |name| match with_prefix {
        true => canonical(name),
        false => name.strip_prefix("bert.").unwrap_or(name).to_string(),
    })
}
