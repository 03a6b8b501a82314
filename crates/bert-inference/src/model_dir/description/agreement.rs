//! Reads a description's own file, and checks that its values agree with the model's configuration.

use bert_model::BertConfig;
use bert_tasks::{Kind, Task};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::model_dir::description::ModelDescription;
use crate::model_dir::description::json_object::{JsonObject, MIN_LENGTH};

impl ModelDescription {
    /// Returns the description that its own file contains.
    ///
    /// # Errors
    /// Fails when a key is unknown, or when a value is wrong; the error names the key.
    pub(super) fn from_own_file(
        file: &JsonObject,
        config: &JsonObject,
        model: &BertConfig,
    ) -> Result<Self, Error> {
        let parsed = |object: Map<String, Value>| Self::deserialize(Value::Object(object));
        for (key, value) in &file.object {
            // Each value is parsed alone, so that the error names its key.
            if let Err(error) = parsed(Map::from_iter([(key.clone(), value.clone())])) {
                return Err(file.wrong(key, format!("is {value}: {error}")));
            }
        }
        let own = parsed(file.object.clone()).expect("every key was parsed");
        match own.wrong_value(config, model) {
            Some((key, reason)) => Err(file.wrong(&key, reason)),
            None => Ok(own),
        }
    }

    /// Returns the key of the first value that is impossible or contradicts the configuration, and the reason.
    fn wrong_value(&self, config: &JsonObject, model: &BertConfig) -> Option<(String, String)> {
        let positions = model.max_position_embeddings;
        let is_length = |length: &usize| (MIN_LENGTH..=positions).contains(length);
        let range = format!("must be from {MIN_LENGTH} to the {positions} positions of the model");
        if let Some(length) = self.max_seq_length.filter(|length| !is_length(length)) {
            return Some(("max_seq_length".into(), format!("is {length}, but {range}")));
        }
        // The value 0 is valid: a model with initial weights has no trained positions.
        if let Some(trained) = self.trained_positions.filter(|trained| *trained > 0 && !is_length(trained)) {
            return Some(("trained_positions".into(), format!("is {trained}, but {range}, or 0")));
        }
        if let Err(error) = self.squad.check() {
            let setting = error.setting().unwrap_or_default();
            return Some((format!("squad.{setting}"), error.text().to_owned()));
        }
        let task = self.task.as_ref()?;
        Some(("task".into(), other_class(task, config).or_else(|| other_outputs(task, model))?))
    }
}

/// Returns the difference between a task and the class in a `config.json`, if there is one.
fn other_class(task: &Task, config: &JsonObject) -> Option<String> {
    let spec = task.spec();
    let classes: &[&str] = match spec.kind {
        Kind::Tags => &["BertForTokenClassification"],
        Kind::Spans { .. } => &["BertForQuestionAnswering"],
        _ if spec.choices > 0 => &["BertForMultipleChoice"],
        _ => &["BertForSequenceClassification", "BertWithFeatureHead", "BertForSeveralTasks"],
    };
    let stated = config.object.get("architectures")?;
    let fits = |class: &str| class == "BertModel" || classes.contains(&class);
    (!stated[0].as_str().is_some_and(fits)).then(|| {
        format!("is {}, but `architectures` of config.json is {stated}, not {}", spec.name, classes[0])
    })
}

/// Returns the difference between the outputs of a task and of a configuration, if there is one. Different label names
/// are not a difference, because a user may have renamed the labels.
fn other_outputs(task: &Task, model: &BertConfig) -> Option<String> {
    let spec = task.spec();
    if spec.choices > 0 || matches!(spec.kind, Kind::Spans { .. } | Kind::Tags) {
        return None;
    }
    let outputs = task.num_labels();
    if outputs != model.num_labels {
        return Some(format!("has {outputs} outputs, but config.json has {} labels", model.num_labels));
    }
    let names = model.id2label.as_ref()?;
    task.class_names().zip(0..).find_map(|(name, number)| {
        let (other, _) = names.iter().find(|(_, other)| *other == name)?;
        (*other != number)
            .then(|| format!("numbers {name:?} {number}, but `id2label` of config.json numbers it {other}"))
    })
}
