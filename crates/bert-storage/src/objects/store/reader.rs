//! Reads an object sequentially in blocks, and prefetches the next block.

use std::io::{self, Read};
use std::sync::mpsc::Receiver;

use object_store::{GetOptions, GetRange, ObjectStore};

use crate::objects::store::error::failed;
use crate::objects::store::object::{Object, answer, start};

/// Size of the first block in bytes: a caller that reads only the header requests no more.
const FIRST_BLOCK: u64 = 1 << 16;
/// Maximum size of the following blocks in bytes.
const MAX_BLOCK: u64 = 8 << 20;

/// An object being read.
pub(crate) struct ObjectReader {
    object: Object,
    tag: Option<String>,
    size: u64,
    /// Offset of the next block to request.
    next: u64,
    length: u64,
    /// Size of the requested block.
    requested: u64,
    block: Vec<u8>,
    /// Number of bytes of `block` already returned.
    consumed: usize,
    pending: Option<Receiver<object_store::Result<Vec<u8>>>>,
}

impl ObjectReader {
    /// Returns a reader of an object from an offset on. Requests the size and the entity tag of the object first,
    /// because all blocks must come from the same contents.
    pub(super) fn open(object: Object, offset: u64) -> io::Result<Self> {
        let (size, tag) = object.head()?;
        let next = offset;
        let length = FIRST_BLOCK;
        let requested = 0;
        Ok(Self { object, tag, size, next, length, requested, block: Vec::new(), consumed: 0, pending: None })
    }

    /// Requests the next block, if there is one.
    fn request(&mut self) {
        let range = self.next..(self.next + self.length).min(self.size);
        if range.is_empty() {
            return;
        }
        (self.requested, self.next, self.length) = (range.end - range.start, range.end, MAX_BLOCK);
        let object = self.object.clone();
        let tag = self.tag.clone();
        let range = Some(GetRange::Bounded(range));
        let options = GetOptions { range, if_match: tag, ..Default::default() };
        self.pending = Some(start(async move {
            object.store.get_opts(&object.key, options).await?.bytes().await.map(Vec::from)
        }));
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.consumed == self.block.len() {
            if self.pending.is_none() {
                self.request();
            }
            let Some(pending) = self.pending.take() else { return Ok(0) };
            let is_first = self.block.is_empty();
            self.block = answer(&pending)?.map_err(failed)?;
            self.consumed = 0;
            if self.block.len() as u64 != self.requested {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // Prefetch only after the first block: a caller that reads only the header needs no second request.
            if !is_first {
                self.request();
            }
        }
        let length = buffer.len().min(self.block.len() - self.consumed);
        buffer[..length].copy_from_slice(&self.block[self.consumed..self.consumed + length]);
        self.consumed += length;
        Ok(length)
    }
}
