//! Puts a checkpoint's tensors into a model, with an account of what did not fit.
//!
//! [`load_named_tensors`] takes the names of present and older versions of `transformers`. It gives the model with
//! those values and a [`LoadReport`], or an error that names every tensor that is missing, unexpected or misshapen.

use std::collections::BTreeSet;
use std::fmt;

use burn::module::{Module, ParamId};

use crate::error::Error;
use crate::parameters::{NamedTensors, map_parameters, named_parameters};

/// Which differences between a checkpoint and a model are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPolicy {
    /// None.
    Exact,
    /// The encoder must be there; heads and pooler may be missing (and stay as they are in the model) or
    /// may be there without use. This is how a pre-trained checkpoint becomes a classifier.
    FreshHeads,
}

impl LoadPolicy {
    fn accepts(self, name: &str) -> bool {
        let heads = ["cls.", "classifier.", "head.", "qa_outputs.", "bert.pooler.", "pooler."];
        self == Self::FreshHeads && heads.iter().any(|head| name.starts_with(head))
    }
}

/// How a checkpoint's tensors and a model's parameters differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Parameters of the model that the checkpoint does not have.
    pub missing: Vec<String>,
    /// Tensors of the checkpoint that the model does not have.
    pub unexpected: Vec<String>,
    /// Name, shape in the model, shape in the checkpoint.
    pub misshapen: Vec<(String, Vec<usize>, Vec<usize>)>,
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!("missing: {}", listed(&self.missing)));
        }
        if !self.unexpected.is_empty() {
            parts.push(format!("unexpected: {}", listed(&self.unexpected)));
        }
        for (name, model, checkpoint) in self.misshapen.iter().take(MOST_LISTED) {
            parts.push(format!("{name} has shape {checkpoint:?}, but the model has {model:?}"));
        }
        if self.misshapen.len() > MOST_LISTED {
            parts.push(format!("and {} more of another shape", self.misshapen.len() - MOST_LISTED));
        }
        f.write_str(&parts.join("; "))
    }
}

/// How many names a message lists before it only counts.
const MOST_LISTED: usize = 20;

fn listed(names: &[String]) -> String {
    let shown = names.len().min(MOST_LISTED);
    let more = match names.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names[..shown].join(", ") + &more
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

    let known: BTreeSet<&str> = parameters.iter().map(|(name, ..)| name.as_str()).collect();
    let mut report = LoadReport::default();
    for (name, _, shape) in &parameters {
        match tensors.get(name) {
            None => report.missing.push(name.clone()),
            Some((found, _)) if found != shape => {
                let wrong = (name.clone(), shape.clone(), found.clone());
                report.misshapen.push(wrong);
            }
            Some(_) => {}
        }
    }
    let unexpected = tensors.keys().filter(|name| !known.contains(name.as_str()));
    report.unexpected = unexpected.cloned().collect();

    let refused = LoadReport {
        missing: rejected(&report.missing, policy),
        unexpected: rejected(&report.unexpected, policy),
        misshapen: report.misshapen.clone(),
    };
    if refused != LoadReport::default() {
        return Err(Error::TensorMismatch { report: refused });
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
        let name = match name.strip_suffix(".gamma") {
            Some(stem) => format!("{stem}.weight"),
            None => match name.strip_suffix(".beta") {
                Some(stem) => format!("{stem}.bias"),
                None => name,
            },
        };
        if present.contains_key(&name) {
            return Err(Error::DuplicateTensor { name });
        }
        present.insert(name, tensor);
    }
    let table = ["bert.embeddings.word_embeddings.weight", "embeddings.word_embeddings.weight"];
    let table = table.into_iter().find(|name| present.contains_key(*name));
    drop_tied(&mut present, "cls.predictions.decoder.weight", table)?;
    if let Some(bias) = present.remove("cls.predictions.decoder.bias") {
        match present.get("cls.predictions.bias") {
            Some(kept) if *kept != bias => {
                return Err(Error::TiedTensorDiffers {
                    name: "cls.predictions.decoder.bias".into(),
                    tied_to: "cls.predictions.bias".into(),
                });
            }
            _ => present.insert("cls.predictions.bias".into(), bias),
        };
    }
    Ok(present)
}

fn drop_tied(tensors: &mut NamedTensors, copy: &str, kept: Option<&str>) -> Result<(), Error> {
    let Some(kept) = kept else { return Ok(()) };
    match tensors.remove(copy) {
        Some(tensor) if tensor != tensors[kept] => {
            Err(Error::TiedTensorDiffers { name: copy.into(), tied_to: kept.into() })
        }
        _ => Ok(()),
    }
}

/// `BertModel` is published without the prefix `bert.`, models with heads have it: the checkpoint's names
/// take the model's side.
fn align_prefix(tensors: NamedTensors, parameters: &[(String, ParamId, Vec<usize>)]) -> NamedTensors {
    let with_prefix = parameters.iter().any(|(name, ..)| name.starts_with("bert."));
    let bare = ["embeddings.", "encoder.", "pooler."];
    let align = |name: String| {
        if with_prefix && bare.iter().any(|prefix| name.starts_with(prefix)) {
            return format!("bert.{name}");
        }
        match name.strip_prefix("bert.") {
            Some(stem) if !with_prefix => stem.to_string(),
            _ => name,
        }
    };
    let aligned = tensors.into_iter().map(|(name, t)| (align(name), t));
    aligned.collect()
}
