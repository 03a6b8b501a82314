//! Lower case of Turkish and Azeri, in which I and dotted I are two letters.

use std::borrow::Cow;

/// Returns whether a language code belongs to a language with two letters I.
pub fn is_turkic(code: &str) -> bool {
    let base = code.split(['-', '_']).next().unwrap_or_default();
    ["tr", "az", "tur", "aze"].iter().any(|known| base.eq_ignore_ascii_case(known))
}

/// Returns a text with these two letters in lower case; the tokenizer lower-cases the others.
pub fn turkic_lower_case(text: &str) -> Cow<'_, str> {
    if !text.contains(['I', '\u{130}']) {
        return text.into();
    }
    let lower = |c| match c {
        'I' => '\u{131}',
        '\u{130}' => 'i',
        other => other,
    };
    text.chars().map(lower).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_letters_stay_apart() {
        assert_eq!(turkic_lower_case("ISI \u{130}zmir Ankara"), "\u{131}S\u{131} izmir Ankara");
        assert!(is_turkic("tr-TR") && is_turkic("az") && !is_turkic("de") && !is_turkic("trv"));
    }
}
