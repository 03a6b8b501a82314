//! Pre-training data for BERT: from raw text to Parquet shards.
//!
//! [`build`] reads text, turns it into masked sentence pairs and writes a *data set*: a folder with Parquet shards, the
//! vocabulary and a manifest. [`DataSet`] opens such a folder. Behaviour and names follow google-research/bert's
//! `create_pretraining_data.py`, called the reference here; [a section below](#deviations-from-the-reference) lists the
//! deviations.
//!
//! # Example
//!
//! Build a data set from two documents and read its rows:
//!
//! ```
//! use bert_data::{BuildConfig, StoredRows, build};
//!
//! let folder = tempfile::tempdir()?;
//! let at = |name: &str| folder.path().join(name);
//! // One sentence per line, and a blank line between documents.
//! std::fs::write(at("text.txt"), "the cat sat\nthe cat ran\n\nthe dog ran\nthe dog sat\n")?;
//! std::fs::write(at("vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\ndog\nsat\nran\n")?;
//!
//! let config = BuildConfig::new([at("text.txt")], at("vocab.txt"), at("data")).with_max_seq_length(16);
//! let data = build(&config, &mut |_| {})?.data_set()?;
//!
//! let mut rows = StoredRows::new(&data);
//! assert!(!rows.is_empty());
//! for index in 0..rows.len() {
//!     let row = rows.row(index)?;
//!     assert_eq!(data.vocabulary().token(row.input_ids[0]), "[CLS]");
//!     assert_eq!(row.masked_lm_ids.len(), row.masked_lm_positions.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Tour
//!
//! The folders of the crate are its stages, in the order in which the data passes through them:
//!
//! | # | stage | output type | module |
//! |---|---|---|---|
//! | 1 | files -> texts: lines, rows of tables | `bert_text::Block` | [`bert_text`] |
//! | 2 | texts -> documents of token ids | `Documents` | [`bert_tokenization`], `documents` |
//! | 3 | documents -> store on disk, in segments of input files | `Store` | `builder::token_store` |
//! | 4 | documents -> buckets, newly assigned in every pass | [`Bucket`] | `documents`, `builder::plan` |
//! | 5 | bucket -> sentence pairs -> masked instances | [`Instance`] | `instance`, `builder` |
//! | 6 | rows -> row groups -> Parquet shards | `train-00000-of-00016.parquet` | `shard`, `builder::write_shards` |
//! | 7 | shards -> a committed data set | [`DataSet`], [`Manifest`] | `dataset` |
//!
//! [`Instance`]: instance::pairs::Instance
//!
//! [`build`] runs the stages on text of any size. It tokenizes the text once into the store. Every pass assigns the
//! documents to buckets at random. The rows of each bucket are generated, shuffled and written to the shards. Every
//! stage leaves receipts, so that the same command continues where it was stopped. Nothing is committed before the
//! [`Invariants`] hold: no document and no row was lost or duplicated.
//!
//! Many machines can share a build: [`tokenize_part`] and [`build_part`] make one part, and [`merge`] commits all parts
//! as one data set. Memory, threads, parts and interruptions do not change a byte of it.
//!
//! [`BuildConfig`] has all options. Three of them decide the kind of data:
//!
//! - [`RandomMode`] selects the source of random draws. `Keyed` addresses every draw, so that threads do not matter,
//!   and fixes the reference's known bugs. `Reference` reproduces the reference's instances bit for bit.
//! - [`Layout`] selects the content of the shards. With `Documents` they contain the tokenized documents, and rows are
//!   generated when they are needed ([`DocumentGroups`], [`DocumentPasses`]).
//! - [`Masking`] selects when instances are masked. With `Dynamic` they are masked when they are needed
//!   ([`RowMasker`]).
//!
//! Other entry points: [`write_documents`] writes the documents of an iterator as text, `make_vocab` trains a
//! vocabulary, [`dry_run`] estimates the cost of a build, [`verify()`] checks a data set against its digests, and
//! [`inspect`](fn@inspect) shows it. [`StoredRows`] reads any data set row by row; [`read_shard`] reads a single shard.
//!
//! Random numbers come from [`bert_random`], files are written by [`bert_storage`], and every error is an [`Error`].
//! The crate prints nothing. The feature `cli` derives command-line flags from the options; `chinese` adds Chinese word
//! segmentation. Both are on by default.
//!
//! # Deviations from the reference
//!
//! The tables list the default differences from google-research/bert's `create_pretraining_data.py` and
//! `tokenization.py`, and how to get the reference's behaviour. "Reference mode" is `--random reference`; it reproduces
//! the reference's instances bit for bit.
//!
//! Instances and masks:
//!
//! | subject | reference | here by default | for the reference's behaviour |
//! |---|---|---|---|
//! | random draws | one Mersenne Twister, drawn serially | ChaCha streams with addresses (1) | reference mode |
//! | random B | ten tries for another document (2) | drawn from the other documents of the bucket | reference mode |
//! | a sentence longer than an instance | truncated at both ends (3) | split into consecutive pieces | reference mode |
//! | maximum masks per instance | 20 at any length | length x fraction, rounded up: 77 at 512 | reference mode (4) |
//! | whole words: replacement of a word | drawn for each piece of it | drawn once for all pieces | reference mode |
//! | whole words: a `##` piece at the start of B | belongs to the last word of A | begins a word | reference mode |
//! | random words | any, even `[PAD]`, `[unused...]` | the same; not with `--random-word-skip-special` | default |
//! | order of the instances | all shuffled in memory | shuffled in each bucket (5) | reference mode |
//! | several processes | left to the user (6) | `--part I --parts N` of one build | |
//!
//! 1. The address is seed, pass and document.
//! 2. If all ten tries fail, the reference takes B from the same document and still labels it random; in a text of one
//!    document this always happens. Here every other document of the text is equally likely, because the buckets are
//!    drawn again in every pass. A text of one document gives actual pairs only.
//! 3. The reference truncates at random, and much of such a sentence is never used.
//! 4. The option `--max-predictions-per-seq 20` has the same effect.
//! 5. Buckets of documents are drawn again in every pass. Reference mode writes one shard.
//! 6. The same seed in each process gives the same draws.
//!
//! Text:
//!
//! | subject | reference | here by default | for the reference's behaviour |
//! |---|---|---|---|
//! | end of a file | does not end a document | ends a document | reference mode |
//! | `\r` | deleted anywhere | removed at the end of a line, else white space | reference mode |
//! | a document of more than 4,194,304 tokens | is held in memory | is split, with a warning | reference mode |
//! | a line that is not UTF-8 | the script fails | repaired and counted | `--strict-utf8` |
//! | order of the files of a pattern | folder order | bytewise | name them one by one |
//! | a missing file, or a pattern without a match | skipped (1) | rejected | none |
//! | a file named twice | read twice | rejected | reference mode |
//! | accents, if the text is lower-cased | stripped | stripped, unless the vocabulary has words with accents (2) | `--strip-accents true` |
//! | a duplicate token in the vocabulary | the later one counts | rejected | none |
//! | `--max-seq-length` below 8 | fails or gives nothing | rejected | none |
//!
//! 1. Without any text the reference writes an empty file.
//! 2. They are kept if more than 1 % of its words have accents and no file next to it states `strip_accents`. Reference
//!    mode strips them.
//!
//! Files:
//!
//! | subject | reference | here by default | for the reference's behaviour |
//! |---|---|---|---|
//! | format | TFRecords, padded, with `input_mask` and `masked_lm_weights` | Parquet without padding (1) | none |
//! | `next_sentence_labels` | a list with one element | the number `next_sentence_label` | none |
//! | report | the first 20 instances are logged | a report, a data card (2) | |
//!
//! 1. The padded fields and both masks follow from the lengths. With `--columns hf`, rows are padded.
//! 2. `--preview N` and `bert inspect` show instances.
//!
//! Some quirks of the reference are kept on purpose, in both modes. A document of one sentence gives random next
//! sentences only, so more than half of the labels are random. Short instances are truncated to the maximum length, not
//! to the drawn target. The number of masks is a fraction of all tokens, including the special tokens, rounded half to
//! even. Whole words that would exceed that number are skipped.

mod builder;
mod config;
mod dataset;
mod documents;
mod error;
mod inspect;
mod instance;
mod make_vocab;
mod parallel;
mod program;
mod shard;

#[doc(no_inline)]
pub use bert_tokenization::{
    IdSpace, PartialSettings, PieceWithOffsets, TokenId, Tokenizer, TokenizerFiles, TokenizerSettings,
    Vocabulary,
};
pub use builder::dry_run::{Estimate, dry_run};
pub use builder::held_out::build_held_out;
pub use builder::merge::merge;
pub use builder::plan::PlanFigures;
pub use builder::prepare::{BuildProgress, BuildStage};
pub use builder::{BuildOutcome, build, build_on};
pub use config::byte_size::ByteSize;
pub use config::hold_out::HoldOut;
pub use config::resolved::ResolvedConfig;
pub use config::{BuildConfig, Columns, Layout, LineBreaks, Masking, Nsp, RandomMode, Segmenter};
pub use dataset::DataSet;
pub use dataset::document_groups::{DocumentGroups, read_all_documents};
pub use dataset::document_hashes::{DocumentHashes, SharedDocuments};
pub use dataset::invariants::Invariants;
pub use dataset::manifest::{Manifest, ShardEntry, VocabularyEntry};
pub use dataset::report::{DataReport, LengthRange};
pub use dataset::row_masker::{DocumentPasses, RowMasker};
pub use dataset::stored_rows::StoredRows;
pub use dataset::verify::{CheckedFile, Recount, ShardProgress, Verification, verify, verify_with};
pub use documents::text_writer::write_documents;
#[doc(no_inline)]
pub use error::{Class, Error, Result};
pub use inspect::{Inspection, inspect, inspect_instance};
pub use instance::masking::{MaskRules, Masker};
pub use instance::pairs::{Instance, Pair, PairRules};
pub use make_vocab::{
    AddedPiece, ExtendedVocabulary, ExtensionReport, TrainedVocabulary, VocabConfig, VocabReport,
    extend_vocabulary, train_vocabulary,
};
pub use shard::file::{ShardFile, read_shard};
pub use shard::row::{Row, ShardRows};

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
pub use builder::merge::merge_with_scratch;
#[doc(hidden)]
pub use builder::parts::{PartOutcome, PartText, build_part, build_part_on, tokenize_part};
#[doc(hidden)]
pub use config::{
    derived::{default_max_predictions, number_to_predict},
    hold_out::{HELD_OUT_FOLDER, held_out_folder},
    language::languages,
};
#[doc(hidden)]
pub use dataset::CACHE_BYTES;
#[doc(hidden)]
pub use documents::{Bucket, casing::casing_warning};
#[doc(hidden)]
pub use error::is_disk_full;
#[doc(hidden)]
pub use inspect::{page, stages, training_text};
#[doc(hidden)]
pub use make_vocab::train_on_words;
#[doc(hidden)]
pub use shard::{
    documents::DOCUMENT_COLUMNS,
    hf_columns::NO_LABEL,
    schema::HF_COLUMNS,
    writer::{FORMAT_VERSION, STREAMS_VERSION},
};
