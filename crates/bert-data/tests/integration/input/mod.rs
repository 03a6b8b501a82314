//! Files to text.

/// Files, folders, patterns, compression, line ends, encodings.
mod files;
/// Names of inputs: links, lists, hidden names, patterns, tables.
mod names;
/// Parquet files written by other programs.
mod parquet_writers;
/// JSON Lines and Parquet as inputs.
mod table;
/// Wikipedia dumps, and output of WikiExtractor.
mod wikipedia;
