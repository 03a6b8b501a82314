//! Joins tokenized blocks into documents.

use bert_text::recorded_file_name;
use std::path::PathBuf;

use bert_text::TextRules;
use bert_text::line_check::LineCheck;
use bert_text::remarks::Remark;

use crate::config::BuildConfig;
use crate::documents::DocumentsBuilder;
use crate::documents::bucket::BUCKET_TOKENS;
use crate::documents::read::block::{Event, TokenizedBlock};
use crate::documents::read::open_document::{DocumentFilter, OpenDocument, Piece};
use crate::documents::read_report::ReadReport;
use crate::error::Result;

/// Joins tokenized blocks into documents, in order.
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
    /// Selects documents, if some are held out; the open document then waits for its end.
    filter: Option<DocumentFilter>,
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
        let filter = DocumentFilter::new(config);
        let open = OpenDocument::default();
        let file = 0;
        let file_tokens = 0;
        let has_line = false;
        Self { documents, report, unknown, rules, files, lines, file, file_tokens, has_line, filter, open }
    }

    pub(super) fn add(&mut self, block: TokenizedBlock) -> Result<()> {
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
            self.report.first_long_document = Some(recorded_file_name(&self.files[self.file]));
        }
        self.report.long_documents += 1;
        self.close(true)?;
        self.has_line = true;
        Ok(())
    }

    /// Ends the open document; `continues` is whether the rest of it follows as a further document.
    pub(super) fn close(&mut self, continues: bool) -> Result<()> {
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

    pub(super) fn finish(mut self) -> Result<(DocumentsBuilder, ReadReport)> {
        self.close(false)?;
        Ok((self.documents, self.report))
    }
}
