//! [`FolderContents`]: the parts of a model that the tensors of a checkpoint contain.

use burn::tensor::Device;

use crate::checkpoint::load::{CurrentTensors, compare_with_parameters, current_names};
use crate::checkpoint::parameter_names::{NamedTensors, canonical, named_parameters, rename_tensors};
use crate::config::BertConfig;
use crate::error::{Error, LoadReport};
use crate::models::architecture::Architecture;
use crate::models::feature_head::BertWithFeatureHead;
use crate::models::pretraining::BertForPreTraining;

/// The parts of a model in a checkpoint, and its tensors with current names.
#[derive(Debug)]
pub struct FolderContents {
    /// The name of the class that has these parts: a class of `transformers`, or [`BertWithFeatureHead`].
    pub class: &'static str,
    /// Tensors of embeddings and layers that are missing; a checkpoint that lacks one cannot be used.
    pub missing_encoder: Vec<String>,
    /// Tensors of the pooler and of the two pre-training heads that are missing.
    pub missing_heads: Vec<String>,
    /// Name, shape in the model and shape in the checkpoint of tensors whose shapes differ.
    pub misshapen: Vec<(String, Vec<usize>, Vec<usize>)>,
    /// Number of labels of a classifier of texts, of tokens or of choices.
    pub labels: Option<usize>,
    /// Tensors of no known part.
    pub unknown: Vec<String>,
    /// Whether the masked-LM head has a decoder that differs from the word embeddings.
    pub has_untied_decoder: bool,
    /// All tensors with current names: with the prefix `bert.`, unless the class is `BertModel`, and without tied
    /// copies.
    pub tensors: NamedTensors,
}

const MASKED_LM: &str = "cls.predictions.";
const NEXT_SENTENCE: &str = "cls.seq_relationship.";
const POOLER: &str = "bert.pooler.";
const CLASSIFIER: &str = "classifier.weight";
const HEAD_CLASSIFIER: &str = "head.classifier.weight";
const ANSWERS: &str = "qa_outputs.weight";

impl FolderContents {
    /// Compares tensors with the models of a configuration.
    ///
    /// # Errors
    /// Fails when two names in the file refer to one parameter.
    pub fn new(config: &BertConfig, tensors: NamedTensors) -> Result<Self, Error> {
        let CurrentTensors { tensors, untied } = current_names(tensors)?;
        let tensors = rename_tensors(tensors, canonical);
        let parameters = named_parameters(&BertForPreTraining::zeroed(config, &Device::flex()));
        let report = compare_with_parameters(&parameters, &tensors);
        let (missing_heads, missing_encoder): (Vec<String>, Vec<String>) =
            report.missing.into_iter().partition(|name| is_head(name));
        let unknown = report.unexpected.into_iter().filter(|name| !is_task_head(name)).collect();
        let labels = [CLASSIFIER, HEAD_CLASSIFIER].iter().find_map(|name| tensors.get(*name));
        let labels = labels.and_then(|(shape, _)| shape.first().copied());
        let class = class(&tensors, &missing_heads);
        let tensors = match class {
            "BertModel" => rename_tensors(tensors, |name| name.trim_start_matches("bert.").to_string()),
            _ => tensors,
        };
        Ok(Self {
            class,
            missing_encoder,
            missing_heads,
            misshapen: report.misshapen,
            labels,
            unknown,
            has_untied_decoder: untied.iter().any(|(name, _)| name.ends_with("weight")),
            tensors,
        })
    }

    /// Compares tensors like [`Self::new`], and rejects a checkpoint without a usable encoder.
    ///
    /// # Errors
    /// Fails when two names in the file refer to one parameter, or when the tensors do not match the model.
    pub fn usable(config: &BertConfig, tensors: NamedTensors) -> Result<Self, Error> {
        let contents = Self::new(config, tensors)?;
        if contents.is_usable() {
            return Ok(contents);
        }
        let unexpected = contents.other_layers();
        let Self { missing_encoder: missing, misshapen, .. } = contents;
        Err(Error::from(LoadReport { missing, misshapen, unexpected }))
    }

    /// Returns whether the checkpoint has the masked-LM head, tied to the word embeddings.
    pub fn has_masked_lm(&self) -> bool {
        !self.has_untied_decoder && !self.lacks(MASKED_LM)
    }

    /// Returns whether the checkpoint has the pooler and the next-sentence head.
    pub fn has_next_sentence(&self) -> bool {
        !self.lacks(NEXT_SENTENCE) && self.has_pooler()
    }

    /// Returns whether the checkpoint has the pooler.
    pub fn has_pooler(&self) -> bool {
        !self.lacks(POOLER)
    }

    /// Returns whether the checkpoint has the head for question answering.
    pub fn has_answers(&self) -> bool {
        self.tensors.contains_key(ANSWERS)
    }

    /// Returns whether the encoder has exactly the layers of the configuration, and every known tensor has the expected
    /// shape.
    pub fn is_usable(&self) -> bool {
        self.missing_encoder.is_empty() && self.misshapen.is_empty() && self.other_layers().is_empty()
    }

    /// Returns the tensors of layers that the configuration does not have.
    pub fn other_layers(&self) -> Vec<String> {
        self.unknown.iter().filter(|name| name.contains("encoder.layer.")).cloned().collect()
    }

    fn lacks(&self, part: &str) -> bool {
        self.missing_heads.iter().any(|name| name.starts_with(part))
    }
}

fn is_head(name: &str) -> bool {
    [MASKED_LM, NEXT_SENTENCE, POOLER].iter().any(|part| name.starts_with(part))
}

fn is_task_head(name: &str) -> bool {
    ["classifier.", "head.", "qa_outputs."].iter().any(|part| name.starts_with(part))
}

/// Returns the name of the class for the heads of a checkpoint: a class of `transformers`, or [`BertWithFeatureHead`].
/// A classifier without a pooler classifies tokens.
fn class(tensors: &NamedTensors, missing_heads: &[String]) -> &'static str {
    let has = |part: &str| !missing_heads.iter().any(|name| name.starts_with(part));
    match (has(MASKED_LM), has(NEXT_SENTENCE)) {
        (true, true) => "BertForPreTraining",
        (true, false) => "BertForMaskedLM",
        (false, true) => "BertForNextSentencePrediction",
        (false, false) if tensors.contains_key(ANSWERS) => "BertForQuestionAnswering",
        (false, false) if tensors.contains_key(HEAD_CLASSIFIER) => BertWithFeatureHead::NAME,
        (false, false) if !tensors.contains_key(CLASSIFIER) => "BertModel",
        (false, false) if has(POOLER) => "BertForSequenceClassification",
        (false, false) => "BertForTokenClassification",
    }
}
