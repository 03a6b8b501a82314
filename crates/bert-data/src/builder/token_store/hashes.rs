//! Hashes the documents of the token store in one sequential reading.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use bert_tokenization::IdSpace;

use crate::builder::token_store::store::{Segment, Store};
use crate::dataset::document_hashes::DocumentHashes;
use crate::documents::{INDEX, Start};
use crate::error::{Error, Result};

impl Store {
    /// Returns the hashes of all documents; `space` has the stored ids.
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
