//! Parquet files written by other programs: codecs, encodings, types of text, files without rows.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, Float64Array, Int32Array, LargeBinaryArray,
    LargeStringArray, NullArray, RecordBatch, StringArray, StringViewArray,
};
use bert_data::Error;
use bert_text::InputReader;
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

const TEXTS: [&str; 5] =
    ["The cat sat.", "", "The dog r\u{e4}n far. Is the sun hot?", "The cat sat.", "Far."];

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>, properties: WriterPropertiesBuilder) {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Returns the rows of the column `text`, `None` for a null.
fn rows(path: &Path) -> Result<Vec<Option<String>>, Error> {
    let mut reader = InputReader::open(path, 0, "text")?;
    let mut found = Vec::new();
    while let Some(block) = reader.next_block()? {
        found.extend(block.rows().map(|(_, row)| row.map(|row| String::from_utf8(row.to_vec()).unwrap())));
    }
    Ok(found)
}

fn plain() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_dictionary_enabled(false)
}

#[test]
fn all_codecs_and_encodings_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(TEXTS));
    let same = |name: String, properties: WriterPropertiesBuilder| {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let path = folder.path().join("a");
            write(&path, vec![("text", texts.clone())], properties.clone().set_writer_version(version));
            let expected = TEXTS.map(|text| Some(text.to_owned()));
            assert_eq!(rows(&path).unwrap(), expected, "{name}, {version:?}");
        }
    };
    let gzip = Compression::GZIP(GzipLevel::default());
    let brotli = Compression::BROTLI(BrotliLevel::default());
    let zstd = Compression::ZSTD(ZstdLevel::default());
    for codec in [Compression::SNAPPY, gzip, brotli, zstd, Compression::LZ4, Compression::LZ4_RAW] {
        same(codec.to_string(), plain().set_compression(codec));
        same(codec.to_string(), WriterProperties::builder().set_compression(codec));
    }
    for encoding in [Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
        same(encoding.to_string(), plain().set_encoding(encoding));
    }
    same("a page for each row".to_owned(), plain().set_data_page_row_count_limit(1).set_write_batch_size(1));
    same("a group for each row".to_owned(), plain().set_max_row_group_row_count(Some(1)));
}

#[test]
fn all_types_of_text_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = || TEXTS.map(str::as_bytes);
    let arrays: [ArrayRef; 7] = [
        Arc::new(BinaryArray::from_iter_values(bytes())),
        Arc::new(LargeBinaryArray::from_iter_values(bytes())),
        Arc::new(BinaryViewArray::from_iter_values(bytes())),
        Arc::new(LargeStringArray::from_iter_values(TEXTS)),
        Arc::new(StringViewArray::from_iter_values(TEXTS)),
        Arc::new(TEXTS.into_iter().collect::<DictionaryArray<Int32Type>>()),
        Arc::new(StringArray::from_iter_values(TEXTS)),
    ];
    for array in arrays {
        let kind = array.data_type().clone();
        let path = folder.path().join("a");
        write(&path, vec![("id", Arc::new(Int32Array::from_iter(0..5))), ("text", array)], plain());
        assert_eq!(rows(&path).unwrap(), TEXTS.map(|text| Some(text.to_owned())), "{kind}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let array = BinaryArray::from_vec(vec![b"the cat", b"caf\xe9"]);
    write(&path, vec![("text", Arc::new(array))], plain());
    let error = rows(&path).unwrap_err();
    assert!(error.to_string().contains("a.parquet: row 2 is not UTF-8"), "{error}");
    assert_eq!(error.exit_code(), 3);
}

#[test]
fn null_columns_and_files_without_rows_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    write(&path, vec![("text", Arc::new(NullArray::new(3)))], plain());
    assert_eq!(rows(&path).unwrap(), [None, None, None]);
    // As pandas writes the column of an empty frame, and as a writer without columns does.
    let empty: ArrayRef = Arc::new(Float64Array::from(Vec::<f64>::new()));
    for name in ["text", "__index_level_0__"] {
        write(&path, vec![(name, empty.clone())], plain());
        assert_eq!(rows(&path).unwrap(), []);
    }
}

#[test]
fn errors_name_the_columns_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let text: ArrayRef = Arc::new(StringArray::from(vec!["the cat"]));
    let number: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    for (columns, says) in [
        (
            vec![("id", number.clone()), ("Text", text.clone())],
            "missing (columns: id, Text; did you mean `Text`?)",
        ),
        (vec![("text", number.clone()), ("body", text.clone())], "int32 (columns of text: body)"),
        (vec![("text", number)], "\"text\" is int32, expected text"),
        (vec![("text", text.clone()), ("text", text)], "\"text\" is there twice"),
    ] {
        write(&path, columns, plain());
        let message = rows(&path).unwrap_err().to_string();
        assert!(message.contains(says), "{message}: {says}");
    }
}

/// Returns the bytes of a file, with a footer in which the dictionary of its chunk begins at `place`.
fn with_dictionary_at(path: &Path, bytes: &[u8], place: i64) -> Vec<u8> {
    std::fs::write(path, bytes).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(path).unwrap()).unwrap();
    let group = metadata.row_group(0);
    let chunk =
        group.column(0).clone().into_builder().set_dictionary_page_offset(Some(place)).build().unwrap();
    let group = group.clone().into_builder().set_column_metadata(vec![chunk]).build().unwrap();
    let metadata = ParquetMetaData::new(metadata.file_metadata().clone(), vec![group]);
    let length = &bytes[bytes.len() - 8..bytes.len() - 4];
    let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
    let mut changed = bytes[..bytes.len() - 8 - length].to_vec();
    ParquetMetaDataWriter::new(&mut changed, &metadata).finish().unwrap();
    changed
}

#[test]
fn dictionary_offset_zero_means_no_dictionary() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    write(&path, vec![("text", Arc::new(StringArray::from_iter_values(TEXTS)))], plain());
    let bytes = std::fs::read(&path).unwrap();
    for place in [0, -1, 4, 1 << 40] {
        std::fs::write(&path, with_dictionary_at(&path, &bytes, place)).unwrap();
        assert_eq!(rows(&path).unwrap(), TEXTS.map(|text| Some(text.to_owned())), "{place}");
    }
}

/// Returns a file with a row group for each list of texts.
fn groups(groups: &[&[&str]]) -> Vec<u8> {
    let schema = parse_message_type("message rows { required binary text (UTF8); }").unwrap();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::default()).unwrap();
    for texts in groups {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let texts: Vec<ByteArray> = texts.iter().map(|&text| text.into()).collect();
        column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

/// Returns the same file with other numbers of rows in its footer.
fn with_rows(path: &Path, rows: i64) -> Vec<u8> {
    let file = std::fs::read(path).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(path).unwrap()).unwrap();
    let footer = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap()) as usize;
    let mut out = file[..file.len() - 8 - footer].to_vec();
    let groups = metadata
        .row_groups()
        .iter()
        .map(|group| group.clone().into_builder().set_num_rows(rows).build().unwrap());
    let changed = ParquetMetaData::new(metadata.file_metadata().clone(), groups.collect());
    let mut end = Vec::new();
    ParquetMetaDataWriter::new(&mut end, &changed).finish().unwrap();
    out.extend_from_slice(&end);
    out
}

#[test]
fn row_groups_without_rows_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    for (file, expected) in [
        (groups(&[&["one"], &[], &["two"]]), &["one", "two"][..]),
        (groups(&[&[], &["one"]]), &["one"]),
        (groups(&[&[]]), &[]),
    ] {
        std::fs::write(&path, file).unwrap();
        let expected: Vec<_> = expected.iter().map(|&text| Some(text.to_owned())).collect();
        assert_eq!(rows(&path).unwrap(), expected);
    }
}

#[test]
fn rows_that_the_footer_declares_are_not_missed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    for declared in [3, 1 << 40] {
        std::fs::write(&path, groups(&[&["one", "two"], &["three"]])).unwrap();
        std::fs::write(&path, with_rows(&path, declared)).unwrap();
        let error = rows(&path).unwrap_err();
        assert!(error.exit_code() == 3 && error.to_string().contains("row"), "{declared}: {error}");
    }
}
