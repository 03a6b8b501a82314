//! Combines separate fine-tunings of one task, such as the seeds of a job array or the cells of a grid.
//!
//! It reads the `report.json` of each folder and builds one [`Group`] per configuration. The seeds of a group are
//! summarized like a single fine-tuning, and the settings that differ between groups are listed. The user chooses
//! between groups by their scores on dev.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bert_finetuning::{DEV_LABELS, FinetuneReport, compared_settings};
use bert_storage::{digest_bytes, exists};
use bert_tasks::{Label, SeedRun, SeedSummary};
use bert_training::Error;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::compare::saved_answers::{another_dev_set, check_sets, read_side};

/// Settings that change a run, but hardly its scores.
const WITHOUT_EFFECT_ON_SCORES: [&str; 2] = ["device", "merge_lora"];

/// Fine-tunings of one configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The name in tables: by default the folders.
    pub name: String,
    /// The settings that differ from the other groups.
    pub settings: BTreeMap<String, Value>,
    /// The folders.
    pub folders: Vec<PathBuf>,
    /// Summary over all seeds, on dev.
    pub dev: SeedSummary,
}

/// The groups, in the order of their first folders.
#[derive(Clone, Debug, Serialize)]
pub struct Collection {
    /// The groups.
    pub groups: Vec<Group>,
}

/// Returns a warning for each fine-tuning whose scored sets share texts with its training set.
///
/// # Errors
/// Fails when a folder has no report.
pub fn shared_text_warnings(folders: &[PathBuf]) -> Result<Vec<String>, Error> {
    let mut warnings = Vec::new();
    for folder in folders {
        warnings.extend(named_warnings(&folder.display().to_string(), &FinetuneReport::read(folder)?));
    }
    Ok(warnings)
}

/// Returns the warnings about the texts that the scored sets of a fine-tuning share with other sets, each with the name
/// of the fine-tuning.
pub(crate) fn named_warnings(name: &str, report: &FinetuneReport) -> Vec<String> {
    report.shared_texts.iter().filter_map(|set| Some(format!("{name}: {}", set.warning()?))).collect()
}

/// Reads the reports of `folders` and groups them by configuration.
///
/// # Errors
/// Fails when a folder has no report, a report cannot be read, the tasks or dev sets differ, a seed occurs twice, or the
/// predictions of a single configuration cannot be read.
pub fn collect(folders: &[PathBuf]) -> Result<Collection, Error> {
    let mut results: Vec<SavedResult> = Vec::new();
    for folder in folders {
        let result = read(folder)?;
        if let Some(first) = results.first() {
            result.check_same_dev(first)?;
        }
        match results.iter_mut().find(|group| group.settings == result.settings) {
            Some(group) => {
                add_runs(&mut group.dev, result.dev, folder)?;
                group.folders.push(folder.clone());
            }
            None => results.push(result),
        }
    }
    let all: Vec<Map<String, Value>> = results.iter().map(|group| group.settings.clone()).collect();
    // A setting that a group lacks also counts as a difference.
    let varies = |name: &String, value: &Value| all.iter().any(|settings| settings.get(name) != Some(value));
    let mut groups: Vec<Group> = results.into_iter().map(|group| group.with_settings(varies)).collect();
    if let [only] = groups.as_mut_slice() {
        add_interval(only)?;
    }
    Ok(Collection { groups })
}

/// Adds the confidence interval over all seeds, unless the answers of a folder were removed.
fn add_interval(group: &mut Group) -> Result<(), Error> {
    for folder in &group.folders {
        if !exists(&folder.join(DEV_LABELS))? {
            return Ok(());
        }
    }
    let answers = read_side(&group.folders)?;
    let runs: Vec<&[Label]> = answers.runs.iter().map(|run| run.answers.as_slice()).collect();
    group.dev = group.dev.clone().with_interval(&answers.labels, &runs);
    Ok(())
}

/// The settings and scores of saved fine-tunings of one configuration.
struct SavedResult {
    /// The settings that affect the scores, with digests of the weights and the data.
    settings: Map<String, Value>,
    /// The model folder that training started from, for display.
    start: String,
    /// Digest of the dev set.
    dev_digest: String,
    folders: Vec<PathBuf>,
    dev: SeedSummary,
}

impl SavedResult {
    /// Rejects a fine-tuning that was scored on a different dev set.
    fn check_same_dev(&self, first: &Self) -> Result<(), Error> {
        let [first_folder, folder] = [first, self].map(|result| &result.folders[0]);
        check_sets(&first.dev, first_folder, &self.dev, folder)?;
        if first.dev_digest != self.dev_digest {
            return Err(another_dev_set(first_folder, folder, "labels or texts differ"));
        }
        Ok(())
    }

    /// Returns a group with the selected settings. If `start` is one of these settings, its value contains the name of
    /// the starting model.
    fn with_settings(self, is_chosen: impl Fn(&String, &Value) -> bool) -> Group {
        let chosen = self.settings.into_iter().filter(|(name, value)| is_chosen(name, value));
        let mut settings: BTreeMap<String, Value> = chosen.collect();
        if let Some(start) = settings.get_mut("start")
            && *start != self.start
        {
            *start = format!("{} ({})", self.start, plain(start)).into();
        }
        let folders: Vec<String> = self.folders.iter().map(|path| path.display().to_string()).collect();
        Group { name: folders.join(", "), settings, folders: self.folders, dev: self.dev }
    }
}

/// Number of digest digits to display.
const SHOWN: usize = 12;

fn short(digest: &str) -> Value {
    digest.get(..SHOWN).unwrap_or(digest).into()
}

/// Reads the report of a folder.
fn read(folder: &Path) -> Result<SavedResult, Error> {
    let report = FinetuneReport::read(folder)?;
    let identity = &report.identity;
    let start = report.start.display().to_string();
    let by_digest = [
        ("fusion", identity["fusion"].clone()),
        ("initialization_data", identity["initialization_data"].clone()),
        ("together", identity["together"].clone()),
        ("start", short(&digest_bytes(identity["start"].to_string().as_bytes()))),
        ("train", short(identity["train"].as_str().unwrap_or_default())),
    ];
    let mut settings = compared_settings(&report.config);
    settings.retain(|name, _| !WITHOUT_EFFECT_ON_SCORES.contains(&name.as_str()));
    // Compare defaults by their resolved values.
    settings.extend(members(&report.resolved));
    settings.insert("train_examples".to_string(), report.train_examples.into());
    settings.extend(by_digest.map(|(name, value)| (name.to_string(), value)));
    settings.retain(|_, value| !value.is_null());
    let dev = report.dev;
    let dev_digest = report.dev_digest;
    Ok(SavedResult { settings, start, dev_digest, folders: vec![folder.to_path_buf()], dev })
}

/// Returns the fields of a struct with their JSON values.
fn members(options: &impl Serialize) -> Map<String, Value> {
    let options = serde_json::to_value(options).expect("plain data");
    options.as_object().expect("a struct").clone()
}

fn add_runs(group: &mut SeedSummary, more: SeedSummary, folder: &Path) -> Result<(), Error> {
    let known = |run: &SeedRun| group.runs.iter().any(|other| other.seed == run.seed);
    if let Some(twice) = more.runs.iter().find(|run| known(run)) {
        return Err(Error::usage(format!(
            "seed {} of this configuration is also in another folder; leave one out",
            twice.seed
        ))
        .at(folder));
    }
    let mut runs = [std::mem::take(&mut group.runs), more.runs].concat();
    runs.sort_by_key(|run| run.seed);
    *group = SeedSummary::new(&group.task, group.examples, runs, group.majority_baseline.clone());
    Ok(())
}

impl Group {
    /// Returns the settings that differ from the other groups as text: `learning_rate 0.001, schedule bert`.
    #[must_use]
    pub fn settings_text(&self) -> String {
        let settings = self.settings.iter().map(|(name, value)| format!("{name} {}", plain(value)));
        settings.collect::<Vec<_>>().join(", ")
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use bert_finetuning::FinetuneConfig;
    use bert_tasks::{Metric, Task};

    fn write(folder: &Path, name: &str, task: Task, rate: f64, seeds: &[(u64, f64)]) -> PathBuf {
        let runs = seeds.iter().map(|&(seed, accuracy)| SeedRun {
            seed,
            scores: [(Metric::Accuracy, accuracy)].into_iter().collect(),
            degenerate: accuracy == 0.5,
        });
        let baseline = [(Metric::Accuracy, 0.5)].into_iter().collect();
        let dev = SeedSummary::new(&task, 100, runs.collect(), baseline);
        let mut config = json!(FinetuneConfig::new(task, "run", name));
        config["seeds"] = json!(seeds.iter().map(|seed| seed.0).collect::<Vec<_>>());
        let resolved = json!({ "num_train_epochs": 3.0, "train_batch_size": 32, "learning_rate": rate,
            "max_seq_length": 128, "precision": "f32" });
        let selection = json!({ "best_on": null, "epochs": 3, "metric": "accuracy", "selected": 0.5, "last_epoch": null });
        let parts = json!({ "in_file": 7, "trained_on": 7, "held_out": 0, "subset_seed": 1 });
        let report = json!({ "config": config, "resolved": resolved, "defaults": [], "start": "run", "dev": dev,
            "runs": [], "train_examples": 7, "parameters": { "trained": 1, "all": 1, "share": 1.0 }, "training": parts,
            "identity": { "start": {}, "train": "t" }, "dev_digest": "d", "selection": selection, "shared_texts": [],
            "is_sample": false, "warnings": [], "model": "model", "commit": "c" });
        let path = folder.join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("report.json"), report.to_string()).unwrap();
        path
    }

    #[test]
    fn seeds_of_an_array_are_one_summary() {
        let folder = tempfile::tempdir().unwrap();
        let a = write(folder.path(), "a", Task::Rte, 5e-5, &[(2, 0.7)]);
        let b = write(folder.path(), "b", Task::Rte, 5e-5, &[(1, 0.5), (3, 0.6)]);
        let all = collect(&[a.clone(), b]).unwrap();
        let [group] = all.groups.as_slice() else { panic!("one group: {all:?}") };
        assert_eq!(group.dev.runs.iter().map(|run| run.seed).collect::<Vec<_>>(), [1, 2, 3]);
        assert!((group.dev.metrics[0].statistics.mean - 0.6).abs() < 1e-12 && group.dev.degenerate_runs == 1);
        assert!(group.settings.is_empty() && group.dev.to_string().contains("rte: 100 examples, 3 seeds"));
        let again = write(folder.path(), "again", Task::Rte, 5e-5, &[(2, 0.7)]);
        assert!(collect(&[a, again]).unwrap_err().to_string().contains("seed 2 of this configuration"));
    }

    /// Changes a value in a report.
    fn change(folder: &Path, pointer: &str, value: Value) {
        let path = folder.join("report.json");
        let mut report: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        report[pointer] = value;
        std::fs::write(path, report.to_string()).unwrap();
    }

    #[test]
    fn other_weights_or_data_are_other_configurations() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str, seed: u64, weights: &str, train: &str| {
            let path = write(folder.path(), name, Task::Rte, 5e-5, &[(seed, 0.6)]);
            change(&path, "identity", json!({ "start": { "model.safetensors": weights }, "train": train }));
            path
        };
        let a = of("a", 1, "w", "t");
        let same = of("same", 2, "w", "t");
        // The same weights at a different path.
        change(&same, "start", json!("elsewhere"));
        assert_eq!(collect(&[a.clone(), same]).unwrap().groups.len(), 1);
        let weights = collect(&[a.clone(), of("weights", 2, "v", "t")]).unwrap();
        assert!(weights.groups[0].settings_text().contains("start run ("), "{weights:?}");
        let train = collect(&[a.clone(), of("train", 2, "w", "u")]).unwrap();
        assert_eq!(train.groups[1].settings.keys().collect::<Vec<_>>(), ["train"]);
        let dev = of("dev", 2, "w", "t");
        change(&a, "dev_digest", json!("d"));
        change(&dev, "dev_digest", json!("e"));
        assert!(collect(&[a, dev]).unwrap_err().to_string().contains("labels or texts differ"));
    }

    #[test]
    fn a_grid_is_a_group_for_each_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let low = write(folder.path(), "low", Task::Rte, 5e-5, &[(1, 0.5), (2, 0.6)]);
        let high = write(folder.path(), "high", Task::Rte, 3e-4, &[(1, 0.7)]);
        let all = collect(&[low.clone(), high]).unwrap();
        let settings = all.groups.iter().map(Group::settings_text).collect::<Vec<_>>();
        assert_eq!(settings, ["learning_rate 0.00005", "learning_rate 0.0003"], "in the order given");
        assert!(all.groups[0].name.ends_with("low"));
        assert!(
            collect(&[folder.path().to_path_buf()])
                .unwrap_err()
                .to_string()
                .contains("no finished fine-tuning")
        );
        let other = write(folder.path(), "other", Task::Wnli, 5e-5, &[(1, 0.5)]);
        assert!(collect(&[low, other]).unwrap_err().to_string().contains("wnli on 100 examples"));
    }
}
