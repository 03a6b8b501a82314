//! Escapes control characters in text from files, so that a terminal does not execute them.

use std::borrow::Cow;

/// Returns whether a terminal executes a character instead of showing it: control characters other than newline and
/// tab, and the marks that change the direction of the text after them.
fn is_command(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the text with each control character and each direction mark as a JSON escape such as `\u001b`; newlines
/// and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_command(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert!(matches!(visible("caf\u{e9}\tan\u{200f}d\n"), Cow::Borrowed(_)));
        let hostile = "a\u{1b}[31mb\rc\u{9b}2Jd\u{7f}\u{202e}e";
        let shown = r"a\u001b[31mb\u000dc\u009b2Jd\u007f\u202ee";
        assert_eq!(visible(hostile), shown);
        // Escaping does not change the value of a JSON object.
        let json = serde_json::to_string(hostile).unwrap();
        assert_eq!(serde_json::from_str::<String>(&visible(&json)).unwrap(), hostile);
    }
}
