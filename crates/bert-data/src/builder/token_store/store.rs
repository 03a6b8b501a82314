//! Reads documents of the token store by number.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bert_storage::scratch::read_exact_at;
use bert_text::InputEntry;
use bert_text::line_check::{BadLines, LineCheck};
use bert_text::range_digest::ChainingValues;
use bert_text::remarks::Remark;
use bert_tokenization::IdSpace;

use crate::dataset::document_hashes::DocumentHashes;
use crate::documents::id_width::Width;
use crate::documents::read::RangeRead;
use crate::documents::read_report::ReadReport;
use crate::documents::{Bucket, Counts, Documents, INDEX, Start};
use crate::error::{Error, Result};

/// The tokenized text of all parts.
pub(crate) struct Store {
    pub(super) width: Width,
    pub(super) segments: Vec<Segment>,
    pub(crate) read: ReadReport,
    pub(crate) counts: Counts,
    /// Digest of the options, vocabulary, program and text; all later receipts of this build contain it.
    pub(crate) build: String,
}

/// The files of a segment.
pub(super) struct Segment {
    pub(super) text: PathBuf,
    pub(super) index: PathBuf,
    /// The index, if it is held in memory.
    pub(super) in_memory: Option<Vec<u8>>,
    /// Total counts of the segments before this one.
    pub(super) before: Counts,
}

impl Store {
    /// Loads the index into memory if it takes at most `max_bytes` bytes.
    pub(crate) fn load_index(&mut self, max_bytes: u64) -> Result<()> {
        let [_, index] = self.counts.bytes(self.width);
        for segment in self.segments.iter_mut().filter(|_| index <= max_bytes) {
            let path = &segment.index;
            segment.in_memory = Some(std::fs::read(path).map_err(Error::io("read", path))?);
        }
        Ok(())
    }

    /// Returns a reader that opens its own files, one segment at a time. It reads nothing once `stop` is set.
    pub(crate) fn reader<'a>(&'a self, stop: &'a AtomicBool) -> StoreReader<'a> {
        StoreReader { store: self, stop, segment: 0, text: None, index: None }
    }
}

/// Reader of documents by number.
pub(crate) struct StoreReader<'a> {
    store: &'a Store,
    stop: &'a AtomicBool,
    /// Index of the segment whose files are open.
    segment: usize,
    text: Option<File>,
    index: Option<File>,
}

impl StoreReader<'_> {
    /// Sorts `numbers` and returns these documents in text order, with the number of tokens before each in the text.
    pub(crate) fn read(&mut self, numbers: &mut [u64]) -> Result<(Bucket, Vec<u64>)> {
        numbers.sort_unstable();
        let (documents, before) = self.read_ascending(numbers.iter().copied())?;
        Ok((Bucket::ascending(documents, numbers.to_vec()), before))
    }

    /// Returns the documents with these numbers, which must ascend, and the number of tokens before each in the text.
    pub(crate) fn read_ascending(
        &mut self,
        numbers: impl Iterator<Item = u64>,
    ) -> Result<(Documents, Vec<u64>)> {
        let store = self.store;
        let mut documents = Documents::empty(store.width);
        let mut tokens_before = Vec::new();
        for number in numbers {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::io("read", &store.segments[0].text)(ErrorKind::Interrupted.into()));
            }
            let at = store.segments.partition_point(|segment| segment.before.documents <= number) - 1;
            let segment = &store.segments[at];
            if self.segment != at {
                (self.segment, self.text, self.index) = (at, None, None);
            }
            let offset = INDEX * (number - segment.before.documents);
            let mut entries = [0; 2 * INDEX as usize];
            match &segment.in_memory {
                Some(index) => entries.copy_from_slice(&index[offset as usize..][..2 * INDEX as usize]),
                None => read_at(&mut self.index, &segment.index, &mut entries, offset)?,
            }
            let [start, end] = [0, INDEX as usize].map(|at| Start::from_bytes(&entries[at..]));
            let sentences = end.sentences - start.sentences;
            let tokens = end.tokens - start.tokens;
            documents.append(sentences, tokens, |bytes| {
                read_at(&mut self.text, &segment.text, bytes, start.byte(store.width))
            })?;
            tokens_before.push(segment.before.tokens + start.tokens);
        }
        Ok((documents, tokens_before))
    }
}

/// Fills `bytes` from an offset of a file, which is opened first if necessary.
fn read_at(open: &mut Option<File>, path: &Path, bytes: &mut [u8], offset: u64) -> Result<()> {
    let file = match open {
        Some(file) => file,
        None => open.insert(File::open(path).map_err(Error::io("open", path))?),
    };
    read_exact_at(file, bytes, offset).map_err(Error::io("read", path))
}

impl Store {
    /// Returns the hashes of all documents; `space` is the space of the stored ids.
    pub(crate) fn document_hashes(&self, space: IdSpace) -> Result<DocumentHashes> {
        let mut hashes = DocumentHashes::default();
        let mut ids = Vec::new();
        let mut marks = Vec::new();
        let mut packed = Vec::new();
        for segment in &self.segments {
            self.each_record(segment, |tokens| {
                ids.clear();
                marks.clear();
                self.width.get(tokens, &mut ids);
                space.unmark(&mut ids, &mut marks);
                hashes.add(&ids, &mut packed);
            })?;
        }
        Ok(hashes.finish())
    }

    /// Calls `on_tokens` with the packed tokens of each document of a segment.
    fn each_record(&self, segment: &Segment, mut on_tokens: impl FnMut(&[u8])) -> Result<()> {
        let read = |path: &Path| File::open(path).map(BufReader::new).map_err(Error::io("open", path));
        let mut index = read(&segment.index)?;
        let mut text = read(&segment.text)?;
        let mut entry = [0; INDEX as usize];
        let mut record = Vec::new();
        let mut next_start = || {
            if index.fill_buf()?.is_empty() {
                return Ok(None);
            }
            index.read_exact(&mut entry).map(|()| Some(Start::from_bytes(&entry)))
        };
        let mut before = next_start().map_err(Error::io("read", &segment.index))?.unwrap_or_default();
        while let Some(end) = next_start().map_err(Error::io("read", &segment.index))? {
            record.resize((end.byte(self.width) - before.byte(self.width)) as usize, 0);
            text.read_exact(&mut record).map_err(Error::io("read", &segment.text))?;
            on_tokens(&record[..(end.tokens - before.tokens) as usize * self.width.bytes()]);
            before = end;
        }
        Ok(())
    }
}

/// The ranges of a file that were added so far.
#[derive(Default)]
pub(super) struct DividedFile(Option<RangesBefore>);

/// The sum over the first ranges of a file.
struct RangesBefore {
    entry: InputEntry,
    lines: LineCheck,
    tokens: u64,
    blocks: ChainingValues,
    /// Digest of the bytes that the next range also reads.
    text_end: String,
}

impl DividedFile {
    /// Adds the next range. Removes the entry of the range from its report `read`; after the last range, adds the entry
    /// of the file instead.
    ///
    /// # Errors
    /// Fails when two ranges of the file were read from different text, or when [`LineCheck::add_block`] fails.
    pub(super) fn add(
        &mut self,
        path: &Path,
        next: RangeRead,
        read: &mut ReadReport,
        bad_lines: BadLines,
    ) -> Result<()> {
        let changed = || {
            Error::data(
                "this input changed while it was read: run the same command again, for every part of the build, when \
                 no other program writes to it",
            )
            .at(path)
        };
        let entry = read.inputs.pop().ok_or_else(changed)?;
        let RangeRead { range, lines, tokens, digests } = next;
        let mut sum = self.0.take().unwrap_or_else(|| RangesBefore {
            entry: InputEntry { bytes: 0, lines: 0, ..entry.clone() },
            lines: LineCheck::default(),
            tokens: 0,
            blocks: ChainingValues::default(),
            text_end: digests.before_text.clone(),
        });
        if sum.text_end != digests.before_text {
            return Err(changed());
        }
        let lines = lines.after_lines(sum.entry.lines);
        let remarks = sum.lines.add_block(lines, path, range.ends_file(), bad_lines)?;
        sum.entry.bytes += entry.bytes;
        sum.entry.lines += entry.lines;
        sum.tokens += tokens;
        sum.blocks.add(&digests.blocks);
        sum.text_end = digests.text_end;
        if !range.ends_file() {
            self.0 = Some(sum);
            return Ok(());
        }
        if remarks.is_without(Remark::NoText) {
            read.remarks.add_count(Remark::NoText, path, u64::from(sum.tokens == 0));
        }
        read.remarks.add(remarks);
        let blake3 = sum.blocks.digest(range.block_size, sum.entry.bytes).ok_or_else(changed)?;
        read.inputs.push(InputEntry { blake3, ..sum.entry });
        Ok(())
    }
}
