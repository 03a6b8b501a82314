//! Python's character classes `str.isspace` and `str.isalnum`, where Rust's differ.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Returns the result of Python's `str.isspace`; Rust's `char::is_whitespace` lacks U+001C to U+001F.
pub fn is_python_space(c: char) -> bool {
    matches!(c, '\u{1c}'..='\u{1f}') || c.is_whitespace()
}

/// Returns the result of Python's `str.isalnum`: letters and numbers of all kinds.
pub fn is_python_alphanumeric(c: char) -> bool {
    use GeneralCategory as G;
    matches!(
        get_general_category(c),
        G::UppercaseLetter
            | G::LowercaseLetter
            | G::TitlecaseLetter
            | G::ModifierLetter
            | G::OtherLetter
            | G::DecimalNumber
            | G::LetterNumber
            | G::OtherNumber
    )
}

/// Returns the result of Python's `str.strip()`.
pub fn python_strip(text: &str) -> &str {
    text.trim_matches(is_python_space)
}
