//! The [`Tokenizer`], which converts lines of text to ids.
//!
//! An [`Encoder`] is a tokenizer with a cache of words.

use std::cmp::Reverse;
use std::ops::Range;

use ahash::{AHashMap, RandomState};
use hashbrown::HashTable;

use crate::basic::{TokenizerSettings, Word, each_part, each_word, normal};
use crate::chinese_words::ChineseSegmenter;
use crate::vocabulary::{IdSpace, SPECIAL, Vocabulary};

/// A converter of lines of text to ids. Threads can share it; each thread creates its own [`Encoder`](crate::Encoder).
#[derive(Clone, Debug)]
pub struct Tokenizer {
    /// The ids of all tokens, by spelling. A word may begin with any token.
    beginnings: AHashMap<Box<str>, u32>,
    /// The ids of the tokens with `##`, by the text after it.
    continuations: AHashMap<Box<str>, u32>,
    /// Maximum number of characters of a word; longer words are one `[UNK]`.
    max_word: usize,
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
    /// A text, and the byte of the line at which it begins.
    Text(usize, &'a str),
    /// The byte range of a special token, and its id.
    Special(Range<usize>, u32),
}

impl Tokenizer {
    /// Creates a tokenizer for a vocabulary. If `settings` is a `bool`, it is the reference's `do_lower_case`.
    pub fn new(vocabulary: &Vocabulary, settings: impl Into<TokenizerSettings>) -> Self {
        let ids = || vocabulary.tokens().iter().map(String::as_str).zip(0..);
        let beginnings = ids().map(|(token, id)| (token.into(), id)).collect();
        let continuations =
            ids().filter_map(|(token, id)| Some((token.strip_prefix("##")?.into(), id))).collect();
        let continues = vocabulary.tokens().iter().map(|token| token.starts_with("##")).collect();
        let unk_id = vocabulary.unk_id();
        let settings: TokenizerSettings = settings.into();
        let special =
            if settings.split_special_tokens { Vec::new() } else { vocabulary.special_tokens().collect() };
        let max_word = vocabulary.max_word;
        Self { beginnings, continuations, max_word, unk_id, settings, continues, special, segmenter: None }
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

    /// Returns whether a text contains one of BERT's five special tokens, even if a tokenizer treats them as plain
    /// text.
    pub fn has_special_tokens(line: &str) -> bool {
        SPECIAL.iter().any(|token| line.contains(token))
    }

    /// Returns the tokenizer with a segmenter. [`Encoder::encode`](crate::Encoder::encode) then marks the ids of
    /// ideographs that continue a word, as in `crate::vocabulary`.
    #[must_use]
    pub fn with_segmenter(self, segmenter: ChineseSegmenter) -> Self {
        Self { segmenter: Some(segmenter), ..self }
    }

    /// Returns the space of the ids that an [`Encoder`](crate::Encoder) produces.
    pub fn ids(&self) -> IdSpace {
        IdSpace { vocabulary: self.continues.len(), word_marks: self.segmenter.is_some() }
    }

    /// Returns the plain and the marked id of `[UNK]`.
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

    /// Calls `piece` with each id of a part of a word and the bytes of the part that it covers. Each piece is the longest
    /// token with which the rest of the part begins; a part that no pieces spell is one `[UNK]`.
    pub(crate) fn each_piece(&self, part: &str, piece: impl FnMut((u32, Range<usize>))) {
        self.pieces(part).unwrap_or_else(|| vec![(self.unk_id, 0..part.len())]).into_iter().for_each(piece);
    }

    fn pieces(&self, part: &str) -> Option<Vec<(u32, Range<usize>)>> {
        if part.chars().nth(self.max_word).is_some() {
            return None;
        }
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < part.len() {
            let tokens = if start == 0 { &self.beginnings } else { &self.continuations };
            let rest = &part[start..];
            let ends = rest.char_indices().rev().map(|(at, last)| at + last.len_utf8());
            let (id, length) = ends.filter_map(|end| Some((*tokens.get(&rest[..end])?, end))).next()?;
            pieces.push((id, start..start + length));
            start += length;
        }
        Some(pieces)
    }

    pub(crate) fn encode_word(&self, word: &str, out: &mut Vec<u32>) {
        each_part(&normal(word, self.settings), |part| self.each_piece(part, |(id, _)| out.push(id)));
    }
}

/// Maximum number of words that an [`Encoder`] caches: natural text reaches a hit rate of 95 % with far fewer words.
const MAX_CACHED_WORDS: usize = 1 << 16;
/// Maximum length of a cached word in bytes; longer words are rare.
const MAX_CACHED_BYTES: usize = 64;

/// A [`Tokenizer`] with a cache of the pieces of words; for one thread.
#[derive(Debug)]
// Aligned to separate cache lines, to prevent false sharing between threads.
#[repr(align(128))]
pub struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    cache: WordCache,
    run: Run,
}

/// Cached words and their pieces: all words in one string and all pieces in one list, without an allocation per word.
#[derive(Debug, Default)]
struct WordCache {
    table: HashTable<CachedWord>,
    hasher: RandomState,
    text: String,
    pieces: Vec<u32>,
}

/// The end of a word in the text and of its pieces in the list, and the length of both.
#[derive(Clone, Copy, Debug)]
struct CachedWord {
    text_end: u32,
    pieces_end: u32,
    bytes: u8,
    pieces: u8,
}

impl CachedWord {
    fn word(self, text: &str) -> &str {
        &text[self.text_end as usize - usize::from(self.bytes)..self.text_end as usize]
    }
}

impl WordCache {
    /// Returns the pieces of a cached word.
    fn get(&self, word: &str) -> Option<&[u32]> {
        let found = self.table.find(self.hasher.hash_one(word), |cached| cached.word(&self.text) == word)?;
        let end = found.pieces_end as usize;
        Some(&self.pieces[end - usize::from(found.pieces)..end])
    }

    /// Caches a new word, if it is short and there is room.
    fn insert(&mut self, word: &str, pieces: &[u32]) {
        if self.table.len() >= MAX_CACHED_WORDS || word.len() > MAX_CACHED_BYTES {
            return;
        }
        let (Ok(bytes), Ok(count)) = (word.len().try_into(), pieces.len().try_into()) else { return };
        self.text.push_str(word);
        self.pieces.extend_from_slice(pieces);
        let text_end = self.text.len() as u32;
        let pieces_end = self.pieces.len() as u32;
        let cached = CachedWord { text_end, pieces_end, bytes, pieces: count };
        let text = &self.text;
        let hasher = &self.hasher;
        self.table.insert_unique(hasher.hash_one(word), cached, |cached| hasher.hash_one(cached.word(text)));
    }
}

/// Adjacent ideographs without space between them, and the start of the ids of each.
#[derive(Debug, Default)]
struct Run {
    text: String,
    starts: Vec<usize>,
    continues: Vec<bool>,
}

impl Run {
    /// Adds the normalized form of an ideograph whose ids begin at `start`.
    fn push(&mut self, ideograph: &str, settings: TokenizerSettings, start: usize) {
        let normal = normal(ideograph, settings);
        // Each ideograph must add one character, so that flags and ids correspond.
        self.text.push_str(if normal.chars().count() == 1 { &normal } else { ideograph });
        self.starts.push(start);
    }

    /// Marks the ids of the ideographs that continue a word, and clears the run.
    fn mark(&mut self, segmenter: &ChineseSegmenter, space: IdSpace, ids: &mut [u32]) {
        if self.starts.len() > 1 {
            segmenter.segment(&self.text, &mut self.continues);
            assert_eq!(self.continues.len(), self.starts.len(), "one flag for each character");
            self.starts.push(ids.len());
            for (range, _) in self.starts.windows(2).zip(&self.continues).filter(|(_, continues)| **continues)
            {
                ids[range[0]..range[1]].iter_mut().for_each(|id| *id = space.marked(*id));
            }
        }
        self.text.clear();
        self.starts.clear();
    }
}

impl Tokenizer {
    /// Returns an encoder with a word cache. It returns the same ids and is many times faster on long text.
    pub fn encoder(&self) -> Encoder<'_> {
        Encoder { tokenizer: self, cache: WordCache::default(), run: Run::default() }
    }
}

impl Encoder<'_> {
    /// Returns whether text is lower-cased.
    pub fn lower_cases(&self) -> bool {
        self.tokenizer.settings.do_lower_case
    }

    /// Returns whether accents are removed, both precomposed and combining ones.
    pub fn strips_accents(&self) -> bool {
        self.tokenizer.settings.strips_accents()
    }

    /// Returns the maximum number of characters of a word; longer words are one `[UNK]`.
    pub fn max_word(&self) -> usize {
        self.tokenizer.max_word
    }

    /// Returns whether a piece begins a word.
    pub fn begins_word(&self, id: u32) -> bool {
        self.tokenizer.continues.get(id as usize).is_some_and(|continues| !continues)
    }

    /// Appends the ids of a line to `out`.
    pub fn encode(&mut self, line: &str, out: &mut Vec<u32>) {
        self.tokenizer.each_segment(line, |segment| match segment {
            Segment::Text(_, text) => self.encode_text(text, out),
            Segment::Special(_, id) => out.push(id),
        });
    }

    /// Appends the ids of a text in which nothing is a special token.
    fn encode_text(&mut self, line: &str, out: &mut Vec<u32>) {
        let Some(segmenter) = &self.tokenizer.segmenter else {
            return self.encode_words(line, out, |_, _, _| {});
        };
        let mut run = std::mem::take(&mut self.run);
        let tokenizer = self.tokenizer;
        self.encode_words(line, out, |word, start, ids| {
            // `ids` already contains the ids of this word.
            if !word.adjoins {
                run.mark(segmenter, tokenizer.ids(), &mut ids[..start]);
            }
            if word.ideograph {
                run.push(word.text, tokenizer.settings, start);
            }
        });
        run.mark(segmenter, tokenizer.ids(), out);
        self.run = run;
    }

    /// Appends the ids of each word and calls `on_word` with the word, the start of its ids, and all ids.
    fn encode_words(
        &mut self,
        line: &str,
        out: &mut Vec<u32>,
        mut on_word: impl FnMut(Word<'_>, usize, &mut [u32]),
    ) {
        let Self { tokenizer, cache, .. } = self;
        each_word(line, tokenizer.settings.tokenize_chinese_chars, |whole| {
            let word = whole.text;
            let first = out.len();
            match cache.get(word) {
                Some(pieces) => out.extend_from_slice(pieces),
                None => {
                    tokenizer.encode_word(word, out);
                    cache.insert(word, &out[first..]);
                }
            }
            on_word(whole, first, out);
        });
    }
}
