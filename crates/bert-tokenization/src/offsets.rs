//! Finds word pieces together with their offsets in the text.
//!
//! Each piece has the byte range of the line that it came from, regardless of cleaning, lower-casing and accent
//! stripping. So an answer that a model gives in tokens can be quoted in the characters of the text.

use crate::basic::{CharClass, TokenizerSettings, clean, each_part, is_ideograph, normal, without_accents};
use crate::tokenizer::{Segment, Tokenizer};

/// A word piece, and the bytes of the text that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceWithOffsets {
    /// The id of the token.
    pub id: u32,
    /// Start of its first character, in bytes of the text.
    pub start: usize,
    /// End of its last character, including the accents that were stripped from it.
    pub end: usize,
}

/// A character of a word, and its position in the text.
#[derive(Clone, Copy)]
struct CharWithOffset {
    character: char,
    start: usize,
    end: usize,
}

impl Tokenizer {
    /// Returns the pieces of a text with their offsets, in order. The ids are the same as from [`Tokenizer::encode`].
    pub fn encode_with_offsets(&self, text: &str) -> Vec<PieceWithOffsets> {
        let mut pieces = Vec::new();
        self.each_segment(text, |segment| match segment {
            Segment::Text(start, text) => self.push_words(start, text, &mut pieces),
            Segment::Special(bytes, id) => {
                pieces.push(PieceWithOffsets { id, start: bytes.start, end: bytes.end });
            }
        });
        pieces
    }

    /// Appends the pieces of a text that begins at the byte `first`.
    fn push_words(&self, first: usize, text: &str, pieces: &mut Vec<PieceWithOffsets>) {
        let mut word: Vec<CharWithOffset> = Vec::new();
        for (at, character) in text.char_indices() {
            let start = first + at;
            let item = CharWithOffset { character, start, end: start + character.len_utf8() };
            match clean(character) {
                CharClass::Dropped => {}
                CharClass::Space => self.push_word(&mut word, pieces),
                CharClass::Text if self.settings.tokenize_chinese_chars && is_ideograph(character) => {
                    self.push_word(&mut word, pieces);
                    word.push(item);
                    self.push_word(&mut word, pieces);
                }
                CharClass::Text => word.push(item),
            }
        }
        self.push_word(&mut word, pieces);
    }

    /// Appends the pieces of a word and clears the word.
    fn push_word(&self, word: &mut Vec<CharWithOffset>, pieces: &mut Vec<PieceWithOffsets>) {
        if word.is_empty() {
            return;
        }
        let plain: String = word.iter().map(|item| item.character).collect();
        let normal = normal(&plain, self.settings);
        let offsets = self.offsets(word, &normal);
        let mut part_start = 0;
        each_part(&normal, |part| {
            self.each_piece(part, |(id, bytes)| {
                let first = part_start + bytes.start;
                let last = part_start + bytes.end - 1;
                pieces.push(PieceWithOffsets { id, start: offsets[first].0, end: offsets[last].1 });
            });
            part_start += part.len();
        });
        word.clear();
    }

    /// Returns, for each byte of a normalized word, the bytes of the text that its character came from.
    fn offsets(&self, word: &[CharWithOffset], normal: &str) -> Vec<(usize, usize)> {
        let mut offsets: Vec<(usize, usize)> = Vec::with_capacity(normal.len());
        let mut characters = normal.chars();
        for item in word {
            let length = normalized_length(item.character, self.settings);
            for _ in 0..length {
                let bytes = characters.next().map_or(0, char::len_utf8);
                offsets.extend(std::iter::repeat_n((item.start, item.end), bytes));
            }
            if length == 0 {
                // An accent belongs to the letter before it.
                let end_of_letter = offsets.last().map_or(0, |offset| offset.1);
                let letter_offsets = offsets.iter_mut().rev().take_while(|offset| offset.1 == end_of_letter);
                letter_offsets.for_each(|offset| offset.1 = item.end);
            }
        }
        // If the normal forms of the single characters ever differ from the normal form of the word, each piece covers
        // the whole word.
        if characters.next().is_some() || offsets.len() != normal.len() {
            offsets = vec![(word[0].start, word[word.len() - 1].end); normal.len()];
        }
        offsets
    }
}

/// Returns the number of characters that one character has after normalization.
fn normalized_length(character: char, settings: TokenizerSettings) -> usize {
    match (settings.do_lower_case, settings.strips_accents()) {
        (true, true) => without_accents(character.to_lowercase()).count(),
        (true, false) => character.to_lowercase().count(),
        (false, true) => without_accents(std::iter::once(character)).count(),
        (false, false) => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::vocabulary::Vocabulary;
    use bert_random::{Domain, Random, Stream};

    fn tokenizer(settings: impl Into<TokenizerSettings>) -> Tokenizer {
        let words = [
            "[PAD]",
            "[UNK]",
            "[CLS]",
            "[SEP]",
            "[MASK]",
            "cafe",
            "caf",
            "##e",
            "na",
            "##ive",
            "straße",
            "##s",
            "a",
            "b",
            "c",
            "##a",
            "##b",
            "##c",
            ".",
            ",",
            "-",
            "\u{4f60}",
            "\u{597d}",
            "i",
            "\u{3c3}",
            "##\u{3c2}",
            "Caf",
            "##\u{e9}",
        ];
        let vocabulary =
            Vocabulary::from_bytes(words.join("\n").into_bytes(), Path::new("vocab.txt")).unwrap();
        Tokenizer::new(&vocabulary, settings)
    }

    fn quoted(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
        let pieces = tokenizer.encode_with_offsets(text);
        pieces.iter().map(|piece| text[piece.start..piece.end].to_string()).collect()
    }

    #[test]
    fn accents_and_case_are_quoted_as_they_stand() {
        let lower = tokenizer(true);
        assert_eq!(quoted(&lower, "Caf\u{e9}, na\u{ef}ve."), ["Caf\u{e9}", ",", "na", "\u{ef}ve", "."]);
        // The same with combining accents, the last one at the end of a word.
        assert_eq!(quoted(&lower, "Cafe\u{301} b"), ["Cafe\u{301}", "b"]);
        assert_eq!(quoted(&lower, "\u{130}"), ["\u{130}"]);
        let cased = tokenizer(false);
        assert_eq!(quoted(&cased, "Caf\u{e9}"), ["Caf", "\u{e9}"]);
    }

    #[test]
    fn ideographs_and_odd_spaces_do_not_shift_places() {
        let lower = tokenizer(true);
        let text = "\u{a0}\u{4f60}\u{597d}\u{3000}a\u{200b}b\u{2003}-c";
        assert_eq!(quoted(&lower, text), ["\u{4f60}", "\u{597d}", "a", "b", "-", "c"].map(String::from));
        assert_eq!(quoted(&lower, ""), Vec::<String>::new());
    }

    #[test]
    fn an_unknown_word_is_one_place() {
        assert_eq!(quoted(&tokenizer(true), "a Zebra b"), ["a", "Zebra", "b"]);
    }

    /// For any text, the ids equal `encode`'s, and the offsets are in order and on character boundaries.
    #[test]
    fn ids_are_those_without_places() {
        let alphabet: Vec<char> =
            "abcCAF e\u{e9}\u{301}\u{327}i\u{130}\u{3a3}\u{3c2}\u{df}.-\u{4f60}\u{f900}\u{ac01}\u{200d}\
                                   \u{a0}\t\u{fffd}\u{1f1}\u{149}\u{fb01}\u{1e9e}\u{2028}\u{1100}\u{302e}"
                .chars()
                .collect();
        let mut stream = Stream::new(1, Domain::Test, &[]);
        let all = [true, false].map(|lower| [None, Some(true), Some(false)].map(|strip| (lower, strip)));
        for (do_lower_case, strip_accents) in all.into_iter().flatten() {
            let tokenize_chinese_chars = strip_accents.is_none();
            let tokenizer = tokenizer(TokenizerSettings {
                do_lower_case,
                strip_accents,
                tokenize_chinese_chars,
                ..TokenizerSettings::default()
            });
            for _ in 0..20_000 {
                let length = stream.below(12);
                let text: String = (0..length).map(|_| alphabet[stream.below(alphabet.len())]).collect();
                let mut ids = Vec::new();
                tokenizer.encode(&text, &mut ids);
                let pieces = tokenizer.encode_with_offsets(&text);
                assert_eq!(pieces.iter().map(|piece| piece.id).collect::<Vec<_>>(), ids, "{text:?}");
                for piece in &pieces {
                    assert!(
                        piece.start < piece.end && text.get(piece.start..piece.end).is_some(),
                        "{text:?}"
                    );
                }
                assert!(pieces.is_sorted_by_key(|piece| piece.start), "{text:?} {pieces:?}");
            }
        }
    }
}
