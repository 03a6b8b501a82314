//! Splits a text that is longer than the model's sequence into overlapping windows.
//!
//! Ports `convert_examples_to_features` and `_check_is_max_context` of the reference's `run_squad.py`. An input is
//! `[CLS] question [SEP] window [SEP]`, and a window begins every `doc_stride` tokens. Most tokens occur in several
//! windows; an answer may begin in a window only at tokens that have more context there than in any other window.

use std::ops::Range;

use bert_data::{PieceWithOffsets, Tokenizer};

use crate::read::squad::Question;
use crate::{EncodedPair, SpecialIds};

/// Settings for windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSettings {
    /// Maximum sequence length, including special tokens; the reference uses 384.
    pub max_seq_length: usize,
    /// Stride: number of tokens between the starts of two windows; 128.
    pub doc_stride: usize,
    /// Maximum question length in tokens; longer questions are truncated; 64.
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
    /// Position of the first of them in the sequence.
    pub first: usize,
    /// Whether each of them has its maximum context in this window.
    pub max_context: Vec<bool>,
    /// Positions of the answer's first and last token in the sequence; both 0, `[CLS]`, if the window does not contain
    /// the whole answer.
    pub target: (usize, usize),
}

impl EncodedQuestion {
    /// Tokenizes a question and its text. The target is the first answer.
    ///
    /// # Panics
    /// When the longest question leaves no space for the text: `max_seq_length` must be above `max_query_length + 3`.
    #[must_use]
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
        let room = settings.max_seq_length - query.len() - 3;
        let spans = spans(pieces.len(), room, settings.doc_stride);
        let answer = question.answers.first().filter(|_| !question.is_impossible);
        let answer =
            answer.and_then(|answer| covering(&pieces, answer.start..answer.start + answer.text.len()));
        let windows = (0..spans.len()).map(|at| {
            let tokens = spans[at].clone();
            let first = query.len() + 2;
            let ids = [special.cls].into_iter().chain(query.iter().copied()).chain([special.sep]);
            let text = pieces[tokens.clone()].iter().map(|piece| piece.id).chain([special.sep]);
            let input_ids: Vec<u32> = ids.chain(text).collect();
            let segment_ids = (0..input_ids.len()).map(|place| u32::from(place >= first)).collect();
            let inside =
                answer.clone().filter(|answer| tokens.start <= answer.start && answer.end <= tokens.end);
            let place = |token: usize| first + token - tokens.start;
            Window {
                encoded: EncodedPair { input_ids, segment_ids },
                first,
                max_context: tokens.clone().map(|token| most_context(&spans, token) == at).collect(),
                target: inside.map_or((0, 0), |answer| (place(answer.start), place(answer.end - 1))),
                tokens,
            }
        });
        Self { windows: windows.collect(), pieces }
    }
}

/// Returns the windows over `tokens` tokens, at least one.
fn spans(tokens: usize, room: usize, stride: usize) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut start = 0;
    loop {
        let length = (tokens - start).min(room);
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
fn most_context(spans: &[Range<usize>], token: usize) -> usize {
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
fn covering(pieces: &[PieceWithOffsets], bytes: Range<usize>) -> Option<Range<usize>> {
    let start = pieces.iter().position(|piece| piece.end > bytes.start)?;
    let end = pieces.iter().rposition(|piece| piece.start < bytes.end)? + 1;
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use bert_data::Vocabulary;

    use super::*;
    use crate::read::squad::read_questions;
    use crate::real_data_tests::data;

    /// Checks every question of XQuAD: one window contains the whole answer, and its tokens quote the answer with at
    /// most a few more characters.
    #[test]
    #[ignore = "needs ../shared"]
    fn answers_of_four_languages_are_quoted_from_the_text() {
        let data = data();
        let settings = WindowSettings { max_seq_length: 384, doc_stride: 128, max_query_length: 64 };
        for (language, vocabulary) in [
            ("en", "bert-base-uncased-vocab.txt"),
            ("de", "bert-base-uncased-vocab.txt"),
            ("es", "bert-base-uncased-vocab.txt"),
            ("zh", "bert-base-chinese-vocab.txt"),
        ] {
            let vocabulary = Vocabulary::read(&data.join("vocab").join(vocabulary)).unwrap();
            let tokenizer = Tokenizer::new(&vocabulary, true);
            let special = SpecialIds { cls: vocabulary.cls_id(), sep: vocabulary.sep_id() };
            let questions = read_questions(&data.join(format!("squad/xquad.{language}.json")), true).unwrap();
            assert_eq!(questions.len(), 1190);
            let mut exact = 0;
            for question in &questions {
                let encoded = EncodedQuestion::new(question, &tokenizer, special, settings);
                let window = encoded.windows.iter().find(|window| window.target != (0, 0));
                let window = window.unwrap_or_else(|| panic!("{language} {}: no window", question.id));
                let piece = |place: usize| encoded.pieces[window.tokens.start + place - window.first];
                let quoted = &question.context[piece(window.target.0).start..piece(window.target.1).end];
                let answer = &question.answers[0].text;
                assert!(quoted.contains(answer.trim()), "{language} {}: {quoted:?} {answer:?}", question.id);
                exact += usize::from(quoted == answer);
            }
            // The others end inside a word, or with a blank.
            println!("{language}: {exact} of {} quoted to the character", questions.len());
            assert!(exact * 100 > questions.len() * 97, "{language}: {exact}");
        }
    }

    #[test]
    fn windows_begin_every_stride_until_the_end() {
        let one = |span: Range<usize>| vec![span];
        assert_eq!(spans(10, 20, 5), one(0..10));
        assert_eq!(spans(10, 4, 3), [0..4, 3..7, 6..10]);
        // The last window is shorter.
        assert_eq!(spans(11, 4, 3), [0..4, 3..7, 6..10, 9..11]);
        // A stride larger than the window skips no tokens: each window begins where the last one ended.
        assert_eq!(spans(10, 4, 9), [0..4, 4..8, 8..10]);
        assert_eq!(spans(0, 4, 3), one(0..0));
    }

    /// The example in the reference's comment, 11 words: the eighth is at the end of the second window and has maximum
    /// context in the third.
    #[test]
    fn a_token_counts_where_it_has_most_context() {
        let spans = [0..5, 3..8, 6..11];
        assert_eq!(most_context(&spans, 7), 2);
        assert_eq!((most_context(&spans, 0), most_context(&spans, 10)), (0, 2));
        // Ties go to the longer window, then to the first one.
        assert_eq!(most_context(&[0..4, 2..7], 3), 1);
        assert_eq!(most_context(&[0..5, 2..7], 3), 0);
        for token in 0..11 {
            let here =
                |at: usize| usize::from(spans[at].contains(&token) && most_context(&spans, token) == at);
            assert_eq!((0..3).map(here).sum::<usize>(), 1, "{token}");
        }
    }

    #[test]
    fn an_answer_inside_of_a_token_is_that_token() {
        let piece = |start, end| PieceWithOffsets { id: 0, start, end };
        let pieces = [piece(0, 4), piece(4, 5), piece(6, 9)];
        assert_eq!(covering(&pieces, 4..5), Some(1..2));
        assert_eq!(covering(&pieces, 1..3), Some(0..1));
        assert_eq!(covering(&pieces, 2..7), Some(0..3));
        assert_eq!(covering(&pieces, 5..6), None);
        assert_eq!(covering(&pieces, 9..12), None);
    }
}
