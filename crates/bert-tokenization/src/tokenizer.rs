//! The [`Tokenizer`], which converts lines of text to ids.

use std::cmp::Reverse;
use std::ops::Range;

use ahash::AHashMap;
use tokenizers::Model;
use tokenizers::models::wordpiece::WordPiece;

use crate::basic::{each_part, each_word, normal};
use crate::chinese_words::ChineseSegmenter;
use crate::settings::TokenizerSettings;
use crate::vocabulary::{SPECIAL, UNK, Vocabulary};
use crate::word_marks::IdSpace;

/// Converter of lines of text to ids. Shared between threads; each thread creates its own [`Encoder`](crate::Encoder).
#[derive(Clone, Debug)]
pub struct Tokenizer {
    model: WordPiece,
    unk_id: u32,
    pub(crate) settings: TokenizerSettings,
    /// For each id of the vocabulary, whether its token begins with `##`.
    pub(crate) continues: Vec<bool>,
    /// The special tokens that are found in texts, and their ids; none if they are plain text.
    special: Vec<(String, u32)>,
    pub(crate) segmenter: Option<ChineseSegmenter>,
}

/// A part of a line.
pub(crate) enum Segment<'a> {
    /// The byte where it begins, and its text.
    Text(usize, &'a str),
    /// The bytes of a special token, and its id.
    Special(Range<usize>, u32),
}

impl Tokenizer {
    /// Creates a tokenizer for a vocabulary. As settings, `true` and `false` stand for the reference's `do_lower_case`.
    pub fn new(vocabulary: &Vocabulary, settings: impl Into<TokenizerSettings>) -> Self {
        let map: AHashMap<String, u32> =
            vocabulary.tokens().iter().zip(0..).map(|(token, id)| (token.clone(), id)).collect();
        let model = WordPiece::builder()
            .vocab(map)
            .unk_token(UNK.to_owned())
            .max_input_chars_per_word(vocabulary.max_word)
            .build()
            .expect("a vocabulary in memory needs no file");
        let continues = vocabulary.tokens().iter().map(|token| token.starts_with("##")).collect();
        let unk_id = vocabulary.unk_id();
        let settings: TokenizerSettings = settings.into();
        let special =
            if settings.split_special_tokens { Vec::new() } else { vocabulary.special_tokens().collect() };
        Self { model, unk_id, settings, continues, special, segmenter: None }
    }

    /// Calls `segment` with the special tokens of a line and the texts between them, in order.
    pub(crate) fn each_segment<'a>(&self, line: &'a str, mut segment: impl FnMut(Segment<'a>)) {
        let mut start = 0;
        loop {
            let found = self.special.iter().filter_map(|(token, id)| {
                Some((start + line[start..].find(token.as_str())?, Reverse(token.len()), *id))
            });
            let Some((at, Reverse(length), id)) = found.min() else { break };
            segment(Segment::Text(start, &line[start..at]));
            start = at + length;
            segment(Segment::Special(at..start, id));
        }
        segment(Segment::Text(start, &line[start..]));
    }

    /// Returns whether a text contains one of BERT's five special tokens, whether or not it is plain text here.
    pub fn has_special_tokens(line: &str) -> bool {
        SPECIAL.iter().any(|token| line.contains(token))
    }

    /// Marks the ideographs that continue a word: [`Encoder::encode`](crate::Encoder::encode) returns their ids marked as in
    /// `crate::word_marks`.
    #[must_use]
    pub fn with_segmenter(self, segmenter: ChineseSegmenter) -> Self {
        Self { segmenter: Some(segmenter), ..self }
    }

    /// Returns the space of the ids that an [`Encoder`](crate::Encoder) produces.
    pub fn ids(&self) -> IdSpace {
        IdSpace { vocabulary: self.continues.len(), word_marks: self.segmenter.is_some() }
    }

    /// Returns the id of `[UNK]`, plain and marked.
    pub fn unknown_ids(&self) -> [u32; 2] {
        [self.unk_id, self.ids().marked(self.unk_id)]
    }

    /// Appends the ids of a line to `out`, without marks.
    pub fn encode(&self, line: &str, out: &mut Vec<u32>) {
        self.each_segment(line, |segment| match segment {
            Segment::Text(_, text) => {
                each_word(text, self.settings.tokenize_chinese_chars, |word| {
                    self.encode_word(word.text, out)
                });
            }
            Segment::Special(_, id) => out.push(id),
        });
    }

    /// Calls `piece` with each id of a part of a word and the bytes of the part that it covers.
    pub(crate) fn each_piece(&self, part: &str, mut piece: impl FnMut(u32, Range<usize>)) {
        match self.model.tokenize(part) {
            Ok(tokens) => tokens.iter().for_each(|token| piece(token.id, token.offsets.0..token.offsets.1)),
            // Only possible without [UNK], which every Vocabulary has.
            Err(_) => piece(self.unk_id, 0..part.len()),
        }
    }

    pub(crate) fn encode_word(&self, word: &str, out: &mut Vec<u32>) {
        each_part(&normal(word, self.settings), |part| self.each_piece(part, |id, _| out.push(id)));
    }
}
