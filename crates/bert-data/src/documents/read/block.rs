//! Tokenizes one block of lines or rows.
//!
//! Sentences that are longer than an instance are cut into consecutive pieces.
//!
//! The reference keeps such a sentence whole and truncates every pair that contains it, at both ends and in every pass,
//! so the model never sees most of it. In keyed mode, each piece counts as a separate sentence. A piece has about a
//! quarter of an instance's tokens, so a pair ends at the end of a piece, as with sentences of ordinary length.
//!
//! [`Joiner`] joins tokenized blocks into documents.

use std::path::{Path, PathBuf};

use bert_text::joiner::joined_paragraphs;
use bert_text::line_breaks::is_sentence_end;
use bert_text::line_check::LineCheck;
use bert_text::remarks::Remark;
use bert_text::{Block, TextKind, TextRules, each_text, recorded_file_name};
use bert_tokenization::turkic::{is_turkic, turkic_lower_case};
use bert_tokenization::{Encoder, python_strip};

use crate::config::language::DEFAULT_LANGUAGE;
use crate::config::{BuildConfig, LineBreaks, RandomMode};
use crate::documents::read::open_document::{OpenDocument, Piece, TextHash};
use crate::documents::read_report::{PARAGRAPH_TOKENS, ReadReport};
use crate::documents::sentences::SentenceSplitter;
use crate::documents::{BUCKET_TOKENS, DocumentsBuilder};
use crate::error::Result;

/// One step of reading, in text order.
#[derive(Clone, Copy)]
pub(super) enum Event {
    /// A sentence, or a piece of one.
    Sentence {
        /// Number of tokens, at least 1.
        tokens: u32,
        piece: Piece,
    },
    /// The text of a line or row before its sentences, if documents are held out.
    Text(TextHash),
    /// A line that is not blank but yields no token.
    Nothing,
    /// The end of a document.
    Break,
}

/// The result of tokenizing one block.
#[derive(Default)]
pub(super) struct TokenizedBlock {
    pub(super) ids: Vec<u32>,
    pub(super) events: Vec<Event>,
    pub(super) lines: LineCheck,
    /// Number of sentences that were cut and that contain no character that ends a sentence, although the text is split
    /// into sentences.
    pub(super) unsegmented: u64,
    /// Number of sentences with words that are too long for the tokenizer.
    pub(super) long_words: u64,
    pub(super) file: usize,
    pub(super) ends_file: bool,
}

/// The rules by which sentences are tokenized.
#[derive(Clone, Copy)]
struct SentenceRules {
    max_tokens: usize,
    /// Whether lines are split into sentences.
    splits: bool,
    /// Whether I and dotted I are lower-cased as in Turkish.
    is_turkic: bool,
}

/// Tokenizes a block of a file; `path` is named in errors.
pub(super) fn tokenize_block(
    block: &Block,
    path: &Path,
    encoder: &mut Encoder<'_>,
    config: &BuildConfig,
) -> Result<TokenizedBlock> {
    let mut done =
        TokenizedBlock { file: block.file, ends_file: block.ends_file, ..TokenizedBlock::default() };
    let split = config.splits_lines() || block.format.is_running_text();
    let splitter = split.then(|| SentenceSplitter::new(language_of(block, config)));
    let rules = SentenceRules {
        max_tokens: config.max_sentence_tokens(),
        splits: split,
        is_turkic: config.random == RandomMode::Keyed
            && encoder.lower_cases()
            && config.language.as_deref().is_some_and(is_turkic),
    };
    let hashed = config.hold_out.is_some();
    let hash = |text: &str, done: &mut TokenizedBlock| {
        if hashed {
            done.events.push(Event::Text(TextHash::new(text)));
        }
    };
    let mut sentences = |line: &str, is_sentence: bool, done: &mut TokenizedBlock| match &splitter {
        Some(splitter) if !is_sentence => splitter.for_each(line, &mut |sentence| {
            encode_sentence(sentence, encoder, rules, done);
        }),
        _ => encode_sentence(line, encoder, rules, done),
    };
    let mut joined_rows = 0;
    let mut joined_example = None;
    let mut lines = each_text(block, path, config.text_rules(), |text, kind| match text {
        row if kind == TextKind::Row => {
            hash(row, &mut done);
            if let Some(example) = add_row(row, config.line_breaks, &mut done, &mut sentences) {
                joined_rows += 1;
                joined_example.get_or_insert(example);
            }
        }
        list if kind == TextKind::Sentences => {
            hash(list, &mut done);
            done.events.push(Event::Nothing);
            for sentence in list.lines().map(python_strip).filter(|sentence| !sentence.is_empty()) {
                sentences(sentence, true, &mut done);
            }
            done.events.push(Event::Break);
        }
        "" => done.events.push(Event::Break),
        line => {
            hash(line, &mut done);
            sentences(line, false, &mut done);
        }
    })?;
    lines.signs.add_joined_rows(joined_rows, joined_example);
    if encoder.strips_accents() {
        lines.signs.forget_decomposed();
    }
    lines.signs.unsegmented = done.unsegmented;
    lines.signs.long_words = done.long_words;
    Ok(TokenizedBlock { lines, ..done })
}

/// Returns the language of a block: as given, else the language of the dump.
fn language_of<'a>(block: &'a Block, config: &'a BuildConfig) -> &'a str {
    let given = config.language.as_deref();
    let dump_language =
        block.wiki.as_deref().map(|wiki| wiki.language.as_str()).filter(|code| !code.is_empty());
    given.or(dump_language).unwrap_or(DEFAULT_LANGUAGE)
}

/// Adds one row of a table as a document; its lines are paragraphs, unless they break inside sentences. Returns an
/// example of such a break if lines were joined.
fn add_row(
    text: &str,
    line_breaks: LineBreaks,
    done: &mut TokenizedBlock,
    sentences: &mut impl FnMut(&str, bool, &mut TokenizedBlock),
) -> Option<[String; 2]> {
    // A row without text counts as an empty document.
    done.events.push(Event::Nothing);
    let joined = joined_paragraphs(text, line_breaks);
    match &joined {
        Some(joined) => joined.paragraphs.iter().for_each(|paragraph| sentences(paragraph, false, done)),
        None => {
            let lines = text.split('\n').map(python_strip).filter(|line| !line.is_empty());
            lines.for_each(|line| sentences(line, false, done));
        }
    }
    done.events.push(Event::Break);
    joined.and_then(|joined| joined.example)
}

/// Tokenizes a sentence. If it exceeds the maximum length, it is cut into pieces, and each piece becomes a sentence.
fn encode_sentence(
    sentence: &str,
    encoder: &mut Encoder<'_>,
    rules: SentenceRules,
    done: &mut TokenizedBlock,
) {
    let before = done.ids.len();
    if rules.is_turkic {
        encoder.encode(&turkic_lower_case(sentence), &mut done.ids);
    } else {
        encoder.encode(sentence, &mut done.ids);
    }
    let ids = &done.ids[before..];
    if ids.is_empty() {
        done.events.push(Event::Nothing);
        return;
    }
    let mut is_cut = ids.len() > rules.max_tokens;
    done.unsegmented += u64::from(is_cut && rules.splits && !sentence.contains(is_sentence_end));
    done.long_words += u64::from(has_long_word(sentence, ids.len(), encoder.max_word()));
    let is_long = ids.len() >= PARAGRAPH_TOKENS;
    for tokens in piece_lengths(ids, rules.max_tokens, |id| encoder.begins_word(id)) {
        let piece = Piece { is_cut: std::mem::take(&mut is_cut), is_long };
        done.events.push(Event::Sentence { tokens: tokens as u32, piece });
    }
}

/// Returns whether a sentence with this number of tokens has a word of more than `max_word` characters. Only a sentence
/// with few tokens for its length is searched.
fn has_long_word(sentence: &str, tokens: usize, max_word: usize) -> bool {
    sentence.len() > 20 * tokens.max(max_word / 20)
        && sentence.split_whitespace().any(|word| word.chars().count() > max_word)
}

/// Number of pieces that fill an instance.
const PIECES: usize = 4;

/// Returns the number of tokens of each piece of a sentence, in order; one piece if the sentence has at most
/// `max_tokens` tokens.
///
/// The lengths of pieces differ by about a word: each piece ends before a token for which `begins_word` returns true,
/// if there is one.
pub(crate) fn piece_lengths(
    ids: &[u32],
    max_tokens: usize,
    begins_word: impl Fn(u32) -> bool,
) -> impl Iterator<Item = usize> {
    let pieces = if ids.len() > max_tokens { ids.len().div_ceil((max_tokens / PIECES).max(1)) } else { 1 };
    let mut start = 0;
    (1..=pieces).map(move |piece| {
        let even = ids.len() * piece / pieces;
        let end = (start + 1..=even).rev().find(|&end| ids.get(end).is_none_or(|&id| begins_word(id)));
        let end = end.unwrap_or(even);
        end - std::mem::replace(&mut start, end)
    })
}

/// Joiner of tokenized blocks, in order, into documents.
pub(super) struct Joiner<'a> {
    documents: DocumentsBuilder,
    pub(super) report: ReadReport,
    unknown: [u32; 2],
    pub(super) rules: TextRules<'a>,
    files: &'a [PathBuf],
    /// Line statistics of the current file.
    pub(super) lines: LineCheck,
    file: usize,
    /// Number of tokens of the current file so far.
    pub(super) file_tokens: usize,
    /// Whether the open document has had a non-blank line.
    has_line: bool,
    config: &'a BuildConfig,
    /// The sentences of the open document, if documents are held out; they wait until the document ends.
    open: OpenDocument,
}

impl<'a> Joiner<'a> {
    pub(super) fn new(
        documents: DocumentsBuilder,
        unknown: [u32; 2],
        config: &'a BuildConfig,
        files: &'a [PathBuf],
    ) -> Self {
        let report = ReadReport::default();
        let lines = LineCheck::default();
        let rules = config.text_rules();
        let open = OpenDocument::default();
        let file = 0;
        let file_tokens = 0;
        let has_line = false;
        Self { documents, report, unknown, rules, files, lines, file, file_tokens, has_line, config, open }
    }

    pub(super) fn add(&mut self, block: TokenizedBlock) -> Result<()> {
        self.report.invalid_utf8_lines += block.lines.counts.bad;
        self.report.null_rows += block.lines.null_rows;
        self.file = block.file;
        let path = &self.files[block.file];
        let mut remarks = self.lines.add_block(block.lines, path, block.ends_file, self.rules.bad_lines)?;
        self.file_tokens += block.ids.len();
        if block.ends_file {
            // A file can have characters but no token, which is known only after tokenization.
            if remarks.is_without(Remark::NoText) {
                remarks.add_count(Remark::NoText, path, u64::from(self.file_tokens == 0));
            }
            self.file_tokens = 0;
        }
        self.report.remarks.add(remarks);
        let mut ids = block.ids.as_slice();
        for event in block.events {
            match event {
                Event::Sentence { tokens, piece } => {
                    self.cut_long_document(u64::from(tokens))?;
                    let (sentence, rest) = ids.split_at(tokens as usize);
                    match self.config.hold_out {
                        Some(_) => self.open.push(sentence, piece),
                        None => self.push_sentence(sentence, piece)?,
                    }
                    (self.has_line, ids) = (true, rest);
                }
                Event::Text(text) => self.open.push_text(text),
                Event::Nothing => self.has_line = true,
                Event::Break => self.close(false)?,
            }
        }
        // In the 2018 script, the end of a file does not end a document.
        if block.ends_file && !self.rules.reading.reference {
            self.close(false)?;
        }
        Ok(())
    }

    /// Appends a sentence to the open document of the data set.
    fn push_sentence(&mut self, ids: &[u32], piece: Piece) -> Result<()> {
        self.report.unknown_tokens += ids.iter().filter(|&id| self.unknown.contains(id)).count() as u64;
        self.report.cut_sentences += u64::from(piece.is_cut);
        self.report.long_sentence_tokens += if piece.is_long { ids.len() as u64 } else { 0 };
        self.documents.push_sentence(ids)
    }

    /// Ends a document before its next sentence if it would exceed the size of a bucket: buckets are held in memory.
    fn cut_long_document(&mut self, tokens: u64) -> Result<()> {
        let open = self.documents.open_tokens() + self.open.ids.len() as u64;
        if self.rules.reading.reference || open + tokens <= BUCKET_TOKENS {
            return Ok(());
        }
        if self.report.first_long_document.is_none() {
            self.report.first_long_document = Some(recorded_file_name(&self.files[self.file]));
        }
        self.report.long_documents += 1;
        self.close(true)?;
        self.has_line = true;
        Ok(())
    }

    /// Ends the open document; `continues` tells whether the rest of the document follows as a separate document.
    pub(super) fn close(&mut self, continues: bool) -> Result<()> {
        if !self.open.sentences.is_empty() {
            let open = std::mem::take(&mut self.open);
            if open.is_wanted(self.config) {
                let mut ids = open.ids.as_slice();
                for &(tokens, piece) in &open.sentences {
                    let (sentence, rest) = ids.split_at(tokens as usize);
                    self.push_sentence(sentence, piece)?;
                    ids = rest;
                }
            } else {
                self.has_line = false;
                self.report.left_out_documents += u64::from(!continues);
                self.report.left_out_sentences += open.sentences.len() as u64;
            }
            self.open = open;
        }
        self.open.clear(continues);
        match self.documents.close_document()? {
            0 => self.report.empty_documents += u64::from(self.has_line),
            1 => self.report.one_sentence_documents += 1,
            _ => {}
        }
        self.has_line = false;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(DocumentsBuilder, ReadReport)> {
        self.close(false)?;
        Ok((self.documents, self.report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(ids: &[u32], max_tokens: usize) -> Vec<usize> {
        // Odd ids continue the previous word.
        piece_lengths(ids, max_tokens, |id| id % 2 == 0).collect()
    }

    #[test]
    fn a_sentence_that_fits_stays_whole() {
        assert_eq!(lengths(&[2; 125], 125), [125]);
        assert_eq!(lengths(&[2], 125), [1]);
    }

    #[test]
    fn pieces_are_even_and_end_with_words() {
        assert_eq!(lengths(&[2; 126], 125), [25, 25, 25, 25, 26]);
        assert_eq!(lengths(&[2, 3].repeat(8), 12), [2, 2, 4, 2, 2, 4]);
        // Words longer than a piece are cut.
        assert_eq!(lengths(&[3; 13], 12), [2, 3, 2, 3, 3]);
    }

    #[test]
    fn nothing_is_lost_and_no_piece_is_empty() {
        let ids: Vec<u32> = (0..997).map(|n| n * n % 7).collect();
        for max_tokens in 1..300 {
            for tokens in [1, 2, 3, 50, 299, 300, 301, 997] {
                let lengths = lengths(&ids[..tokens], max_tokens);
                assert_eq!(lengths.iter().sum::<usize>(), tokens);
                assert!(
                    lengths.iter().all(|&length| (1..=max_tokens).contains(&length)),
                    "{max_tokens}: {lengths:?}"
                );
            }
        }
    }
}
