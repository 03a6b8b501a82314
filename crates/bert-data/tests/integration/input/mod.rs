//! Files to text.

/// Ordinary text of many kinds, and text in other forms.
mod clean_texts;
/// Files, folders, patterns, compression, line ends, encodings.
mod files;
/// Wrapped lines, tables, lists, quotes, signs of other text.
mod forms;
/// Names of inputs: links, lists, hidden names, patterns, tables.
mod names;
/// Parquet files written by other programs.
mod parquet_writers;
/// JSON Lines and Parquet as inputs.
mod table;
/// Wikipedia dumps, and output of WikiExtractor.
mod wikipedia;
