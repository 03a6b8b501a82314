//! Extracts the entities from a sequence of tags, and counts the correct ones.
//!
//! An entity is correct if its first word, last word and type are. The boundaries follow `conlleval`, the script of the
//! CoNLL shared tasks, which `seqeval` ports. Supported schemes are IOB1, IOB2, IOE and IOBES; a tag that is invalid at
//! its position begins an entity. BILOU and BMEWO are mapped to IOBES: L to E, U and W to S, M to I.

use std::collections::BTreeSet;

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
    pub right: usize,
    /// Predicted entities.
    pub predicted: usize,
    /// True entities.
    pub real: usize,
}

impl EntityCounts {
    /// Returns the fraction of predicted entities that are correct; 0 if there are none.
    #[must_use]
    pub fn precision(self) -> f64 {
        share(self.right, self.predicted)
    }

    /// Returns the fraction of true entities that were predicted; 0 if there are none.
    #[must_use]
    pub fn recall(self) -> f64 {
        share(self.right, self.real)
    }

    /// Returns the harmonic mean of precision and recall.
    #[must_use]
    pub fn f1(self) -> f64 {
        share(2 * self.right, self.predicted + self.real)
    }
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Compares true and predicted tags of sentences; each pair must have the same length.
#[must_use]
pub fn score_entities<T: AsRef<str>>(real: &[Vec<T>], predicted: &[Vec<T>]) -> EntityCounts {
    assert_eq!(real.len(), predicted.len(), "tags for each sentence");
    let mut counts = EntityCounts::default();
    for (real, predicted) in real.iter().zip(predicted) {
        assert_eq!(real.len(), predicted.len(), "a tag for each word");
        let (real, predicted): (BTreeSet<Entity>, BTreeSet<Entity>) =
            (entities(real).into_iter().collect(), entities(predicted).into_iter().collect());
        counts.real += real.len();
        counts.predicted += predicted.len();
        counts.right += real.intersection(&predicted).count();
    }
    counts
}

/// Returns the entities of a sentence, in order.
#[must_use]
pub fn entities<T: AsRef<str>>(tags: &[T]) -> Vec<Entity> {
    let mut entities = Vec::new();
    let mut begun: Option<(usize, &str)> = None;
    let mut before = ("O", "");
    for (at, tag) in tags.iter().map(T::as_ref).chain(["O"]).enumerate() {
        let now = divided(tag);
        if let Some((first, kind)) = begun
            && ends(before, now)
        {
            entities.push(Entity { kind: kind.to_string(), first, last: at - 1 });
            begun = None;
        }
        if begins(before, now) {
            begun = Some((at, now.1));
        }
        before = now;
    }
    entities
}

/// Returns whether a tag belongs to a supported scheme.
#[must_use]
pub fn is_known(tag: &str) -> bool {
    tag == "O" || matches!(divided(tag).0, "B" | "I" | "E" | "S")
}

/// Splits `B-PER` into its position in an entity, as an IOBES letter, and its type.
fn divided(tag: &str) -> (&str, &str) {
    // A tag may lack a type, in data sets with only one.
    let (place, kind) = tag.split_once('-').unwrap_or((tag, "_"));
    match place {
        "O" => (place, ""),
        "L" => ("E", kind),
        "U" | "W" => ("S", kind),
        "M" => ("I", kind),
        _ => (place, kind),
    }
}

fn ends(before: (&str, &str), now: (&str, &str)) -> bool {
    let by_place =
        matches!(before.0, "E" | "S") || (matches!(before.0, "B" | "I") && matches!(now.0, "B" | "S" | "O"));
    by_place || (before.0 != "O" && before.1 != now.1)
}

fn begins(before: (&str, &str), now: (&str, &str)) -> bool {
    let by_place =
        matches!(now.0, "B" | "S") || (matches!(before.0, "E" | "S" | "O") && matches!(now.0, "E" | "I"));
    by_place || (now.0 != "O" && before.1 != now.1)
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
    fn every_scheme_is_understood() {
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
    fn tags_of_no_scheme_are_known_as_such() {
        assert!(["O", "B-PER", "M-PER", "B", "L", "I-MISC-2"].into_iter().all(is_known));
        for tag in ["NN", "X-PER", "-LRB-", "PER", "b-PER", "O-PER", "B_PER", "LABEL_0", "domain=train"] {
            assert!(!is_known(tag), "{tag}");
        }
    }

    #[test]
    fn neighbours_and_odd_tags_begin_entities() {
        assert_eq!(found("B-PER B-PER"), [entity("PER", 0, 0), entity("PER", 1, 1)]);
        assert_eq!(found("B-PER I-LOC"), [entity("PER", 0, 0), entity("LOC", 1, 1)]);
        assert_eq!(found("O I-ORG I-ORG B-ORG"), [entity("ORG", 1, 2), entity("ORG", 3, 3)]);
        assert_eq!(found("B-MISC-2 I-MISC-2"), [entity("MISC-2", 0, 1)]);
    }

    #[test]
    fn an_entity_is_right_as_a_whole_only() {
        let sentences = |tags: &[&'static str]| -> Vec<Vec<&'static str>> {
            tags.iter().map(|tags| tags.split(' ').collect()).collect()
        };
        let real = sentences(&["B-PER I-PER O B-LOC", "O B-ORG"]);
        let predicted = sentences(&["B-PER O O B-LOC", "O B-LOC"]);
        let counts = score_entities(&real, &predicted);
        assert_eq!(counts, EntityCounts { right: 1, predicted: 3, real: 3 });
        assert!((counts.f1() - 1.0 / 3.0).abs() < 1e-12);
        let counts = score_entities(&real[1..], &sentences(&["B-ORG B-ORG"]));
        assert!((counts.precision() - 0.5).abs() < 1e-12 && (counts.recall() - 1.0).abs() < 1e-12);
        assert_eq!(score_entities::<&str>(&[], &[]).f1(), 0.0);
    }
}
