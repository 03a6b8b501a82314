//! Converts lines of text to documents of token ids.
//!
//! Threads tokenize blocks of lines while other blocks are read and joined. Blocks are joined in order, so the result
//! does not depend on the number of threads. A [`DocumentsBuilder`] receives the documents; a [`ReadReport`] contains
//! statistics of the input. Ports the reading part of the reference's `create_training_instances`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rayon::ThreadPool;
use serde::{Deserialize, Serialize};

use crate::config::{BuildConfig, RandomMode};
use crate::documents::bucket::BUCKET_TOKENS;
use crate::documents::long_sentence::piece_lengths;
use crate::documents::sentences::SentenceSplitter;
use crate::documents::{Documents, DocumentsBuilder};
use crate::error::{InputError, Result};
use crate::input::line_check::{BadLines, LineCheck};
use crate::input::remarks::{Remark, Remarks};
use crate::input::table::InputReader;
use crate::input::texts::{TextRules, each_text};
use crate::input::{BLOCK, Block, InputEntry};
use crate::parallel::{map_all, map_in_order};
use crate::tokenization::python_str::python_strip;
use crate::tokenization::{Encoder, Tokenizer};

impl BuildConfig {
    /// Returns the rules for reading lines and rows with these options.
    pub(crate) fn text_rules(&self) -> TextRules<'_> {
        TextRules {
            reference: self.random == RandomMode::Reference,
            bad_lines: BadLines::of(self.strict_utf8, self.lossy_utf8),
            strict_rows: self.strict_rows,
            text_column: &self.text_column,
        }
    }
}

/// Statistics of the input, collected while reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadReport {
    /// The input files in the order in which they were read.
    pub inputs: Vec<InputEntry>,
    /// Number of lines that were not valid UTF-8 or contained a NUL byte, and were repaired.
    pub invalid_utf8_lines: u64,
    /// Number of null rows in tables; skipped.
    #[serde(default)]
    pub null_rows: u64,
    /// Number of documents without tokens; omitted.
    pub empty_documents: u64,
    /// Number of documents with a single sentence.
    pub one_sentence_documents: u64,
    /// Number of `[UNK]` tokens.
    pub unknown_tokens: u64,
    /// Number of sentences that were cut because they are longer than an instance.
    pub cut_sentences: u64,
    /// Number of times that a document was cut because it reached the size of a bucket.
    pub long_documents: u64,
    /// The file in which a document was first cut.
    pub first_long_document: Option<String>,
    /// Warnings about options that do not fit the text, found before reading.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Remarks on the files for the user.
    #[serde(default, skip_serializing_if = "Remarks::is_empty")]
    pub remarks: Remarks,
}

impl ReadReport {
    /// Adds the statistics of the files that follow.
    pub(crate) fn add(&mut self, other: Self) {
        self.inputs.extend(other.inputs);
        for (sum, more) in [
            (&mut self.invalid_utf8_lines, other.invalid_utf8_lines),
            (&mut self.null_rows, other.null_rows),
            (&mut self.empty_documents, other.empty_documents),
            (&mut self.one_sentence_documents, other.one_sentence_documents),
            (&mut self.unknown_tokens, other.unknown_tokens),
            (&mut self.cut_sentences, other.cut_sentences),
            (&mut self.long_documents, other.long_documents),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.first_long_document = self.first_long_document.take().or(other.first_long_document);
        self.warnings.extend(other.warnings);
        self.remarks.add(other.remarks);
    }

    /// Returns all warnings for the user.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        warnings.extend(self.remarks.sentences());
        if let Some(file) = &self.first_long_document {
            let times = self.long_documents;
            warnings.push(format!(
                "documents of more than {BUCKET_TOKENS} tokens were cut there, {times} times, first in {file}; are the empty \
                 lines between documents missing?"
            ));
        }
        warnings
    }

    /// Returns a copy without the paths of the files.
    pub(crate) fn without_paths(&self) -> Self {
        let mut report = self.clone();
        report.inputs.iter_mut().for_each(|input| input.path.clear());
        report.remarks.clear_names();
        report
    }
}

/// One step of reading, in text order.
#[derive(Clone, Copy)]
enum Event {
    /// A sentence with this number of tokens, at least 1.
    Sentence(u32),
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
    cut_sentences: u64,
    lines: LineCheck,
    file: usize,
    ends_file: bool,
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

    /// Reads files into `documents`. `progress` receives the number of bytes read from disk; it is called repeatedly
    /// while a block is processed.
    ///
    /// # Errors
    /// Errors from reading and from the builder; [`InputProblem::InvalidUtf8`](crate::InputProblem::InvalidUtf8) and
    /// [`NotUtf8Text`](crate::InputProblem::NotUtf8Text) for lines that are not UTF-8.
    pub(crate) fn read(
        &mut self,
        files: &[PathBuf],
        documents: DocumentsBuilder,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(DocumentsBuilder, ReadReport)> {
        let Self { encoders, unknown, config, pool } = self;
        let mut joiner = Joiner::new(documents, *unknown, config, files);
        let mut source = Source::new(files, &config.text_column);
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
        joiner.report.inputs = source.inputs;
        joiner.report.remarks.add(source.remarks);
        joiner.finish()
    }

    /// Tokenizes blocks that are not consecutive; every document ends with its block.
    pub(crate) fn sample(
        &mut self,
        files: &[PathBuf],
        blocks: &[Block],
        documents: DocumentsBuilder,
    ) -> Result<Documents> {
        let Self { encoders, unknown, config, pool } = self;
        let mut joiner = Joiner::new(documents, *unknown, config, files);
        let work = |encoder: &mut Encoder<'_>, block: &Block| {
            tokenize_block(block, &files[block.file], encoder, config)
        };
        for block in
            map_all(pool, encoders, blocks.iter().collect(), &AtomicBool::new(false), work, &mut || {})?
        {
            joiner.add(block)?;
            joiner.close()?;
        }
        let (documents, _) = joiner.finish()?;
        if documents.is_empty() {
            let lines = blocks.iter().map(|block| block.lines().count() as u64).sum();
            return Err(InputError::NoText { files: files.len(), lines }.into());
        }
        documents.finish()
    }
}

/// The blocks of all files, in order.
pub(crate) struct Source<'a> {
    files: &'a [PathBuf],
    text_column: &'a str,
    open: Option<InputReader>,
    /// The files that were read completely.
    pub(crate) inputs: Vec<InputEntry>,
    /// Remarks on these files for the user.
    pub(crate) remarks: Remarks,
    bytes_before: u64,
}

impl<'a> Source<'a> {
    pub(crate) fn new(files: &'a [PathBuf], text_column: &'a str) -> Self {
        let (inputs, remarks) = (Vec::new(), Remarks::default());
        Self { files, text_column, open: None, inputs, remarks, bytes_before: 0 }
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
                    self.open.insert(InputReader::open(path, index, self.text_column)?)
                }
            };
            if let Some(block) = reader.next_block()? {
                return Ok(Some((block.bytes.len(), (block, self.bytes_before + reader.bytes_read()))));
            }
            self.bytes_before += reader.bytes_read();
            self.remarks.add(reader.remarks(&self.files[self.inputs.len()], self.text_column));
            self.inputs.push(reader.entry()?);
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
    let split = config.split_sentences || block.format.is_table();
    let splitter = split.then(|| SentenceSplitter::new(&config.language));
    let max_tokens = config.max_sentence_tokens();
    let mut sentences = |line: &str, done: &mut TokenizedBlock| match &splitter {
        Some(splitter) => splitter.for_each(line, &mut |sentence| {
            encode_sentence(sentence, encoder, max_tokens, done);
        }),
        None => encode_sentence(line, encoder, max_tokens, done),
    };
    let lines = each_text(block, path, config.text_rules(), |text, is_row| match text {
        row if is_row => add_row(row, &mut done, &mut sentences),
        "" => done.events.push(Event::Break),
        line => sentences(line, &mut done),
    })?;
    Ok(TokenizedBlock { lines, ..done })
}

/// Adds one row of a table as a document; its lines are paragraphs.
fn add_row(text: &str, done: &mut TokenizedBlock, sentences: &mut impl FnMut(&str, &mut TokenizedBlock)) {
    // A row without text counts as an empty document.
    done.events.push(Event::Nothing);
    for line in text.split('\n').map(python_strip).filter(|line| !line.is_empty()) {
        sentences(line, done);
    }
    done.events.push(Event::Break);
}

/// Tokenizes a sentence. If it exceeds the maximum length, it is cut into pieces, and each becomes a sentence.
fn encode_sentence(sentence: &str, encoder: &mut Encoder<'_>, max_tokens: usize, done: &mut TokenizedBlock) {
    let before = done.ids.len();
    encoder.encode(sentence, &mut done.ids);
    let ids = &done.ids[before..];
    if ids.is_empty() {
        done.events.push(Event::Nothing);
        return;
    }
    done.cut_sentences += u64::from(ids.len() > max_tokens);
    let pieces = piece_lengths(ids, max_tokens, |id| encoder.begins_word(id));
    done.events.extend(pieces.map(|tokens| Event::Sentence(tokens as u32)));
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
}

impl<'a> Joiner<'a> {
    fn new(
        documents: DocumentsBuilder,
        unknown: [u32; 2],
        config: &'a BuildConfig,
        files: &'a [PathBuf],
    ) -> Self {
        let (report, lines, rules) = (ReadReport::default(), LineCheck::default(), config.text_rules());
        Self { documents, report, unknown, rules, files, lines, file: 0, file_tokens: 0, has_line: false }
    }

    fn add(&mut self, block: TokenizedBlock) -> Result<()> {
        self.report.unknown_tokens += block.ids.iter().filter(|&id| self.unknown.contains(id)).count() as u64;
        self.report.cut_sentences += block.cut_sentences;
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
                Event::Sentence(tokens) => {
                    self.cut_long_document(u64::from(tokens))?;
                    let (sentence, rest) = ids.split_at(tokens as usize);
                    self.documents.push_sentence(sentence)?;
                    (self.has_line, ids) = (true, rest);
                }
                Event::Nothing => self.has_line = true,
                Event::Break => self.close()?,
            }
        }
        // In the 2018 script, the end of a file does not end a document.
        if block.ends_file && !self.rules.reference {
            self.close()?;
        }
        Ok(())
    }

    /// Ends a document before its next sentence if it would exceed the size of a bucket: buckets are held in memory.
    fn cut_long_document(&mut self, tokens: u64) -> Result<()> {
        if self.rules.reference || self.documents.open_tokens() + tokens <= BUCKET_TOKENS {
            return Ok(());
        }
        if self.report.first_long_document.is_none() {
            // Only the file name: the output must not depend on its location.
            let name = self.files[self.file].file_name().unwrap_or_default();
            self.report.first_long_document = Some(name.to_string_lossy().into_owned());
        }
        self.report.long_documents += 1;
        self.close()?;
        self.has_line = true;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        match self.documents.close_document()? {
            0 => self.report.empty_documents += u64::from(self.has_line),
            1 => self.report.one_sentence_documents += 1,
            _ => {}
        }
        self.has_line = false;
        Ok(())
    }

    fn finish(mut self) -> Result<(DocumentsBuilder, ReadReport)> {
        self.close()?;
        Ok((self.documents, self.report))
    }
}
