//! The experiments as data: the files in `experiments/`, which are compiled into the programs.

use anyhow::Context;
use bert_finetuning::Sampling;
use bert_storage::did_you_mean;
use bert_tasks::Task;
use serde::Deserialize;

/// The experiments by name, in the order of the list.
const FILES: [(&str, &str); 10] = [
    ("masking", include_str!("../../../../experiments/masking.toml")),
    ("small-models", include_str!("../../../../experiments/small-models.toml")),
    ("from-scratch", include_str!("../../../../experiments/from-scratch.toml")),
    ("learning-rates", include_str!("../../../../experiments/learning-rates.toml")),
    ("features", include_str!("../../../../experiments/features.toml")),
    ("adapters", include_str!("../../../../experiments/adapters.toml")),
    ("fusion", include_str!("../../../../experiments/fusion.toml")),
    ("multi-task", include_str!("../../../../experiments/multi-task.toml")),
    ("forgetting", include_str!("../../../../experiments/forgetting.toml")),
    ("probe", include_str!("../../../../experiments/probe.toml")),
];

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Experiment {
    /// The name on the command line.
    #[serde(skip)]
    pub(super) name: &'static str,
    /// The title of the page.
    pub(super) title: String,
    /// The question, the source of the published scores, and the differences from this source.
    pub(super) about: String,
    /// The tasks of every setting that names none.
    pub(super) tasks: Vec<Task>,
    /// The settings, in the order of the table.
    #[serde(default, rename = "setting")]
    pub(super) settings: Vec<Setting>,
    /// Pairs of settings that are tested against each other.
    #[serde(default)]
    pub(super) compare: Vec<SettingPair>,
    /// The published scores.
    #[serde(default)]
    pub(super) published: Vec<Published>,
    /// Words to replace, as in `bert probe --replace`.
    #[serde(default)]
    pub(super) replacements: Vec<String>,
}

/// One configuration of fine-tuning.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Setting {
    /// The name in the table and in the names of folders.
    pub(super) name: String,
    /// Flags of `finetune`. `{TASK-SETTING}` is the output folder of another fine-tuning of the experiment.
    pub(super) flags: String,
    /// The tasks of this setting; empty for the tasks of the experiment.
    #[serde(default)]
    pub(super) tasks: Vec<Task>,
    /// Whether only the first seed is run.
    #[serde(default)]
    pub(super) once: bool,
    /// The sampling of the tasks if they are trained with one encoder; `None` to train each task alone.
    pub(super) together: Option<Sampling>,
}

/// Two settings to compare on the same dev examples.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingPair {
    pub(super) first: String,
    pub(super) second: String,
}

/// Published scores of a setting.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    pub(super) task: Task,
    pub(super) setting: String,
    /// The scores in per cent, with their source.
    pub(super) figures: String,
}

impl Experiment {
    /// Returns all experiments.
    ///
    /// # Errors
    /// Fails when a file is invalid.
    pub(super) fn all() -> anyhow::Result<Vec<Self>> {
        FILES.iter().map(|(name, text)| Self::parse(name, text)).collect()
    }

    /// Returns the experiment with this name.
    ///
    /// # Errors
    /// Fails when there is none, or when its file is invalid.
    pub(super) fn named(name: &str) -> anyhow::Result<Self> {
        let found = FILES.iter().find(|(known, _)| *known == name);
        let (name, text) = found.with_context(|| format!("unknown experiment {name:?}"))?;
        Self::parse(name, text)
    }

    fn parse(name: &'static str, text: &str) -> anyhow::Result<Self> {
        let parsed: Self = toml::from_str(text).with_context(|| format!("experiments/{name}.toml"))?;
        Ok(Self { name, about: parsed.about.trim().to_string(), ..parsed })
    }
}

/// Returns the names of the experiments.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// Parses the name of an experiment.
pub(super) fn parse_name(name: &str) -> Result<String, String> {
    let names = FILES.map(|(name, _)| name);
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    let hint = did_you_mean(name, names);
    Err(format!("unknown experiment; the experiments are {}{hint}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_names_its_own_settings() {
        let all = Experiment::all().unwrap();
        assert_eq!(all.len(), FILES.len());
        for one in &all {
            let has = |name: &String| one.settings.iter().any(|setting| setting.name == *name);
            assert!(one.compare.iter().all(|pair| has(&pair.first) && has(&pair.second)), "{}", one.name);
            let known = |figure: &Published| has(&figure.setting) && one.tasks.contains(&figure.task);
            assert!(one.published.iter().all(known), "{}", one.name);
            let fixed = |setting: &Setting| setting.flags.contains("--num-train-epochs");
            assert!(one.settings.iter().all(fixed), "{}: the estimate needs the epochs", one.name);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = parse_name("fussion").unwrap_err();
        assert!(error.contains("small-models") && error.contains("fusion"), "{error}");
        assert!(Experiment::named("fussion").is_err());
    }
}
