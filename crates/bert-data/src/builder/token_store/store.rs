//! Reads documents of the token store by number.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bert_storage::scratch::read_exact_at;

use crate::documents::bucket::Bucket;
use crate::documents::id_width::Width;
use crate::documents::read_report::ReadReport;
use crate::documents::{Counts, Documents, INDEX, Start};
use crate::error::{Error, Result};

/// The tokenized text of all parts.
pub(crate) struct Store {
    pub(super) width: Width,
    pub(super) segments: Vec<Segment>,
    pub(crate) read: ReadReport,
    pub(crate) counts: Counts,
    /// One digest of the options, vocabulary, program and text; all later receipts of this build name it.
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

/// Reads documents by number.
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
