//! Reads text from files, as lines or rows.
//!
//! | task | item |
//! |---|---|
//! | list the files that paths, folders and patterns name | [`expand`] |
//! | recognize a file by its content | [`Format::detect`] |
//! | read a file as blocks of whole lines, in bounded memory | [`BlockReader`] |
//! | read tables whose rows are documents or examples (CSV, TSV, JSON, Parquet) | [`table`] |
//! | convert wikitext | [`wikitext`] |
//!
//! Each argument's files are in bytewise order. Plain text, compressed text, JSON and tables are recognized by their
//! content. A [`Block`] contains bytes that are neither decoded nor split. As in the reference, only `\n` ends a line.
//! Unlike the reference, inputs are sorted and a missing input is an error.

mod blocks;
pub mod bytes;
mod dump;
mod entry;
mod error;
mod files;
mod findings;
mod format;
pub mod forms;
mod json;
pub mod parquet;
mod reading;
mod recognize;
mod row_blocks;
pub mod sentence_ends;
pub mod table;
pub mod texts;
pub mod threads;
pub mod wikitext;

pub use blocks::{Block, BlockReader};
pub use entry::{DumpPages, InputEntry, each_file, same_range, same_text, size};
pub use error::{Error, InputProblem, InputsError, Result, TextProblem};
pub use files::{
    expand, files_to_read, first_duplicate, reject_output_inside, reject_too_many, reject_vocabulary,
    skipped_names_note, skipped_tables_warning, split_lists,
};
pub use findings::{line_check, remarks};
pub use format::{Format, document_end};
pub use reading::{LineBreaks, Reading, TEXT_COLUMN, recorded_file_name, recorded_name};

/// Minimum size of a full block; it ends at the next line end.
pub const BLOCK: usize = 1 << 18;
/// Version of the conversion of files to sentences. It changes when the same file gives other sentences, so that an
/// unfinished build does not continue with other text.
pub const TEXT_VERSION: u32 = 3;
/// Maximum length of a line: far longer than any real text, and far smaller than memory.
pub const MAX_LINE_BYTES: usize = 64 << 20;
