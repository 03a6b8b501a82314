//! Hashes the texts of examples, to compare sets and to divide them: equal texts never belong to both parts. Also finds
//! examples of one set with the same texts.

use std::collections::{HashMap, HashSet};
use std::fmt;

use bert_tasks::{Example, Label, Question, Sentence};
use bert_training::Error;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// Hashes of the texts of an example. Case, the kind and amount of white space, and white space around punctuation do
/// not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextHashes {
    /// Hash of all texts together.
    pub(crate) whole: u64,
    /// Hashes of the single texts that are looked up in other sets.
    parts: Vec<u64>,
    /// The source that examples share, such as a paragraph. `--holdout` does not divide it.
    pub(crate) group: u64,
}

/// An example with texts.
pub(crate) trait Texts {
    /// Returns the hashes of the example's texts.
    fn text_hashes(&self) -> TextHashes;

    /// Returns the label as text; different labels have different texts.
    fn answer(&self) -> String;

    /// Returns the text to quote in messages.
    fn quoted(&self) -> String;

    /// Returns the class number of the example; 0 if it has no class.
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

/// Returns the hash of the words of a text. A punctuation mark is a word, as for the model, so spaces around it do not
/// matter.
fn text_hash(text: &str) -> u64 {
    let mut spaced = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_alphanumeric() {
            spaced.extend(c.to_lowercase());
        } else {
            spaced.extend([' ', c, ' ']);
        }
    }
    let words: Vec<&str> = spaced.split_whitespace().collect();
    XxHash3_64::oneshot(words.join(" ").as_bytes())
}

impl Texts for Example {
    fn text_hashes(&self) -> TextHashes {
        let texts = std::iter::once(&self.text_a).chain(&self.text_b).chain(&self.choices);
        TextHashes::new(texts.map(String::as_str))
    }

    fn answer(&self) -> String {
        format!("{:?}", self.label)
    }

    fn quoted(&self) -> String {
        self.text_a.clone()
    }

    fn class(&self) -> usize {
        match self.label {
            Some(Label::Class(class)) => class,
            _ => 0,
        }
    }
}

/// The group is the paragraph. Two sets may share a question such as "When?" by chance, so the question is not a part.
impl Texts for Question {
    fn text_hashes(&self) -> TextHashes {
        let all = TextHashes::new([&*self.context, self.question.as_str()].into_iter());
        TextHashes { group: all.parts[0], parts: all.parts[..1].to_vec(), ..all }
    }

    fn answer(&self) -> String {
        format!("{:?}", self.answers)
    }

    fn quoted(&self) -> String {
        self.question.clone()
    }
}

/// The group is the document, if the file has several.
impl Texts for Sentence {
    fn text_hashes(&self) -> TextHashes {
        let all = TextHashes::new(std::iter::once(self.words.join(" ").as_str()));
        TextHashes { group: self.document.unwrap_or(all.group), ..all }
    }

    fn answer(&self) -> String {
        self.tags.join(" ")
    }

    fn quoted(&self) -> String {
        self.words.join(" ")
    }
}

/// The texts that a scored set shares with the training set, or with dev.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedTexts {
    /// The scored set.
    pub(crate) part: Part,
    /// Name of the other set: `the training set`, `dev`, or the training set of another task.
    pub compared_with: String,
    /// Number of examples of the scored set.
    pub examples: usize,
    /// Number of its examples with the same texts as an example of the other set.
    pub equal: usize,
    /// Number of its examples with a text that is also in the other set, including the equal examples.
    pub with_shared_text: usize,
    /// Whether the set counts as part of the other one: at least nine tenths of its examples are in the other set, with
    /// at least a hundred different texts; or both sets have the same examples.
    pub is_part: bool,
}

/// Minimum share of equal examples at which a set counts as part of another one.
const PART_SHARE: f64 = 0.9;
/// Minimum number of different shared texts at which a set counts as part of a larger one. Fewer texts may be equal by
/// chance.
const PART_TEXTS: usize = 100;

/// The texts of a set that other sets are compared with.
pub(crate) struct ComparedTexts {
    /// Name of the set.
    name: String,
    /// Number of examples.
    examples: usize,
    whole: HashSet<u64>,
    parts: HashSet<u64>,
}

impl ComparedTexts {
    pub(crate) fn new<T: Texts>(name: impl Into<String>, examples: &[T]) -> Self {
        let hashes: Vec<TextHashes> = examples.iter().map(Texts::text_hashes).collect();
        let empty = text_hash("");
        let parts = hashes.iter().flat_map(|hashes| &hashes.parts).copied().filter(|&part| part != empty);
        Self {
            name: name.into(),
            examples: examples.len(),
            parts: parts.collect(),
            whole: hashes.iter().map(|hashes| hashes.whole).collect(),
        }
    }

    /// Returns the counts of the examples of a set whose texts are also among these texts.
    pub(crate) fn shared_with<T: Texts>(&self, part: Part, examples: &[T]) -> SharedTexts {
        let mut found = HashSet::new();
        let mut shared = SharedTexts {
            part,
            compared_with: self.name.clone(),
            examples: examples.len(),
            equal: 0,
            with_shared_text: 0,
            is_part: false,
        };
        for hashes in examples.iter().map(Texts::text_hashes) {
            let is_equal = self.whole.contains(&hashes.whole);
            shared.equal += usize::from(is_equal);
            found.insert(hashes.whole);
            let has_shared = is_equal || hashes.parts.iter().any(|part| self.parts.contains(part));
            shared.with_shared_text += usize::from(has_shared);
        }
        let is_same = examples.len() == self.examples && found == self.whole;
        let is_contained = shared.equal as f64 >= PART_SHARE * examples.len() as f64
            && found.intersection(&self.whole).count() >= PART_TEXTS;
        shared.is_part = is_same || is_contained;
        shared
    }
}

impl SharedTexts {
    /// Rejects a scored set that is part of the other set, unless the user allows it.
    ///
    /// # Errors
    /// Fails when the scored set is part of the other set and `allow_overlap` is false; the error names both sets.
    pub(crate) fn check(&self, allow_overlap: bool) -> Result<(), Error> {
        let Self { part, compared_with, examples, equal, is_part, .. } = self;
        if !is_part || allow_overlap {
            return Ok(());
        }
        let reason = format!(
            "{equal} of {examples} examples of {part} are in {compared_with} too, so scores on them do not show what the model \
             has learnt. Use other examples, or give this flag to score on them nevertheless"
        );
        Err(Error::option("allow_overlap", reason))
    }

    /// Returns a warning about the shared part, if there is one.
    pub fn warning(&self) -> Option<String> {
        let &Self { part, compared_with: ref other, examples, equal, with_shared_text, .. } = self;
        let percent = |count: usize| format!("{:.1} %", 100.0 * count as f64 / examples as f64);
        let single = with_shared_text - equal;
        let equal = (equal > 0).then(|| {
            format!("{equal} of {examples} examples of {part} ({}) are in {other} too", percent(equal))
        });
        let single = (single > 0).then(|| {
            format!(
                "{single} of {examples} examples of {part} ({}) share one of their texts with {other}",
                percent(single)
            )
        });
        let counts: Vec<String> = equal.into_iter().chain(single).collect();
        (!counts.is_empty()).then(|| format!("{}: the scores may be too high", counts.join("; ")))
    }
}

/// Share of repeated examples above which a warning is given, because confidence intervals treat all examples as
/// independent.
const NOTABLE_REPEATS: f64 = 0.05;
/// Maximum number of characters of a quoted text.
const QUOTED: usize = 80;

/// Returns a warning about examples of a set with equal texts and different labels.
pub(crate) fn contradictions<T: Texts>(set: &str, examples: &[T]) -> Option<String> {
    let mut groups = groups(examples, |hashes| hashes.whole);
    groups.retain(|group| group.iter().any(|&at| examples[at].answer() != examples[group[0]].answer()));
    let first = groups.first()?[0];
    let count: usize = groups.iter().map(Vec::len).sum();
    let quoted: String = examples[first].quoted().chars().take(QUOTED).collect();
    Some(format!(
        "{count} of {} examples of {set} have texts that are there with other labels too, so no model answers all of them; the \
         first is {quoted:?}",
        examples.len()
    ))
}

/// Returns a warning about a scored set in which many examples repeat the texts of other examples.
pub(crate) fn repeats<T: Texts>(set: &str, examples: &[T]) -> Option<String> {
    let all = examples.len();
    let count = all - groups(examples, |hashes| hashes.whole).len();
    (count as f64 > NOTABLE_REPEATS * all as f64).then(|| {
        format!(
            "{count} of {all} examples of {set} have the texts of an earlier one; intervals count them as independent"
        )
    })
}

/// Returns the indices of the examples with each key, in the order of their first examples.
pub(crate) fn groups<T: Texts>(examples: &[T], key: impl Fn(&TextHashes) -> u64) -> Vec<Vec<usize>> {
    let mut numbers = HashMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, example) in examples.iter().enumerate() {
        let number = *numbers.entry(key(&example.text_hashes())).or_insert(groups.len());
        if number == groups.len() {
            groups.push(Vec::new());
        }
        groups[number].push(at);
    }
    groups
}

/// A labelled set that models are scored on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Examples held out of train, for choosing epochs and cells.
    HeldOut,
    /// The dev set.
    Dev,
    /// The second dev set, if the task has one.
    DevMismatched,
    /// The test set, if its labels are published.
    Test,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeldOut => "the held-out part",
            Self::Dev => "dev",
            Self::DevMismatched => "the mismatched dev set",
            Self::Test => "test",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(train: &[Example], dev: &[Example]) -> SharedTexts {
        ComparedTexts::new("the training set", train).shared_with(Part::Dev, dev)
    }

    #[test]
    fn equal_examples_and_single_texts_are_counted() {
        let train = [("a b", "c"), ("d", "e"), ("f", "")].map(|(a, b)| Example::from_pair(a, b));
        let dev = [
            ("A  b", "c"),
            ("d", "new"),
            ("new", "c"),
            ("c", "a b"),
            ("new", ""),
            ("ab", "c d"),
            ("a B.", "c"),
        ]
        .map(|(a, b)| Example::from_pair(a, b));
        let found = shared(&train, &dev);
        assert_eq!((found.examples, found.equal, found.with_shared_text), (7, 1, 5));
        assert_eq!(
            found.warning().unwrap(),
            "1 of 7 examples of dev (14.3 %) are in the training set too; 4 of 7 examples of dev (57.1 %) share one of their texts \
             with the training set: the scores may be too high"
        );
        assert_eq!(shared(&train, &dev[5..6]).warning(), None);
        let spaced = ["It 's good .", "Say \"no\""].map(Example::from_text);
        let found = shared(&spaced, &["it's good.", "say \" no \"", "say no"].map(Example::from_text));
        assert_eq!((found.equal, found.examples), (2, 3));
    }

    #[test]
    fn parts_of_the_training_set_are_refused() {
        let train = ["a", "b", "c"].map(Example::from_text);
        let found = shared(&train, &["c", "B ", "a"].map(Example::from_text));
        let error = found.check(false).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("`.allow_overlap`: 3 of 3 examples of dev are in the training set too"),
            "{error}"
        );
        assert!(found.check(true).is_ok() && found.warning().is_some());
        let part = shared(&train, &train[1..2]);
        assert!(
            part.check(false).is_ok() && part.warning().unwrap().contains("1 of 1 examples of dev (100.0 %)")
        );
        assert!(shared(&train[..1], &train).check(false).is_ok());
        // Dev counts as part of a larger training set if nine tenths of its examples, and at least a hundred texts,
        // are in it.
        let texts = |numbers: std::ops::Range<usize>| -> Vec<Example> {
            numbers.map(|at| Example::from_text(format!("text {at}"))).collect()
        };
        let train = texts(0..1000);
        let refused = shared(&train, &texts(900..1011)).check(false).unwrap_err().to_string();
        assert!(refused.contains("100 of 111"), "{refused}");
        assert!(shared(&train, &texts(900..1012)).check(false).is_ok(), "100 of 112");
        assert!(shared(&train, &texts(901..1000)).check(false).is_ok(), "99 texts");
        let repeated = vec![Example::from_text("text 1"); 500];
        assert!(shared(&train, &repeated).check(false).is_ok(), "one text");
        let dev = ComparedTexts::new("dev", &train).shared_with(Part::Test, &train);
        assert!(
            dev.check(false)
                .unwrap_err()
                .to_string()
                .contains("1000 of 1000 examples of test are in dev too")
        );
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
        let found = ComparedTexts::new("the training set", &train).shared_with(Part::Dev, &dev);
        assert_eq!((found.equal, found.with_shared_text), (1, 2));
    }

    fn examples(rows: &[(&str, usize)]) -> Vec<Example> {
        let example = |&(text, class): &(&str, usize)| Example {
            label: Some(Label::Class(class)),
            ..Example::from_text(text)
        };
        rows.iter().map(example).collect()
    }

    #[test]
    fn contradicting_labels_are_counted_with_an_example() {
        let rows = [("a", 0), ("b one", 0), ("c", 1), ("B  one", 1), ("a", 0), ("b one", 0)];
        assert_eq!(
            contradictions("dev", &examples(&rows)).unwrap(),
            "3 of 6 examples of dev have texts that are there with other labels too, so no model answers all of them; the first \
             is \"b one\""
        );
        assert_eq!(
            repeats("dev", &examples(&rows)).unwrap(),
            "3 of 6 examples of dev have the texts of an earlier one; intervals count them as independent"
        );
        let different = examples(&[("a", 0), ("b", 1)]);
        assert!(contradictions("dev", &different).is_none() && repeats("dev", &different).is_none());
    }
}
