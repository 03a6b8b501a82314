//! Writes attention weights as Parquet.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int32Array, RecordBatch, StringArray};
use bert_inference::NamedAttention;
use bert_training::Error;

use crate::tables::features::results_error;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// Writes a Parquet file with one row per model, layer, head, query and key: `model`, `layer`, `head`, `query`, `key`,
/// `query_token`, `key_token` and `weight` (f32).
///
/// # Errors
/// Fails when the results cannot be written.
///
/// # Panics
/// Panics if `models` is empty, or if a model has no layers or no heads.
pub fn write_attention_parquet(
    models: &[NamedAttention<'_>],
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let schema = batch(&models[0], 0, 0).schema();
    let compression = Compression::ZSTD(ZstdLevel::default());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(out, schema, Some(properties)).map_err(results_error)?;
    for model in models {
        for (layer, heads) in model.attention.layers.iter().enumerate() {
            for head in 0..heads.len() {
                writer.write(&batch(model, layer, head)).map_err(results_error)?;
            }
        }
    }
    writer.close().map_err(results_error)?;
    Ok(())
}

/// Returns the rows of one head.
fn batch(model: &NamedAttention<'_>, layer: usize, head: usize) -> RecordBatch {
    let NamedAttention { name, attention } = model;
    let count = attention.tokens.len();
    let pairs = || (0..count).flat_map(|query| (0..count).map(move |key| (query, key)));
    let constant = |value: usize| Int32Array::from(vec![value as i32; count * count]);
    let number = |of: fn((usize, usize)) -> usize| -> Int32Array {
        pairs().map(|pair| Some(of(pair) as i32)).collect()
    };
    let token = |of: fn((usize, usize)) -> usize| -> StringArray {
        pairs().map(|pair| Some(attention.tokens[of(pair)].as_str())).collect()
    };
    let names: StringArray = pairs().map(|_| Some(*name)).collect();
    let columns: [(&str, ArrayRef); 8] = [
        ("model", Arc::new(names)),
        ("layer", Arc::new(constant(attention.layer_numbers[layer]))),
        ("head", Arc::new(constant(attention.head_numbers[head]))),
        ("query", Arc::new(number(|pair| pair.0))),
        ("key", Arc::new(number(|pair| pair.1))),
        ("query_token", Arc::new(token(|pair| pair.0))),
        ("key_token", Arc::new(token(|pair| pair.1))),
        ("weight", Arc::new(Float32Array::from(attention.layers[layer][head].clone()))),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;
    use crate::attention_page::sample::sample;

    #[test]
    fn parquet_has_a_row_for_each_pair() {
        let attention = sample(2, 3, 4, 2);
        let mut file = tempfile::tempfile().unwrap();
        let model = NamedAttention { name: "run", attention: &attention };
        write_attention_parquet(&[model], &mut file).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), 2 * 3 * 16);
        let row = reader.get_row_iter(None).unwrap().nth(3 * 16 + 16 + 4 + 2).unwrap().unwrap().to_string();
        let weight = attention.weight(1, 1, 1, 2);
        let start = "{model: \"run\", layer: 1, head: 1, query: 1, key: 2, query_token: \"token1\", key_token: \"token2\", weight: ";
        assert!(row.starts_with(start), "{row}");
        let shown: f32 = row[start.len()..row.len() - 1].parse().unwrap();
        assert!((shown - weight).abs() < 1e-6, "{row} {weight}");
    }
}
