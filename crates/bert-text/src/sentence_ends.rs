//! Characters that end a sentence, in all scripts.

/// Returns whether a character has the property `Sentence_Terminal` of Unicode, or ends sentences as the ellipsis and the
/// shad of Tibetan do.
pub fn is_sentence_end(c: char) -> bool {
    match c {
        '.' | '!' | '?' | '\u{2026}' => true,
        _ if c.is_ascii() => false,
        _ => {
            is_script_end(c)
                || matches!(u32::from(c),
            0x0589 | 0x061D..=0x061F | 0x06D4 | 0x0964..=0x0965 | 0x104A..=0x104B | 0x1362 | 0x1367..=0x1368
            | 0x203C..=0x203D | 0x2047..=0x2049 | 0x2E2E | 0x2E3C | 0x3002 | 0xFE52 | 0xFE56..=0xFE57 | 0xFF01
            | 0xFF0E | 0xFF1F | 0xFF61)
        }
    }
}

/// Returns whether a character ends sentences of a script that `sentencex` does not know.
pub fn is_script_end(c: char) -> bool {
    matches!(u32::from(c),
        // Syriac, N'Ko, Samaritan, Tibetan, Canadian syllabics, Philippine scripts, Khmer, Mongolian.
        0x0700..=0x0702 | 0x07F9 | 0x0837 | 0x0839 | 0x083D..=0x083E | 0x0F0D..=0x0F11 | 0x166E | 0x1735..=0x1736
        | 0x17D4..=0x17D5 | 0x1803 | 0x1809
        // Limbu, Tai Tham, Balinese, Lepcha, Ol Chiki, Lisu, Vai, Bamum, Phags-pa, Saurashtra.
        | 0x1944..=0x1945 | 0x1AA8..=0x1AAB | 0x1B5A..=0x1B5B | 0x1B5E..=0x1B5F | 0x1B7D..=0x1B7E | 0x1C3B..=0x1C3C
        | 0x1C7E..=0x1C7F | 0xA4FF | 0xA60E..=0xA60F | 0xA6F3 | 0xA6F7 | 0xA876..=0xA877 | 0xA8CE..=0xA8CF
        // Kayah Li, Javanese, Cham, Meetei Mayek.
        | 0xA92F | 0xA9C8..=0xA9C9 | 0xAA5D..=0xAA5F | 0xAAF0..=0xAAF1 | 0xABEB)
}

/// Returns whether a character may follow the end of a sentence: a closing quote or bracket, or a mark of emphasis.
pub(crate) fn closes(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | ')' | ']' | '}' | '*' | '_' | '\u{bb}' | '\u{ab}' | '\u{2018}'..='\u{201f}' | '\u{203a}'
    ) || matches!(c, '\u{300d}' | '\u{300f}' | '\u{3011}' | '\u{ff09}' | '\u{300b}' | '\u{3009}')
}

/// Returns whether a line ends with the end of a sentence; closing quotes and brackets may follow it.
pub(crate) fn ends_sentence(line: &str) -> bool {
    let end = |c: char| c.is_whitespace() || closes(c);
    line.trim_end_matches(end).chars().next_back().is_some_and(is_sentence_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_many_scripts_end_sentences() {
        for line in [
            "It rained.",
            "\u{201c}Why?\u{201d}",
            "(He left!)",
            "雨が降った。",
            "「行く。」",
            "वह गया।",
            "وہ گیا۔",
            "هل ذهب؟",
            "ទៅ។",
            "ሄደ።",
            "Он ушёл…",
            "Նա գնաց։",
            "བོད།",
            "သွား။",
        ] {
            assert!(ends_sentence(line), "{line}");
        }
        for line in ["", "It rained and", "A title", "He said:", "one, two,", "雨が", "\"Mill\"", "1984"] {
            assert!(!ends_sentence(line), "{line}");
        }
    }
}
