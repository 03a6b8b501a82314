//! Finds the words of an encoded text and replaces one of them: `--replace` of `bert probe`.

use std::ops::Range;
use std::str::FromStr;

use bert_tasks::EncodedPair;
use bert_tokenization::Vocabulary;

/// A word to replace and its replacements, each applied separately.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    pub(super) target: Target,
    pub(super) replacements: Vec<String>,
}

/// The words that a replacement applies to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    /// The word at this position, from 1.
    Position(usize),
    /// Every occurrence of this word.
    Word(String),
}

impl FromStr for Replacement {
    type Err = String;

    /// Parses `POSITION=WORD,WORD,...` or `WORD=WORD,WORD,...`.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected POSITION=WORD[,WORD...] or WORD=WORD[,WORD...]".to_string();
        let (word, replacements) = text.split_once('=').ok_or_else(expected)?;
        let replacements: Vec<String> = replacements.split(',').map(|word| word.trim().to_string()).collect();
        let is_wrong = |word: &String| word.is_empty() || word.contains('=');
        if word.trim().is_empty() || replacements.iter().any(is_wrong) {
            return Err(expected());
        }
        let target = match word.trim().parse() {
            Ok(0) => return Err("words are counted from 1".to_string()),
            Ok(position) => Target::Position(position),
            Err(_) => Target::Word(word.trim().to_string()),
        };
        Ok(Self { target, replacements })
    }
}

/// A replaced word in a sequence.
pub(super) struct Edit {
    /// Position of the word's first token.
    pub(super) start: usize,
    /// Number of tokens that the sequence gains.
    pub(super) growth: isize,
}

impl Edit {
    /// Returns the position that a token outside the word has after the replacement.
    pub(super) fn moved(&self, position: usize) -> usize {
        if position > self.start { position.saturating_add_signed(self.growth) } else { position }
    }
}

/// Returns the token range of each word, without `[CLS]` and `[SEP]`; continuation pieces belong to their word.
pub(crate) fn word_ranges(encoded: &EncodedPair, vocabulary: &Vocabulary) -> Vec<Range<usize>> {
    let special = [vocabulary.cls_id(), vocabulary.sep_id()];
    let mut words: Vec<Range<usize>> = Vec::new();
    for (at, &id) in encoded.input_ids.iter().enumerate() {
        match words.last_mut() {
            _ if special.contains(&id) => {}
            Some(word) if word.end == at && vocabulary.token(id).starts_with("##") => word.end = at + 1,
            _ => words.push(at..at + 1),
        }
    }
    words
}

/// Returns the word of these pieces.
pub(super) fn word_text(ids: &[u32], vocabulary: &Vocabulary) -> String {
    let piece = |(at, &id): (usize, &u32)| {
        let token = vocabulary.token(id);
        if at > 0 { token.trim_start_matches("##") } else { token }
    };
    ids.iter().enumerate().map(piece).collect()
}

/// Returns the sequence with the tokens of a range replaced by `ids`.
pub(super) fn with_ids_at(encoded: &EncodedPair, range: Range<usize>, ids: &[u32]) -> EncodedPair {
    let mut changed = encoded.clone();
    let segment = changed.segment_ids[range.start];
    changed.segment_ids.splice(range.clone(), std::iter::repeat_n(segment, ids.len()));
    changed.input_ids.splice(range, ids.iter().copied());
    changed
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn replacements_are_parsed() {
        let read = |text: &str| text.parse::<Replacement>();
        let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
        assert_eq!(
            read("3=bad, worse"),
            Ok(Replacement { target: Target::Position(3), replacements: words(&["bad", "worse"]) })
        );
        assert_eq!(
            read("he=she"),
            Ok(Replacement { target: Target::Word("he".into()), replacements: words(&["she"]) })
        );
        for wrong in ["he", "=she", "he=", "he=she,", "he=she,we=they", "0=she"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_are_found_and_replaced_whole() {
        let file = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nplay\n##ing\n.\n##x\n".to_vec();
        let vocabulary = Vocabulary::from_bytes(file, Path::new("vocab.txt")).unwrap();
        let encoded = EncodedPair {
            input_ids: vec![2, 5, 6, 7, 3, 4, 6, 3],
            segment_ids: vec![0, 0, 0, 0, 0, 1, 1, 1],
        };
        let words = word_ranges(&encoded, &vocabulary);
        assert_eq!(words, [1..3, 3..4, 5..7]);
        assert_eq!(word_text(&encoded.input_ids[1..3], &vocabulary), "playing");
        let changed = with_ids_at(&encoded, 1..3, &[7]);
        assert_eq!(changed.input_ids, [2, 7, 7, 3, 4, 6, 3]);
        assert_eq!(changed.segment_ids, [0, 0, 0, 0, 1, 1, 1]);
    }
}
