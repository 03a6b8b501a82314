//! Text to token ids.

/// Vocabularies and lower-casing that do not match.
mod casing;
/// Training a vocabulary gives the same bytes every time.
mod make_vocab;
/// Chinese words for whole-word masking.
mod segmenter;
/// The same ids as the reference's tokenizer.
mod tokenizer;
