//! Makes batches of sentences, and collects the tags that the model gives to their words.

use bert_model::{BertForTokenClassification, Mode};
use burn::tensor::Device;

use super::conll::Sentence;
use super::pieces::EncodedSentence;
use crate::host::values;
use crate::padding::{PaddedBatch, by_length};
use crate::text::Text;

const EVAL_BATCH: usize = 64;

/// What a word gets that is beyond the longest sequence: no entity.
const OUTSIDE: &str = "O";

/// Sentences as word pieces.
pub(crate) struct EncodedSentences {
    encoded: Vec<EncodedSentence>,
    pad_id: i32,
    max_seq_length: usize,
}

impl EncodedSentences {
    /// Tokenizes sentences.
    pub(crate) fn new(sentences: &[Sentence], text: &Text, max_seq_length: usize) -> Self {
        let encode = |sentence: &Sentence| {
            EncodedSentence::new(sentence, &text.tokenizer, &text.vocabulary, max_seq_length)
        };
        let pad_id = text.vocabulary.pad_id() as i32;
        Self { encoded: sentences.iter().map(encode).collect(), pad_id, max_seq_length }
    }

    /// Where in a sentence's sequence the first piece of each word stands.
    pub(crate) fn places(&self, sentence: usize) -> &[usize] {
        &self.encoded[sentence].places
    }

    /// Some sentences as the model reads them.
    pub(crate) fn batch(&self, sentences: &[usize]) -> PaddedBatch {
        let rows: Vec<_> = sentences.iter().map(|&i| &self.encoded[i].encoded).collect();
        PaddedBatch::new(&rows, self.pad_id, self.max_seq_length)
    }

    /// The most probable tag of every word of every sentence, by the names of the model's outputs.
    pub(crate) fn tags(
        &self,
        sentences: &[Sentence],
        model: &BertForTokenClassification,
        names: &[String],
        device: &Device,
    ) -> Vec<Vec<String>> {
        let outside = |sentence: &Sentence| vec![OUTSIDE.to_string(); sentence.words.len()];
        let mut tags: Vec<Vec<String>> = sentences.iter().map(outside).collect();
        let lengths: Vec<usize> = self.encoded.iter().map(|s| s.encoded.input_ids.len()).collect();
        let width = names.len();
        for batch in by_length(&lengths, EVAL_BATCH) {
            let padded = self.batch(&batch);
            let logits = values(model.forward(padded.input(device), Mode::Eval));
            for (row, &sentence) in batch.iter().enumerate() {
                for (word, &place) in self.places(sentence).iter().enumerate() {
                    let at = (row * padded.seq_length + place) * width;
                    let scores = &logits[at..at + width];
                    let best = (1..width).fold(0, |best, i| if scores[i] > scores[best] { i } else { best });
                    tags[sentence][word] = names[best].clone();
                }
            }
        }
        tags
    }
}
