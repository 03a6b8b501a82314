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
use crate::encoding::examples::{PaddedBatch, by_length, padded_length};
use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::Error;

const EVAL_BATCH: usize = 64;

/// Tag of words beyond the maximum sequence length: no entity.
const OUTSIDE: &str = "O";

/// A tokenized sentence.
struct EncodedSentence {
    /// `[CLS] pieces [SEP]`
    encoded: EncodedPair,
    /// Position of the first piece of each word. There are fewer positions than words if the sentence was too long.
    first_pieces: Vec<usize>,
}

impl EncodedSentence {
    /// Tokenizes a sentence; drops words whose first piece would exceed `max_seq_length`.
    fn new(
        sentence: &Sentence,
        tokenizer: &Tokenizer,
        vocabulary: &Vocabulary,
        max_seq_length: usize,
    ) -> Self {
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
        Self { encoded: EncodedPair { input_ids, segment_ids }, first_pieces }
    }
}

/// Tokenized sentences.
pub struct EncodedSentences {
    encoded: Vec<EncodedSentence>,
    pad_id: i32,
    max_seq_length: usize,
}

impl EncodedSentences {
    /// Tokenizes sentences.
    pub fn new(sentences: &[Sentence], text: &ModelTokenizer, max_seq_length: usize) -> Self {
        let encode = |sentence: &Sentence| {
            EncodedSentence::new(sentence, &text.tokenizer, &text.vocabulary, max_seq_length)
        };
        let pad_id = text.vocabulary.pad_id() as i32;
        Self { encoded: sentences.iter().map(encode).collect(), pad_id, max_seq_length }
    }

    /// Returns the number of words beyond the maximum sequence length, which the model does not see.
    pub fn beyond(&self, sentence: usize, words: usize) -> usize {
        words - self.first_pieces(sentence).len()
    }

    /// Returns the positions of the first piece of each word in a sentence's sequence.
    pub fn first_pieces(&self, sentence: usize) -> &[usize] {
        &self.encoded[sentence].first_pieces
    }

    /// Returns the length to which a batch of these sentences is padded.
    pub fn padded_length(&self, sentences: &[usize]) -> usize {
        padded_length(sentences.iter().map(|&i| &self.encoded[i].encoded), self.max_seq_length)
    }

    /// Returns a batch of sentences, padded to `length`.
    pub fn batch(&self, sentences: &[usize], length: usize) -> PaddedBatch {
        let rows: Vec<_> = sentences.iter().map(|&i| &self.encoded[i].encoded).collect();
        PaddedBatch::with_length(&rows, self.pad_id, length)
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
        let lengths: Vec<usize> = self.encoded.iter().map(|s| s.encoded.input_ids.len()).collect();
        let width = names.len();
        for batch in by_length(&lengths, EVAL_BATCH) {
            stop.check()?;
            let padded = self.batch(&batch, self.padded_length(&batch));
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

    fn encode(words: &[&str], max_seq_length: usize) -> EncodedSentence {
        let text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nan\n##na\nrows";
        let vocabulary = Vocabulary::from_bytes(text.into(), std::path::Path::new("vocab.txt")).unwrap();
        let sentence = Sentence {
            words: words.iter().map(|word| word.to_string()).collect(),
            tags: vec![],
            line: 1,
            document: None,
        };
        EncodedSentence::new(&sentence, &Tokenizer::new(&vocabulary, true), &vocabulary, max_seq_length)
    }

    #[test]
    fn every_word_has_the_position_of_its_first_piece() {
        let sentence = encode(&["Anna", "rows", "\u{200b}", "an"], 128);
        assert_eq!(sentence.encoded.input_ids, [2, 5, 6, 7, 1, 5, 3]);
        assert_eq!(sentence.first_pieces, [1, 3, 4, 5]);
    }

    #[test]
    fn a_long_sentence_ends_with_a_separator() {
        // With space for two pieces, the second word is dropped, or truncated if its first piece still fits.
        assert_eq!(encode(&["anna", "rows"], 4).encoded.input_ids, [2, 5, 6, 3]);
        let cut = encode(&["rows", "anna"], 4);
        assert_eq!((cut.encoded.input_ids, cut.first_pieces), (vec![2, 7, 5, 3], vec![1, 2]));
    }
}
