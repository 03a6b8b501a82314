//! Reads an object sequentially in blocks, and prefetches the next block.

use std::io::{self, Read};
use std::sync::mpsc::Receiver;

use object_store::{GetOptions, GetRange, ObjectStore};

use super::{Object, answer, failed, start};

/// Size of the first block in bytes: a reader of only the header requests no more.
const FIRST: u64 = 1 << 16;
/// Maximum size of the following blocks in bytes.
const STRETCH: u64 = 8 << 20;

/// An object being read.
pub(crate) struct ObjectReader {
    object: Object,
    tag: Option<String>,
    size: u64,
    /// Offset of the next block to request.
    next: u64,
    length: u64,
    /// Size of the requested block.
    asked: u64,
    held: Vec<u8>,
    /// Number of bytes of `held` already returned.
    given: usize,
    coming: Option<Receiver<object_store::Result<Vec<u8>>>>,
}

impl ObjectReader {
    /// Requests the size and the entity tag: all blocks must come from the same contents.
    pub(super) fn open(object: Object) -> io::Result<Self> {
        let (size, tag) = object.head()?;
        let (next, length, asked) = (0, FIRST, 0);
        Ok(Self { object, tag, size, next, length, asked, held: Vec::new(), given: 0, coming: None })
    }

    /// Requests the next block, if there is one.
    fn ask(&mut self) {
        let range = self.next..(self.next + self.length).min(self.size);
        if range.is_empty() {
            return;
        }
        (self.asked, self.next, self.length) = (range.end - range.start, range.end, STRETCH);
        let (object, tag) = (self.object.clone(), self.tag.clone());
        let range = Some(GetRange::Bounded(range));
        let options = GetOptions { range, if_match: tag, ..Default::default() };
        self.coming = Some(start(async move {
            object.store.get_opts(&object.key, options).await?.bytes().await.map(Vec::from)
        }));
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.held.len() {
            if self.coming.is_none() {
                self.ask();
            }
            let Some(coming) = self.coming.take() else { return Ok(0) };
            let stretch = answer(&coming)?.map_err(failed)?;
            (self.held, self.given) = (stretch, 0);
            if self.held.len() as u64 != self.asked {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // Prefetch only after the first block: a reader of the header does not need a second request.
            if self.next > FIRST {
                self.ask();
            }
        }
        let length = buffer.len().min(self.held.len() - self.given);
        buffer[..length].copy_from_slice(&self.held[self.given..self.given + length]);
        self.given += length;
        Ok(length)
    }
}
