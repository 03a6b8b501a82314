//! Opens Parquet files from any source in bounded memory.
//!
//! The `parquet` crate allocates the memory that the lists of a footer and the page headers ask for, before it reads
//! their content. So these numbers are checked first: in the footer here (`Compact`), in page headers by
//! `crate::parquet::pages`. A file that asks for too much is rejected. The crate also panics on some damaged pages;
//! [`catch_panic`] turns that into an error.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use bert_storage::catch_panic;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetStatisticsPolicy, RowGroupMetaData,
};
use parquet::file::reader::{ChunkReader, Length};

use crate::parquet::pages::{check_pages, rejected};
use crate::parquet::thrift::{Compact, Field, wrong};

type Result<T> = std::result::Result<T, ParquetError>;

/// Maximum size of a footer, enough for a hundred thousand column chunks.
const MAX_FOOTER_BYTES: u64 = 16 << 20;
/// Maximum number of row groups: the format counts them in 16 bits.
const MAX_ROW_GROUPS: u64 = i16::MAX as u64;
/// Maximum number of columns, including groups of columns.
const MAX_COLUMNS: u64 = 1 << 16;
/// Maximum nesting depth of columns; the reader recurses for each level.
const MAX_COLUMN_DEPTH: usize = 64;
/// Number of bytes after the footer: its length and `PAR1`.
const TAIL: u64 = 8;

/// An open file, and the sizes that its columns declare.
pub struct ParquetFile {
    /// Builder of readers.
    pub builder: ParquetRecordBatchReaderBuilder<File>,
    /// Decompressed size of the largest page of the examined columns.
    pub(crate) largest_page: u64,
}

impl ParquetFile {
    /// Opens a file, and checks every page of the columns for which `is_read` returns true.
    pub fn open(file: File, is_read: impl Fn(&str) -> bool) -> Result<Self> {
        check_footer(&file)?;
        // The Parquet types alone decide; an embedded Arrow schema could ask for views and dictionaries.
        let options = ArrowReaderOptions::new()
            .with_skip_arrow_metadata(true)
            .with_page_index_policy(PageIndexPolicy::Skip)
            .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll);
        let metadata = catch_panic(|| {
            let metadata = ArrowReaderMetadata::load(&file, options.clone())?;
            let metadata = without_false_dictionaries(metadata.metadata())?;
            ArrowReaderMetadata::try_new(metadata, options)
        })
        .unwrap_or_else(|panic| Err(decoder_panic(&panic)))?;
        let mut largest = 0;
        let groups = metadata.metadata().row_groups();
        // Some writers leave a group without rows, whose columns have no pages; it is not read.
        let filled: Vec<usize> = (0..groups.len()).filter(|&group| groups[group].num_rows() != 0).collect();
        for &group in &filled {
            for chunk in groups[group].columns() {
                let (start, length) = chunk_range(chunk, file.len())?;
                if chunk.column_path().parts().first().is_some_and(|root| is_read(root)) {
                    let found = check_pages(&file, start, length, chunk.compression())?;
                    largest = largest.max(found);
                }
            }
        }
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata).with_row_groups(filled);
        Ok(Self { builder, largest_page: largest })
    }
}

/// Reader of batches; a panic of the decoder becomes an error and ends the iteration.
pub struct Batches(Option<ParquetRecordBatchReader>);

impl Batches {
    /// Returns a reader of the batches that a builder selects.
    pub fn new(builder: ParquetRecordBatchReaderBuilder<File>) -> Result<Self> {
        let reader = catch_panic(|| builder.build()).unwrap_or_else(|panic| Err(decoder_panic(&panic)))?;
        Ok(Self(Some(reader)))
    }
}

impl Iterator for Batches {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.0.as_mut()?;
        let next =
            catch_panic(|| reader.next()).unwrap_or_else(|panic| Some(Err(decoder_panic(&panic).into())));
        if !matches!(next, Some(Ok(_))) {
            self.0 = None;
        }
        next
    }
}

fn decoder_panic(panic: &str) -> ParquetError {
    ParquetError::General(format!("the decoder panicked: {panic}"))
}

/// Rejects a footer that declares more than it can contain.
fn check_footer(file: &File) -> Result<()> {
    let size = file.len();
    let Some(end) = size.checked_sub(TAIL) else {
        return Err(ParquetError::EOF(format!("{size} bytes are too short for a Parquet file")));
    };
    let mut tail = [0; TAIL as usize];
    file.get_read(end)?.read_exact(&mut tail)?;
    if !tail.ends_with(b"PAR1") {
        return Err(rejected("it does not end with PAR1".to_owned()));
    }
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if length > MAX_FOOTER_BYTES {
        return Err(rejected(format!("the footer has {length} bytes, more than {MAX_FOOTER_BYTES}")));
    }
    let Some(start) = end.checked_sub(length) else {
        return Err(rejected(format!("the footer has {length} bytes, but the file has {size}")));
    };
    let mut footer = Compact::new(file.get_read(start)?, length);
    let walked = footer.fields(|footer, field| match field.id {
        2 => check_schema(footer, field),
        4 => match footer.list(field)? {
            groups if groups > MAX_ROW_GROUPS => Err(wrong(format!("{groups} row groups"))),
            _ => Ok(()),
        },
        _ => footer.skip(field),
    });
    walked.map_err(|error| rejected(format!("the footer is damaged: {error}")))
}

/// Rejects a schema with too many columns, with columns nested too deeply, or with an element that has more children
/// than elements follow: the reader reserves room for them. The schema is a list in which each element is followed by
/// its children.
fn check_schema(footer: &mut Compact<impl Read>, schema: Field) -> std::io::Result<()> {
    let elements = footer.structs(schema)?;
    if elements > MAX_COLUMNS {
        return Err(wrong(format!("{elements} columns")));
    }
    // For each element that encloses the next one, the number of children that are still to be read.
    let mut open: Vec<u64> = Vec::new();
    let mut declared = 0u64;
    for _ in 0..elements {
        let mut children = 0;
        footer.fields(|element, field| match field.id {
            5 => {
                let number = element.number(field)?;
                children =
                    u64::try_from(number).map_err(|_| wrong(format!("{number} columns in a column")))?;
                declared = declared.saturating_add(children);
                Ok(())
            }
            _ => element.skip(field),
        })?;
        if declared >= elements {
            return Err(wrong(format!("{declared} nested columns, but there are {elements} columns in all")));
        }
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        if children > 0 {
            open.push(children);
        }
        if open.len() > MAX_COLUMN_DEPTH {
            return Err(wrong(format!("columns nested {} deep", open.len())));
        }
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    Ok(())
}

/// Returns whether a column chunk claims to begin with a dictionary at an impossible offset. Old writers store 0, the
/// offset of `PAR1`; Arrow's reader ignores such an offset too.
fn has_false_dictionary(chunk: &ColumnChunkMetaData) -> bool {
    chunk.dictionary_page_offset().is_some_and(|at| at <= 0 || at >= chunk.data_page_offset())
}

/// Returns the metadata of a file without impossible dictionary offsets.
fn without_false_dictionaries(metadata: &Arc<ParquetMetaData>) -> Result<Arc<ParquetMetaData>> {
    if !metadata.row_groups().iter().flat_map(RowGroupMetaData::columns).any(has_false_dictionary) {
        return Ok(Arc::clone(metadata));
    }
    let fix_chunk = |chunk: &ColumnChunkMetaData| {
        if has_false_dictionary(chunk) {
            return chunk.clone().into_builder().set_dictionary_page_offset(None).build();
        }
        Ok(chunk.clone())
    };
    let fix_group = |group: &RowGroupMetaData| {
        let columns = group.columns().iter().map(fix_chunk).collect::<Result<Vec<_>>>()?;
        group.clone().into_builder().set_column_metadata(columns).build()
    };
    let groups = metadata.row_groups().iter().map(fix_group).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ParquetMetaData::new(metadata.file_metadata().clone(), groups)))
}

/// Returns the start and the length of a column chunk, checked to be inside the file.
fn chunk_range(chunk: &ColumnChunkMetaData, size: u64) -> Result<(u64, u64)> {
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    match (u64::try_from(start), u64::try_from(chunk.compressed_size())) {
        (Ok(start), Ok(length)) if start.checked_add(length).is_some_and(|end| end <= size) => {
            Ok((start, length))
        }
        _ => Err(rejected(format!("column {} is outside the file", chunk.column_path()))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

    use super::*;

    /// Returns a file with one column, `text`.
    fn written(texts: &[&str], set: impl Fn(WriterPropertiesBuilder) -> WriterPropertiesBuilder) -> Vec<u8> {
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let batch = RecordBatch::try_from_iter([("text", texts)]).unwrap();
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap()));
        let mut writer =
            ArrowWriter::try_new(Vec::new(), batch.schema(), Some(set(properties).build())).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    fn on_disk(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn message(bytes: &[u8]) -> String {
        ParquetFile::open(on_disk(bytes), |_| true).map(|_| ()).unwrap_err().to_string()
    }

    /// Returns a file that ends with these bytes as its footer.
    fn with_footer(footer: &[u8]) -> Vec<u8> {
        [b"PAR1", footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
    }

    #[test]
    fn the_largest_page_is_found_in_all_of_them() {
        let long = "x".repeat(70_000);
        let texts: Vec<&str> = (0..9).map(|at| if at == 5 { long.as_str() } else { "a few words" }).collect();
        let bytes = written(&texts, |set| {
            set.set_dictionary_enabled(false).set_write_batch_size(1).set_data_page_row_count_limit(1)
        });
        let opened = ParquetFile::open(on_disk(&bytes), |root| root == "text").unwrap();
        // The page consists of the text, its length, and the levels.
        assert!((70_004..70_020).contains(&opened.largest_page), "{}", opened.largest_page);
        assert_eq!(
            Batches::new(opened.builder).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(),
            9
        );
        assert_eq!(ParquetFile::open(on_disk(&bytes), |_| false).unwrap().largest_page, 0);
    }

    #[test]
    fn bad_pages_are_rejected_before_decompression() {
        let long = "x".repeat(60 << 20);
        let bytes = written(&[long.as_str(); 5], |set| {
            set.set_dictionary_enabled(false).set_data_page_size_limit(1 << 30).set_write_batch_size(5)
        });
        assert!(bytes.len() < 100_000);
        let message = message(&bytes);
        assert!(
            message.contains("a page has 314572") && message.contains("more than 268435456; write"),
            "{message}"
        );
        let opened = ParquetFile::open(on_disk(&bytes), |root| root == "other").unwrap();
        assert_eq!(opened.largest_page, 0);
    }

    #[test]
    fn footers_promise_no_more_than_they_hold() {
        assert!(message(b"PAR1").contains("4 bytes are too short for a Parquet file"));
        let long = [b"PAR1\0\0\0\0", &(17u32 << 20).to_le_bytes()[..], b"PAR1"].concat();
        assert!(message(&long).contains("the footer has 17825792 bytes, more than 16777216"));
        assert!(message(b"PAR1\0\0\0\0PARE").contains("it does not end with PAR1"));
        assert!(message(b"PAR1\x09\0\0\0PAR1").contains("the footer has 9 bytes, but the file has 12"));
        // A list of two thousand million row groups.
        let groups = with_footer(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0]);
        assert!(
            message(&groups).contains("a list of 2147483647 items, but 1 bytes are left"),
            "{}",
            message(&groups)
        );
        let empty_groups = [&[0x49, 0xfc, 0x80, 0x80, 0x02][..], &[0; 32_769]].concat();
        assert!(message(&with_footer(&empty_groups)).contains("32768 row groups"));
        assert!(message(&with_footer(&[0x19, 0x31, 1, 1, 1, 0])).contains("a list of truth values"));
    }

    /// Returns a footer with a schema whose elements have these numbers of children.
    fn with_schema(children: &[u8]) -> Vec<u8> {
        let element = |&children: &u8| [0x48, 1, b'a', 0x15, 2 * children, 0];
        let elements = children.iter().flat_map(element);
        let count = children.len();
        let head = [0x29, 0xfc, count as u8 | 0x80, (count >> 7) as u8 | 0x80, (count >> 14) as u8];
        with_footer(&head.into_iter().chain(elements).chain([0]).collect::<Vec<_>>())
    }

    #[test]
    fn schemas_are_neither_deep_nor_endless() {
        let damaged = |children: &[u8]| message(&with_schema(children)).contains("the footer is damaged");
        assert!(!damaged(&[[1; 64].as_slice(), &[0]].concat()), "64 levels");
        assert!(
            message(&with_schema(&[[1; 65].as_slice(), &[0]].concat())).contains("columns nested 65 deep")
        );
        assert!(message(&with_schema(&[1; 100_000])).contains("100000 columns"));
        // Sixty groups next to each other, each with a column, have depth two.
        assert!(!damaged(&[[60].as_slice(), &[1, 0].repeat(60)].concat()), "wide");
    }

    #[test]
    fn columns_have_no_more_columns_than_there_are() {
        let is_rejected =
            |children: &[u8]| message(&with_schema(children)).contains("nested columns, but there are");
        assert!(!is_rejected(&[2, 0, 0]) && !is_rejected(&[1, 1, 0]) && !is_rejected(&[0]));
        assert!(is_rejected(&[3, 0, 0]) && is_rejected(&[1, 2, 0]) && is_rejected(&[1]));
        // One element, once with -1 children and once with 1 and then 0.
        let negative = with_footer(&[0x29, 0x1c, 0x48, 1, b'a', 0x15, 1, 0, 0]);
        assert!(message(&negative).contains("-1 columns in a column"));
        let twice = with_footer(&[0x29, 0x1c, 0x48, 1, b'a', 0x15, 2, 0x05, 10, 0, 0, 0]);
        assert!(message(&twice).contains("1 nested columns, but there are 1 columns in all"));
    }

    #[test]
    fn pages_outside_the_file_are_rejected() {
        let bytes = written(&["one", "two"], |set| set.set_dictionary_enabled(false));
        let chunk = ParquetFile::open(on_disk(&bytes), |_| true)
            .unwrap()
            .builder
            .metadata()
            .row_group(0)
            .column(0)
            .clone();
        let moved = |start: i64, length: i64| {
            let chunk =
                chunk.clone().into_builder().set_data_page_offset(start).set_total_compressed_size(length);
            chunk_range(&chunk.build().unwrap(), 100)
        };
        assert_eq!(moved(4, 96).unwrap(), (4, 96));
        for (start, length) in [(-1, 4), (4, -1), (4, 97), (i64::MAX, i64::MAX)] {
            let message = moved(start, length).unwrap_err().to_string();
            assert!(message.contains("is outside the file"), "{message}");
        }
    }

    /// Some single bit flips make the crate panic; each flip ends as an error or as rows.
    #[test]
    fn a_decoder_that_panics_is_an_error() {
        let texts = ["one", "two", "one", "one"];
        let mut decoder_panic = 0;
        for dictionary in [true, false] {
            let bytes = written(&texts, |set| {
                set.set_compression(Compression::UNCOMPRESSED).set_dictionary_enabled(dictionary)
            });
            for at in 4..bytes.len() - 8 {
                for bit in 0..8 {
                    let mut flipped = bytes.clone();
                    flipped[at] ^= 1 << bit;
                    let opened = ParquetFile::open(on_disk(&flipped), |_| true);
                    let batches = opened.and_then(|opened| Batches::new(opened.builder));
                    let error = match batches.map(Iterator::last) {
                        Err(error) => error.to_string(),
                        Ok(Some(Err(error))) => error.to_string(),
                        Ok(_) => continue,
                    };
                    decoder_panic += usize::from(error.contains("the decoder panicked: "));
                }
            }
        }
        assert!(decoder_panic > 0);
    }
}
