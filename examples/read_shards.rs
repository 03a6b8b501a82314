//! Reads the shards of a data set, as Arrow record batches and as checked rows.
//!
//! `cargo run --example read_shards [-- DATA]`

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use bert::prelude::*;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let folder = match std::env::args().nth(1) {
        Some(folder) => PathBuf::from(folder),
        None => small(scratch.path())?,
    };
    // This compares the sizes of the files and the vocabulary with the manifest.
    let data = DataSet::open(&folder)?;
    let manifest = data.manifest();
    println!("{} instances in {} shards", manifest.instances, manifest.shards.len());

    // Shards are plain Parquet files: any reader can read them.
    let mut rows = 0;
    let mut masked = 0;
    for shard in 0..manifest.shards.len() {
        data.check_shard(shard)?; // compares the digest of the shard
        let file = File::open(data.shard_path(shard))?;
        for batch in ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(1024).build()? {
            let batch = batch?;
            let ids = batch.column_by_name("masked_lm_ids").ok_or("no such column")?;
            rows += batch.num_rows();
            masked += ids.as_list::<i32>().values().len();
        }
    }
    println!("{rows} rows with {masked} masked tokens");

    // `StoredRows` reads row by row, in either layout. It checks every row, and converts documents to instances.
    let mut stored = StoredRows::new(&data);
    let words = data.vocabulary();
    let row = stored.row(0)?;
    let tokens: Vec<&str> = row.input_ids.iter().take(16).map(|&id| words.token(id)).collect();
    println!("row 0: {} ...", tokens.join(" "));
    Ok(())
}

/// Builds a small data set from the almanac's articles, with their letters as the vocabulary.
fn small(folder: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ","].map(String::from);
    let letters = ('a'..='z').flat_map(|letter| [letter.to_string(), format!("##{letter}")]);
    let vocabulary: Vec<String> = special.into_iter().chain(letters).collect();
    std::fs::write(folder.join("vocab.txt"), vocabulary.join("\n"))?;
    std::fs::write(folder.join("text.txt"), include_str!("../corpora/almanac/train/nature.txt"))?;
    let output = folder.join("data");
    let config = BuildConfig::new([folder.join("text.txt")], folder.join("vocab.txt"), &output);
    build(&config.with_dupe_factor(2), &mut |_| {})?;
    Ok(output)
}
