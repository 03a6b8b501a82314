//! Cuts words into word pieces: the first piece of each word carries its tag, the others carry none.
//!
//! This is the scheme of the paper (5.3) and of `run_ner.py` of `transformers`. A word of which tokenizing leaves
//! nothing becomes one `[UNK]`, so that every word has a place.

use bert_data::{Tokenizer, Vocabulary};

use super::conll::Sentence;
use crate::tasks::EncodedPair;

/// A sentence as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedSentence {
    /// `[CLS] pieces [SEP]`
    pub encoded: EncodedPair,
    /// Where the first piece of each word stands; fewer than words where the sentence was too long.
    pub places: Vec<usize>,
}

impl EncodedSentence {
    /// Tokenizes a sentence; words whose first piece would stand beyond `max_seq_length` are left out.
    #[must_use]
    pub fn new(
        sentence: &Sentence,
        tokenizer: &Tokenizer,
        vocabulary: &Vocabulary,
        max_seq_length: usize,
    ) -> Self {
        let mut input_ids = vec![vocabulary.cls_id()];
        let mut places = Vec::new();
        for word in &sentence.words {
            let first = input_ids.len();
            if first + 1 >= max_seq_length {
                break;
            }
            places.push(first);
            tokenizer.encode(word, &mut input_ids);
            if input_ids.len() == first {
                input_ids.push(vocabulary.unk_id());
            }
        }
        input_ids.truncate(max_seq_length - 1);
        input_ids.push(vocabulary.sep_id());
        let segment_ids = vec![0; input_ids.len()];
        Self { encoded: EncodedPair { input_ids, segment_ids }, places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(words: &[&str], max_seq_length: usize) -> EncodedSentence {
        let text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nan\n##na\nrows";
        let vocabulary = Vocabulary::from_bytes(text.into(), std::path::Path::new("vocab.txt")).unwrap();
        let sentence =
            Sentence { words: words.iter().map(|word| word.to_string()).collect(), tags: vec![], line: 1 };
        EncodedSentence::new(&sentence, &Tokenizer::new(&vocabulary, true), &vocabulary, max_seq_length)
    }

    #[test]
    fn the_first_piece_of_every_word_has_a_place() {
        let sentence = encode(&["Anna", "rows", "\u{200b}", "an"], 128);
        assert_eq!(sentence.encoded.input_ids, [2, 5, 6, 7, 1, 5, 3]);
        assert_eq!(sentence.places, [1, 3, 4, 5]);
    }

    #[test]
    fn a_long_sentence_ends_with_a_separator() {
        // Room for two pieces: the second word is left out, or cut where its first piece still fits.
        assert_eq!(encode(&["anna", "rows"], 4).encoded.input_ids, [2, 5, 6, 3]);
        let cut = encode(&["rows", "anna"], 4);
        assert_eq!((cut.encoded.input_ids, cut.places), (vec![2, 7, 5, 3], vec![1, 2]));
    }
}
