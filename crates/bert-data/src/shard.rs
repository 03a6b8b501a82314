//! From rows to Parquet shards.
//!
//! In go packed rows, a row group at a time, out comes `train-00000-of-00016.parquet` (zstd). Row groups are encoded on any
//! thread (`GroupEncoder`) and written in order (`ShardWriter`). Not for reading (`shard_rows`), nor for choosing which
//! row goes where (`plan`, `buckets`). The reference writes padded TFRecords round-robin.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use crate::conservation::Tally;
use crate::error::{Error, Result, ShardError};
use crate::files::{AtomicFile, FileSystem, Written};
use crate::footer::shard_properties;
use crate::packed::PackedRow;
use crate::record_batch::{BatchBuilder, RowColumns};

/// Rows of one record batch on its way to the file.
pub(crate) const BATCH: usize = 512;

/// Bytes of one page: small ones keep the writer's buffers small at little cost in size.
const PAGE: usize = 1 << 17;

/// The name of shard `index` of `count`.
#[must_use]
pub fn shard_name(index: usize, count: usize) -> String {
    format!("train-{index:05}-of-{count:05}.parquet")
}

/// Whether a file name is that of a shard.
#[must_use]
pub fn is_shard_name(name: &str) -> bool {
    let number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix("train-")
        .and_then(|rest| rest.strip_suffix(".parquet"))
        .and_then(|rest| rest.split_once("-of-"))
        .is_some_and(|(index, count)| number(index) && number(count))
}

fn properties(footer: Vec<KeyValue>) -> WriterProperties {
    let level = ZstdLevel::try_new(3).unwrap_or_default();
    shard_properties(footer).set_compression(Compression::ZSTD(level)).set_data_page_size_limit(PAGE).build()
}

/// Begins a Parquet file of instances.
fn begin<W: Write + Send>(
    out: W,
    columns: RowColumns,
    footer: Vec<KeyValue>,
) -> Result<SerializedFileWriter<W>, ParquetError> {
    // The Parquet types say everything; an embedded Arrow schema would only be one more thing to damage.
    let schema = ArrowSchemaConverter::new().convert(&columns.schema())?;
    SerializedFileWriter::new(out, schema.root_schema_ptr(), Arc::new(properties(footer)))
}

/// A shard that is being written, row group by row group.
pub(crate) struct ShardWriter<'a> {
    path: PathBuf,
    writer: SerializedFileWriter<AtomicFile<'a>>,
    written: Tally,
}

/// A row group as it goes into the file.
pub(crate) struct EncodedRowGroup {
    chunks: Vec<ArrowColumnChunk>,
    rows: Tally,
}

impl<'a> ShardWriter<'a> {
    /// Begins a shard with these columns, and these entries in its footer.
    pub(crate) fn create(
        files: &'a dyn FileSystem,
        path: &Path,
        columns: RowColumns,
        footer: Vec<KeyValue>,
    ) -> Result<Self> {
        let writer = begin(AtomicFile::create(files, path)?, columns, footer).map_err(failed(path))?;
        Ok(Self { path: path.to_owned(), writer, written: Tally::default() })
    }

    /// Writes a row group behind those before it. One without rows is left out.
    pub(crate) fn append(&mut self, group: EncodedRowGroup) -> Result<()> {
        if group.rows.count == 0 {
            return Ok(());
        }
        let write = || -> Result<(), ParquetError> {
            let mut writer = self.writer.next_row_group()?;
            for chunk in group.chunks {
                chunk.append_to_row_group(&mut writer)?;
            }
            writer.close().map(drop)
        };
        write().map_err(failed(&self.path))?;
        self.written.add(group.rows);
        Ok(())
    }

    /// Ends the file and puts it in its place; returns its rows and what it holds.
    pub(crate) fn finish(self) -> Result<(Tally, Written)> {
        let mut file = self.writer.into_inner().map_err(failed(&self.path))?;
        file.flush().map_err(Error::io("write", &self.path))?;
        Ok((self.written, file.commit()?))
    }
}

/// Encodes row groups, of whatever shard; each thread has its own.
// On cache lines of its own: threads that write to neighbouring ones slow each other down.
#[repr(align(128))]
pub(crate) struct GroupEncoder {
    factory: ArrowRowGroupWriterFactory,
    batch: BatchBuilder,
}

impl GroupEncoder {
    /// An encoder of rows as these columns.
    pub(crate) fn new(columns: RowColumns) -> Result<Self> {
        let writer = begin(std::io::sink(), columns, Vec::new()).map_err(failed(Path::new("a shard")))?;
        let factory = ArrowRowGroupWriterFactory::new(&writer, columns.schema());
        Ok(Self { factory, batch: BatchBuilder::new(columns) })
    }

    /// Encodes rows as a row group of a shard; `path` is named in errors.
    pub(crate) fn encode<'r>(
        &mut self,
        path: &Path,
        rows: impl Iterator<Item = PackedRow<'r>>,
    ) -> Result<EncodedRowGroup> {
        // The number of the group matters to encrypted files only.
        let mut columns = self.factory.create_column_writers(0).map_err(failed(path))?;
        let mut written = Tally::default();
        for row in rows {
            self.batch.push(row);
            written.see(row.bytes());
            if self.batch.len() == BATCH {
                self.write(&mut columns).map_err(failed(path))?;
            }
        }
        if self.batch.len() > 0 {
            self.write(&mut columns).map_err(failed(path))?;
        }
        let chunks = columns.into_iter().map(ArrowColumnWriter::close).collect::<Result<_, _>>();
        Ok(EncodedRowGroup { chunks: chunks.map_err(failed(path))?, rows: written })
    }

    fn write(&mut self, columns: &mut [ArrowColumnWriter]) -> Result<(), ParquetError> {
        let batch = self.batch.finish()?;
        let schema = batch.schema();
        let mut columns = columns.iter_mut();
        for (field, values) in schema.fields().iter().zip(batch.columns()) {
            for (leaf, column) in compute_leaves(field, values)?.iter().zip(&mut columns) {
                column.write(leaf)?;
            }
        }
        Ok(())
    }
}

pub(crate) fn failed(path: &Path) -> impl FnOnce(ParquetError) -> Error {
    let path = path.to_owned();
    move |source| Error::Shard(ShardError::Write { path, source })
}
