//! Puts a checkpoint's tensors into a model, with an account of what did not fit.
//!
//! [`load_named_tensors`] takes the names of present and older versions of `transformers`. It gives the model with
//! those values and a [`LoadReport`], or an error that names every tensor that is missing, unexpected or misshapen.

use burn::module::{Module, ParamId};

use crate::error::Error;
use crate::load_report::LoadReport;
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
        let name = match name.strip_suffix(".gamma") {
            Some(stem) => format!("{stem}.weight"),
            None => match name.strip_suffix(".beta") {
                Some(stem) => format!("{stem}.bias"),
                None => name,
            },
        };
        if present.contains_key(&name) {
            return Err(Error::DuplicateTensor(name));
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
