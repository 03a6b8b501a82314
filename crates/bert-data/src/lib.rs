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
//! [`build`] runs them all, at any size of text: the text is tokenized once into a store on disk, in segments of input files
//! (`store`), its documents are dealt to buckets at random, others in every pass (`plan`, `permutation`), rows are made
//! bucket by bucket (`buckets`), and a bucket's rows, shuffled, are a shard or a stretch of one (`shards`). With
//! [`Layout::Documents`] the documents of a bucket are stored as they are, and rows are made when they are needed
//! ([`DocumentGroups`], [`DocumentPasses`]). Every stage leaves receipts (`work`), so that the
//! same command goes on where one was stopped; nothing is committed before the law of [`Conservation`] holds; and a build
//! can be made in parts ([`tokenize_part`], [`build_part`], [`merge`]). Memory, threads, parts and stops change no byte.
//! The behaviour and the names are those of `create_pretraining_data.py` of google-research/bert; [`RandomMode::Reference`] reproduces its instances exactly, [`RandomMode::Keyed`] mends its
//! known defects and does not depend on threads. Every random number comes from [`rng`], every file that matters is
//! written by [`files`], every way to fail is in [`Error`]. Nothing is printed here.
//!
//! # Deviations from the reference
//!
//! What differs from google-research/bert's `create_pretraining_data.py` and `tokenization.py` by default, and how to have
//! the reference's behaviour. "Reference mode" is `--random reference`; it has the reference's instances bit for bit.
//!
//! Instances and masks:
//!
//! | what | reference | here by default | the reference's |
//! |---|---|---|---|
//! | random draws | one Mersenne Twister, drawn serially | ChaCha streams addressed by seed, pass and document | reference mode |
//! | random B | ten tries for another document, then this one, labelled random all the same; in a text of one document always | drawn from the other documents of the bucket, so that each of the text is equally likely; one document gives actual pairs only | reference mode |
//! | a sentence longer than an instance | cut at both ends at random; much of it is never seen | used in consecutive pieces | reference mode |
//! | most masks of an instance | 20 at any length | length times share, rounded up: 77 at 512 | reference mode, `--max-predictions-per-seq 20` |
//! | whole words: what is done to a word | drawn for each piece of it | drawn once for all its pieces | reference mode |
//! | whole words: a `##` piece that begins B | belongs to the last word of A | begins a word | reference mode |
//! | random words | any of the vocabulary, `[PAD]` and `[unused...]` too | the same; not with `--random-word-skip-special` | default |
//! | order of the instances | all shuffled in memory | those of each bucket of documents are shuffled; buckets are drawn anew in every pass | reference mode, one shard |
//! | several processes | the user's affair; the same seed in each gives the same draws | `--part I --parts N` of one build | |
//!
//! Text:
//!
//! | what | reference | here by default | the reference's |
//! |---|---|---|---|
//! | end of a file | ends no document | ends a document | reference mode |
//! | `\r` | deleted wherever it stands | one at the end of a line is taken off; others are white space | reference mode |
//! | a document of more than 4,194,304 tokens | is held in memory | is cut, and a warning says so | reference mode |
//! | a line that is not UTF-8 | the script fails | repaired and counted; `--strict-utf8` refuses it | `--strict-utf8` |
//! | order of the files of a pattern | that of the folder | bytewise | name them one by one |
//! | a pattern or file that is not there | passed over; without any text an empty file is written | refused | none |
//! | a file named twice | read twice | refused | reference mode |
//! | a token twice in the vocabulary | the later one counts | refused | none |
//! | `--max-seq-length` below 8 | fails or gives nothing | refused | none |
//!
//! Files:
//!
//! | what | reference | here by default | the reference's |
//! |---|---|---|---|
//! | format | TFRecord, padded, with `input_mask` and `masked_lm_weights` | Parquet without padding, from which both follow; `--columns hf` pads | none |
//! | `next_sentence_labels` | a list of one | the number `next_sentence_label` | none |
//! | what is told | the first 20 instances are logged | a report, a data card, `--preview N`, `bert inspect` | |
//!
//! Kept on purpose, in both modes: a document of one sentence gives random next sentences only, so that more than half of
//! the labels are random; short instances are cut to the whole length, not to the drawn one; the number of masks is a
//! share of all tokens, the special ones included, rounded half to even; of whole words those that would exceed it are
//! passed over.

mod builder;
pub mod config;
pub mod dataset;
pub mod documents;
mod error;
pub mod html;
pub mod input;
pub mod inspect;
pub mod instance;
pub mod make_vocab;
mod parallel;
pub mod parquet;
pub mod shard;
#[cfg(test)]
mod test_text;
pub mod tokenization;

pub use builder::dry_run::{Estimate, dry_run};
pub use builder::merge::{merge, merge_on};
pub use builder::output::clear_scratch;
pub use builder::plan::PlanFigures;
pub use builder::progress::{BuildProgress, BuildStage};
pub use builder::{
    BuildOutcome, PartOutcome, PartText, build, build_on, build_part, build_part_on, tokenize_part,
};
pub use config::byte_size::ByteSize;
pub use config::resolved::ResolvedConfig;
pub use config::{BuildConfig, Columns, Layout, Masking, Nsp, RandomMode, Segmenter};
pub use dataset::DataSet;
pub use dataset::conservation::Conservation;
pub use dataset::document_groups::{DocumentGroups, read_all_documents};
pub use dataset::document_passes::DocumentPasses;
pub use dataset::manifest::Manifest;
pub use dataset::report::DataReport;
pub use dataset::row_groups::ShardReader;
pub use dataset::row_masker::RowMasker;
pub use dataset::stored_rows::StoredRows;
pub use dataset::verify::{CheckedFile, Recount, ShardProgress, Verification, verify, verify_with};
pub use documents::bucket::Bucket;
pub use documents::casing::casing_warning;
pub use error::{
    Error, InputError, ManifestError, OptionError, OutputError, PartError, Result, RowProblem, ShardError,
    TextProblem, VocabularyError, is_disk_full,
};
pub use inspect::inspect;
pub use shard::reader::read_shard;
pub use shard::row::{Row, ShardRows};
pub use tokenization::Tokenizer;
pub use tokenization::offsets::PlacedPiece;
pub use tokenization::vocabulary::Vocabulary;
