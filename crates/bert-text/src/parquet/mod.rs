//! Reads Parquet files from any source: opens them in bounded memory, and reads their rows as text.

pub(crate) mod open;
mod pages;
pub(crate) mod text_rows;
pub(crate) mod thrift;
