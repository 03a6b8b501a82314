//! Documents on disk (`--layout documents`): to Parquet shards and back.
//!
//! In go [`Documents`], out comes `train-00000-of-00016.parquet`, one row a document in the order of the text, so that
//! a document's number is its place; and back from the shards of a data folder into [`Documents`], every row checked.
//! Not for instances (`shard`, `shard_rows`). Nothing here is from the reference, which stores instances only.
//!
//! Size: the ids are written plainly and left to zstd, which finds repeated phrases. On the bench corpus (1.85 million
//! tokens) that takes 2.6 MB; a dictionary takes 2.8, split bytes 2.65, which fewer readers know.

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use rayon::ThreadPool;
use rayon::prelude::*;

use crate::document::{Documents, DocumentsBuilder};
use crate::error::{Error, Result, RowProblem};
use crate::files::{AtomicFile, FileSystem};
use crate::manifest::{Manifest, ShardEntry};
use crate::record_batch::element;
use crate::shard::{failed, shard_name};
use crate::shard_rows::{first_null, open_shard};

/// The columns, in order.
pub const DOCUMENT_COLUMNS: [&str; 2] = ["input_ids", "sentence_lengths"];

/// How many tokens a shard holds where `--num-shards` is not given: those of 65,536 instances of 128.
pub(crate) const TOKENS_PER_SHARD: u64 = 1 << 23;
/// Tokens of one record batch on its way to the file, roughly.
const BATCH_TOKENS: usize = 1 << 16;
/// Tokens of one row group: what a writer holds in memory, encoded.
const GROUP_TOKENS: usize = 1 << 20;
/// Bytes of one page: zstd finds more in large ones.
const PAGE: usize = 1 << 20;
/// Documents of one record batch that is read: few, because a document may be a book.
const READ_AT_ONCE: usize = 32;

/// The columns: `input_ids: list<int32>`, the tokens of a document without special ones, and `sentence_lengths:
/// list<int32>`, how many of them each sentence has; nothing is nullable, nothing is empty.
#[must_use]
pub fn document_schema() -> SchemaRef {
    let list = |name: &str| Field::new(name, DataType::List(element(DataType::Int32)), false);
    Arc::new(Schema::new(DOCUMENT_COLUMNS.map(list).to_vec()))
}

/// The documents of each shard: in order, cut where the tokens before a document pass the shard's share.
pub(crate) fn documents_of_shards(documents: &Documents, shards: usize) -> Vec<Range<usize>> {
    let mut ends = vec![documents.len(); shards];
    let (total, mut before) = (u128::from(documents.tokens().max(1)), 0u128);
    let mut shard = 0;
    for document in 0..documents.len() {
        let its = (before * shards as u128 / total) as usize;
        ends[shard..its].fill(document);
        shard = its;
        before += documents.document(document).tokens() as u128;
    }
    let mut start = 0;
    ends.into_iter().map(|end| std::mem::replace(&mut start, end)..end).collect()
}

/// Writes all documents into `shards` files whose paths `path` gives; tells how many documents are written.
pub(crate) fn write_document_shards<'a>(
    files: &dyn FileSystem,
    documents: &Documents,
    shards: usize,
    path: impl Fn(&str) -> std::path::PathBuf + Sync,
    pool: &ThreadPool,
    told: &mut (dyn FnMut(u64) + 'a),
) -> Result<Vec<ShardEntry>> {
    let ranges = documents_of_shards(documents, shards);
    let write = |(index, range): (usize, &Range<usize>)| -> Result<ShardEntry> {
        let file = shard_name(index, shards);
        write_document_shard(files, documents, range.clone(), file.clone(), &path(&file))
    };
    let mut entries: Vec<ShardEntry> = Vec::with_capacity(shards);
    // As many shards at a time as there are threads, so that memory does not grow with their number.
    for some in ranges.chunks(pool.current_num_threads()) {
        let first = entries.len();
        let numbered = some.par_iter().enumerate().map(|(at, range)| write((first + at, range)));
        let written: Vec<Result<ShardEntry>> = pool.install(|| numbered.collect());
        for entry in written {
            entries.push(entry?);
        }
        told(entries.iter().map(|entry| entry.rows).sum());
    }
    Ok(entries)
}

fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(9).unwrap_or_default();
    let ids = ColumnPath::new([DOCUMENT_COLUMNS[0], "list", "element"].map(String::from).to_vec());
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_column_dictionary_enabled(ids.clone(), false)
        .set_column_encoding(ids, Encoding::PLAIN)
        .set_created_by(concat!("bert-data ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_data_page_size_limit(PAGE)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_max_row_group_row_count(None)
        .build()
}

fn write_document_shard(
    files: &dyn FileSystem,
    documents: &Documents,
    range: Range<usize>,
    file: String,
    path: &Path,
) -> Result<ShardEntry> {
    let out = AtomicFile::create(files, path)?;
    let options = ArrowWriterOptions::new().with_properties(properties()).with_skip_arrow_metadata(true);
    let mut writer =
        ArrowWriter::try_new_with_options(out, document_schema(), options).map_err(failed(path))?;
    let mut batch = DocumentBatch::default();
    let mut in_group = 0;
    let rows = range.len() as u64;
    for document in range {
        batch.push(documents, document);
        if batch.ids.len() >= BATCH_TOKENS {
            in_group += batch.ids.len();
            let full = batch.finish().map_err(|source| failed(path)(source.into()))?;
            writer.write(&full).map_err(failed(path))?;
        }
        if in_group >= GROUP_TOKENS {
            writer.flush().map_err(failed(path))?;
            in_group = 0;
        }
    }
    let rest = batch.finish().map_err(|source| failed(path)(source.into()))?;
    writer.write(&rest).map_err(failed(path))?;
    let mut out = writer.into_inner().map_err(failed(path))?;
    out.flush().map_err(Error::io("write", path))?;
    let written = out.commit()?;
    Ok(ShardEntry { file, rows, bytes: written.bytes, blake3: written.blake3 })
}

/// Documents of one record batch.
#[derive(Default)]
struct DocumentBatch {
    ids: Vec<u32>,
    counts: Vec<usize>,
    sentences: Vec<i32>,
    sentence_counts: Vec<usize>,
}

impl DocumentBatch {
    fn push(&mut self, documents: &Documents, index: usize) {
        let document = documents.document(index);
        let sentences = document.sentences();
        document.append_tokens(document.token_range(0..sentences), &mut self.ids);
        self.counts.push(document.tokens());
        self.sentences.extend((0..sentences).map(|sentence| document.sentence_tokens(sentence) as i32));
        self.sentence_counts.push(sentences);
    }

    /// The documents so far as a batch; the builder is empty afterwards.
    fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let this = std::mem::take(self);
        let list = |values: Vec<i32>, counts: Vec<usize>| -> Result<ArrayRef, ArrowError> {
            let (offsets, values) = (OffsetBuffer::from_lengths(counts), Arc::new(Int32Array::from(values)));
            Ok(Arc::new(ListArray::try_new(element(DataType::Int32), offsets, values, None)?))
        };
        let ids = this.ids.into_iter().map(|id| id as i32).collect();
        let columns = vec![list(ids, this.counts)?, list(this.sentences, this.sentence_counts)?];
        RecordBatch::try_new(document_schema(), columns)
    }
}

/// Reads a whole shard, checks its columns and rows, and appends its documents; `ids` must be below `vocabulary`.
/// Returns the number of documents.
///
/// # Errors
/// One of the `Shard...` variants of [`Error`], or [`Error::Io`].
pub fn read_document_shard(path: &Path, vocabulary: usize, documents: &mut DocumentsBuilder) -> Result<u64> {
    let reader = open_shard(path, &document_schema())?.with_batch_size(READ_AT_ONCE).build();
    let reader = reader.map_err(|source| Error::ShardUnreadable { path: path.to_owned(), source })?;
    let mut rows = 0;
    for batch in reader {
        let batch = batch.map_err(|source| Error::ShardBatchUnreadable { path: path.to_owned(), source })?;
        append(&batch, vocabulary, documents).map_err(|(row, problem)| Error::ShardRow {
            path: path.to_owned(),
            row: rows + row as u64,
            problem,
        })?;
        rows += batch.num_rows() as u64;
    }
    Ok(rows)
}

fn append(
    batch: &RecordBatch,
    vocabulary: usize,
    documents: &mut DocumentsBuilder,
) -> Result<(), (usize, RowProblem)> {
    if let Some((row, name)) = first_null(batch, &DOCUMENT_COLUMNS) {
        return Err((row, RowProblem::Null(name)));
    }
    let [ids, sentences] = [0, 1].map(|column| batch.column(column).as_list::<i32>());
    let mut known = Vec::new();
    for row in 0..batch.num_rows() {
        let (ids, sentences) = (ids.value(row), sentences.value(row));
        let ids = ids.as_primitive::<Int32Type>().values();
        let sentences = sentences.as_primitive::<Int32Type>().values();
        check_document(ids, sentences, vocabulary).map_err(|problem| (row, problem))?;
        known.clear();
        known.extend(ids.iter().map(|&id| id as u32));
        documents.push_ids(&known);
        sentences.iter().for_each(|&tokens| documents.push_sentence_end(tokens as usize));
        documents.close_document();
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

/// All documents of a data folder with `--layout documents`, in memory, after digests and counts were checked.
///
/// # Errors
/// As [`Manifest::verify`] with `deep`.
pub fn read_all_documents(folder: &Path, manifest: &Manifest) -> Result<Documents> {
    let mut documents = DocumentsBuilder::new(manifest.vocabulary.size);
    for shard in 0..manifest.shards.len() {
        manifest.read_verified_documents(folder, shard, &mut documents)?;
    }
    let documents = documents.finish();
    let same = |what, found: u64, expected: u64| match found == expected {
        true => Ok(()),
        false => Err(Error::ManifestCount { path: Manifest::path(folder), what, found, expected }),
    };
    same("the sentences of all shards", documents.sentences() as u64, manifest.report.sentences)?;
    same("the tokens of all shards", documents.tokens(), manifest.report.tokens)?;
    Ok(documents)
}
