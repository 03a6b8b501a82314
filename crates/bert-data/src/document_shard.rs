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
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use crate::budget::resident_columns;
use crate::column::{Column, ColumnWriter, ScratchFile, ScratchFolder};
use crate::conservation::Tally;
use crate::document::{Counts, DocumentReader, Documents, DocumentsBuilder, Look};
use crate::error::{Error, ManifestError, Result, RowProblem, ShardError};
use crate::files::{AtomicFile, Disk, FileSystem, Written};
use crate::footer::shard_properties;
use crate::manifest::{Manifest, wrong_marks};
use crate::packed::Width;
use crate::parquet_file::Batches;
use crate::record_batch::{element, take_marks, with_marks};
use crate::shard::failed;
use crate::shard_rows::{check_marks, first_null, marks_of, open_shard};
use crate::word_marks::marked as mark;

/// The columns, in order.
pub const DOCUMENT_COLUMNS: [&str; 2] = ["input_ids", "sentence_lengths"];

/// How many tokens a shard holds where `--num-shards` is not given: those of 65,536 instances of 128.
pub(crate) const TOKENS_PER_SHARD: u64 = 1 << 23;
/// Tokens of one record batch on its way to the file, roughly.
const BATCH_TOKENS: usize = 1 << 16;
/// Tokens of one row group: what a writer holds in memory, encoded.
pub(crate) const GROUP_TOKENS: usize = 1 << 20;
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

/// The documents of each shard: in order, cut where the tokens before a document pass the shard's share.
pub(crate) fn documents_of_shards(documents: &Documents, shards: usize) -> Result<Vec<Range<usize>>> {
    let mut ends = vec![documents.len(); shards];
    let total = u128::from(documents.tokens().max(1));
    let mut reader = documents.reader();
    let mut shard = 0;
    for document in 0..documents.len() {
        let sentences = reader.document(Look::Here, document)?;
        let before = u128::from(reader.sentence_start(Look::Here, sentences.start)?);
        let its = (before * shards as u128 / total) as usize;
        ends[shard..its].fill(document);
        shard = its;
    }
    let mut start = 0;
    Ok(ends.into_iter().map(|end| std::mem::replace(&mut start, end)..end).collect())
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

/// Writes some documents as a shard with these entries in its footer; returns which they were, and the file. `marked` is
/// the size of the vocabulary where ids may be marked.
pub(crate) fn write_document_shard(
    files: &dyn FileSystem,
    documents: &Documents,
    marked: Option<usize>,
    range: Range<usize>,
    footer: Vec<KeyValue>,
    path: &Path,
) -> Result<(Tally, Written)> {
    let out = AtomicFile::create(files, path)?;
    let options =
        ArrowWriterOptions::new().with_properties(properties(footer)).with_skip_arrow_metadata(true);
    let mut writer =
        ArrowWriter::try_new_with_options(out, stored_schema(marked), options).map_err(failed(path))?;
    let mut batch = DocumentBatch { marked, ..DocumentBatch::default() };
    let mut in_group = 0;
    let (mut reader, mut rows) = (documents.reader(), Tally::default());
    for document in range {
        batch.push(&mut reader, document, &mut rows)?;
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
    Ok((rows, out.commit()?))
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
    fn push(&mut self, reader: &mut DocumentReader<'_>, index: usize, rows: &mut Tally) -> Result<()> {
        let span = reader.span(index)?;
        let mut start = span.tokens.start;
        for sentence in span.sentences.clone() {
            let end = reader.sentence_start(Look::Here, sentence + 1)?;
            self.sentences.push((end - start) as i32);
            start = end;
        }
        reader.append_tokens(Look::Here, span.tokens.clone(), &mut self.ids)?;
        self.counts.push((span.tokens.end - span.tokens.start) as usize);
        self.sentence_counts.push((span.sentences.end - span.sentences.start) as usize);
        rows.see_document(&span);
        Ok(())
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

/// Reads a whole shard, checks its columns and rows, and appends its documents; `ids` must be below `vocabulary`.
/// `marks` says whether there must be marks of words. Returns the number of documents.
///
/// # Errors
/// One of the `Shard...` variants of [`Error`], or [`Error::Io`].
pub fn read_document_shard(
    path: &Path,
    vocabulary: usize,
    marks: bool,
    documents: &mut DocumentsBuilder,
) -> Result<u64> {
    let reader = open_shard(path, &document_schema())?.with_batch_size(READ_AT_ONCE);
    if (reader.schema().fields().len() > DOCUMENT_COLUMNS.len()) != marks {
        return Err(wrong_marks(path.to_owned(), marks));
    }
    let batches = Batches::of(reader);
    let batches = batches.map_err(|source| ShardError::Unreadable { path: path.to_owned(), source })?;
    let mut rows = 0;
    for batch in batches {
        let batch = batch.map_err(|source| ShardError::BatchUnreadable { path: path.to_owned(), source })?;
        let wrong = |(row, problem)| {
            Error::Shard(ShardError::Row { path: path.to_owned(), row: rows + row as u64, problem })
        };
        append(&batch, vocabulary, documents, wrong)?;
        rows += batch.num_rows() as u64;
    }
    Ok(rows)
}

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
        documents.push_ids(&known)?;
        sentences.iter().try_for_each(|&tokens| documents.push_sentence_end(tokens as usize))?;
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

/// All documents of a data folder with `--layout documents`, in memory, after digests and counts were checked.
///
/// # Errors
/// As [`Manifest::verify`] with `deep`.
pub fn read_all_documents(folder: &Path, manifest: &Manifest) -> Result<Documents> {
    read_documents_within(folder, manifest, u64::MAX)
}

/// [`read_all_documents`], of which at most `memory` bytes stay in memory: the borders of documents, those of sentences,
/// the tokens, as far as they fit. The others go to scratch files in the system's temporary folder, from which they are
/// read where they are needed; on Unix these are gone with the process, however it ends.
///
/// # Errors
/// As [`Manifest::verify`] with `deep`; [`Error::Io`] and [`Error::DiskFull`] for the scratch files.
pub fn read_documents_within(folder: &Path, manifest: &Manifest, memory: u64) -> Result<Documents> {
    let report = &manifest.report;
    let counts = Counts {
        documents: report.documents,
        sentences: report.sentences,
        tokens: report.tokens,
        ..Counts::default()
    };
    let resident = resident_columns(memory, &counts, Width::of(manifest.id_space()));
    let scratch = if resident == [true; 3] { None } else { Some(ScratchFolder::create()?) };
    let path = |column: usize| scratch.as_ref().map(|scratch| scratch.path().join(column.to_string()));
    let column = |column: usize| match path(column) {
        Some(path) if !resident[column] => {
            Ok::<_, Error>(ColumnWriter::File(Box::new(ScratchFile::create(&Disk, &path)?)))
        }
        _ => Ok(ColumnWriter::Memory(Vec::new())),
    };
    let columns = [column(0)?, column(1)?, column(2)?];
    let mut builder = DocumentsBuilder::to_columns(manifest.id_space(), columns);
    for shard in 0..manifest.shards.len() {
        manifest.read_verified_documents(folder, shard, &mut builder)?;
    }
    builder.end()?;
    let counts = builder.counts;
    let same = |what, found: u64, expected: u64| match found == expected {
        true => Ok(()),
        false => Err(ManifestError::Count { path: Manifest::path(folder), what, found, expected }),
    };
    same("the sentences of all shards", counts.sentences, report.sentences)?;
    same("the tokens of all shards", counts.tokens, report.tokens)?;
    let open = |column: usize, written| match (written, path(column)) {
        (ColumnWriter::Memory(bytes), _) => Ok(Column::Resident(bytes)),
        (ColumnWriter::File(file), Some(path)) => {
            file.finish()?;
            Column::open(&path, false)
        }
        (ColumnWriter::File(_), None) => unreachable!("files lie in the scratch folder"),
    };
    Ok(Documents {
        width: Width::of(manifest.id_space()),
        tokens: open(0, builder.tokens)?,
        sentences: open(1, builder.sentences)?,
        index: open(2, builder.index)?,
        counts,
        order: None,
        lookup: None,
        _scratch: scratch.and_then(ScratchFolder::opened),
    })
}
