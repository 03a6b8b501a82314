//! Writes Parquet shards a row group at a time: `train-00000-of-00016.parquet`, compressed with zstd.
//!
//! Any thread can encode row groups (`GroupEncoder`); a `ShardWriter` writes them in order. `RowEncoder` encodes rows
//! of instances. `builder::plan` assigns rows to shards. The reference writes padded TFRecords round-robin.
//!
//! The entries in a shard's Parquet footer identify the shard without its manifest:
//!
//! | key | value |
//! |---|---|
//! | `bert.format_version` | the [`FORMAT_VERSION`] of the data set |
//! | `bert.config` | the digest of its options ([`ResolvedConfig::digest`]) |
//! | `bert.vocabulary` | the BLAKE3 digest of its vocabulary |
//! | `bert.random_seed` | its seed |
//! | `bert.shard` | which shard it is, as in its name: `0 of 16` to `15 of 16` |
//!
//! None of this depends on paths or the machine. Readers of this workspace use the manifest instead, whose digests
//! cover the footers.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{BooleanArray, Int8Array, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use bert_tokenization::{IdSpace, TokenId};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::config::resolved::ResolvedConfig;
use crate::documents::id_width::{Tally, Width};
use crate::error::{Error, Result};
use crate::instance::pairs::Instance;
use crate::shard::hf_columns::hf_batch;
use crate::shard::row::{PackedRow, ShardRows};
use crate::shard::schema::{BATCH, hf_schema, int32, list_array, schema, with_marks};

/// Size of a page in bytes: small pages keep the writer's buffers small at little cost in file size.
const PAGE: usize = 1 << 17;

/// Prefix of the shards of training data.
const TRAINING: &str = "train-";
/// Prefix of the shards of held-out data. Tools that read the folder of the training data recursively skip names that
/// begin with `_`.
const HELD_OUT: &str = "_validation-";

/// Returns the name of shard `index` of `count`, of training or held-out data.
pub(crate) fn shard_name(index: usize, count: usize, held_out: bool) -> String {
    let prefix = if held_out { HELD_OUT } else { TRAINING };
    format!("{prefix}{index:05}-of-{count:05}.parquet")
}

/// Returns whether a file name is the name of a shard.
pub(crate) fn is_shard_name(name: &str) -> bool {
    let number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix(TRAINING)
        .or(name.strip_prefix(HELD_OUT))
        .and_then(|rest| rest.strip_suffix(".parquet"))
        .and_then(|rest| rest.split_once("-of-"))
        .is_some_and(|(index, count)| number(index) && number(count))
}

/// The columns of a shard, and their encoding.
#[derive(Clone)]
pub(crate) struct ShardFormat {
    pub(crate) schema: SchemaRef,
    /// Returns the properties of a file with these entries in its footer.
    pub(crate) properties: fn(Vec<KeyValue>) -> WriterProperties,
}

impl ShardFormat {
    /// Returns the format of shards of instances.
    pub(crate) fn for_rows(columns: RowColumns) -> Self {
        let properties = |footer| {
            let level = ZstdLevel::try_new(3).unwrap_or_default();
            let compressed = shard_properties(footer).set_compression(Compression::ZSTD(level));
            compressed.set_data_page_size_limit(PAGE).build()
        };
        Self { schema: columns.schema(), properties }
    }

    /// Starts a Parquet file.
    fn begin<W: Write + Send>(
        &self,
        out: W,
        footer: Vec<KeyValue>,
    ) -> Result<SerializedFileWriter<W>, ParquetError> {
        // The Parquet types are sufficient; an embedded Arrow schema would only be another part that can be damaged.
        let schema = ArrowSchemaConverter::new().convert(&self.schema)?;
        SerializedFileWriter::new(out, schema.root_schema_ptr(), Arc::new((self.properties)(footer)))
    }
}

/// A shard that is being written, row group by row group.
pub(crate) struct ShardWriter<W: Write> {
    path: PathBuf,
    writer: SerializedFileWriter<W>,
    written: Tally,
    groups: u64,
}

/// A completely written shard.
pub(crate) struct FinishedShard<W> {
    pub(crate) rows: Tally,
    pub(crate) groups: u64,
    pub(crate) out: W,
}

/// A row group, encoded for the file.
pub(crate) struct EncodedRowGroup {
    chunks: Vec<ArrowColumnChunk>,
    rows: Tally,
}

impl<W: Write + Send> ShardWriter<W> {
    /// Starts a shard of this format, with these entries in its footer; `path` is named in errors.
    pub(crate) fn new(out: W, path: &Path, format: &ShardFormat, footer: Vec<KeyValue>) -> Result<Self> {
        let writer = format.begin(out, footer).map_err(failed(path))?;
        Ok(Self { path: path.to_owned(), writer, written: Tally::default(), groups: 0 })
    }

    /// Appends a row group. An empty one is skipped.
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
        self.groups += 1;
        Ok(())
    }

    /// Completes the file.
    pub(crate) fn finish(self) -> Result<FinishedShard<W>> {
        let mut out = self.writer.into_inner().map_err(failed(&self.path))?;
        out.flush().map_err(|source| failed(&self.path)(source.into()))?;
        Ok(FinishedShard { rows: self.written, groups: self.groups, out })
    }
}

/// Callback that receives the next batch of a row group.
type TakeBatch<'a> = dyn FnMut(&RecordBatch) -> Result<(), ParquetError> + 'a;

/// Encoder of row groups for any shard.
pub(crate) struct GroupEncoder(ArrowRowGroupWriterFactory);

impl GroupEncoder {
    pub(crate) fn new(format: &ShardFormat) -> Result<Self> {
        let writer = format.begin(std::io::sink(), Vec::new()).map_err(failed(Path::new("a shard")))?;
        Ok(Self(ArrowRowGroupWriterFactory::new(&writer, format.schema.clone())))
    }

    /// Encodes the batches that `fill` passes to its argument as a row group; `fill` returns the tally of their rows.
    /// `path` is named in errors.
    pub(crate) fn encode(
        &self,
        path: &Path,
        fill: impl FnOnce(&mut TakeBatch<'_>) -> Result<Tally, ParquetError>,
    ) -> Result<EncodedRowGroup> {
        let encode = || -> Result<EncodedRowGroup, ParquetError> {
            // The number of the group is 0, because it matters to encrypted files only.
            let mut columns = self.0.create_column_writers(0)?;
            let mut write = |batch: &RecordBatch| -> Result<(), ParquetError> {
                let schema = batch.schema();
                let mut columns = columns.iter_mut();
                for (field, values) in schema.fields().iter().zip(batch.columns()) {
                    for (leaf, column) in compute_leaves(field, values)?.iter().zip(&mut columns) {
                        column.write(leaf)?;
                    }
                }
                Ok(())
            };
            let rows = fill(&mut write)?;
            let chunks = columns.into_iter().map(ArrowColumnWriter::close).collect::<Result<_, _>>()?;
            Ok(EncodedRowGroup { chunks, rows })
        };
        encode().map_err(failed(path))
    }
}

/// Encoder of row groups of instances; each thread has its own.
// Aligned to separate cache lines, to prevent false sharing between threads.
#[repr(align(128))]
pub(crate) struct RowEncoder {
    encoder: GroupEncoder,
    columns: RowColumns,
    /// The rows of the next batch.
    rows: ShardRows,
    instance: Instance,
}

impl RowEncoder {
    /// Creates an encoder of rows with these columns.
    pub(crate) fn new(columns: RowColumns) -> Result<Self> {
        let encoder = GroupEncoder::new(&ShardFormat::for_rows(columns))?;
        Ok(Self { encoder, columns, rows: ShardRows::default(), instance: Instance::default() })
    }

    /// Encodes the packed rows that start at these offsets of `bytes` as a row group of a shard; `path` is named in
    /// errors.
    pub(crate) fn encode(
        &mut self,
        path: &Path,
        bytes: &[u8],
        width: Width,
        starts: &[u32],
    ) -> Result<EncodedRowGroup> {
        let Self { encoder, columns, rows: batch, instance } = self;
        encoder.encode(path, |write| {
            let mut written = Tally::default();
            for &start in starts {
                let row = PackedRow::first_of(&bytes[start as usize..], width);
                row.unpack(instance);
                batch.push_instance(instance, columns.ids());
                written.add_bytes(row.bytes());
                if batch.len() == BATCH {
                    write(&columns.batch(batch)?)?;
                    batch.clear();
                }
            }
            if !batch.is_empty() {
                write(&columns.batch(batch)?)?;
                batch.clear();
            }
            Ok(written)
        })
    }
}

/// Returns the error for a shard that cannot be written: the file's error, which gives the size that the file needs if
/// the disk is full, or the Parquet writer's error.
fn failed(path: &Path) -> impl FnOnce(ParquetError) -> Error {
    let path = path.to_owned();
    move |source| match source {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => Error::io("write", &path)(*error),
            Err(inner) => {
                Error::failed("cannot write this shard").because(ParquetError::External(inner)).at(path)
            }
        },
        source => Error::failed("cannot write this shard").because(source).at(path),
    }
}

/// Returns the footer entries that all shards of a data set share, from its options and the digest of its vocabulary.
pub(crate) fn shared_footer(config: &ResolvedConfig, vocabulary: String) -> Vec<KeyValue> {
    let entry = |key: &str, value: String| KeyValue::new(format!("bert.{key}"), value);
    vec![
        entry("format_version", FORMAT_VERSION.to_string()),
        entry("config", config.digest()),
        entry("vocabulary", vocabulary),
        entry("random_seed", config.random_seed.to_string()),
    ]
}

/// Returns the footer entries of one of `shards` shards.
pub(crate) fn shard_footer(shared: &[KeyValue], shard: usize, shards: usize) -> Vec<KeyValue> {
    let own = KeyValue::new("bert.shard".to_owned(), format!("{shard} of {shards}"));
    shared.iter().cloned().chain([own]).collect()
}

/// Columns that contain 0 or 1 for each token: their minimum and maximum would be useless and would take 4 % of the
/// time of a build.
const FLAGS: [&str; 3] = ["segment_ids", "token_type_ids", "attention_mask"];

/// Returns the properties that all shards share: the program name in the form that Parquet readers parse, and the
/// minimum and maximum of each column chunk, which lets readers skip chunks.
pub(crate) fn shard_properties(footer: Vec<KeyValue>) -> WriterPropertiesBuilder {
    let path = |flag: &str| ColumnPath::new([flag, "list", "element"].map(String::from).to_vec());
    FLAGS
        .into_iter()
        .fold(WriterProperties::builder(), |properties, flag| {
            properties.set_column_statistics_enabled(path(flag), EnabledStatistics::None)
        })
        .set_created_by(concat!("bert-data version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(footer).filter(|entries| !entries.is_empty()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(None)
}

/// The version of the format that this program writes and reads.
pub const FORMAT_VERSION: u32 = 4;

/// The version of all random draws for a data set, and of the content of an unfinished build.
///
/// Raise it with every change by which the same options and text give different rows (a different order of draws, a
/// different rule for pairs or masks), or by which a work folder changes. A build continues only with the version that
/// it was started with. Since version 2, sentences longer than an instance are used in pieces. Since version 3, rows
/// are generated bucket by bucket.
pub const STREAMS_VERSION: u32 = 3;

/// The columns in which rows are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowColumns {
    /// The columns of the reference, and word marks if the ids have them.
    Reference(IdSpace),
    /// The columns of `transformers`, padded to a length with an id.
    Hf { length: usize, pad: TokenId },
}

impl RowColumns {
    /// Returns the schema of the shards.
    pub(crate) fn schema(self) -> SchemaRef {
        match self {
            Self::Reference(ids) => with_marks(schema(), ids.word_marks),
            Self::Hf { .. } => hf_schema(),
        }
    }

    /// Returns the id space of the stored rows.
    pub(crate) fn ids(self) -> IdSpace {
        match self {
            Self::Reference(ids) => ids,
            Self::Hf { .. } => IdSpace::default(),
        }
    }

    /// Returns rows as a batch.
    pub(crate) fn batch(self, rows: &ShardRows) -> Result<RecordBatch, ArrowError> {
        if let Self::Hf { length, pad } = self {
            return hf_batch(rows.iter(), rows.len(), length, pad);
        }
        let segments = Arc::new(Int8Array::from(rows.segment_ids.clone()));
        let mut columns = vec![
            list_array(int32(&rows.input_ids), lengths(&rows.token_ends))?,
            list_array(segments, lengths(&rows.token_ends))?,
            list_array(int32(&rows.masked_lm_positions), lengths(&rows.mask_ends))?,
            list_array(int32(&rows.masked_lm_ids), lengths(&rows.mask_ends))?,
            Arc::new(Int8Array::from(rows.next_sentence_labels.clone())),
        ];
        if rows.has_marks() {
            let marks = Arc::new(BooleanArray::from(rows.continues_word.clone()));
            columns.push(list_array(marks, lengths(&rows.token_ends))?);
        }
        RecordBatch::try_new(self.schema(), columns)
    }
}

fn lengths(ends: &[u64]) -> impl Iterator<Item = usize> {
    ends.iter().scan(0, |start, &end| Some((end - std::mem::replace(start, end)) as usize))
}
