//! Writes hidden states to files, as JSON Lines in the format of the reference's `extract_features.py` or as
//! Parquet.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use serde::Serialize;

use super::features::{Extractor, LineFeatures};
use super::unwritten;
use crate::error::Error;

/// One line of the reference's output.
#[derive(Serialize)]
struct Line<'a> {
    linex_index: u64,
    features: Vec<Token<'a>>,
}

#[derive(Serialize)]
struct Token<'a> {
    token: &'a str,
    layers: Vec<Layer>,
}

#[derive(Serialize)]
struct Layer {
    index: i32,
    values: Vec<f64>,
}

/// Writes the features of `input` as JSON Lines: `{"linex_index": 0, "features": [{"token": "[CLS]", "layers":
/// [{"index": -1, "values": [...]}, ...]}, ...]}`, the values rounded to six decimals as in the reference.
///
/// # Errors
/// Those of [`Extractor::each_line`]; [`Error::Results`].
pub fn write_json_lines(extractor: &Extractor, input: &Path, out: &mut dyn Write) -> Result<u64, Error> {
    let mut count = 0;
    extractor.each_line(input, &mut |lines| {
        for line in lines {
            serde_json::to_writer(&mut *out, &json(extractor, line))
                .map_err(|error| unwritten(error.into()))?;
            out.write_all(b"\n").map_err(unwritten)?;
        }
        count += lines.len() as u64;
        out.flush().map_err(unwritten)
    })?;
    Ok(count)
}

fn json<'a>(extractor: &Extractor, line: &'a LineFeatures) -> Line<'a> {
    let width = extractor.hidden_size();
    let layer = |at: usize, (&index, vectors): (&i32, &Vec<f32>)| Layer {
        index,
        values: vectors[at * width..(at + 1) * width].iter().copied().map(rounded).collect(),
    };
    let tokens = line.tokens.iter().enumerate().map(|(at, token)| Token {
        token,
        layers: extractor.layers().iter().zip(&line.layers).map(|chosen| layer(at, chosen)).collect(),
    });
    Line { linex_index: line.line, features: tokens.collect() }
}

/// Python's `round(float(x), 6)`: the product of the 24 bits of a float and the 14 of 5^6 is exact.
fn rounded(x: f32) -> f64 {
    (f64::from(x) * 1e6).round_ties_even() / 1e6
}

/// Writes the features of `input` as Parquet, one row a token: `line` (from 0), `position` in the line's sequence,
/// `token`, and for each chosen layer a column `layer_N` of lists of as many f32 as the model is wide, not rounded.
///
/// # Errors
/// Those of [`Extractor::each_line`]; [`Error::Results`].
pub fn write_parquet(
    extractor: &Extractor,
    input: &Path,
    out: &mut (dyn Write + Send),
) -> Result<u64, Error> {
    let schema = schema(extractor);
    // Numbers like these do not repeat: a dictionary would be given up after its first page.
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let mut writer = ArrowWriter::try_new(out, schema.clone(), Some(properties)).map_err(failed)?;
    let mut count = 0;
    extractor.each_line(input, &mut |lines| {
        writer.write(&batch(extractor, &schema, lines)).map_err(failed)?;
        count += lines.len() as u64;
        Ok(())
    })?;
    writer.close().map_err(failed)?;
    Ok(count)
}

fn failed(error: ParquetError) -> Error {
    let source = match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(cause) => io::Error::other(cause),
        },
        other => io::Error::other(other),
    };
    unwritten(source)
}

fn item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Float32, false))
}

fn schema(extractor: &Extractor) -> Arc<Schema> {
    let list = DataType::FixedSizeList(item(), extractor.hidden_size() as i32);
    let layers =
        extractor.layers().iter().map(|layer| Field::new(format!("layer_{layer}"), list.clone(), false));
    let fixed = [("line", DataType::Int64), ("position", DataType::Int32), ("token", DataType::Utf8)];
    let fixed = fixed.into_iter().map(|(name, kind)| Field::new(name, kind, false));
    Arc::new(Schema::new(fixed.chain(layers).collect::<Vec<Field>>()))
}

fn batch(extractor: &Extractor, schema: &Arc<Schema>, lines: &[LineFeatures]) -> RecordBatch {
    let rows = || lines.iter().flat_map(|line| (0..line.tokens.len()).map(move |at| (line, at)));
    let numbers: Int64Array = rows().map(|(line, _)| line.line as i64).collect::<Vec<i64>>().into();
    let positions: Int32Array = rows().map(|(_, at)| at as i32).collect::<Vec<i32>>().into();
    let tokens: StringArray = rows().map(|(line, at)| Some(line.tokens[at].as_str())).collect();
    let mut columns: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(positions), Arc::new(tokens)];
    for layer in 0..extractor.layers().len() {
        let vectors: Vec<f32> = lines.iter().flat_map(|line| line.layers[layer].iter().copied()).collect();
        let width = extractor.hidden_size() as i32;
        let list = FixedSizeListArray::new(item(), width, Arc::new(Float32Array::from(vectors)), None);
        columns.push(Arc::new(list));
    }
    RecordBatch::try_new(schema.clone(), columns).expect("columns of one length and of the schema")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded_as_in_python() {
        // [round(float(numpy.float32(x)), 6) for x in (0.1234565, -1.5, 1e-7, 2.0000005, 123.4567891)], Python 3.12
        let rounded = [0.1234565, -1.5, 1e-7, 2.0000005, 123.456_79].map(rounded);
        assert_eq!(rounded, [0.123457, -1.5, 0.0, 2.0, 123.456787]);
    }
}
