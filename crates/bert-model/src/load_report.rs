//! Compares a checkpoint's tensors with a model's parameters.

use std::collections::BTreeSet;
use std::fmt;

use burn::module::ParamId;

use crate::parameters::NamedTensors;

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

impl LoadReport {
    /// How these tensors differ from these parameters.
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
