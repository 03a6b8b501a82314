//! Finds examples of one set that have the same texts, with different labels or with the same one.

use std::collections::HashMap;

use crate::data::text_hashes::Texts;

/// Share of repeated examples above which there is a remark: intervals count each example as an independent one.
const NOTABLE_REPEATS: f64 = 0.05;
/// Maximum number of characters of a quoted text.
const QUOTED: usize = 80;

/// Examples with the same texts.
struct Group {
    /// Index of the first one.
    first: usize,
    count: usize,
    /// Whether their labels differ.
    differs: bool,
}

/// Returns a warning about examples of a set with equal texts and different labels.
pub(crate) fn contradictions<T: Texts>(set: &str, examples: &[T]) -> Option<String> {
    let groups = groups(examples);
    let differing = groups.values().filter(|group| group.differs);
    let first = differing.clone().map(|group| group.first).min()?;
    let count: usize = differing.map(|group| group.count).sum();
    let quoted: String = examples[first].quoted().chars().take(QUOTED).collect();
    Some(format!(
        "{count} of {} examples of {set} have texts that are there with other labels too, so no model answers all of them; the \
         first is {quoted:?}",
        examples.len()
    ))
}

/// Returns a warning about a scored set in which many examples repeat the texts of others.
pub(crate) fn repeats<T: Texts>(set: &str, examples: &[T]) -> Option<String> {
    let all = examples.len();
    let count = all - groups(examples).len();
    (count as f64 > NOTABLE_REPEATS * all as f64).then(|| {
        format!(
            "{count} of {all} examples of {set} have the texts of an earlier one; intervals count them as independent"
        )
    })
}

/// Returns the examples by the hash of their texts.
fn groups<T: Texts>(examples: &[T]) -> HashMap<u64, Group> {
    let mut groups: HashMap<u64, Group> = HashMap::new();
    for (at, example) in examples.iter().enumerate() {
        let hash = example.text_hashes().whole;
        let group = groups.entry(hash).or_insert(Group { first: at, count: 0, differs: false });
        group.count += 1;
        group.differs |= example.answer() != examples[group.first].answer();
    }
    groups
}

#[cfg(test)]
mod tests {
    use bert_tasks::{Example, Label};

    use super::*;

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
