//! Writes the hidden states of texts as Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field};
use bert_inference::{Extractor, LineFeatures, results_not_written};
use bert_tasks::{TextSource, Truncation};
use bert_training::Error;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

/// Writes the features of texts as Parquet, one row per token: `line` (from 0), `position` in the line's sequence,
/// `token`, and for each selected layer a column `layer_N` with lists of f32, one list per token, not rounded. With
/// pooling there is one row per line, without the columns `position` and `token`. Returns the counts of the texts
/// that were cut.
///
/// # Errors
/// Fails as [`Extractor::each_line`] does, or when the results cannot be written.
pub fn write_features_parquet(
    extractor: &Extractor,
    lines: &dyn TextSource,
    out: &mut (dyn Write + Send),
) -> Result<Truncation, Error> {
    let schema = batch(extractor, &[]).schema();
    // The values rarely repeat, so a dictionary would be abandoned after the first page.
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let mut writer = ArrowWriter::try_new(out, schema, Some(properties)).map_err(results_error)?;
    let truncation =
        extractor.each_line(lines, |lines| writer.write(&batch(extractor, lines)).map_err(results_error))?;
    writer.close().map_err(results_error)?;
    Ok(truncation)
}

/// Returns the error for a table that could not be written; the cause is the error of the output, if it has one.
pub(super) fn results_error(error: ParquetError) -> Error {
    results_not_written(match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(cause) => io::Error::other(cause),
        },
        other => io::Error::other(other),
    })
}

fn item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Float32, false))
}

fn batch(extractor: &Extractor, lines: &[LineFeatures]) -> RecordBatch {
    let is_pooled = extractor.pooling().is_some();
    let count = |line: &LineFeatures| if is_pooled { 1 } else { line.tokens.len() };
    let rows = || lines.iter().flat_map(|line| (0..count(line)).map(move |at| (line, at)));
    let numbers: Int64Array = rows().map(|(line, _)| line.line as i64).collect::<Vec<i64>>().into();
    let mut columns: Vec<(String, ArrayRef)> = vec![("line".to_string(), Arc::new(numbers))];
    if !is_pooled {
        let positions: Int32Array = rows().map(|(_, at)| at as i32).collect::<Vec<i32>>().into();
        let tokens: StringArray = rows().map(|(line, at)| Some(line.tokens[at].as_str())).collect();
        columns.push(("position".to_string(), Arc::new(positions)));
        columns.push(("token".to_string(), Arc::new(tokens)));
    }
    for (at, number) in extractor.layers().iter().enumerate() {
        let vectors: Vec<f32> = lines.iter().flat_map(|line| line.layers[at].iter().copied()).collect();
        let width = extractor.hidden_size() as i32;
        let list = FixedSizeListArray::new(item(), width, Arc::new(Float32Array::from(vectors)), None);
        columns.push((format!("layer_{number}"), Arc::new(list)));
    }
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}
