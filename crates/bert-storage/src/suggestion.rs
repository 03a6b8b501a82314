//! Suggests a known name for an unknown one.

/// Minimum similarity of a suggestion, between 0 and 1.
const SIMILAR: f64 = 0.8;

/// Returns the known name that is most like `name`, if one is similar. Upper and lower case are not distinguished.
fn most_similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let score = |known: &str| strsim::jaro_winkler(&name, &known.to_lowercase());
    let similar = known.into_iter().map(|known| (score(known), known));
    let closest = similar.filter(|(score, _)| *score > SIMILAR).max_by(|a, b| a.0.total_cmp(&b.0));
    closest.map(|(_, known)| known)
}

/// Returns "; did you mean `NAME`?" with the known name that is most like `name`, or an empty text if none is similar.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    most_similar(name, known).map_or_else(String::new, |known| format!("; did you mean `{known}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_similar_name_is_suggested() {
        let known = ["steps", "save_every", "learning_rate"];
        assert_eq!(did_you_mean("stepz", known), "; did you mean `steps`?");
        assert_eq!(did_you_mean("Learning_rat", known), "; did you mean `learning_rate`?");
        assert_eq!(did_you_mean("temperature", known), "");
        assert_eq!(did_you_mean("", known), "");
    }
}
