//! Converts lines of text to documents of token ids.
//!
//! Threads tokenize blocks of lines while other blocks are read and joined. Blocks are joined in order, so the result
//! does not depend on the number of threads. A [`DocumentsBuilder`] receives the documents; a `ReadReport` contains
//! statistics of the input. Ports the reading part of the reference's `create_training_instances`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rayon::ThreadPool;
use serde::{Deserialize, Serialize};

use crate::config::language::{DEFAULT_LANGUAGE, has_sentence_rules, language_code};
use crate::config::{BuildConfig, LineBreaks, RandomMode};
use crate::documents::bucket::BUCKET_TOKENS;
use crate::documents::long_sentence::piece_lengths;
use crate::documents::open_document::{DocumentFilter, OpenDocument, Piece, TextHash};
use crate::documents::read_report::{PARAGRAPH_TOKENS, ReadReport};
use crate::documents::sentences::SentenceSplitter;
use crate::documents::{Documents, DocumentsBuilder};
use crate::error::{InputError, Result};
use crate::input::bytes::file_range::{FileRange, RangeDigests};
use crate::input::forms::joiner::joined_paragraphs;
use crate::input::line_check::{BadLines, LineCheck};
use crate::input::remarks::{Remark, Remarks};
use crate::input::table::InputReader;
use crate::input::texts::{TextKind, TextRules, each_text};
use crate::input::{BLOCK, Block, InputEntry, Reading};
use crate::parallel::{map_all, map_in_order};
use crate::tokenization::python_str::python_strip;
use crate::tokenization::sentence_ends::is_sentence_end;
use crate::tokenization::turkic::{is_turkic, turkic_lower_case};
use crate::tokenization::{Encoder, MAX_INPUT_CHARS_PER_WORD, Tokenizer};

impl BuildConfig {
    /// Returns the rules for reading lines and rows with these options.
    pub(crate) fn text_rules(&self) -> TextRules<'_> {
        TextRules {
            reading: self.reading(),
            bad_lines: BadLines::of(self.strict_utf8, self.lossy_utf8),
            strict_rows: self.strict_rows,
        }
    }

    /// Returns the options that decide how a file is recognized and read.
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading {
            text_column: &self.text_column,
            line_breaks: self.line_breaks,
            reference: self.random == RandomMode::Reference,
        }
    }
}

/// One step of reading, in text order.
#[derive(Clone, Copy)]
enum Event {
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
struct TokenizedBlock {
    ids: Vec<u32>,
    events: Vec<Event>,
    lines: LineCheck,
    /// Number of sentences that were cut although the text is split and that have no end of a sentence.
    unsegmented: u64,
    /// Number of sentences with words that are too long for the tokenizer.
    long_words: u64,
    file: usize,
    ends_file: bool,
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

/// Text that was read and tokenized.
pub(crate) struct TextRead {
    pub(crate) documents: DocumentsBuilder,
    pub(crate) report: ReadReport,
    /// The range that was read, if it was not all of the files.
    pub(crate) range: Option<RangeRead>,
}

/// A range of a file, with its statistics. The statistics of the file are the sum over its ranges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeRead {
    pub(crate) range: FileRange,
    pub(crate) lines: LineCheck,
    pub(crate) tokens: u64,
    pub(crate) digests: RangeDigests,
}

/// Reads and tokenizes files; each thread keeps its word cache from call to call.
pub(crate) struct TextReader<'a> {
    encoders: Vec<Encoder<'a>>,
    /// Ids of `[UNK]`, without and with word mark.
    unknown: [u32; 2],
    config: &'a BuildConfig,
    pool: &'a ThreadPool,
}

impl<'a> TextReader<'a> {
    /// Creates a reader that uses the threads of a pool.
    pub(crate) fn new(tokenizer: &'a Tokenizer, config: &'a BuildConfig, pool: &'a ThreadPool) -> Self {
        let encoders = (0..pool.current_num_threads()).map(|_| tokenizer.encoder()).collect();
        Self { encoders, unknown: tokenizer.unknown_ids(), config, pool }
    }

    /// Reads files, or a range of one file, into `documents`. `progress` receives the number of bytes read from disk; it
    /// is called repeatedly while a block is processed.
    ///
    /// # Errors
    /// Errors from reading and from the builder; [`InputProblem::InvalidUtf8`](crate::InputProblem::InvalidUtf8) and
    /// [`NotUtf8Text`](crate::InputProblem::NotUtf8Text) for lines that are not UTF-8.
    pub(crate) fn read(
        &mut self,
        files: &[PathBuf],
        range: Option<FileRange>,
        documents: DocumentsBuilder,
        progress: &mut dyn FnMut(u64),
    ) -> Result<TextRead> {
        let Self { encoders, unknown, config, pool } = self;
        let mut joiner = Joiner::new(documents, *unknown, config, files);
        if range.is_some_and(|range| range.start.text > 0) {
            // Bad lines are compared with all lines of the file, when the statistics of its ranges are added up.
            joiner.rules.bad_lines = BadLines::Any;
        }
        let mut source = Source { range, ..Source::new(files, config.reading()) };
        // One block per thread, and equally many read ahead or waiting to be joined; fewer if lines are very long.
        let room = 2 * encoders.len() * BLOCK;
        let mut last = 0;
        map_in_order(
            pool,
            encoders,
            room,
            source.blocks(),
            &AtomicBool::new(false),
            |encoder, (block, read)| Ok((tokenize_block(&block, &files[block.file], encoder, config)?, read)),
            |(block, read)| {
                joiner.add(block)?;
                Ok(Some(read))
            },
            |read| {
                last = read.unwrap_or(last);
                progress(last);
            },
        )?;
        joiner.report.remarks.add(source.remarks);
        joiner.report.remarks.add(sentence_rule_remarks(&source.inputs, files, config));
        joiner.report.inputs = source.inputs;
        let lines = std::mem::take(&mut joiner.lines);
        let tokens = joiner.file_tokens as u64;
        let range = range.zip(source.range_digests);
        let range = range.map(|(range, digests)| RangeRead { range, lines, tokens, digests });
        let (documents, report) = joiner.finish()?;
        Ok(TextRead { documents, report, range })
    }

    /// Tokenizes blocks that are not consecutive; every document ends with its block. Returns the documents, and the
    /// statistics of the blocks without the list of inputs.
    pub(crate) fn sample(
        &mut self,
        files: &[PathBuf],
        blocks: &[Block],
        documents: DocumentsBuilder,
    ) -> Result<(Documents, ReadReport)> {
        let Self { encoders, unknown, config, pool } = self;
        let mut joiner = Joiner::new(documents, *unknown, config, files);
        let work = |encoder: &mut Encoder<'_>, block: &Block| {
            tokenize_block(block, &files[block.file], encoder, config)
        };
        let mut tokenized =
            map_all(pool, encoders, blocks.iter().collect(), &AtomicBool::new(false), work, &mut || {})?
                .into_iter()
                .peekable();
        while let Some(mut block) = tokenized.next() {
            // The remarks on a file are made with its last sampled block.
            block.ends_file = tokenized.peek().is_none_or(|next| next.file != block.file);
            joiner.add(block)?;
            joiner.close(false)?;
        }
        let (documents, report) = joiner.finish()?;
        if documents.is_empty() {
            let lines = blocks.iter().map(|block| block.lines().count() as u64).sum();
            return Err(InputError::NoText { files: files.len(), lines }.into());
        }
        Ok((documents.finish()?, report))
    }
}

/// Calls `on_document` with the hash of the text of each document, without tokenizing it.
///
/// # Errors
/// The errors of reading.
pub(crate) fn each_document(
    files: &[PathBuf],
    config: &BuildConfig,
    on_document: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut source = Source::new(files, config.reading());
    let mut open = None::<TextHash>;
    let rules = TextRules { bad_lines: BadLines::Any, ..config.text_rules() };
    let mut end =
        |open: &mut Option<TextHash>| open.take().into_iter().for_each(|text| on_document(text.finish()));
    while let Some((_, (block, _))) = source.next_block()? {
        each_text(&block, &files[block.file], rules, |text, kind| {
            if !text.trim().is_empty() {
                open.get_or_insert_default().push(TextHash::new(text));
            }
            if kind != TextKind::Line || text.is_empty() {
                end(&mut open);
            }
        })?;
        if block.ends_file {
            end(&mut open);
        }
    }
    end(&mut open);
    Ok(())
}

/// The blocks of all files, in order.
pub(crate) struct Source<'a> {
    files: &'a [PathBuf],
    reading: Reading<'a>,
    /// The range of the only file that is read, if not all of it.
    range: Option<FileRange>,
    range_digests: Option<RangeDigests>,
    open: Option<InputReader>,
    /// The files that were read completely.
    pub(crate) inputs: Vec<InputEntry>,
    /// Remarks on these files for the user.
    pub(crate) remarks: Remarks,
    bytes_before: u64,
}

impl<'a> Source<'a> {
    pub(crate) fn new(files: &'a [PathBuf], reading: Reading<'a>) -> Self {
        let (inputs, remarks) = (Vec::new(), Remarks::default());
        let (range, range_digests) = (None, None);
        Self { files, reading, range, range_digests, open: None, inputs, remarks, bytes_before: 0 }
    }

    /// Returns the blocks for [`map_in_order`]: each with its size and the number of bytes read from disk so far.
    pub(crate) fn blocks(&mut self) -> impl Iterator<Item = Result<(usize, (Block, u64))>> {
        std::iter::from_fn(|| self.next_block().transpose())
    }

    fn next_block(&mut self) -> Result<Option<(usize, (Block, u64))>> {
        loop {
            let reader = match &mut self.open {
                Some(reader) => reader,
                None => {
                    let index = self.inputs.len();
                    let Some(path) = self.files.get(index) else { return Ok(None) };
                    self.open.insert(match self.range {
                        Some(range) => InputReader::open_range(path, index, range)?,
                        None => InputReader::open_with(path, index, self.reading)?,
                    })
                }
            };
            if let Some(block) = reader.next_block()? {
                return Ok(Some((block.bytes.len(), (block, self.bytes_before + reader.bytes_read()))));
            }
            self.bytes_before += reader.bytes_read();
            self.remarks.add(reader.remarks(&self.files[self.inputs.len()], self.reading.text_column));
            self.inputs.push(reader.entry()?);
            self.range_digests = reader.range_digests();
            self.open = None;
        }
    }
}

fn tokenize_block(
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
    lines.signs.unsegmented = done.unsegmented;
    lines.signs.long_words = done.long_words;
    Ok(TokenizedBlock { lines, ..done })
}

/// Returns remarks on the dumps whose language has no sentence rules.
fn sentence_rule_remarks(inputs: &[InputEntry], files: &[PathBuf], config: &BuildConfig) -> Remarks {
    let mut remarks = Remarks::default();
    for (input, path) in inputs.iter().zip(files) {
        let language = input.dump.as_ref().map_or("", |dump| &dump.language);
        let has_rules = || {
            language.split(", ").all(|one| language_code(one).is_some_and(|code| has_sentence_rules(&code)))
        };
        if config.language.is_none() && !language.is_empty() && !has_rules() {
            remarks.add_count(Remark::SentenceRules, path, input.lines);
        }
    }
    remarks
}

/// Returns the language of a block: as given, else the language of the dump.
fn language_of<'a>(block: &'a Block, config: &'a BuildConfig) -> &'a str {
    let given = config.language.as_deref();
    let of_dump = block.wiki.as_deref().map(|wiki| wiki.language.as_str()).filter(|code| !code.is_empty());
    given.or(of_dump).unwrap_or(DEFAULT_LANGUAGE)
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

/// Joins tokenized blocks into documents, in order.
struct Joiner<'a> {
    documents: DocumentsBuilder,
    report: ReadReport,
    unknown: [u32; 2],
    rules: TextRules<'a>,
    files: &'a [PathBuf],
    /// Line statistics of the current file.
    lines: LineCheck,
    file: usize,
    /// Number of tokens of the current file so far.
    file_tokens: usize,
    /// Whether the open document has had a non-blank line.
    has_line: bool,
    /// Selects documents, if some are held out; the open document then waits for its end.
    filter: Option<DocumentFilter>,
    open: OpenDocument,
}

impl<'a> Joiner<'a> {
    fn new(
        documents: DocumentsBuilder,
        unknown: [u32; 2],
        config: &'a BuildConfig,
        files: &'a [PathBuf],
    ) -> Self {
        let (report, lines, rules) = (ReadReport::default(), LineCheck::default(), config.text_rules());
        let (filter, open) = (DocumentFilter::of(config), OpenDocument::default());
        let (file, file_tokens, has_line) = (0, 0, false);
        Self { documents, report, unknown, rules, files, lines, file, file_tokens, has_line, filter, open }
    }

    fn add(&mut self, block: TokenizedBlock) -> Result<()> {
        self.report.invalid_utf8_lines += block.lines.bad;
        self.report.null_rows += block.lines.null_rows;
        self.file = block.file;
        let path = &self.files[block.file];
        let mut remarks = self.lines.add_block(block.lines, path, block.ends_file, self.rules.bad_lines)?;
        self.file_tokens += block.ids.len();
        if block.ends_file {
            // A file may contain only characters that yield no token.
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
                    match self.filter {
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
            // Only the file name: the output must not depend on its location.
            let name = self.files[self.file].file_name().unwrap_or_default();
            self.report.first_long_document = Some(name.to_string_lossy().into_owned());
        }
        self.report.long_documents += 1;
        self.close(true)?;
        self.has_line = true;
        Ok(())
    }

    /// Ends the open document; `continues` is whether the rest of it follows as a further document.
    fn close(&mut self, continues: bool) -> Result<()> {
        if let Some(filter) = self.filter
            && !self.open.sentences.is_empty()
        {
            let open = std::mem::take(&mut self.open);
            if open.is_wanted(filter) {
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

    fn finish(mut self) -> Result<(DocumentsBuilder, ReadReport)> {
        self.close(false)?;
        Ok((self.documents, self.report))
    }
}
