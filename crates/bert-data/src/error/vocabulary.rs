//! Errors of a vocabulary.

/// What is wrong with a vocabulary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VocabularyProblem {
    /// A vocabulary file has no tokens.
    #[error("the vocabulary is empty")]
    Empty,
    /// A vocabulary lacks a token that BERT needs.
    #[error("the vocabulary ({size} tokens) has no {token}")]
    LacksToken {
        /// How many tokens it has.
        size: usize,
        /// The token.
        token: &'static str,
    },
    /// A token stands twice in a vocabulary.
    #[error("token {token:?} is already on line {first_line}")]
    DuplicateToken {
        /// The first line.
        first_line: usize,
        /// The token.
        token: String,
    },
    /// A vocabulary is not UTF-8.
    #[error("invalid UTF-8 in a vocabulary")]
    InvalidUtf8,
}
