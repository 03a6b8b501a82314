//! From rows to Parquet shards.
//!
//! In go packed rows, out comes `train-00000-of-00016.parquet` (zstd). Not for reading (`shard_rows`), nor for
//! choosing which row goes where (`spread`). The reference writes padded TFRecords round-robin.

use std::io::Write;
use std::path::Path;

use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::error::{Error, Result};
use crate::files::{AtomicFile, FileSystem, Written};
use crate::record_batch::{BatchBuilder, schema};
use crate::spill::PackedRow;

/// Rows of one record batch on its way to the file.
pub(crate) const BATCH: usize = 512;
/// Rows of one row group: what the writer holds in memory, encoded.
const ROW_GROUP: usize = 16_384;

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

fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(3).unwrap_or_default();
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(concat!("bert-data ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_data_page_size_limit(PAGE)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .build()
}

/// Writes one shard.
pub(crate) struct ShardWriter<'a> {
    path: &'a Path,
    writer: ArrowWriter<AtomicFile<'a>>,
    batch: BatchBuilder,
    rows: u64,
}

impl<'a> ShardWriter<'a> {
    pub(crate) fn create(files: &'a dyn FileSystem, path: &'a Path) -> Result<Self> {
        let file = AtomicFile::create(files, path)?;
        // The Parquet types say everything; an embedded Arrow schema would only be one more thing to damage.
        let options = ArrowWriterOptions::new().with_properties(properties()).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(file, schema(), options).map_err(failed(path))?;
        Ok(Self { path, writer, batch: BatchBuilder::default(), rows: 0 })
    }

    pub(crate) fn push(&mut self, row: PackedRow<'_>) -> Result<()> {
        self.batch.push(row);
        self.rows += 1;
        if self.batch.len() == BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let batch = self.batch.finish().map_err(|source| failed(self.path)(source.into()))?;
        self.writer.write(&batch).map_err(failed(self.path))
    }

    /// Ends the file and puts it in its place; returns its rows and what it holds.
    pub(crate) fn finish(mut self) -> Result<(u64, Written)> {
        if self.batch.len() > 0 {
            self.flush()?;
        }
        let mut file = self.writer.into_inner().map_err(failed(self.path))?;
        file.flush().map_err(Error::io("write", self.path))?;
        Ok((self.rows, file.commit()?))
    }
}

pub(crate) fn failed(path: &Path) -> impl FnOnce(ParquetError) -> Error {
    let path = path.to_owned();
    move |source| Error::ShardWrite { path, source }
}
