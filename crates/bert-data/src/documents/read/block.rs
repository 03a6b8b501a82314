//! Tokenizes one block of lines or rows.

use std::path::Path;

use bert_text::joiner::joined_paragraphs;
use bert_text::line_check::LineCheck;
use bert_text::sentence_ends::is_sentence_end;
use bert_text::{Block, TextKind, each_text};
use bert_tokenization::python_strip;
use bert_tokenization::turkic::{is_turkic, turkic_lower_case};
use bert_tokenization::{Encoder, MAX_INPUT_CHARS_PER_WORD};

use crate::config::language::DEFAULT_LANGUAGE;
use crate::config::{BuildConfig, LineBreaks, RandomMode};
use crate::documents::read::long_sentence::piece_lengths;
use crate::documents::read::open_document::{Piece, TextHash};
use crate::documents::read_report::PARAGRAPH_TOKENS;
use crate::documents::sentences::SentenceSplitter;
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
    /// Number of sentences that were cut although the text is split and that have no end of a sentence.
    pub(super) unsegmented: u64,
    /// Number of sentences with words that are too long for the tokenizer.
    pub(super) long_words: u64,
    pub(super) file: usize,
    pub(super) ends_file: bool,
}

/// How sentences are tokenized.
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
    let joined = match line_breaks {
        LineBreaks::Auto => joined_paragraphs(text, false),
        LineBreaks::Wrapped => joined_paragraphs(text, true),
        LineBreaks::Sentence | LineBreaks::Paragraph => None,
    };
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

/// Tokenizes a sentence. If it exceeds the maximum length, it is cut into pieces, and each becomes a sentence.
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
    done.long_words += u64::from(has_long_word(sentence, ids.len()));
    let is_long = ids.len() >= PARAGRAPH_TOKENS;
    for tokens in piece_lengths(ids, rules.max_tokens, |id| encoder.begins_word(id)) {
        let piece = Piece { is_cut: std::mem::take(&mut is_cut), is_long };
        done.events.push(Event::Sentence { tokens: tokens as u32, piece });
    }
}

/// Returns whether a sentence with this number of tokens has a word that is too long for the tokenizer. Only a sentence with
/// few tokens for its length is searched.
fn has_long_word(sentence: &str, tokens: usize) -> bool {
    sentence.len() > 20 * tokens.max(MAX_INPUT_CHARS_PER_WORD / 20)
        && sentence.split_whitespace().any(|word| word.chars().count() > MAX_INPUT_CHARS_PER_WORD)
}
