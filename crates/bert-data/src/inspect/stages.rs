//! Shows what the builder does to a text, stage by stage: sentences, word pieces, segments, truncation, masks.
//!
//! The draws come from the streams of a build in keyed mode with the same seed and pass. A build also assigns the
//! documents to buckets, so its random segments B may come from other documents.

use std::ops::Range;

use bert_tokenization::{TokenId, Tokenizer, Vocabulary};
use serde::Serialize;

use crate::config::derived::number_to_predict;
use crate::documents::{Documents, DocumentsBuilder};
use crate::error::Result;
use crate::instance::masking::{MaskRules, Masker, mask_stream, pair_stream};
use crate::instance::pairs::{Instance, PairRules, UncutPair, draw_uncut_pairs};

/// A sentence and its word pieces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SentenceStage {
    /// The line of the text.
    pub text: String,
    /// The word pieces of the line.
    pub pieces: Vec<String>,
}

/// A segment of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SegmentStage {
    /// Index of the segment's document.
    pub document: usize,
    /// Index of the segment's first sentence in the document.
    pub first_sentence: usize,
    /// The number of sentences.
    pub sentences: usize,
    /// The number of tokens before truncation.
    pub tokens: usize,
    /// Tokens that truncation removed from the front.
    pub cut_front: usize,
    /// Tokens that truncation removed from the back.
    pub cut_back: usize,
}

/// A masked position.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MaskStage {
    /// Position in the instance.
    pub position: usize,
    /// The original token, which the model must predict.
    pub original: String,
    /// The token that is now at the position: `[MASK]`, the original or a random one.
    pub written: String,
}

/// An instance of a document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InstanceStage {
    /// Index of the document.
    pub document: usize,
    /// Maximum number of text tokens.
    pub max_tokens: usize,
    /// The target number of text tokens; less than the maximum if a short length was drawn.
    pub target: usize,
    /// Segment A.
    pub a: SegmentStage,
    /// Segment B.
    pub b: SegmentStage,
    /// Whether B is from another document.
    pub is_random_next: bool,
    /// The tokens before masking.
    pub tokens: Vec<String>,
    /// The number of tokens of `[CLS] A [SEP]`.
    pub first_segment_tokens: usize,
    /// The number of positions to mask.
    pub to_predict: usize,
    /// The masked positions.
    pub masks: Vec<MaskStage>,
}

/// A text in all stages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stages {
    /// The sentences of each document.
    pub documents: Vec<Vec<SentenceStage>>,
    /// The instances, in the order of their documents.
    pub instances: Vec<InstanceStage>,
}

/// The rules of the stages.
pub struct StageRules<'a> {
    /// The tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// The vocabulary of the tokenizer.
    pub vocabulary: &'a Vocabulary,
    /// The rules for pairs.
    pub pairs: PairRules,
    /// The rules for masks.
    pub masks: MaskRules,
    /// The seed of all draws.
    pub seed: u64,
    /// The pass over the text.
    pub pass: u64,
}

impl StageRules<'_> {
    /// Returns the stages of a text with one sentence per line and a blank line between documents, with at most `limit`
    /// instances. Sentences without a token are left out.
    ///
    /// # Errors
    /// Fails when a document has more tokens than 32 bits can count.
    pub fn stages(&self, text: &str, limit: usize) -> Result<Stages> {
        let (sentences, documents) = self.documents(text)?;
        let mut instances = Vec::new();
        let mut masker = Masker::new(self.vocabulary, self.masks);
        for index in 0..documents.len() {
            let masks = mask_stream(self.seed, self.pass, index as u64);
            let mut random = pair_stream(self.seed, self.pass, index as u64);
            let mut number = 0;
            draw_uncut_pairs(&documents, index, &self.pairs, &mut random, |_, pair, uncut| {
                let mut instance = Instance::default();
                pair.fill(&documents, &self.pairs, &mut instance);
                let before = instance.tokens.clone();
                masker.mask(&mut instance, &mut masks.branch(number));
                number += 1;
                if instances.len() < limit {
                    let segments: Vec<(usize, Range<usize>)> =
                        pair.segments().map(|segment| (segment.document as usize, segment.range())).collect();
                    let drawn = DrawnPair { document: index, segments, uncut };
                    instances.push(self.instance(&documents, &drawn, &before, &instance));
                }
                Ok(())
            })?;
        }
        Ok(Stages { documents: sentences, instances })
    }

    /// Splits a text into documents and sentences, and tokenizes them.
    fn documents(&self, text: &str) -> Result<(Vec<Vec<SentenceStage>>, Documents)> {
        let mut builder = DocumentsBuilder::new(self.vocabulary.len());
        let mut all = Vec::new();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for block in lines.split(|line| line.is_empty()) {
            let mut sentences = Vec::new();
            for line in block {
                let mut ids = Vec::new();
                self.tokenizer.encode(line, &mut ids);
                if !ids.is_empty() {
                    builder.push_sentence(&ids)?;
                    sentences.push(SentenceStage { text: (*line).to_owned(), pieces: self.words(&ids) });
                }
            }
            if !sentences.is_empty() {
                builder.close_document()?;
                all.push(sentences);
            }
        }
        Ok((all, builder.finish()?))
    }

    fn words(&self, ids: &[TokenId]) -> Vec<String> {
        ids.iter().map(|&id| self.vocabulary.token(id).to_string()).collect()
    }

    fn instance(
        &self,
        documents: &Documents,
        drawn: &DrawnPair<'_>,
        before: &[TokenId],
        masked: &Instance,
    ) -> InstanceStage {
        let DrawnPair { document, ref segments, uncut } = *drawn;
        let empty = (document, 0..0);
        let [a, b] = [0, 1].map(|at| segments.get(at).unwrap_or(&empty));
        let MaskRules { masked_lm_prob, max_predictions_per_seq, .. } = self.masks;
        let masks = masked.masked_lm_positions.iter().zip(&masked.masked_lm_ids);
        let mask = |(&position, &original): (&u32, &TokenId)| MaskStage {
            position: position as usize,
            original: self.vocabulary.token(original).to_string(),
            written: self.vocabulary.token(masked.tokens[position as usize]).to_string(),
        };
        InstanceStage {
            document,
            max_tokens: self.pairs.max_seq_length - if segments.len() < 2 { 2 } else { 3 },
            target: uncut.target,
            a: segment(documents, a, &uncut.a),
            b: segment(documents, b, &uncut.b),
            is_random_next: masked.is_random_next,
            tokens: self.words(before),
            first_segment_tokens: masked.first_segment_tokens(),
            to_predict: number_to_predict(before.len(), masked_lm_prob, max_predictions_per_seq),
            masks: masks.map(mask).collect(),
        }
    }
}

/// A pair that was drawn in a document.
struct DrawnPair<'a> {
    /// The number of the document.
    document: usize,
    /// The document and the tokens of each segment.
    segments: Vec<(usize, Range<usize>)>,
    /// The pair before truncation.
    uncut: &'a UncutPair,
}

/// Describes a segment: its sentences, and the tokens that truncation removed.
fn segment(
    documents: &Documents,
    (document, cut): &(usize, Range<usize>),
    uncut: &Range<usize>,
) -> SegmentStage {
    let of = documents.document(*document);
    let inside = |sentence: &usize| {
        let range = of.sentence(*sentence);
        uncut.start <= range.start && range.end <= uncut.end
    };
    let sentences: Vec<usize> = (0..of.sentences()).filter(inside).collect();
    SegmentStage {
        document: *document,
        first_sentence: sentences.first().copied().unwrap_or(0),
        sentences: sentences.len(),
        tokens: uncut.len(),
        cut_front: cut.start.saturating_sub(uncut.start),
        cut_back: uncut.end.saturating_sub(cut.end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Nsp;

    fn vocabulary() -> Vocabulary {
        let words: String = (0..60).map(|word| format!("w{word}\n")).collect();
        let tokens = format!("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n{words}");
        Vocabulary::from_bytes(tokens.into(), "vocab.txt".as_ref()).unwrap()
    }

    fn text() -> String {
        let sentence = |at: usize| (0..6).map(|word| format!("w{} ", (at + word) % 60)).collect::<String>();
        let document = |at: usize| (0..5).map(|n| sentence(10 * at + n) + "\n").collect::<String>();
        [0, 1, 2].map(document).join("\n")
    }

    fn stages(max_seq_length: usize) -> Stages {
        let vocabulary = vocabulary();
        let tokenizer = Tokenizer::new(&vocabulary, true);
        let pairs = PairRules {
            max_seq_length,
            short_seq_prob: 0.1,
            reference: false,
            nsp: Nsp::On,
            cls: vocabulary.cls_id(),
            sep: vocabulary.sep_id(),
        };
        let masks = MaskRules { max_predictions_per_seq: 5, ..MaskRules::default() };
        let rules =
            StageRules { tokenizer: &tokenizer, vocabulary: &vocabulary, pairs, masks, seed: 3, pass: 0 };
        rules.stages(&text(), 100).unwrap()
    }

    #[test]
    fn every_token_of_an_instance_is_accounted_for() {
        let Stages { documents, instances } = stages(24);
        assert_eq!(documents.iter().map(Vec::len).collect::<Vec<_>>(), [5, 5, 5]);
        assert_eq!(documents[1][0].pieces[0], "w10");
        assert!(instances.len() >= 3 && instances.iter().any(|one| one.b.document != one.document));
        for one in &instances {
            let left = |part: &SegmentStage| part.tokens - part.cut_front - part.cut_back;
            assert_eq!(one.tokens.len(), left(&one.a) + left(&one.b) + 3, "{one:?}");
            assert!(one.tokens.len() <= 24 && one.target <= one.max_tokens);
            assert_eq!((one.a.sentences * 6, one.b.sentences * 6), (one.a.tokens, one.b.tokens));
            assert_eq!(one.is_random_next, one.b.document != one.document);
            assert_eq!(one.tokens[one.first_segment_tokens - 1], "[SEP]");
            assert_eq!(one.masks.len(), one.to_predict);
            for mask in &one.masks {
                assert_eq!(mask.original, one.tokens[mask.position]);
                assert!(!mask.original.starts_with('['), "special tokens are never masked: {mask:?}");
            }
        }
        assert!(instances.iter().any(|one| one.a.cut_front + one.a.cut_back + one.b.cut_back > 0));
    }

    #[test]
    fn stages_repeat() {
        assert_eq!(stages(32), stages(32));
    }
}
