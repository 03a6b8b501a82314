//! Combines the answers to a text by the models of all seeds of a fine-tuning.
//!
//! | head | combined answer |
//! |---|---|
//! | classes | the class with the highest mean probability, and the mean probabilities |
//! | score | the mean of the scores, and their SD |
//! | answers to questions | the answer with the highest mean probability; a model with a different answer contributes probability 0 |
//! | tags | for each word, the most frequent tag of the models |
//!
//! Ties go to the first class, or to the first seed.

use bert_tasks::{Example, Statistics};
use indexmap::IndexMap;
use serde::Serialize;

use crate::prediction::classifier::Answer;
use crate::prediction::question_answerer::TextAnswer;
use crate::prediction::token_tagger::TaggedText;

/// A model's answer to an example, written next to its text.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Output {
    Label(Answer),
    Answer(TextAnswer),
    Tags(TaggedText),
}

/// The answer to an example by one model, or by the models of all seeds.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Answered {
    #[serde(flatten)]
    pub(super) output: Output,
    /// The agreement of several models.
    #[serde(flatten)]
    pub(super) agreement: Option<Agreement>,
}

/// The agreement of the models of all seeds on one text.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Agreement {
    /// Number of models.
    seeds: usize,
    /// Number of models that give the combined answer; `None` for scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    agree: Option<usize>,
    /// SD of the scores of a regression.
    #[serde(skip_serializing_if = "Option::is_none")]
    sd: Option<f64>,
}

/// Returns the combined answer to an example. All models have the same head.
pub(super) fn combine(example: &Example, outputs: &[&Output]) -> Answered {
    match outputs[0] {
        Output::Label(Answer::Score { .. }) => mean_score(outputs),
        Output::Label(Answer::Class { .. }) => most_probable_class(outputs),
        Output::Answer(_) => most_probable_answer(outputs),
        Output::Tags(first) => most_frequent_tags(example, first, outputs),
    }
}

impl Answered {
    fn with_agreement(output: Output, seeds: usize, agree: usize) -> Self {
        Self { output, agreement: Some(Agreement { seeds, agree: Some(agree), sd: None }) }
    }
}

fn mean_score(outputs: &[&Output]) -> Answered {
    let scores = outputs.iter().filter_map(|output| match output {
        Output::Label(Answer::Score { score }) => Some(f64::from(*score)),
        _ => None,
    });
    let Statistics { mean, sd, .. } = Statistics::new(&scores.collect::<Vec<f64>>());
    let output = Output::Label(Answer::Score { score: mean as f32 });
    Answered { output, agreement: Some(Agreement { seeds: outputs.len(), agree: None, sd }) }
}

fn most_probable_class(outputs: &[&Output]) -> Answered {
    let classes = outputs.iter().filter_map(|output| match output {
        Output::Label(Answer::Class { label, probabilities }) => Some((label, probabilities)),
        _ => None,
    });
    let mut means = Means::new(outputs.len());
    for (name, &probability) in classes.clone().flat_map(|(_, probabilities)| probabilities) {
        means.add(name, f64::from(probability));
    }
    let label = means.most_probable();
    let agree = classes.filter(|(own, _)| **own == label).count();
    let probabilities = means.0.into_iter().map(|(name, mean)| (name, mean as f32)).collect();
    Answered::with_agreement(Output::Label(Answer::Class { label, probabilities }), outputs.len(), agree)
}

fn most_probable_answer(outputs: &[&Output]) -> Answered {
    let answers = outputs.iter().filter_map(|output| match output {
        Output::Answer(answer) => Some(answer),
        _ => None,
    });
    let mut means = Means::new(outputs.len());
    answers.clone().for_each(|own| means.add(&own.answer, own.probability));
    let answer = means.most_probable();
    let agree = answers.filter(|own| own.answer == answer).count();
    let output = Output::Answer(TextAnswer { probability: means.0[&answer], answer });
    Answered::with_agreement(output, outputs.len(), agree)
}

fn most_frequent_tags(example: &Example, first: &TaggedText, outputs: &[&Output]) -> Answered {
    let tags = outputs.iter().filter_map(|output| match output {
        Output::Tags(text) => Some(&text.tags),
        _ => None,
    });
    let most_frequent = |word: usize| {
        let mut shares = Means::new(outputs.len());
        tags.clone().for_each(|tags| shares.add(&tags[word], 1.0));
        shares.most_probable()
    };
    let combined: Vec<String> = (0..first.tags.len()).map(most_frequent).collect();
    let agree = tags.filter(|tags| **tags == combined).count();
    let words: Vec<&str> = example.text_a.split_whitespace().collect();
    let text = TaggedText::new(&words, combined, first.entities.is_some(), first.words_not_read);
    Answered::with_agreement(Output::Tags(text), outputs.len(), agree)
}

/// The mean over all models of the probability of each answer.
struct Means(IndexMap<String, f64>, usize);

impl Means {
    fn new(models: usize) -> Self {
        Self(IndexMap::new(), models)
    }

    /// Adds the probability that one model gives to an answer.
    fn add(&mut self, answer: &str, probability: f64) {
        *self.0.entry(answer.to_string()).or_default() += probability / self.1 as f64;
    }

    /// Returns the answer with the highest mean; ties go to the first.
    fn most_probable(&self) -> String {
        let best = self.0.iter().reduce(|best, other| if other.1 > best.1 { other } else { best });
        best.map_or_else(String::new, |(answer, _)| answer.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(text: &str, outputs: &[Output]) -> serde_json::Value {
        let all: Vec<&Output> = outputs.iter().collect();
        serde_json::to_value(combine(&Example::from_text(text), &all)).unwrap()
    }

    fn class(label: &str, yes: f32) -> Output {
        let probabilities = IndexMap::from([("no".to_string(), 1.0 - yes), ("yes".to_string(), yes)]);
        Output::Label(Answer::Class { label: label.to_string(), probabilities })
    }

    #[test]
    fn classes_are_chosen_by_mean_probability() {
        // Two models of three predict `no`, but the third predicts `yes` with probability 1.
        let json = combined("x", &[class("no", 0.375), class("no", 0.375), class("yes", 1.0)]);
        assert_eq!((&json["label"], &json["seeds"], &json["agree"]), (&"yes".into(), &3.into(), &1.into()));
        let mean = json["probabilities"]["yes"].as_f64().unwrap();
        assert!((mean - 1.75 / 3.0).abs() < 1e-6, "{json}");
        assert_eq!(combined("x", &[class("no", 0.5), class("yes", 0.5)])["label"], "no");
    }

    #[test]
    fn scores_have_mean_and_deviation() {
        let scores = [1.0, 2.0, 3.0].map(|score| Output::Label(Answer::Score { score }));
        assert_eq!(combined("x", &scores), serde_json::json!({ "score": 2.0, "seeds": 3, "sd": 1.0 }));
    }

    #[test]
    fn answers_are_chosen_by_mean_probability() {
        let answer = |answer: &str, probability| {
            Output::Answer(TextAnswer { answer: answer.to_string(), probability })
        };
        let json = combined("x", &[answer("a", 0.9), answer("b", 0.5), answer("b", 0.5), answer("a", 0.3)]);
        assert_eq!(json["answer"], "a");
        assert!((json["probability"].as_f64().unwrap() - 0.3).abs() < 1e-9, "{json}");
        assert_eq!(json["agree"], 2);
    }

    #[test]
    fn tags_are_chosen_for_each_word() {
        let words = ["Ada", "sees", "Rome"];
        let tagged =
            |tags: [&str; 3]| Output::Tags(TaggedText::new(&words, tags.map(String::from).to_vec(), true, 0));
        let outputs =
            [tagged(["B-PER", "O", "O"]), tagged(["O", "O", "B-LOC"]), tagged(["B-PER", "O", "B-LOC"])];
        let json = combined("Ada sees Rome", &outputs);
        assert_eq!(json["tags"], serde_json::json!(["B-PER", "O", "B-LOC"]));
        assert_eq!(json["entities"][1], serde_json::json!({ "kind": "LOC", "words": "Rome" }));
        assert_eq!((&json["seeds"], &json["agree"]), (&3.into(), &1.into()));
    }
}
