//! Pre-training data for BERT: from raw text to Parquet shards.
//!
//! | # | stage | type that leaves it | module |
//! |---|---|---|---|
//! | 1 | text -> documents | [`document::Documents`] (sentences of token ids) | [`input`], [`table`], [`tokenization`], [`reading`], [`document`] |
//! | 2 | documents -> instances | [`instance::Instance`] | [`instance`] |
//! | 3 | instances -> masked instances | [`masking::MaskedInstance`] | [`masking`] |
//! | 4 | masked instances -> record batches | `RecordBatch` | [`record_batch`] |
//! | 5 | record batches -> shards and manifest | `train-00000-of-00016.parquet`, `manifest.json` | [`shard`], [`shard_rows`], [`manifest`] |
//!
//! [`build`] runs them all, at any size of text: the text is tokenized once into a store on disk (`store`), instances are
//! made from it round by round (`rounds`), each row gets its place in the data set from its number (`slots`), waits in
//! sorted runs (`spill`) and is written with its row group (`shards`). Every stage leaves receipts (`work`), so that the
//! same command goes on where one was stopped; nothing is committed before the law of [`Conservation`] holds; and a build
//! can be made in parts ([`build_part`], [`merge`]). Memory, threads, parts and stops change no byte. The behaviour and the names are those of `create_pretraining_data.py` of
//! google-research/bert; [`RandomMode::Reference`] reproduces its instances exactly, [`RandomMode::Keyed`] mends its
//! known defects and does not depend on threads. Every random number comes from [`rng`], every file that matters is
//! written by [`files`], every way to fail is in [`Error`]. Nothing is printed here.

mod block_text;
mod budget;
mod build;
pub mod card;
mod casing;
mod column;
mod compact;
pub mod config;
mod conservation;
mod contained;
pub mod document;
mod document_lookup;
pub mod document_pass;
pub mod document_shard;
mod dry_run;
pub mod dynamic;
mod error;
pub mod faults;
pub mod files;
pub mod html;
pub mod input;
pub mod inspect;
pub mod instance;
pub mod keyed;
mod known_format;
pub mod line_check;
pub mod make_vocab;
pub mod manifest;
pub mod masking;
mod merge;
mod ngram;
mod output;
mod packed;
pub mod page;
mod parallel;
mod parquet_file;
mod part;
mod plan;
pub mod preview;
pub mod reading;
mod receipt;
pub mod record_batch;
mod reference;
pub mod report;
mod resolved_config;
pub mod rng;
mod rounds;
pub mod sealed;
pub mod segmenter;
pub mod shard;
pub mod shard_rows;
mod shards;
mod slots;
mod spill;
mod store;
mod stored_rows;
pub mod table;
#[cfg(test)]
mod test_text;
pub mod tokenization;
pub mod vocabulary;
pub mod word_marks;
mod work;

pub use budget::ByteSize;
pub use build::{
    BuildOutcome, BuildProgress, BuildStage, PartOutcome, build, build_on, build_part, build_part_on,
};
pub use casing::casing_warning;
pub use config::{BuildConfig, Layout, Masking, Nsp, RandomMode, Segmenter};
pub use conservation::Conservation;
pub use document_pass::DocumentPasses;
pub use dry_run::{Estimate, dry_run};
pub use dynamic::RowMasker;
pub use error::{
    Error, InputError, ManifestError, OptionError, OutputError, PartError, Result, RowProblem, ShardError,
    TextProblem, VocabularyError, is_disk_full,
};
pub use inspect::{inspect, verify};
pub use manifest::Manifest;
pub use merge::{merge, merge_on};
pub use preview::preview;
pub use report::DataReport;
pub use resolved_config::ResolvedConfig;
pub use shard_rows::{Row, ShardRows, read_shard};
pub use stored_rows::StoredRows;
pub use tokenization::Tokenizer;
pub use vocabulary::Vocabulary;
