//! Errors of a vocabulary.

use std::path::PathBuf;

/// What is wrong with a vocabulary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VocabularyError {
    /// A vocabulary file has no tokens.
    #[error("vocabulary {} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A vocabulary lacks a token that BERT needs.
    #[error("vocabulary {} ({size} tokens) has no {token}", path.display())]
    LacksToken {
        /// The file.
        path: PathBuf,
        /// How many tokens it has.
        size: usize,
        /// The token.
        token: &'static str,
    },
    /// A token stands twice in a vocabulary.
    #[error("{}:{line}: token {token:?} is already on line {first_line}", path.display())]
    DuplicateToken {
        /// The file.
        path: PathBuf,
        /// The second line, counted from 1.
        line: usize,
        /// The first line.
        first_line: usize,
        /// The token.
        token: String,
    },
    /// A vocabulary is not UTF-8.
    #[error("{}:{line}: invalid UTF-8 in a vocabulary", path.display())]
    InvalidUtf8 {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
}
