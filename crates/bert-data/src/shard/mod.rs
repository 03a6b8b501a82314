//! Writes rows and documents as Parquet shards, and reads them back with every row checked.

pub mod documents;
pub(crate) mod file;
pub mod footer;
pub mod hf_columns;
pub(crate) mod packed_row;
pub mod record_batch;
pub(crate) mod row;
pub mod schema;
pub mod writer;
