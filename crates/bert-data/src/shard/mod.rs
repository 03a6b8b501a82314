//! Writes rows and documents as Parquet shards, and reads them back with every row checked.

pub(crate) mod documents;
pub(crate) mod file;
pub(crate) mod hf_columns;
pub(crate) mod row;
pub(crate) mod schema;
pub(crate) mod writer;
