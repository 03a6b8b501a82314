//! Compares a checkpoint's tensors with a model's parameters.

use std::collections::BTreeSet;
use std::fmt;

use burn::module::ParamId;

use crate::checkpoint::parameter_names::NamedTensors;

/// The differences between a checkpoint's tensors and a model's parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Names of parameters that the checkpoint lacks.
    pub missing: Vec<String>,
    /// Names of tensors that the model lacks.
    pub unexpected: Vec<String>,
    /// Name, shape in the model and shape in the checkpoint of tensors whose shapes differ.
    pub misshapen: Vec<(String, Vec<usize>, Vec<usize>)>,
}

impl LoadReport {
    /// Compares tensors with parameters.
    pub(crate) fn new(parameters: &[(String, ParamId, Vec<usize>)], tensors: &NamedTensors) -> Self {
        let mut report = Self::default();
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
        for (name, model, checkpoint) in self.misshapen.iter().take(MAX_LISTED) {
            parts.push(format!("{name} has shape {checkpoint:?}, but the model has {model:?}"));
        }
        if self.misshapen.len() > MAX_LISTED {
            parts.push(format!("and {} more with a different shape", self.misshapen.len() - MAX_LISTED));
        }
        f.write_str(&parts.join("; "))
    }
}

/// Maximum number of names in a message; the rest are counted.
const MAX_LISTED: usize = 20;

fn listed(names: &[String]) -> String {
    let shown = names.len().min(MAX_LISTED);
    let more = match names.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names[..shown].join(", ") + &more
}
