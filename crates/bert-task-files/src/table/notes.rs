//! Finds suspicious labels in a table before training.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::rows::Row;

/// Number of integer classes above which they are most likely scores.
const MAX_INTEGER_CLASSES: usize = 20;
/// Maximum number of labels listed in a message.
const MAX_LISTED: usize = 4;

/// Returns a remark on labels with surrounding white space, which is removed.
pub(super) fn surrounding_blanks(path: &Path, rows: &[Row]) -> Option<String> {
    let has_blanks = |row: &&Row| row.written.as_ref().is_some_and(|label| label.trim() != label);
    let count = rows.iter().filter(has_blanks).count();
    (count > 0)
        .then(|| format!("{}: {count} labels have surrounding white space, which is ignored", path.display()))
}

/// Returns a remark on classes that are written in several ways, such as `1` and `1.0`.
pub(super) fn spellings(path: &Path, rows: &[Row]) -> Option<String> {
    let mut written: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in rows {
        if let (Some(label), Some(text)) = (&row.label, &row.written) {
            written.entry(label).or_default().insert(text.trim());
        }
    }
    let several: Vec<String> = (written.into_iter())
        .filter(|(_, forms)| forms.len() > 1)
        .map(|(label, forms)| format!("{label} ({})", forms.into_iter().collect::<Vec<_>>().join(", ")))
        .collect();
    (!several.is_empty()).then(|| {
        format!("{}: labels with several spellings are one class: {}", path.display(), first_few(&several))
    })
}

/// Returns a remark on classes that differ only in case, white space, hyphens or underscores and are most likely the
/// same.
pub(super) fn similar_classes(classes: &[String]) -> Option<String> {
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for class in classes {
        let plain = |c: &char| !(c.is_whitespace() || matches!(c, '-' | '_'));
        let key: String = class.chars().filter(plain).flat_map(char::to_lowercase).collect();
        // Numbers that differ only in sign are different numbers.
        if class.parse::<f64>().is_err() {
            alike.entry(key).or_default().push(class);
        }
    }
    let similar: Vec<String> =
        alike.into_values().filter(|of| of.len() > 1).map(|of| of.join(" and ")).collect();
    (!similar.is_empty()).then(|| {
        format!(
            "classes that differ only in capitals, white space or hyphens are kept apart: {}",
            first_few(&similar)
        )
    })
}

/// Returns a remark on numbers that are used as classes but look like scores.
pub(super) fn scores_as_classes(classes: &[String]) -> Option<String> {
    let numbers: Vec<f64> = classes.iter().filter_map(|class| class.parse().ok()).collect();
    let have_fractions = numbers.iter().any(|number: &f64| number.fract() != 0.0);
    let are_scores =
        numbers.len() == classes.len() && (have_fractions || classes.len() > MAX_INTEGER_CLASSES);
    are_scores.then(|| {
        let count = classes.len();
        format!(
            "the labels are numbers ({}) and are used as {count} classes without order; --regression uses them as \
             scores",
            first_few(classes)
        )
    })
}

/// Lists the first few items, with dots if there are more.
fn first_few(all: &[String]) -> String {
    let dots = if all.len() > MAX_LISTED { ", ..." } else { "" };
    format!("{}{dots}", all[..all.len().min(MAX_LISTED)].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(of: &[&str]) -> Vec<String> {
        of.iter().map(|class| class.to_string()).collect()
    }

    #[test]
    fn similar_classes_are_reported() {
        let note = |of: &[&str]| similar_classes(&classes(of));
        assert_eq!(
            note(&["No", "Yes", "no", "yes"]).unwrap(),
            "classes that differ only in capitals, white space or hyphens are kept apart: No and no, Yes and yes"
        );
        assert!(note(&["not entailed", "not_entailed"]).is_some());
        assert_eq!((note(&["-1", "1"]), note(&["no", "yes"])), (None, None));
    }

    #[test]
    fn numbers_that_look_like_scores_are_reported() {
        let note = scores_as_classes(&classes(&["0.2", "0.4", "1", "3", "4.5"])).unwrap();
        assert!(
            note.contains("(0.2, 0.4, 1, 3, ...) and are used as 5 classes") && note.contains("--regression")
        );
        assert_eq!(scores_as_classes(&classes(&["0", "1", "2"])), None);
        assert_eq!(scores_as_classes(&classes(&["0.5", "good"])), None);
        let many: Vec<String> = (0..50).map(|at| at.to_string()).collect();
        assert!(scores_as_classes(&many).is_some());
    }
}
