//! Tokenizes words into word pieces, batches sentences, and collects the predicted tag of each word.
//!
//! The first piece of each word has the tag of the word, and the other pieces have none, as in the paper (5.3) and in
//! `run_ner.py` of `transformers`. A word that the tokenizer reduces to nothing becomes one `[UNK]`, so that every word
//! has a position.

use bert_model::{BertForTokenClassification, Mode};
use bert_tasks::{EncodedPair, Sentence};
use bert_tokenization::{Tokenizer, Vocabulary};
use burn::tensor::Device;

use crate::compute::host_tensors::read;
use crate::compute::stop_flag::StopFlag;
use crate::encoding::examples::{EVAL_BATCH, Features};
use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::Error;

/// Tag of words beyond the maximum sequence length: no entity.
const OUTSIDE: &str = "O";

/// Returns `[CLS] pieces [SEP]` of a sentence, and the position of the first piece of each word. Words whose first piece
/// would exceed `max_seq_length` are dropped.
fn encode_sentence(
    sentence: &Sentence,
    tokenizer: &Tokenizer,
    vocabulary: &Vocabulary,
    max_seq_length: usize,
) -> (EncodedPair, Vec<usize>) {
    let mut input_ids = vec![vocabulary.cls_id()];
    let mut first_pieces = Vec::new();
    for word in &sentence.words {
        let first = input_ids.len();
        if first + 1 >= max_seq_length {
            break;
        }
        first_pieces.push(first);
        tokenizer.encode(word, &mut input_ids);
        if input_ids.len() == first {
            input_ids.push(vocabulary.unk_id());
        }
    }
    input_ids.truncate(max_seq_length - 1);
    input_ids.push(vocabulary.sep_id());
    let segment_ids = vec![0; input_ids.len()];
    (EncodedPair { input_ids, segment_ids }, first_pieces)
}

/// Tokenized sentences.
pub struct EncodedSentences {
    /// The sequences.
    pub features: Features,
    /// Position of the first piece of each word. There are fewer positions than words if a sentence was too long.
    first_pieces: Vec<Vec<usize>>,
}

impl EncodedSentences {
    /// Tokenizes sentences.
    pub fn new(sentences: &[Sentence], text: &ModelTokenizer, max_seq_length: usize) -> Self {
        let encode = |sentence: &Sentence| {
            encode_sentence(sentence, &text.tokenizer, &text.vocabulary, max_seq_length)
        };
        let (encoded, first_pieces) = sentences.iter().map(encode).unzip();
        Self { features: Features::from_encoded(encoded, &text.vocabulary, max_seq_length), first_pieces }
    }

    /// Returns the number of words of a sentence that are beyond the maximum sequence length, so that the model does
    /// not see them. `words` is the number of all its words.
    pub fn beyond(&self, sentence: usize, words: usize) -> usize {
        words - self.first_pieces(sentence).len()
    }

    /// Returns the positions of the first piece of each word in a sentence's sequence.
    pub fn first_pieces(&self, sentence: usize) -> &[usize] {
        &self.first_pieces[sentence]
    }

    /// Returns the most probable tag of every word in every sentence, named as in the model's outputs.
    ///
    /// # Errors
    /// Fails when a stop is requested before the last batch, or when the device fails.
    pub fn tags(
        &self,
        sentences: &[Sentence],
        model: &BertForTokenClassification,
        names: &[String],
        device: &Device,
        stop: &StopFlag,
    ) -> Result<Vec<Vec<String>>, Error> {
        let outside = |sentence: &Sentence| vec![OUTSIDE.to_string(); sentence.words.len()];
        let mut tags: Vec<Vec<String>> = sentences.iter().map(outside).collect();
        let width = names.len();
        for batch in self.features.by_length(EVAL_BATCH) {
            stop.check()?;
            let padded = self.features.padded(&batch, self.features.padded_length(&batch));
            let logits = read(model.forward(padded.input(device), Mode::Eval))?;
            for (row, &sentence) in batch.iter().enumerate() {
                for (word, &position) in self.first_pieces(sentence).iter().enumerate() {
                    let at = (row * padded.seq_length + position) * width;
                    let scores = &logits[at..at + width];
                    let best = (1..width).fold(0, |best, i| if scores[i] > scores[best] { i } else { best });
                    tags[sentence][word] = names[best].clone();
                }
            }
        }
        Ok(tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(words: &[&str], max_seq_length: usize) -> (Vec<u32>, Vec<usize>) {
        let text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nan\n##na\nrows";
        let vocabulary = Vocabulary::from_bytes(text.into(), std::path::Path::new("vocab.txt")).unwrap();
        let sentence = Sentence {
            words: words.iter().map(|word| word.to_string()).collect(),
            tags: vec![],
            line: 1,
            document: None,
        };
        let tokenizer = Tokenizer::new(&vocabulary, true);
        let (encoded, first_pieces) = encode_sentence(&sentence, &tokenizer, &vocabulary, max_seq_length);
        (encoded.input_ids, first_pieces)
    }

    #[test]
    fn every_word_has_the_position_of_its_first_piece() {
        let (input_ids, first_pieces) = encode(&["Anna", "rows", "\u{200b}", "an"], 128);
        assert_eq!(input_ids, [2, 5, 6, 7, 1, 5, 3]);
        assert_eq!(first_pieces, [1, 3, 4, 5]);
    }

    #[test]
    fn a_long_sentence_ends_with_a_separator() {
        // With space for two pieces, the second word is dropped, or truncated if its first piece still fits.
        assert_eq!(encode(&["anna", "rows"], 4).0, [2, 5, 6, 3]);
        assert_eq!(encode(&["rows", "anna"], 4), (vec![2, 7, 5, 3], vec![1, 2]));
    }
}
