//! The languages of the sentence splitter.

use bert_storage::did_you_mean;

use super::BuildConfig;
use crate::error::{Error, Result};

/// Languages, one per line: the two-letter and the three-letter ISO 639 codes, and the name in English if the sentence
/// splitter has rules for the language. The other languages have many speakers.
const LANGUAGES: &str = include_str!("languages.txt");

/// The language of a text whose language is not given.
pub(crate) const DEFAULT_LANGUAGE: &str = "en";

/// Returns the code by which the sentence splitter knows a language: in lower case, with two letters if there is such a
/// code, and without region and script unless only the full code has rules. Returns `None` if the text is not a
/// language code.
pub(crate) fn language_code(given: &str) -> Option<String> {
    let lower = given.to_ascii_lowercase().replace('_', "-");
    let base = lower.split('-').next().unwrap_or_default();
    if has_sentence_rules(&lower) && !has_sentence_rules(base) {
        return Some(lower);
    }
    let known =
        table().find(|[_, three, _]| three.split(',').any(|code| code == base)).map(|[code, ..]| code);
    let is_code = matches!(base.len(), 2 | 3) && base.bytes().all(|byte| byte.is_ascii_lowercase());
    is_code.then(|| known.unwrap_or(base).to_owned())
}

/// Returns whether the sentence splitter has rules for a language, or for a related one.
pub(crate) fn has_sentence_rules(code: &str) -> bool {
    // The general rules cover Chinese punctuation. The codes of Chinese variants fall back to `zh`.
    code == "zh" || codes().any(|known| known == code) || sentencex::languages::get_fallbacks(code).is_some()
}

/// Returns the codes of the languages for which the sentence splitter has rules.
pub fn languages() -> Vec<&'static str> {
    codes().collect()
}

fn codes() -> impl Iterator<Item = &'static str> {
    with_rules().map(|[code, ..]| code)
}

/// Iterates over the languages for which the sentence splitter has rules.
fn with_rules() -> impl Iterator<Item = [&'static str; 3]> {
    table().filter(|[.., name]| !name.is_empty())
}

/// Iterates over the languages: the two-letter code, the three-letter codes, and the name, which is empty without rules.
fn table() -> impl Iterator<Item = [&'static str; 3]> {
    LANGUAGES.lines().map(|line| {
        let mut fields = line.split(' ');
        std::array::from_fn(|_| fields.next().unwrap_or_default())
    })
}

impl BuildConfig {
    /// Checks that the sentence splitter supports the language, if one is given.
    pub(super) fn check_language(&self) -> Result<()> {
        match &self.language {
            Some(language) if language_code(language).is_none() => {
                let expected = format!("the ISO 639 code of one of these: {}", advice(language));
                Err(Error::value("language", language, expected))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the accepted values, and the one that was probably meant.
fn advice(value: &str) -> String {
    let by_name: Vec<String> =
        with_rules().map(|[code, _, name]| format!("{} ({code})", name.to_lowercase())).collect();
    // Many codes differ in one letter only, so only names are compared.
    let meant = did_you_mean(value, by_name.iter().map(String::as_str));
    let all: Vec<String> = with_rules().map(|[code, _, name]| format!("{code} ({name})")).collect();
    format!("{}; other languages are accepted, and their sentences end as in English{meant}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_languages_lead_to_their_codes() {
        for (value, code) in [("german", "de"), ("English", "en"), ("ukranian", "uk"), ("germ", "de")] {
            let config = BuildConfig { language: Some(value.to_owned()), ..BuildConfig::default() };
            let message = config.check_language().unwrap_err().to_string();
            assert!(message.ends_with(&format!("({code})`?")), "{message}");
            assert!(
                message.starts_with(&format!("`.language` is {value}")) && message.contains("fr (French)")
            );
        }
        for code in ["de", "zh", "als", "zh-hant", "sv", "pt-BR", "de_DE", "zh-CN", "eng", "EN", "km"] {
            let config = BuildConfig { language: Some(code.to_owned()), ..BuildConfig::default() };
            config.check_language().unwrap();
        }
    }

    #[test]
    fn regions_and_three_letters_lead_to_codes() {
        for (given, code) in [
            ("pt-BR", "pt"),
            ("de_DE", "de"),
            ("zh-CN", "zh"),
            ("eng", "en"),
            ("SWE", "sv"),
            ("zh-hant", "zh"),
            ("tlh", "tlh"),
        ] {
            assert_eq!(language_code(given).as_deref(), Some(code), "{given}");
        }
        assert_eq!(language_code("german"), None);
        assert!(!has_sentence_rules("sv") && has_sentence_rules("pt"));
    }

    #[test]
    fn every_code_has_two_letters_and_a_name() {
        let languages: Vec<[&str; 3]> = with_rules().collect();
        assert!(languages.len() == 31 && table().is_sorted() && table().all(|[code, ..]| code.len() == 2));
        assert!(table().all(|[_, three, _]| three.split(',').all(|code| code.len() == 3)));
        assert!(languages.iter().all(|[.., name]| name.starts_with(char::is_uppercase)));
    }
}
