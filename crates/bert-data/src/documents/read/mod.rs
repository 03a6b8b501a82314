//! Converts lines of text to documents of token ids.
//!
//! Threads tokenize blocks of lines while other blocks are read and joined. Blocks are joined in order, so the result
//! does not depend on the number of threads. A [`DocumentsBuilder`] receives the documents; a `ReadReport` contains
//! statistics of the input. The module ports the reading part of the reference's `create_training_instances`.

mod block;
mod open_document;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use bert_text::file_range::{FileRange, RangeDigests};
use bert_text::line_check::{BadLines, LineCheck};
use bert_text::remarks::{Remark, Remarks};
use bert_text::{
    BLOCK, Block, Format, InputEntry, InputReader, Reading, TextKind, TextRules, each_text, files_to_read,
    first_duplicate, recognized, reject_output_inside, reject_vocabulary,
};
use bert_tokenization::{Encoder, Tokenizer};
use rayon::ThreadPool;
use serde::{Deserialize, Serialize};

use crate::config::language::{has_sentence_rules, language_code};
use crate::config::{BuildConfig, RandomMode};
use crate::documents::read::block::{Joiner, tokenize_block};
use crate::documents::read::open_document::TextHash;
use crate::documents::read_report::ReadReport;
use crate::documents::{Documents, DocumentsBuilder};
use crate::error::{Error, Result, no_tokens};
use crate::parallel::Workers;

impl BuildConfig {
    /// Returns the rules for reading lines and rows with these options.
    pub(crate) fn text_rules(&self) -> TextRules<'_> {
        TextRules {
            reading: self.reading(),
            bad_lines: BadLines::from_flags(self.strict_utf8, self.lossy_utf8),
            strict_rows: self.strict_rows,
        }
    }

    /// Finds the input files and recognizes their formats. No input file may be the vocabulary or be in an output
    /// folder.
    ///
    /// # Errors
    /// Fails when files cannot be found or recognized, when one is given twice or is the vocabulary, or when an output
    /// and an input contain each other.
    pub(crate) fn input_files(&self) -> Result<(Vec<PathBuf>, Vec<Format>)> {
        let files = files_to_read(&self.input, &self.text_column)?;
        if let (RandomMode::Keyed, Some(path)) = (self.random, first_duplicate(&files)) {
            return Err(
                Error::usage("this input is given twice, or a link points to it; remove one").at(path)
            );
        }
        reject_vocabulary(&files, self.vocab()?)?;
        for output in [&self.output, &self.scratch].into_iter().flatten() {
            reject_output_inside(&self.input, output)?;
        }
        let formats = recognized(&files, self.text_rules())?;
        Ok((files, formats))
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

/// Reader that tokenizes files; each thread keeps its word cache from call to call.
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
    /// Fails when a file cannot be read, when lines are not UTF-8, or when `documents` cannot take the text.
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
            // The number of bad lines is compared with the number of all lines of the file later, when the statistics
            // of its ranges are added up.
            joiner.rules.bad_lines = BadLines::Any;
        }
        let mut source = Source { range, ..Source::new(files, config.reading()) };
        // There is room for one block per thread, and for as many blocks that are read ahead or wait to be joined. If
        // lines are very long, there are fewer blocks.
        let room = 2 * encoders.len() * BLOCK;
        let mut last = 0;
        let stop = AtomicBool::new(false);
        Workers::new(pool, encoders, &stop).with_max_in_flight(room).map_in_order(
            source.blocks(),
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
        let stop = AtomicBool::new(false);
        let tokenized =
            Workers::new(pool, encoders, &stop).map_all(blocks.iter().collect(), work, &mut || {})?;
        let mut tokenized = tokenized.into_iter().peekable();
        while let Some(mut block) = tokenized.next() {
            // The remarks on a file are made with its last sampled block.
            block.ends_file = tokenized.peek().is_none_or(|next| next.file != block.file);
            joiner.add(block)?;
            joiner.close(false)?;
        }
        let (documents, report) = joiner.finish()?;
        if documents.is_empty() {
            let lines = blocks.iter().map(|block| block.lines().count() as u64).sum();
            return Err(no_tokens(files.len(), lines));
        }
        Ok((documents.finish()?, report))
    }
}

/// Calls `on_document` with the hash of the text of each document, without tokenizing it.
///
/// # Errors
/// Fails when a file, or a row of it, cannot be read.
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
        let inputs = Vec::new();
        let remarks = Remarks::default();
        let range = None;
        let range_digests = None;
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
