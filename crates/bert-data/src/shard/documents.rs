//! Writes documents as row groups of Parquet shards (`--layout documents`) and reads them back, every row checked.
//!
//! A row is a document. The documents of a data set stand in the order of its pass 0, which is random and computed
//! (`dataset::document_groups`), so any row group is a sample of the text.
//!
//! Size: the ids are written plainly and left to zstd, which finds repeated phrases. On the bench corpus (1.85 million
//! tokens) this takes 2.6 MB. A dictionary takes 2.8 MB; byte-stream split takes 2.65 MB, and fewer readers know it.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use crate::documents::tally::Tally;
use crate::documents::{Document, Documents, DocumentsBuilder};
use crate::error::{Error, Result, RowProblem};
use crate::shard::footer::shard_properties;
use crate::shard::record_batch::take_marks;
use crate::shard::schema::{check_marks, first_null, marks_of};
use crate::shard::schema::{element, with_marks};
use crate::shard::writer::{EncodedRowGroup, GroupEncoder, ShardForm, failed};
use crate::tokenization::word_marks::marked as mark;

/// The columns, in order.
pub const DOCUMENT_COLUMNS: [&str; 2] = ["input_ids", "sentence_lengths"];

/// Tokens of one record batch on its way to the file, roughly.
const BATCH_TOKENS: usize = 1 << 16;
/// Bytes of one page: zstd finds more in large ones.
const PAGE: usize = 1 << 20;
/// Documents of one record batch that is read: few, because a document may be a book.
pub(crate) const READ_AT_ONCE: usize = 32;

/// The columns: `input_ids: list<int32>`, the tokens of a document without special ones, and `sentence_lengths:
/// list<int32>`, how many of them each sentence has; nothing is nullable, nothing is empty. Where
/// a segmenter found words, `continues_word: list<bool>` follows, one for each token.
#[must_use]
pub fn document_schema() -> SchemaRef {
    let list = |name: &str| Field::new(name, DataType::List(element(DataType::Int32)), false);
    Arc::new(Schema::new(DOCUMENT_COLUMNS.map(list).to_vec()))
}

fn stored_schema(marked: Option<usize>) -> SchemaRef {
    if marked.is_some() { with_marks(&document_schema()) } else { document_schema() }
}

fn properties(footer: Vec<KeyValue>) -> WriterProperties {
    let level = ZstdLevel::try_new(9).unwrap_or_default();
    let ids = ColumnPath::new([DOCUMENT_COLUMNS[0], "list", "element"].map(String::from).to_vec());
    shard_properties(footer)
        .set_compression(Compression::ZSTD(level))
        .set_column_dictionary_enabled(ids.clone(), false)
        .set_column_encoding(ids, Encoding::PLAIN)
        .set_data_page_size_limit(PAGE)
        .build()
}

/// How documents are written. `marked` is the size of the vocabulary where ids may be marked.
pub(crate) fn document_form(marked: Option<usize>) -> ShardForm {
    ShardForm { schema: stored_schema(marked), properties }
}

/// Encodes row groups of documents; each thread has its own.
pub(crate) struct DocumentEncoder {
    encoder: GroupEncoder,
    batch: DocumentBatch,
}

impl DocumentEncoder {
    /// An encoder of documents; `marked` as for [`document_form`].
    pub(crate) fn new(marked: Option<usize>) -> Result<Self> {
        let encoder = GroupEncoder::new(&document_form(marked))?;
        Ok(Self { encoder, batch: DocumentBatch { marked, ..DocumentBatch::default() } })
    }

    /// Encodes documents as a row group of a shard; `path` is named in errors.
    pub(crate) fn encode(
        &mut self,
        path: &Path,
        documents: &Documents,
        places: impl Iterator<Item = usize>,
    ) -> Result<EncodedRowGroup> {
        let (mut group, mut rows) = (self.encoder.begin().map_err(failed(path))?, Tally::default());
        let mut write = |batch: &mut DocumentBatch| -> Result<()> {
            let full = batch.finish().map_err(|source| failed(path)(source.into()))?;
            group.write(&full).map_err(failed(path))
        };
        for place in places {
            let document = documents.document(place);
            self.batch.push(document);
            rows.see_document(document.hash());
            if self.batch.ids.len() >= BATCH_TOKENS {
                write(&mut self.batch)?;
            }
        }
        write(&mut self.batch)?;
        group.finish(rows).map_err(failed(path))
    }
}

/// Documents of one record batch.
#[derive(Default)]
struct DocumentBatch {
    ids: Vec<u32>,
    counts: Vec<usize>,
    sentences: Vec<i32>,
    sentence_counts: Vec<usize>,
    marked: Option<usize>,
}

impl DocumentBatch {
    fn push(&mut self, document: Document<'_>) {
        let sentences = 0..document.sentences();
        self.sentences.extend(sentences.map(|sentence| document.sentence(sentence).len() as i32));
        self.sentence_counts.push(document.sentences());
        document.append_tokens(0..document.tokens(), &mut self.ids);
        self.counts.push(document.tokens());
    }

    /// The documents so far as a batch; the builder is empty afterwards.
    fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let this = std::mem::replace(self, Self { marked: self.marked, ..Self::default() });
        let mut ids: Vec<i32> = this.ids.into_iter().map(|id| id as i32).collect();
        let marks = match this.marked {
            Some(vocabulary) => Some(take_marks(&mut ids, &this.counts, vocabulary)?),
            None => None,
        };
        let list = |values: Vec<i32>, counts: Vec<usize>| -> Result<ArrayRef, ArrowError> {
            let (offsets, values) = (OffsetBuffer::from_lengths(counts), Arc::new(Int32Array::from(values)));
            Ok(Arc::new(ListArray::try_new(element(DataType::Int32), offsets, values, None)?))
        };
        let mut columns = vec![list(ids, this.counts)?, list(this.sentences, this.sentence_counts)?];
        columns.extend(marks);
        RecordBatch::try_new(stored_schema(this.marked), columns)
    }
}

/// Checks rows and appends them as documents.
pub(crate) fn append(
    batch: &RecordBatch,
    vocabulary: usize,
    documents: &mut DocumentsBuilder,
    wrong: impl Fn((usize, RowProblem)) -> Error,
) -> Result<()> {
    if let Some((row, name)) = first_null(batch, &DOCUMENT_COLUMNS) {
        return Err(wrong((row, RowProblem::Null(name))));
    }
    check_marks(batch, DOCUMENT_COLUMNS.len()).map_err(&wrong)?;
    let marks = marks_of(batch, DOCUMENT_COLUMNS.len());
    let [ids, sentences] = [0, 1].map(|column| batch.column(column).as_list::<i32>());
    let offsets = ids.value_offsets();
    let mut known = Vec::new();
    for row in 0..batch.num_rows() {
        let (ids, sentences) = (ids.value(row), sentences.value(row));
        let ids = ids.as_primitive::<Int32Type>().values();
        let sentences = sentences.as_primitive::<Int32Type>().values();
        check_document(ids, sentences, vocabulary).map_err(|problem| wrong((row, problem)))?;
        known.clear();
        known.extend(ids.iter().map(|&id| id as u32));
        if let Some(marks) = marks.get(offsets[row] as usize..offsets[row + 1] as usize) {
            for (id, _) in known.iter_mut().zip(marks).filter(|(_, continues)| **continues) {
                *id = mark(*id, vocabulary);
            }
        }
        let mut rest = known.as_slice();
        for &tokens in sentences {
            let (sentence, after) = rest.split_at(tokens as usize);
            documents.push_sentence(sentence)?;
            rest = after;
        }
        documents.close_document()?;
    }
    Ok(())
}

fn check_document(ids: &[i32], sentences: &[i32], vocabulary: usize) -> Result<(), RowProblem> {
    if ids.is_empty() {
        return Err(RowProblem::Empty);
    }
    if let Some(&id) = ids.iter().find(|&&id| id as usize >= vocabulary) {
        return Err(RowProblem::TokenId { id, vocabulary });
    }
    if let Some(&tokens) = sentences.iter().find(|&&tokens| tokens < 1) {
        return Err(RowProblem::SentenceLength(tokens));
    }
    let sum: i64 = sentences.iter().map(|&tokens| i64::from(tokens)).sum();
    if sum != ids.len() as i64 {
        return Err(RowProblem::SentenceSum { sum, tokens: ids.len() });
    }
    Ok(())
}
