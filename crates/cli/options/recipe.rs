//! `--recipe NAME`: a set of options that were measured together, used as defaults for options that neither the command
//! line nor `--config` gives.
//!
//! The files in `recipes/` are compiled into the programs. A path selects a custom recipe file.

use std::path::Path;

use bert_data::Error;
use bert_storage::{did_you_mean, read_limited};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::options::options_file::{OptionsFile, invalid, parse_object};

/// Maximum size of a recipe file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Built-in recipes by name.
const BUILT_IN: [(&str, &str); 16] = [
    ("adapt", include_str!("../../../recipes/adapt.toml")),
    ("adapters", include_str!("../../../recipes/adapters.toml")),
    ("babylm", include_str!("../../../recipes/babylm.toml")),
    ("base-gpu", include_str!("../../../recipes/base-gpu.toml")),
    ("frozen", include_str!("../../../recipes/frozen.toml")),
    ("lamb-phase-1", include_str!("../../../recipes/lamb-phase-1.toml")),
    ("lamb-phase-2", include_str!("../../../recipes/lamb-phase-2.toml")),
    ("laptop", include_str!("../../../recipes/laptop.toml")),
    ("lora", include_str!("../../../recipes/lora.toml")),
    ("mini-en", include_str!("../../../recipes/mini-en.toml")),
    ("mini-en-512", include_str!("../../../recipes/mini-en-512.toml")),
    ("overnight", include_str!("../../../recipes/overnight.toml")),
    ("paper", include_str!("../../../recipes/paper.toml")),
    ("reference", include_str!("../../../recipes/reference.toml")),
    ("speedrun", include_str!("../../../recipes/speedrun.toml")),
    ("tiny-en", include_str!("../../../recipes/tiny-en.toml")),
];

/// A parsed recipe.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// One-line description of the result.
    pub title: String,
    /// Intended use and instructions.
    pub about: String,
    /// Options of make-pretrain-data.
    #[serde(default)]
    pub data: Map<String, Value>,
    /// Options of pretrain.
    #[serde(default)]
    pub pretrain: Map<String, Value>,
    /// Options of finetune.
    #[serde(default)]
    pub finetune: Map<String, Value>,
}

/// Returns the names of the built-in recipes.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.into_iter().map(|(name, _)| name)
}

/// Parses the name of a recipe or the path of a recipe file.
pub fn parse_name(name: &str) -> Result<String, String> {
    if names().any(|known| known == name) || Path::new(name).is_file() {
        return Ok(name.to_owned());
    }
    let known = names().collect::<Vec<_>>().join(", ");
    Err(format!("not a recipe and not a file; the recipes are {known}{}", did_you_mean(name, names())))
}

/// Returns the text of a recipe, given by name or as a file.
pub fn text(name: &str) -> anyhow::Result<String> {
    if let Some((_, text)) = BUILT_IN.into_iter().find(|(built_in, _)| *built_in == name) {
        return Ok(text.to_owned());
    }
    let bytes =
        read_limited(Path::new(name), MAX_BYTES).map_err(bert_storage::Error::io("read", Path::new(name)))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Recipe {
    /// Reads a recipe, given by name or as a file.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or when it is not a recipe.
    pub fn read(name: &str) -> anyhow::Result<Self> {
        let path = Path::new(name);
        let file = parse_object(path, &text(name)?, true)?;
        Ok(serde_json::from_value(Value::Object(file))
            .map_err(|source| Error::usage("not a valid configuration").at(path).because(source))?)
    }

    /// Returns the names of the programs for which the recipe has options.
    pub fn programs(&self) -> Vec<&'static str> {
        let sections = [("data", &self.data), ("pretrain", &self.pretrain), ("finetune", &self.finetune)];
        let used = sections.into_iter().filter(|(_, options)| !options.is_empty());
        used.map(|(name, _)| name).collect()
    }
}

/// Returns the options of a program in a recipe, given by name or as a file.
///
/// # Errors
/// Fails as [`Recipe::read`] does, and when the recipe has no options of the program.
pub fn options(name: &str, section: &'static str) -> anyhow::Result<OptionsFile> {
    let recipe = Recipe::read(name)?;
    let file = OptionsFile::parse(Path::new(name), text(name)?, section)?;
    if file.options.is_empty() {
        let reason =
            format!("this recipe has no options of {section}, but of {}", recipe.programs().join(", "));
        return Err(invalid(Path::new(name), &reason).into());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_built_in() {
        let mut found: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/recipes"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().replace(".toml", ""))
            .collect();
        found.sort();
        assert!(found.iter().eq(names().collect::<Vec<_>>().iter()));
        for name in names() {
            let recipe = Recipe::read(name).unwrap();
            assert!(!recipe.title.is_empty() && !recipe.about.is_empty() && !recipe.programs().is_empty());
        }
    }
}
