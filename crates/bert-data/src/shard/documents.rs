//! Writes documents as row groups of Parquet shards (`--layout documents`) and reads them back, every row checked.
//!
//! A row is a document. The documents of a data set are in the order of pass 0, which is random and reproducible
//! (`dataset::document_groups`), so any row group is a sample of the text.
//!
//! Size: the ids are written with plain encoding and compressed by zstd, which finds repeated phrases. On the benchmark
//! corpus (1.85 million tokens) this takes 2.6 MB. A dictionary takes 2.8 MB; byte-stream split takes 2.65 MB, and
//! fewer readers support it.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use bert_tokenization::{IdSpace, TokenId};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use crate::documents::id_width::Tally;
use crate::documents::{Document, Documents, DocumentsBuilder};
use crate::error::{Error, Result, unknown_token};
use crate::shard::schema::{ListColumn, check_nulls, element, int32, list_array, marks_of, with_marks};
use crate::shard::writer::{EncodedRowGroup, GroupEncoder, ShardFormat, shard_properties};

/// The columns, in order.
pub const DOCUMENT_COLUMNS: [&str; 2] = ["input_ids", "sentence_lengths"];

/// Approximate number of tokens per record batch when writing.
const BATCH_TOKENS: usize = 1 << 16;
/// Size of a page in bytes: zstd compresses large pages better.
const PAGE: usize = 1 << 20;
/// Number of documents per record batch when reading: few, because a document may be a book.
pub(crate) const DOCUMENTS_PER_BATCH: usize = 32;

/// Returns the schema of documents: `input_ids: list<int32>`, the tokens of a document without special tokens, and
/// `sentence_lengths: list<int32>`, the number of tokens of each sentence; nothing is nullable, nothing is empty. With
/// a segmenter, `continues_word: list<bool>` follows, one value for each token.
pub(crate) fn document_schema() -> SchemaRef {
    let list = |name: &str| Field::new(name, DataType::List(element(DataType::Int32)), false);
    Arc::new(Schema::new(DOCUMENT_COLUMNS.map(list).to_vec()))
}

fn stored_schema(ids: IdSpace) -> SchemaRef {
    with_marks(document_schema(), ids.word_marks)
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

/// Returns the format of shards of documents with ids of this space.
pub(crate) fn document_format(ids: IdSpace) -> ShardFormat {
    ShardFormat { schema: stored_schema(ids), properties }
}

/// Encoder of row groups of documents; each thread has its own.
pub(crate) struct DocumentEncoder {
    encoder: GroupEncoder,
    batch: DocumentBatch,
}

impl DocumentEncoder {
    /// Creates an encoder of documents with ids of this space.
    pub(crate) fn new(ids: IdSpace) -> Result<Self> {
        let encoder = GroupEncoder::new(&document_format(ids))?;
        Ok(Self { encoder, batch: DocumentBatch { space: ids, ..DocumentBatch::default() } })
    }

    /// Encodes documents as a row group of a shard; `path` is named in errors.
    pub(crate) fn encode(
        &mut self,
        path: &Path,
        documents: &Documents,
        indices: impl Iterator<Item = usize>,
    ) -> Result<EncodedRowGroup> {
        let Self { encoder, batch } = self;
        encoder.encode(path, |write| {
            let mut rows = Tally::default();
            for index in indices {
                let document = documents.document(index);
                batch.push(document);
                rows.add_document(document.hash());
                if batch.ids.len() >= BATCH_TOKENS {
                    write(&batch.finish()?)?;
                }
            }
            write(&batch.finish()?)?;
            Ok(rows)
        })
    }
}

/// Documents of one record batch.
#[derive(Default)]
struct DocumentBatch {
    space: IdSpace,
    ids: Vec<TokenId>,
    counts: Vec<usize>,
    sentences: Vec<u32>,
    sentence_counts: Vec<usize>,
}

impl DocumentBatch {
    fn push(&mut self, document: Document<'_>) {
        let sentences = 0..document.sentences();
        self.sentences.extend(sentences.map(|sentence| document.sentence(sentence).len() as u32));
        self.sentence_counts.push(document.sentences());
        document.append_tokens(0..document.tokens(), &mut self.ids);
        self.counts.push(document.tokens());
    }

    /// Returns the documents so far as a batch and clears them.
    fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let mut this = std::mem::replace(self, Self { space: self.space, ..Self::default() });
        let mut marks = Vec::new();
        this.space.unmark(&mut this.ids, &mut marks);
        let mut columns = vec![
            list_array(int32(&this.ids), this.counts.iter().copied())?,
            list_array(int32(&this.sentences), this.sentence_counts)?,
        ];
        if this.space.word_marks {
            columns.push(list_array(Arc::new(BooleanArray::from(marks)), this.counts)?);
        }
        RecordBatch::try_new(stored_schema(this.space), columns)
    }
}

/// Checks rows and appends them as documents.
pub(crate) fn append(
    batch: &RecordBatch,
    space: IdSpace,
    documents: &mut DocumentsBuilder,
    wrong: impl Fn((usize, Error)) -> Error,
) -> Result<()> {
    check_nulls(batch, &DOCUMENT_COLUMNS).map_err(&wrong)?;
    let marks = marks_of(batch, DOCUMENT_COLUMNS.len()).map_err(&wrong)?;
    let ids = ListColumn::<TokenId>::of::<Int32Type>(batch, 0);
    let sentences = ListColumn::of::<Int32Type>(batch, 1);
    let mut known = Vec::new();
    for row in 0..batch.num_rows() {
        let check = check_document(ids.row(row), sentences.row(row), space.vocabulary);
        check.map_err(|problem| wrong((row, problem)))?;
        ids.row(row).clone_into(&mut known);
        space.mark(&mut known, marks.get(ids.range(row)).unwrap_or_default());
        let mut rest = known.as_slice();
        for &tokens in sentences.row(row) {
            let (sentence, after) = rest.split_at(tokens as usize);
            documents.push_sentence(sentence)?;
            rest = after;
        }
        documents.close_document()?;
    }
    Ok(())
}

fn check_document(ids: &[TokenId], sentences: &[i32], vocabulary: usize) -> Result<(), Error> {
    if ids.is_empty() {
        return Err(Error::data("the row has no tokens"));
    }
    if let Some(&id) = ids.iter().find(|&&id| id as usize >= vocabulary) {
        return Err(unknown_token(id as i32, vocabulary));
    }
    if let Some(&tokens) = sentences.iter().find(|&&tokens| tokens < 1) {
        return Err(Error::data(format!("sentence_lengths has the value {tokens}")));
    }
    let sum: i64 = sentences.iter().map(|&tokens| i64::from(tokens)).sum();
    if sum != ids.len() as i64 {
        return Err(Error::data(format!(
            "sentence_lengths add up to {sum}, but there are {} input_ids",
            ids.len()
        )));
    }
    Ok(())
}
