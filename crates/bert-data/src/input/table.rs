//! Reads tables of text: JSON Lines and Parquet, where one row is one document.
//!
//! Such files come from `datasets` and from exports of Wikipedia. Only the column with the text is looked at.
//! [`InputReader`] reads every kind of input as [`Block`]s in bounded memory. [`json_text`] gives the text of a line of
//! JSON. The reference reads plain text only.

use std::fmt;
use std::path::{Path, PathBuf};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::{Error, InputProblem, Locate, Result, TextProblem};
use crate::input::{BLOCK, Block, BlockReader, Format, InputEntry, LONGEST_LINE, refuse_bomb};
use crate::parquet::open::{Batches, ParquetFile};
use bert_storage::{digest_file, open_file};

/// Rows that are decoded at a time: an article has some kilobytes.
const ROWS: usize = 64;
/// Rows of one block at most: where they are short or null.
const ROWS_OF_BLOCK: usize = 1 << 16;
/// Fewer rows are decoded at a time where pages are so large that this many bytes could come out: a row may be as large
/// as its page.
const BYTES: u64 = 256 << 20;

/// Reads one input file of any format as blocks.
pub enum InputReader {
    /// A file of lines: text or JSON.
    Lines(BlockReader),
    /// A Parquet file.
    Rows(RowReader),
}

impl InputReader {
    /// Opens a file; `file` is its place in the list, `text_column` matters for Parquet only.
    ///
    /// # Errors
    /// Those of [`Format::of`], [`BlockReader::open`] and [`RowReader::open`].
    pub fn open(path: &Path, file: usize, text_column: &str) -> Result<Self> {
        match Format::of(path)? {
            Format::Parquet => RowReader::open(path, file, text_column).map(Self::Rows),
            format => BlockReader::open(path, file, format).map(Self::Lines),
        }
    }

    /// The next block, or `None` after the one that ends the file.
    ///
    /// # Errors
    /// Those of [`BlockReader::next_block`] and [`RowReader::next_block`].
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        match self {
            Self::Lines(reader) => reader.next_block(),
            Self::Rows(reader) => reader.next_block(),
        }
    }

    /// What was read, once the last block is out.
    ///
    /// # Errors
    /// [`Error::Storage`] when a Parquet file cannot be read again for its digest.
    pub fn entry(&self) -> Result<InputEntry> {
        match self {
            Self::Lines(reader) => Ok(reader.entry()),
            Self::Rows(reader) => reader.entry(),
        }
    }

    /// Bytes of the file that the blocks so far were made from; of Parquet by its share of the rows.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        match self {
            Self::Lines(reader) => reader.bytes_read(),
            Self::Rows(reader) => reader.bytes_read(),
        }
    }
}

/// Reads the text column of a Parquet file as blocks.
pub struct RowReader {
    path: PathBuf,
    file: usize,
    batches: Batches,
    bytes: u64,
    rows: u64,
    rows_read: u64,
    text_bytes: u64,
    done: bool,
}

impl RowReader {
    /// Opens a file and finds its text column.
    ///
    /// # Errors
    /// [`Error::Storage`], [`InputProblem::Parquet`], [`InputProblem::Column`].
    pub fn open(path: &Path, file: usize, column: &str) -> Result<Self> {
        let source = open_file(path).map_err(Error::io("open", path))?;
        let bytes = source.metadata().map_err(Error::io("read", path))?.len();
        let unreadable = |source| InputProblem::Parquet(source).at(path);
        let ParquetFile { builder, largest_page } =
            ParquetFile::open(source, |root| root == column).map_err(unreadable)?;
        let schema = builder.schema().clone();
        let expected = "text (see --text-column)";
        let wrong = |found| InputProblem::Column { column: column.to_owned(), found, expected }.at(path);
        let names =
            || schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
        let at = schema.fields().iter().position(|field| field.name() == column);
        let at = at.ok_or_else(|| wrong(format!("missing (columns: {})", names())))?;
        match schema.field(at).data_type() {
            DataType::Utf8 => {}
            other => return Err(wrong(other.to_string().to_lowercase()).into()),
        }
        let rows = builder.metadata().file_metadata().num_rows().max(0) as u64;
        let groups = builder.metadata().row_groups().iter();
        let codecs = groups.flat_map(|group| group.columns()).map(ColumnChunkMetaData::compression);
        let is_read = |codec: &Compression| {
            use Compression as C;
            matches!(codec, C::UNCOMPRESSED | C::SNAPPY | C::GZIP(_) | C::ZSTD(_))
        };
        if let Some(codec) = codecs.into_iter().find(|codec| !is_read(codec)) {
            let name = codec.to_string();
            let codec = name.split('(').next().unwrap_or_default().to_lowercase();
            return Err(InputProblem::Codec(codec).at(path).into());
        }
        let mask = ProjectionMask::roots(builder.parquet_schema(), [at]);
        let at_once = (BYTES / largest_page.max(1)).clamp(1, ROWS as u64) as usize;
        let builder = builder.with_projection(mask).with_batch_size(at_once);
        let batches = Batches::of(builder).map_err(unreadable)?;
        let path = path.to_owned();
        Ok(Self { path, file, batches, bytes, rows, rows_read: 0, text_bytes: 0, done: false })
    }

    /// The next block of whole rows, or `None` after the one that ends the file.
    ///
    /// # Errors
    /// [`InputProblem::Batch`], [`InputProblem::RowTooLong`], [`InputProblem::Bomb`].
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        if self.done {
            return Ok(None);
        }
        let first_line = self.rows_read + 1;
        let (mut bytes, mut row_ends, mut null_rows) = (Vec::new(), Vec::new(), Vec::new());
        while bytes.len() < BLOCK && row_ends.len() < ROWS_OF_BLOCK {
            let Some(batch) = self.batches.next() else {
                self.done = true;
                break;
            };
            let (path, rows) = (&self.path, self.rows_read);
            let batch = batch.map_err(|source| InputProblem::Batch(rows, source).at(path))?;
            let texts = batch.column(0).as_string::<i32>();
            if let Some(long) = (0..texts.len()).find(|&row| texts.value_length(row) as usize > LONGEST_LINE)
            {
                let row = rows + long as u64 + 1;
                return Err(InputProblem::RowTooLong { row, limit: LONGEST_LINE }.at(path).into());
            }
            for text in texts {
                match text {
                    Some(text) => bytes.extend_from_slice(text.as_bytes()),
                    None => null_rows.push(row_ends.len()),
                }
                row_ends.push(bytes.len());
            }
            self.rows_read += texts.len() as u64;
            self.text_bytes += texts.values().len() as u64;
            refuse_bomb(&self.path, "Parquet", self.text_bytes, self.bytes)?;
        }
        let (file, format) = (self.file, Format::Parquet);
        Ok(Some(Block { file, format, first_line, bytes, row_ends, null_rows, ends_file: self.done }))
    }

    fn entry(&self) -> Result<InputEntry> {
        Ok(InputEntry {
            path: self.path.to_string_lossy().into_owned(),
            bytes: self.bytes,
            format: Format::Parquet,
            lines: self.rows_read,
            blake3: digest_file(&self.path)?,
        })
    }

    fn bytes_read(&self) -> u64 {
        match self.rows {
            0 => self.bytes,
            rows => (u128::from(self.bytes) * u128::from(self.rows_read) / u128::from(rows)) as u64,
        }
    }
}

/// The text of one line of JSON Lines, none for a null; `path`, `line` and `column` are named in errors.
///
/// # Errors
/// [`InputProblem::Json`] when the line is no object; [`InputProblem::Text`] when `column` is missing or no text.
pub fn json_text(json: &str, path: &Path, line: u64, column: &str) -> Result<Option<String>> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let found = (&mut deserializer)
        .deserialize_map(TextOf(column))
        .and_then(|found| deserializer.end().map(|()| found))
        .map_err(|source| InputProblem::Json(source).at_line(path, line))?;
    let problem = match found {
        Some(Ok(text)) => return Ok(text),
        Some(Err(kind)) => TextProblem::NotText(kind),
        None => TextProblem::Missing,
    };
    Err(InputProblem::Text { column: column.to_owned(), problem }.at_line(path, line).into())
}

/// Looks for one key of an object and passes over the rest. Of a repeated key the last value counts, as in Python.
struct TextOf<'c>(&'c str);

impl<'de> Visitor<'de> for TextOf<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == self.0 {
                found = Some(map.next_value_seed(AnyValue)?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// The text of a value, none for a null; what it is where it is no text.
type Value = Result<Option<String>, &'static str>;

struct AnyValue;

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Ok(Some(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Ok(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Err("a truth value"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Err("a number"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value, E> {
        Ok(Err("a number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Err("a number"))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Err("a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Err("an object"))
    }
}
