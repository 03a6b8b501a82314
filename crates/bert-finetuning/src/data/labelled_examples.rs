//! The labelled examples of a classification or regression, as text and as tokens, and remarks on them.

use std::collections::BTreeSet;

use bert_inference::{Features, ModelTokenizer};
use bert_tasks::{Example, Label, is_degenerate, labels_of};

use crate::data::datasets::Sets;
use crate::setup::Setup;

/// Examples as text and as tokens, with their labels if they have any.
pub(crate) struct LabelledExamples {
    pub(crate) examples: Vec<Example>,
    pub(crate) labels: Vec<Label>,
    pub(crate) features: Features,
}

impl LabelledExamples {
    /// Tokenizes examples.
    pub(crate) fn new(examples: Vec<Example>, setup: Setup<'_>) -> Self {
        let labels = labels_of(&examples).unwrap_or_default();
        let ModelTokenizer { tokenizer, vocabulary, .. } = &setup.checkpoint.tokenizer;
        let features = Features::new(&examples, tokenizer, vocabulary, setup.max_seq_length);
        Self { examples, labels, features }
    }
}

/// Returns the remarks on all sets.
pub(crate) fn remarks(sets: &Sets<'_, LabelledExamples>) -> Vec<String> {
    [truncated_texts(sets), constant_labels(sets), repeated_indices(sets)].concat()
}

/// Returns the messages about texts that are cut, and about texts with special tokens, in each set.
fn truncated_texts(sets: &Sets<'_, LabelledExamples>) -> Vec<String> {
    let split = sets.setup.checkpoint.tokenizer.settings.split_special_tokens;
    let messages = sets.with_names().flat_map(|(name, set)| {
        let truncation = set.features.truncation();
        let cut = truncation.message(&name, sets.setup.max_seq_length);
        cut.into_iter().chain(truncation.special_message(&name, split))
    });
    messages.collect()
}

/// Returns warnings about sets whose labels are all equal: nothing can be learned from such a training set, and scores
/// on such a dev set mean little.
fn constant_labels(sets: &Sets<'_, LabelledExamples>) -> Vec<String> {
    let all = sets.with_names();
    let constant = all.filter(|(_, set)| is_degenerate(&set.labels) && !set.labels.is_empty());
    constant.map(|(name, set)| format!("all {} labels of {name} are equal", set.labels.len())).collect()
}

/// Returns warnings about sets with several examples of one index, by which predictions are written.
fn repeated_indices(sets: &Sets<'_, LabelledExamples>) -> Vec<String> {
    let scored = sets.with_names().skip(1);
    let all = scored.chain(sets.to_predict.iter().map(|set| ("the file to predict".to_string(), set)));
    let repeats = all.map(|(name, set)| {
        let distinct: BTreeSet<&str> = set.examples.iter().map(|example| example.index.as_str()).collect();
        (name, set.examples.len() - distinct.len())
    });
    let repeats = repeats.filter(|(_, count)| *count > 0);
    let text = |(name, count)| {
        format!(
            "{count} examples of {name} have the index of an earlier one: a reader of the predictions cannot tell them apart"
        )
    };
    repeats.map(text).collect()
}
