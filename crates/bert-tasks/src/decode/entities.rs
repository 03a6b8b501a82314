//! Extracts the entities from a sequence of tags, and counts the correct ones.
//!
//! An entity is correct if its first word, last word and type are correct. The boundaries follow `conlleval`, the
//! script of the CoNLL shared tasks, which `seqeval` ports. Supported schemes are IOB1, IOB2, IOE and IOBES; a tag that
//! is invalid at its position begins an entity. BILOU and BMEWO are mapped to IOBES: L to E, U and W to S, M to I.

use std::collections::BTreeSet;

use crate::task::example::{Tag, split_tag};

/// An entity: a range of words of one type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entity {
    /// Entity type, such as `PER`.
    pub kind: String,
    /// Index of the first word.
    pub first: usize,
    /// Index of the last word.
    pub last: usize,
}

/// Counts of correct, predicted and true entities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntityCounts {
    /// Predicted entities that are correct.
    pub correct: usize,
    /// Predicted entities.
    pub predicted: usize,
    /// True entities.
    pub actual: usize,
}

impl EntityCounts {
    /// Returns the fraction of predicted entities that are correct; 0 if there are none.
    #[must_use]
    pub fn precision(self) -> f64 {
        ratio(self.correct, self.predicted)
    }

    /// Returns the fraction of true entities that were predicted; 0 if there are none.
    #[must_use]
    pub fn recall(self) -> f64 {
        ratio(self.correct, self.actual)
    }

    /// Returns the harmonic mean of precision and recall.
    #[must_use]
    pub fn f1(self) -> f64 {
        ratio(2 * self.correct, self.predicted + self.actual)
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Compares the true and predicted tags of sentences and returns the counts of entities. Both lists of tags of a
/// sentence must have the same length.
pub fn score_entities<T: AsRef<str>>(actual: &[Vec<T>], predicted: &[Vec<T>]) -> EntityCounts {
    assert_eq!(actual.len(), predicted.len(), "tags for each sentence");
    let mut counts = EntityCounts::default();
    for (actual, predicted) in actual.iter().zip(predicted) {
        assert_eq!(actual.len(), predicted.len(), "a tag for each word");
        let [actual, predicted] =
            [actual, predicted].map(|tags| entities(tags).into_iter().collect::<BTreeSet<Entity>>());
        counts.actual += actual.len();
        counts.predicted += predicted.len();
        counts.correct += actual.intersection(&predicted).count();
    }
    counts
}

/// Returns the entities of a sentence, in order.
pub fn entities<T: AsRef<str>>(tags: &[T]) -> Vec<Entity> {
    let mut entities = Vec::new();
    let mut start: Option<usize> = None;
    let mut previous = split_tag("O");
    for (at, tag) in tags.iter().map(T::as_ref).chain(["O"]).enumerate() {
        let tag = split_tag(tag);
        if ends_entity(previous, tag)
            && let Some(first) = start.take()
        {
            entities.push(Entity { kind: previous.kind.to_string(), first, last: at - 1 });
        }
        if begins_entity(previous, tag) {
            start = Some(at);
        }
        previous = tag;
    }
    entities
}

fn ends_entity(previous: Tag<'_>, tag: Tag<'_>) -> bool {
    let by_position = match previous.position {
        "E" | "S" => true,
        "B" | "I" => matches!(tag.position, "B" | "S" | "O"),
        _ => false,
    };
    by_position || (previous.position != "O" && previous.kind != tag.kind)
}

fn begins_entity(previous: Tag<'_>, tag: Tag<'_>) -> bool {
    let by_position = match tag.position {
        "B" | "S" => true,
        "E" | "I" => matches!(previous.position, "E" | "S" | "O"),
        _ => false,
    };
    by_position || (tag.position != "O" && previous.kind != tag.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tags: &str) -> Vec<(String, usize, usize)> {
        let tags: Vec<&str> = tags.split(' ').collect();
        entities(&tags).into_iter().map(|entity| (entity.kind, entity.first, entity.last)).collect()
    }

    fn entity(kind: &str, first: usize, last: usize) -> (String, usize, usize) {
        (kind.to_string(), first, last)
    }

    #[test]
    fn entities_of_every_scheme() {
        let expected = [entity("PER", 0, 1), entity("LOC", 3, 3)];
        for tags in [
            "B-PER I-PER O B-LOC",
            "I-PER I-PER O I-LOC",
            "B-PER E-PER O S-LOC",
            "I-PER E-PER O E-LOC",
            "B-PER L-PER O U-LOC",
            "B-PER E-PER O W-LOC",
        ] {
            assert_eq!(found(tags), expected, "{tags}");
        }
        assert_eq!(found("U-PER U-PER"), [entity("PER", 0, 0), entity("PER", 1, 1)]);
        assert_eq!(found("B-PER M-PER E-PER B-PER L-PER"), [entity("PER", 0, 2), entity("PER", 3, 4)]);
        assert_eq!(found("O O"), []);
        assert_eq!(found("B I O B"), [entity("_", 0, 1), entity("_", 3, 3)]);
    }

    #[test]
    fn adjacent_and_inconsistent_tags_begin_entities() {
        assert_eq!(found("B-PER B-PER"), [entity("PER", 0, 0), entity("PER", 1, 1)]);
        assert_eq!(found("B-PER I-LOC"), [entity("PER", 0, 0), entity("LOC", 1, 1)]);
        assert_eq!(found("O I-ORG I-ORG B-ORG"), [entity("ORG", 1, 2), entity("ORG", 3, 3)]);
        assert_eq!(found("B-MISC-2 I-MISC-2"), [entity("MISC-2", 0, 1)]);
    }

    #[test]
    fn a_partly_matching_entity_is_wrong() {
        let sentences = |tags: &[&'static str]| -> Vec<Vec<&'static str>> {
            tags.iter().map(|tags| tags.split(' ').collect()).collect()
        };
        let actual = sentences(&["B-PER I-PER O B-LOC", "O B-ORG"]);
        let predicted = sentences(&["B-PER O O B-LOC", "O B-LOC"]);
        let counts = score_entities(&actual, &predicted);
        assert_eq!(counts, EntityCounts { correct: 1, predicted: 3, actual: 3 });
        assert!((counts.f1() - 1.0 / 3.0).abs() < 1e-12);
        let counts = score_entities(&actual[1..], &sentences(&["B-ORG B-ORG"]));
        assert!((counts.precision() - 0.5).abs() < 1e-12 && (counts.recall() - 1.0).abs() < 1e-12);
        assert_eq!(score_entities::<&str>(&[], &[]).f1(), 0.0);
    }
}
