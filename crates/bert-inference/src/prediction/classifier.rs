//! Classifies texts with a fine-tuned model: predicts a label, or the score of a regression.
//!
//! The folder contains a `BertForSequenceClassification` written by this program or by `transformers`, a head on a
//! frozen encoder, or an adapter, which needs the encoder that it was trained on. A label comes with the probability of
//! every class, named as in `id2label`.

use std::path::Path;

use bert_kernels::Compute;
use bert_model::{
    Architecture, BertConfig, BertForSequenceClassification, BertWithFeatureHead, LoadPolicy, NamedTensors,
    is_adapter_folder, load_named_tensors, read_pretrained_tensors,
};
use bert_tasks::{EncodedPair, Error, Example, Kind, Label};
use burn::tensor::Device;
use indexmap::IndexMap;
use serde::Serialize;

use crate::compute::stop_flag::StopFlag;
use crate::encoding::examples::{Features, decide, predict};
use crate::encoding::model_tokenizer::check_segments;
use crate::error::no_head;
use crate::model_dir::description::ModelDescription;
use crate::model_dir::loaded_model::{
    LoadedModel, OpenedModel, architecture, check_encoder, class_names, line_of, load_adapted, with_outputs,
};
use crate::model_dir::model_folder::ModelFiles;
use crate::model_dir::model_options::ModelOptions;

/// A classifier's answer for one text.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// The most probable class.
    Class {
        /// The name of the class.
        label: String,
        /// The probability of every class by name, in the order of the class numbers.
        probabilities: IndexMap<String, f32>,
    },
    /// The output of a regression.
    Score {
        /// The model's output, which may lie outside the range of the training scores.
        score: f32,
    },
}

impl Answer {
    /// Returns the label, or the score, as text.
    pub fn short(&self) -> String {
        match self {
            Self::Class { label, .. } => label.clone(),
            Self::Score { score } => score.to_string(),
        }
    }
}

/// The model of a classifier.
pub(crate) enum Model {
    /// A linear classifier on the pooled output.
    Linear(Box<BertForSequenceClassification>),
    /// A head on frozen features.
    FeatureHead(Box<BertWithFeatureHead>),
}

fn load<M: Architecture>(config: &BertConfig, tensors: NamedTensors, device: &Device) -> Result<M, Error> {
    Ok(load_named_tensors(M::new(config, 0, device), tensors, LoadPolicy::Exact)?.0)
}

/// Loads a full model from a folder.
fn load_full_model(
    folder: &Path,
    compute: impl FnOnce(&ModelDescription) -> Result<Compute, Error>,
    device: &Device,
) -> Result<LoadedModel<Model>, Error> {
    let files = ModelFiles::open(folder)?;
    let config = BertConfig { compute: compute(&files.description)?, ..files.config };
    let tensors = read_pretrained_tensors(folder)?;
    let config = with_outputs(folder, config, &tensors)?;
    outputs(&config)?;
    // Heads of other tasks also have tensors of this name.
    let is_other_head = architecture(folder)?
        .is_some_and(|name| name == "BertForTokenClassification" || name == "BertForMultipleChoice");
    let has_classifier = |name: &&str| tensors.contains_key(*name);
    if is_other_head || !["classifier.weight", "head.classifier.weight"].iter().any(has_classifier) {
        let hint = "fine-tune it first: `finetune --task TASK --data DIR --checkpoint MODEL --output NEW`";
        return Err(no_head("classifier", hint).at(folder));
    }
    let model = match config.feature_head()? {
        Some(_) => Model::FeatureHead(Box::new(load(&config, tensors, device)?)),
        None => Model::Linear(Box::new(load(&config, tensors, device)?)),
    };
    Ok(LoadedModel { model, files: ModelFiles { config, ..files } })
}

/// The kind of outputs whose logits are not transformed.
const SCORES: Kind = Kind::Regression { min: f32::NEG_INFINITY, max: f32::INFINITY };

/// A text classifier.
pub struct Classifier {
    pub(crate) opened: OpenedModel<Model>,
    names: Vec<String>,
    kind: Kind,
}

impl Classifier {
    /// Opens a model folder (see [`crate::model_dir::model_folder::resolve_tuned_folder`]). An adapter is applied to
    /// the encoder in `options`, or else to the encoder that its folder names. Texts are truncated to the length of
    /// [`ModelDescription::encoding_length`].
    ///
    /// # Errors
    /// Fails when the folder cannot be read or has no classifier, when the encoder of an adapter is missing or not
    /// recorded, when an encoder is given for a model that has one, or when the model has fewer positions than
    /// `options` asks for.
    pub fn open(folder: &Path, options: ModelOptions<'_>) -> Result<Self, Error> {
        let device = options.device.open()?;
        let encoder = options.encoder;
        let compute = |description: &ModelDescription| options.compute(description);
        let loaded = if is_adapter_folder(folder) {
            let LoadedModel { model, files } = load_adapted(folder, encoder, compute, &device)?;
            LoadedModel { model: Model::Linear(Box::new(model)), files }
        } else {
            check_encoder(folder, encoder)?;
            load_full_model(folder, compute, &device)?
        };
        let (names, kind) = outputs(&loaded.files.config)?;
        let opened = OpenedModel::new(loaded, device, options.max_length, usize::MAX)?;
        Ok(Self { opened, names, kind })
    }

    /// Rejects single texts if the model was trained on pairs, and pairs if it was trained on single texts or has one
    /// segment.
    ///
    /// # Errors
    /// Fails when an example differs in form from the training examples; the error names the line. Also fails when an
    /// example is a pair and the model has one segment.
    pub(crate) fn check_forms(&self, path: &Path, examples: &[Example]) -> Result<(), Error> {
        let check = |example: &Example| {
            let checked = self.opened.description.check_form(example);
            checked.map_err(|error| error.at_line(path, line_of(example)))
        };
        examples.iter().try_for_each(check)?;
        check_segments(&self.opened.config, examples.iter().any(|example| example.text_b.is_some()))
    }

    /// Returns the answers to texts, in order.
    ///
    /// # Errors
    /// Fails when an example is a pair and the model has one segment, or when the device fails.
    pub fn answer(&self, examples: &[Example]) -> Result<Vec<Answer>, Error> {
        check_segments(&self.opened.config, examples.iter().any(|example| example.text_b.is_some()))?;
        self.answer_features(&self.encode(examples))
    }

    /// Returns the encoded texts.
    pub(crate) fn encode(&self, examples: &[Example]) -> Features {
        let OpenedModel { text, length, .. } = &self.opened;
        Features::new(examples, &text.tokenizer, &text.vocabulary, length.tokens)
    }

    /// Returns the answer to a text that is already encoded, with at most `max_length` tokens.
    pub(crate) fn answer_encoded(&self, encoded: EncodedPair) -> Result<Answer, Error> {
        let OpenedModel { text, length, .. } = &self.opened;
        let features = Features::from_encoded(vec![encoded], &text.vocabulary, length.tokens);
        Ok(self.answer_features(&features)?.remove(0))
    }

    /// Returns the index of the output that an answer names; a score is the only output.
    pub(crate) fn output_of(&self, answer: &Answer) -> usize {
        match answer {
            Answer::Class { label, .. } => self.names.iter().position(|name| name == label).unwrap_or(0),
            Answer::Score { .. } => 0,
        }
    }

    /// Returns the model if its head is a linear classifier.
    pub(crate) fn linear_model(&self) -> Option<&BertForSequenceClassification> {
        match &self.opened.model {
            Model::Linear(model) => Some(model),
            Model::FeatureHead(_) => None,
        }
    }

    pub(crate) fn answer_features(&self, features: &Features) -> Result<Vec<Answer>, Error> {
        let OpenedModel { model, description, device, .. } = &self.opened;
        // The prediction of a regression returns the logits, to which the activation is applied below.
        let kind = if description.activation.is_some() { SCORES } else { self.kind };
        let stop = StopFlag::new();
        let mut rows = match model {
            Model::Linear(model) => predict(model.as_ref(), features, kind, device, &stop),
            Model::FeatureHead(model) => predict(model.as_ref(), features, kind, device, &stop),
        }?;
        if let Some(activation) = description.activation {
            rows.iter_mut().for_each(|row| activation.apply(row));
        }
        let decided = decide(&rows, self.kind);
        Ok(rows.into_iter().zip(decided).map(|(row, label)| self.named(row, label)).collect())
    }

    fn named(&self, row: Vec<f32>, label: Label) -> Answer {
        match label {
            Label::Score(score) => Answer::Score { score },
            Label::Class(class) => Answer::Class {
                label: self.names[class].clone(),
                probabilities: self.names.iter().cloned().zip(row).collect(),
            },
        }
    }
}

/// Returns the names of the outputs, and whether they are classes; follows the rules of `transformers`.
fn outputs(config: &BertConfig) -> Result<(Vec<String>, Kind), Error> {
    let names = class_names(config);
    let refuse = |reason: String| Err(bert_model::config_key("problem_type", reason));
    let classes = Kind::Classification;
    match (config.problem_type.as_deref(), config.num_labels) {
        (None | Some("regression"), 1) => Ok((names, SCORES)),
        (Some("regression"), labels) => {
            refuse(format!("is regression with {labels} outputs; one is supported"))
        }
        (None | Some("single_label_classification"), _) => Ok((names, classes)),
        (Some(other), _) => {
            refuse(format!("is {other}; single_label_classification and regression are supported"))
        }
    }
}

#[cfg(test)]
mod tests {
    use bert_model::Preset;

    use super::*;

    #[test]
    fn the_kind_of_output_is_the_configuration_s() {
        let config = BertConfig::preset(Preset::Tiny, 50);
        let kind = |config: &BertConfig| outputs(config).map(|(names, kind)| (names.join(","), kind));
        let classes = Kind::Classification;
        assert_eq!(kind(&config).unwrap(), ("LABEL_0,LABEL_1".into(), classes));
        assert_eq!(kind(&config.clone().with_labels(&["no", "yes"])).unwrap(), ("no,yes".into(), classes));
        assert!(matches!(kind(&config.clone().with_regression()).unwrap().1, Kind::Regression { .. }));
        let many = BertConfig { problem_type: Some("multi_label_classification".into()), ..config.clone() };
        let error = kind(&many).unwrap_err();
        assert!(error.to_string().contains("`problem_type` is multi_label_classification"), "{error}");
        assert_eq!(error.exit_code(), 4);
        assert!(kind(&BertConfig { problem_type: Some("regression".into()), ..config }).is_err());
    }

    #[test]
    fn json_keeps_the_order_of_the_classes() {
        let probabilities = IndexMap::from([("yes".into(), 0.25), ("no".into(), 0.75)]);
        let answer = Answer::Class { label: "no".into(), probabilities };
        let json = r#"{"label":"no","probabilities":{"yes":0.25,"no":0.75}}"#;
        assert_eq!(serde_json::to_string(&answer).unwrap(), json);
        assert_eq!(serde_json::to_string(&Answer::Score { score: 2.5 }).unwrap(), r#"{"score":2.5}"#);
    }
}
