//! Corrects the sentence ends that `sentencex` finds or misses at abbreviations.

/// Abbreviations, one line for each language and kind. After a title or a similar word, a sentence always continues. An
/// `end` such as "etc." ends a sentence if a capital follows; German has none, because its nouns are capitalized, so a
/// capital does not show that a sentence begins. After a word before a `number`, a sentence continues if a number
/// follows, in any of these languages.
const ABBREVIATIONS: &str = include_str!("abbreviations.txt");

/// Returns the abbreviations of one kind in a language.
fn words(language: &str, kind: &str) -> Vec<&'static str> {
    let words = |line: &'static str| line.strip_prefix(language)?.strip_prefix(' ')?.strip_prefix(kind);
    ABBREVIATIONS.lines().find_map(words).map_or_else(Vec::new, |words| words.split_whitespace().collect())
}

/// The abbreviations of one language.
pub(super) struct Abbreviations {
    titles: Vec<&'static str>,
    ends: Vec<&'static str>,
    before_numbers: Vec<&'static str>,
}

impl Abbreviations {
    /// Returns the abbreviations of a language, given by its code.
    pub(super) fn new(code: &str) -> Self {
        let base = code.split('-').next().unwrap_or_default();
        Self { titles: words(base, "title"), ends: words(base, "end"), before_numbers: words("*", "number") }
    }

    /// Iterates over the ends of sentences inside a text that are at abbreviations such as "etc.".
    pub(super) fn ends_inside<'t>(&self, text: &'t str) -> impl Iterator<Item = usize> + use<'_, 't> {
        self.ends.iter().flat_map(move |end| {
            text.match_indices(end).filter_map(|(at, word)| {
                let rest = &text[at + word.len()..];
                let next = rest.trim_start();
                let begins = rest.len() > next.len() && next.starts_with(char::is_uppercase);
                let is_word = !text[..at].ends_with(char::is_alphabetic);
                (begins && is_word).then(|| text.len() - next.len())
            })
        })
    }

    /// Returns whether a sentence continues across a border that was found after `before`.
    pub(super) fn continue_across(&self, before: &str, after: &str) -> bool {
        // A language without titles in the list, such as English, is left to `sentencex`.
        let stem = before.trim_end().strip_suffix('.').filter(|_| !self.titles.is_empty());
        let Some(before) = stem else { return false };
        let start = before
            .rfind(|c: char| c.is_whitespace() || matches!(c, '(' | '[' | '\u{ab}' | '"'))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let word = before[start..].to_lowercase();
        let next =
            after.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '(' | '[')).chars().next();
        let is = |known: &[&str]| known.contains(&word.as_str());
        match next {
            Some(c) if c.is_numeric() => is(&self.before_numbers) || is(&self.titles),
            // A single letter is a title only before a name.
            Some(c) if c.is_uppercase() => {
                is(&self.titles)
                    && (word.chars().count() > 1
                        || start == 0
                        || before[..start].trim_end().ends_with(['.', ',', '!', '?']))
            }
            // Lower-cased text has no capitals at all, so a lower-case letter alone does not show that the sentence
            // continues.
            Some(c) if c.is_lowercase() => {
                let is_letter = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
                is(&self.titles) || is_letter || word.contains('.')
            }
            _ => false,
        }
    }
}
