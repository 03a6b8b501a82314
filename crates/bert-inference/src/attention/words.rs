//! Groups the tokens of a sequence into words: word pieces form a word, and Chinese characters form the words that
//! jieba finds.

use std::ops::Range;

use bert_tasks::EncodedPair;
use bert_tokenization::{ChineseSegmenter, Vocabulary, is_ideograph};

use crate::probe::word_edits::word_ranges;

/// Returns the number of the word of each token, from 0. Numbers increase by at most 1 from token to token.
pub(super) fn word_numbers(encoded: &EncodedPair, vocabulary: &Vocabulary) -> Vec<usize> {
    let mut begins = vec![true; encoded.input_ids.len()];
    for Range { start, end } in word_ranges(encoded, vocabulary) {
        begins[start + 1..end].fill(false);
    }
    let character = |id: &u32| {
        let mut chars = vocabulary.token(*id).chars();
        chars.next().filter(|c| chars.next().is_none() && is_ideograph(*c))
    };
    let characters: Vec<Option<char>> = encoded.input_ids.iter().map(character).collect();
    let mut segmenter: Option<ChineseSegmenter> = None;
    let mut start = 0;
    let mut continues = Vec::new();
    for run in characters.chunk_by(|a, b| a.is_some() == b.is_some()) {
        let text: String = run.iter().flatten().collect();
        if !text.is_empty() && run.len() > 1 {
            segmenter.get_or_insert_default().segment(&text, &mut continues);
            for (begins, continues) in begins[start..].iter_mut().zip(&continues) {
                *begins = !continues;
            }
        }
        start += run.len();
    }
    let mut number = 0;
    let numbers = begins.iter().enumerate().map(|(at, begins)| {
        number += usize::from(at > 0 && *begins);
        number
    });
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn pieces_and_chinese_characters_form_words() {
        let file = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nplay\n##ing\n我\n来\n到\n北\n京\n";
        let vocabulary = Vocabulary::from_bytes(file.into(), Path::new("vocab.txt")).unwrap();
        let numbers = |ids: &[u32]| {
            let encoded = EncodedPair { input_ids: ids.to_vec(), segment_ids: vec![0; ids.len()] };
            word_numbers(&encoded, &vocabulary)
        };
        assert_eq!(numbers(&[2, 5, 6, 5, 3]), [0, 1, 1, 2, 3]);
        // jieba cuts these characters into three words, as in the longer example of its README.
        assert_eq!(numbers(&[2, 7, 8, 9, 10, 11, 3, 10, 3]), [0, 1, 2, 2, 3, 3, 4, 5, 6]);
    }
}
