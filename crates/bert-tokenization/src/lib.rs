//! Splits lines of text into WordPiece tokens, as the reference's `tokenization.py` and the BERT tokenizers of
//! `transformers` do.
//!
//! | task | item |
//! |---|---|
//! | read `vocab.txt`, `tokenizer.json` and the files next to them | [`TokenizerFiles`] |
//! | map tokens to ids and back | [`Vocabulary`] |
//! | convert a text to ids | [`Tokenizer`]; [`Encoder`], with a cache of words, for long text |
//! | find the characters that a piece came from | [`Tokenizer::encode_with_offsets`] |
//! | find the words of Chinese text | `chinese_words`, with the feature `chinese` |
//!
//! The reference's `BasicTokenizer` (clean, split ideographs, lower-case, strip accents, split punctuation) and its
//! `WordpieceTokenizer` are ported here. The `tokenizers` crate is not used, because its BERT normalizer differs from
//! the reference in several classes of characters (CJK extension E, private use, the final sigma, Unicode tables).
//! `[SEP]` in a text is plain text, or the special token if the settings say so, as in `transformers`.

mod added_tokens;
mod basic;
mod chinese_words;
mod json_keys;
mod offsets;
mod tokenizer;
mod tokenizer_files;
mod tokenizer_json;
#[doc(hidden)]
pub mod turkic;
mod vocabulary;

pub use basic::{PartialSettings, TokenizerSettings};
pub use bert_storage::{Error, Result};
pub use chinese_words::ChineseSegmenter;
pub use offsets::PieceWithOffsets;
pub use tokenizer::{Encoder, Tokenizer};
pub use tokenizer_files::TokenizerFiles;
pub use vocabulary::{IdSpace, TokenId, Vocabulary};

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
pub use basic::{
    basic_tokens, is_ideograph, is_punctuation, is_python_alphanumeric, is_python_space, python_strip,
    without_accents,
};
#[doc(hidden)]
pub use vocabulary::{CLS, MASK, PAD, SEP, SPECIAL, UNK, WordShare, cased_words, is_special_token};
