//! Parquet files from anywhere: opened with bounded memory, and read as text.

pub mod catch_panic;
pub(crate) mod open;
pub mod text_rows;
pub(crate) mod thrift;
