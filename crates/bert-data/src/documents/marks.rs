//! Measures the marks that a text loses if accents are stripped.
//!
//! BERT strips all nonspacing marks of lower-cased text. In Latin, Greek and Cyrillic these are accents; in other scripts
//! they are vowels, tones and voicing marks, without which words cannot be told apart.

use std::path::PathBuf;

use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization;

use bert_text::line_check::BadLines;
use bert_text::{Format, InputReader, Reading, TextRules, each_text};
use bert_tokenization::{TokenizerSettings, basic_tokens};

use crate::error::Result;

/// Maximum number of files whose first block is measured.
const FILES: usize = 16;

/// Words of a text that stripping changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostMarks {
    words: u64,
    /// Number of words with each kind of [`Marks`], and the first one.
    found: [(u64, Option<String>); 2],
}

/// The kind of the marks of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Accents of Latin, Greek or Cyrillic only.
    Accents,
    /// Marks of another script.
    Letters,
}

/// Returns the kind of the marks of a word, if it has any.
pub(crate) fn marks(word: &str) -> Option<Marks> {
    let mut found = None;
    if word.is_ascii() {
        return found;
    }
    for c in word.chars().nfd().filter(|&c| get_general_category(c) == GeneralCategory::NonspacingMark) {
        match u32::from(c) {
            // Variation selectors, which follow emoji and ideographs, are neither accents nor letters.
            0xFE00..=0xFE0F | 0x180B..=0x180D | 0xE0100..=0xE01EF => {}
            0x0300..=0x036F
            | 0x0483..=0x0487
            | 0x1AB0..=0x1AFF
            | 0x1DC0..=0x1DFF
            | 0x20D0..=0x20FF
            | 0xFE20..=0xFE2F => {
                found = Some(Marks::Accents);
            }
            _ => return Some(Marks::Letters),
        }
    }
    found
}

/// Returns the number of words that white space separates, if at most one in a hundred can have marks that are letters.
/// This is so if nearly all characters are Latin, Greek or Cyrillic, or typographic signs.
fn words_without_letters(text: &[u8]) -> Option<u64> {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
    let others = text.iter().filter(|byte| matches!(byte, 0xD6..=0xE1 | 0xE3..)).count();
    (100 * others <= words).then_some(words as u64)
}

impl LostMarks {
    /// Measures the first block of each file, up to 16 of them. Without `accents`, text that has hardly any marks that
    /// are letters is not examined further, and its accents are not counted.
    ///
    /// # Errors
    /// Fails when a file, or a row of it, cannot be read.
    pub(crate) fn measure(files: &[PathBuf], reading: Reading<'_>, accents: bool) -> Result<Self> {
        let mut lost = Self::default();
        let rules = TextRules { reading, bad_lines: BadLines::Any, strict_rows: false };
        let kept = TokenizerSettings { strip_accents: Some(false), ..TokenizerSettings::default() };
        for (number, path) in files.iter().enumerate().take(FILES) {
            let Some(block) = InputReader::open_with(path, number, reading)?.next_block()? else { continue };
            if !accents
                && block.format == Format::Text
                && let Some(words) = words_without_letters(&block.bytes)
            {
                lost.words += words;
                continue;
            }
            each_text(&block, path, rules, |text, _| {
                if text.is_ascii() {
                    lost.words += text.split_ascii_whitespace().count() as u64;
                } else {
                    basic_tokens(text, kept, |word| lost.add(word));
                }
            })?;
        }
        Ok(lost)
    }

    fn add(&mut self, word: &str) {
        self.words += 1;
        if let Some(kind) = marks(word) {
            let (count, example) = &mut self.found[kind as usize];
            *count += 1;
            example.get_or_insert_with(|| word.to_owned());
        }
    }

    /// Returns whether more than one word in a hundred has marks that are letters of their script.
    pub(crate) fn are_letters(&self) -> bool {
        100 * self.found[Marks::Letters as usize].0 > self.words
    }

    /// Returns the share of words with marks of the more frequent kind and the first of these words, as text.
    pub(crate) fn share(&self) -> Option<String> {
        let kind = if self.are_letters() { Marks::Letters } else { Marks::Accents };
        let (count, example) = &self.found[kind as usize];
        let example = example.as_ref()?;
        let percent = 100.0 * *count as f64 / self.words.max(1) as f64;
        (percent >= 0.5)
            .then(|| format!("{percent:.1} % of the words at the beginning of the text (as {example})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_other_scripts_are_letters() {
        for word in ["m\u{fc}ller", "e\u{301}", "\u{439}", "\u{1f00}\u{3b3}\u{3bf}\u{3c1}\u{3ac}"] {
            assert_eq!(marks(word), Some(Marks::Accents), "{word}");
        }
        for word in [
            "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}",
            "\u{e19}\u{e35}\u{e49}",
            "\u{304c}",
            "\u{623}\u{628}",
        ] {
            assert_eq!(marks(word), Some(Marks::Letters), "{word}");
        }
        for word in ["mill", "\u{6cb3}", "\u{2764}\u{fe0f}", "\u{43c}\u{43b}\u{44b}\u{43d}"] {
            assert_eq!(marks(word), None, "{word}");
        }
    }
}
