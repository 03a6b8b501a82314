//! Splits a text that is longer than the model's sequence into overlapping windows.
//!
//! Ports `convert_examples_to_features` and `_check_is_max_context` of the reference's `run_squad.py`. An input is
//! `[CLS] question [SEP] window [SEP]`, and a window begins every `doc_stride` tokens. Most tokens occur in several
//! windows; an answer may begin in a window only at tokens that have more context there than in any other window.

use std::ops::Range;

use bert_tokenization::{PieceWithOffsets, Tokenizer};

use crate::task::example::Question;
use crate::{EncodedPair, SpecialIds};

/// Settings for windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSettings {
    /// Maximum sequence length, including special tokens; the reference uses 384.
    pub max_seq_length: usize,
    /// Stride: number of tokens between the starts of two windows; the reference uses 128.
    pub doc_stride: usize,
    /// Maximum question length in tokens, to which longer questions are truncated; the reference uses 64.
    pub max_query_length: usize,
}

/// A tokenized question with its text.
#[derive(Clone, Debug)]
pub struct EncodedQuestion {
    /// The text's tokens with their byte positions.
    pub pieces: Vec<PieceWithOffsets>,
    /// The model inputs, in order.
    pub windows: Vec<Window>,
}

/// One model input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Token ids and segment ids.
    pub encoded: EncodedPair,
    /// Range of the text's tokens in this window.
    pub tokens: Range<usize>,
    /// Position of the window's first text token in the sequence.
    pub first: usize,
    /// Whether each text token has its maximum context in this window.
    pub max_context: Vec<bool>,
    /// Positions of the answer's first and last token in the sequence; both 0, `[CLS]`, if the window does not contain
    /// the whole answer.
    pub target: (usize, usize),
}

impl EncodedQuestion {
    /// Tokenizes a question and its text. The target is the first answer.
    ///
    /// # Panics
    /// Panics if the longest question leaves no space for the text: `max_seq_length` must be above `max_query_length +
    /// 3`.
    pub fn new(
        question: &Question,
        tokenizer: &Tokenizer,
        special: SpecialIds,
        settings: WindowSettings,
    ) -> Self {
        let mut query = Vec::new();
        tokenizer.encode(&question.question, &mut query);
        query.truncate(settings.max_query_length);
        let pieces = tokenizer.encode_with_offsets(&question.context);
        let max_text_length = settings.max_seq_length - query.len() - 3;
        let spans = window_ranges(pieces.len(), max_text_length, settings.doc_stride);
        let answer = question.answers.first().filter(|_| !question.is_impossible);
        let answer =
            answer.and_then(|answer| pieces_in(&pieces, answer.start..answer.start + answer.text.len()));
        let windows = (0..spans.len()).map(|at| {
            let tokens = spans[at].clone();
            let first = query.len() + 2;
            let ids = [special.cls].into_iter().chain(query.iter().copied()).chain([special.sep]);
            let text = pieces[tokens.clone()].iter().map(|piece| piece.id).chain([special.sep]);
            let input_ids: Vec<u32> = ids.chain(text).collect();
            let segment_ids = (0..input_ids.len()).map(|position| u32::from(position >= first)).collect();
            let inside =
                answer.clone().filter(|answer| tokens.start <= answer.start && answer.end <= tokens.end);
            let position = |token: usize| first + token - tokens.start;
            Window {
                encoded: EncodedPair { input_ids, segment_ids },
                first,
                max_context: tokens.clone().map(|token| max_context_window(&spans, token) == at).collect(),
                target: inside.map_or((0, 0), |answer| (position(answer.start), position(answer.end - 1))),
                tokens,
            }
        });
        Self { windows: windows.collect(), pieces }
    }
}

/// Returns the windows over `tokens` tokens, at least one.
fn window_ranges(tokens: usize, max_text_length: usize, stride: usize) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut start = 0;
    loop {
        let length = (tokens - start).min(max_text_length);
        spans.push(start..start + length);
        if start + length == tokens {
            return spans;
        }
        start += length.min(stride);
    }
}

/// Returns the window in which a token has maximum context (the minimum of the numbers of tokens to its left and
/// right). Ties go to the longer window, then to the first. Windows are in order, so the ones that contain the token
/// are adjacent.
fn max_context_window(spans: &[Range<usize>], token: usize) -> usize {
    let first = spans.partition_point(|span| span.end <= token);
    let mut best: Option<(f64, usize)> = None;
    for (at, span) in spans.iter().enumerate().skip(first).take_while(|(_, span)| span.start <= token) {
        let context = (token - span.start).min(span.end - 1 - token);
        let score = context as f64 + 0.01 * span.len() as f64;
        if best.is_none_or(|(most, _)| score > most) {
            best = Some((score, at));
        }
    }
    best.map_or(usize::MAX, |(_, at)| at)
}

/// Returns the tokens that overlap a byte range of the text; `None` if there are none (the tokenizer dropped all
/// characters of the answer).
fn pieces_in(pieces: &[PieceWithOffsets], bytes: Range<usize>) -> Option<Range<usize>> {
    let start = pieces.iter().position(|piece| piece.end > bytes.start)?;
    let end = pieces.iter().rposition(|piece| piece.start < bytes.end)? + 1;
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_begin_every_stride() {
        let one = |span: Range<usize>| vec![span];
        assert_eq!(window_ranges(10, 20, 5), one(0..10));
        assert_eq!(window_ranges(10, 4, 3), [0..4, 3..7, 6..10]);
        // The last window is shorter.
        assert_eq!(window_ranges(11, 4, 3), [0..4, 3..7, 6..10, 9..11]);
        // A stride larger than the window skips no tokens: each window begins where the last one ended.
        assert_eq!(window_ranges(10, 4, 9), [0..4, 4..8, 8..10]);
        assert_eq!(window_ranges(0, 4, 3), one(0..0));
    }

    /// The example in the reference's comment, 11 words: the eighth is at the end of the second window and has maximum
    /// context in the third.
    #[test]
    fn tokens_belong_to_their_maximum_context_window() {
        let spans = [0..5, 3..8, 6..11];
        assert_eq!(max_context_window(&spans, 7), 2);
        assert_eq!((max_context_window(&spans, 0), max_context_window(&spans, 10)), (0, 2));
        // Ties go to the longer window, then to the first one.
        assert_eq!(max_context_window(&[0..4, 2..7], 3), 1);
        assert_eq!(max_context_window(&[0..5, 2..7], 3), 0);
        for token in 0..11 {
            let here = |at: usize| {
                usize::from(spans[at].contains(&token) && max_context_window(&spans, token) == at)
            };
            assert_eq!((0..3).map(here).sum::<usize>(), 1, "{token}");
        }
    }

    #[test]
    fn answers_are_extended_to_whole_tokens() {
        let piece = |start, end| PieceWithOffsets { id: 0, start, end };
        let pieces = [piece(0, 4), piece(4, 5), piece(6, 9)];
        assert_eq!(pieces_in(&pieces, 4..5), Some(1..2));
        assert_eq!(pieces_in(&pieces, 1..3), Some(0..1));
        assert_eq!(pieces_in(&pieces, 2..7), Some(0..3));
        assert_eq!(pieces_in(&pieces, 5..6), None);
        assert_eq!(pieces_in(&pieces, 9..12), None);
    }
}
