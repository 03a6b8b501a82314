//! Hashes of the texts of examples, by which sets are compared and divided: equal texts never belong to both sides.

use std::collections::HashSet;

use bert_inference::Error;
use bert_tasks::read::conll::Sentence;
use bert_tasks::read::squad::Question;
use bert_tasks::{Example, Label};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::data::part::Part;

/// Hashes of the texts of an example. Case and white space do not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextHashes {
    /// All texts together.
    whole: u64,
    /// The texts, one by one, that examples may share.
    parts: Vec<u64>,
    /// The source that examples share, such as a paragraph. `--holdout` does not divide it.
    pub(crate) group: u64,
}

/// An example with texts.
pub(crate) trait Texts {
    /// Returns the hashes of its texts.
    fn text_hashes(&self) -> TextHashes;

    /// Returns the number of its class; 0 if it has none.
    fn class(&self) -> usize {
        0
    }
}

impl TextHashes {
    fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let parts: Vec<u64> = texts.map(text_hash).collect();
        let whole =
            parts.iter().fold(0, |hash, part| XxHash3_64::oneshot_with_seed(hash, &part.to_le_bytes()));
        Self { whole, parts, group: whole }
    }
}

fn text_hash(text: &str) -> u64 {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    XxHash3_64::oneshot(words.join(" ").as_bytes())
}

impl Texts for Example {
    fn text_hashes(&self) -> TextHashes {
        let texts = std::iter::once(&self.text_a).chain(&self.text_b).chain(&self.choices);
        TextHashes::new(texts.map(String::as_str))
    }

    fn class(&self) -> usize {
        match self.label {
            Some(Label::Class(class)) => class,
            _ => 0,
        }
    }
}

/// The group is the paragraph. A question such as "When?" is shared by chance.
impl Texts for Question {
    fn text_hashes(&self) -> TextHashes {
        let all = TextHashes::new([&*self.context, self.question.as_str()].into_iter());
        TextHashes { group: all.parts[0], parts: all.parts[..1].to_vec(), ..all }
    }
}

/// The group is the document, if the file has several.
impl Texts for Sentence {
    fn text_hashes(&self) -> TextHashes {
        let all = TextHashes::new(std::iter::once(self.words.join(" ").as_str()));
        TextHashes { group: self.document.unwrap_or(all.group), ..all }
    }
}

/// The texts that a set shares with the training set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedTexts {
    /// The set.
    pub(crate) part: Part,
    /// Its examples.
    pub examples: usize,
    /// Examples with the same texts as a training example.
    pub equal: usize,
    /// Examples with a text that is in the training set too; these include the equal ones.
    pub with_shared_text: usize,
    /// Whether both sets have the same number of examples with the same texts.
    pub is_training_set: bool,
}

/// The texts of a training set.
pub(crate) struct TrainingTexts {
    /// Number of examples.
    examples: usize,
    whole: HashSet<u64>,
    parts: HashSet<u64>,
}

impl TrainingTexts {
    pub(crate) fn new<T: Texts>(examples: &[T]) -> Self {
        let hashes: Vec<TextHashes> = examples.iter().map(Texts::text_hashes).collect();
        let empty = text_hash("");
        let parts = hashes.iter().flat_map(|hashes| &hashes.parts).copied().filter(|&part| part != empty);
        Self {
            examples: examples.len(),
            parts: parts.collect(),
            whole: hashes.iter().map(|hashes| hashes.whole).collect(),
        }
    }

    /// Counts the examples of a set that the training set has too.
    pub(crate) fn shared_with<T: Texts>(&self, part: Part, examples: &[T]) -> SharedTexts {
        let mut found = HashSet::new();
        let mut shared = SharedTexts {
            part,
            examples: examples.len(),
            equal: 0,
            with_shared_text: 0,
            is_training_set: false,
        };
        for hashes in examples.iter().map(Texts::text_hashes) {
            let is_equal = self.whole.contains(&hashes.whole);
            shared.equal += usize::from(is_equal);
            found.insert(hashes.whole);
            let has_shared = is_equal || hashes.parts.iter().any(|part| self.parts.contains(part));
            shared.with_shared_text += usize::from(has_shared);
        }
        shared.is_training_set = examples.len() == self.examples && found == self.whole;
        shared
    }
}

impl SharedTexts {
    /// Rejects the training set itself, unless the user allows it.
    ///
    /// # Errors
    /// [`Error::Configuration`] with the set.
    pub(crate) fn check(self, allow_overlap: bool) -> Result<(), Error> {
        let Self { part, examples, is_training_set, .. } = self;
        if !is_training_set || allow_overlap {
            return Ok(());
        }
        let reason = format!(
            "the {examples} examples of {part} equal the training set, so scores on them do not show what the model has \
             learnt. Use other examples, or give this flag to score on them nevertheless"
        );
        Err(Error::Configuration { flag: "allow-overlap", reason })
    }

    /// Returns a warning about the shared part, if there is one.
    pub fn warning(self) -> Option<String> {
        let Self { part, examples, equal, with_shared_text, .. } = self;
        let percent = |count: usize| format!("{:.1} %", 100.0 * count as f64 / examples as f64);
        let single = with_shared_text - equal;
        let equal = (equal > 0).then(|| {
            format!(
                "{equal} of {examples} examples of {part} ({}) are in the training set too",
                percent(equal)
            )
        });
        let single = (single > 0).then(|| {
            format!("{single} of {examples} examples of {part} ({}) share one of their texts with the training set", percent(single))
        });
        let counts: Vec<String> = equal.into_iter().chain(single).collect();
        (!counts.is_empty()).then(|| format!("{}: the scores may be too high", counts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(train: &[Example], dev: &[Example]) -> SharedTexts {
        TrainingTexts::new(train).shared_with(Part::Dev, dev)
    }

    #[test]
    fn equal_examples_and_single_texts_are_counted() {
        let train = [("a b", "c"), ("d", "e"), ("f", "")].map(|(a, b)| Example::from_pair(a, b));
        let dev = [("A  b", "c"), ("d", "new"), ("new", "c"), ("c", "a b"), ("new", ""), ("ab", "c d")]
            .map(|(a, b)| Example::from_pair(a, b));
        let found = shared(&train, &dev);
        assert_eq!((found.examples, found.equal, found.with_shared_text), (6, 1, 4));
        assert_eq!(
            found.warning().unwrap(),
            "1 of 6 examples of dev (16.7 %) are in the training set too; 3 of 6 examples of dev (50.0 %) share one of their texts \
             with the training set: the scores may be too high"
        );
        assert_eq!(shared(&train, &dev[5..]).warning(), None);
    }

    #[test]
    fn the_training_set_is_refused_as_dev() {
        let train = ["a", "b", "c"].map(Example::from_text);
        let found = shared(&train, &["c", "B ", "a"].map(Example::from_text));
        let error = found.check(false).unwrap_err();
        assert!(
            error.to_string().starts_with("--allow-overlap: the 3 examples of dev equal the training set"),
            "{error}"
        );
        assert!(found.check(true).is_ok() && found.warning().is_some());
        let part = shared(&train, &train[1..2]);
        assert!(
            part.check(false).is_ok() && part.warning().unwrap().contains("1 of 1 examples of dev (100.0 %)")
        );
        assert!(shared(&train[..1], &train).check(false).is_ok());
    }

    #[test]
    fn questions_of_a_paragraph_are_a_group() {
        let question = |question: &str, context: &str| Question {
            id: question.to_string(),
            question: question.to_string(),
            context: context.into(),
            answers: Vec::new(),
            is_impossible: false,
        };
        let train = [question("When?", "one"), question("Who?", "one"), question("When?", "two")];
        let groups = train.each_ref().map(|question| question.text_hashes().group);
        assert!(groups[0] == groups[1] && groups[0] != groups[2]);
        let dev = [question("Who?", "one"), question("Where?", "two"), question("When?", "three")];
        let found = TrainingTexts::new(&train).shared_with(Part::Dev, &dev);
        assert_eq!((found.equal, found.with_shared_text), (1, 2));
    }
}
