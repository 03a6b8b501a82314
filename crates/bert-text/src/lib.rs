//! Reads text from files, as lines or rows.
//!
//! | task | item |
//! |---|---|
//! | list the files that paths, folders and patterns name | [`expand`] |
//! | recognize a file by its content | [`Format::detect`] |
//! | read a file as blocks of whole lines, in bounded memory | [`BlockReader`] |
//! | read tables whose rows are documents or examples (CSV, TSV, JSON, Parquet) | `table` |
//! | convert wikitext | `wikitext` |
//!
//! Each argument's files are in bytewise order. Plain text, compressed text, JSON and tables are recognized by their
//! content. A [`Block`] contains bytes that are neither decoded nor split. As in the reference, only `\n` ends a line.
//! Unlike the reference, inputs are sorted and a missing input is an error.

mod blocks;
mod bytes;
mod dump;
mod entry;
mod error;
mod files;
mod findings;
mod format;
mod forms;
mod json;
mod line_counts;
mod open_input;
mod parquet;
mod reading;
mod recognize;
mod table;
mod texts;
#[doc(hidden)]
pub mod threads;
mod wikitext;

pub use entry::{DumpPages, InputEntry};
pub use error::{Class, Error, Result};
pub use files::expand;
pub use findings::remarks::Remarks;
pub use format::Format;
pub use reading::{LineBreaks, Reading};
pub use table::{
    ColumnLookup, ColumnPlace, Header, InputReader, LineReader, Row, RowValues, TableReader, TextFormat,
};
pub use texts::{TextKind, TextRules, each_text};
pub use wikitext::{Wiki, wikitext_to_text};

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
pub use blocks::{Block, BlockReader};
#[doc(hidden)]
pub use bytes::{file_range, range_digest};
#[doc(hidden)]
pub use entry::{each_file, same_range, same_text, size};
#[doc(hidden)]
pub use files::{
    files_to_read, first_duplicate, reject_output_inside, reject_too_many, reject_vocabulary,
    skipped_names_note, skipped_tables_warning, split_lists,
};
#[doc(hidden)]
pub use findings::{line_check, remarks};
#[doc(hidden)]
pub use forms::{joiner, line_breaks};
#[doc(hidden)]
pub use open_input::divisible_format;
#[doc(hidden)]
pub use parquet::open::{Batches, ParquetFile};
#[doc(hidden)]
pub use parquet::text_rows::class_names;
#[doc(hidden)]
pub use reading::{TEXT_COLUMN, recorded_file_name, recorded_name};
#[doc(hidden)]
pub use table::{find_column, json_text, recognized, value_at};

/// Minimum size of a full block in bytes; it ends at the next line end.
pub const BLOCK: usize = 1 << 18;
/// Version of the conversion of files to sentences. It changes when the same file gives different sentences, so that an
/// unfinished build does not continue with different text.
pub const TEXT_VERSION: u32 = 3;
/// Maximum length of a line: far longer than any real text, and far smaller than memory.
pub const MAX_LINE_BYTES: usize = 64 << 20;
