//! Errors of vocabularies and tokenizer files.

use std::path::Path;

pub(crate) use bert_storage::{Locate, Located};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of this crate, with its location.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading a file failed.
    #[error(transparent)]
    Storage(#[from] bert_storage::Error),
    /// The vocabulary or a tokenizer file cannot be used.
    #[error(transparent)]
    Vocabulary(#[from] Located<VocabularyProblem>),
}

impl Error {
    /// Returns the documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Storage(error) => error.exit_code(),
            Self::Vocabulary(error) => error.problem.exit_code(),
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let io = bert_storage::Error::io(action, path);
        move |source| io(source).into()
    }
}

/// A problem with a vocabulary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VocabularyProblem {
    /// A vocabulary file has no tokens.
    #[error("the vocabulary is empty")]
    Empty,
    /// A vocabulary lacks a token that BERT needs.
    #[error("the vocabulary ({size} tokens) has no {token}")]
    LacksToken {
        /// Number of tokens in the vocabulary.
        size: usize,
        /// The missing token.
        token: &'static str,
    },
    /// A vocabulary contains a token twice.
    #[error("token {token:?} is already on line {first_line}")]
    DuplicateToken {
        /// The line of its first occurrence.
        first_line: usize,
        /// The token.
        token: String,
    },
    /// A vocabulary is not UTF-8.
    #[error("the vocabulary is not valid UTF-8")]
    InvalidUtf8,
    /// A vocabulary is in SentencePiece format, with a tab and a score after each token.
    #[error(
        "no {token}, and most lines have a tab and a score: this is a SentencePiece vocabulary. BERT needs a \
         WordPiece vocabulary with one token per line; train one with `bert make-vocab`"
    )]
    Scores {
        /// The missing token.
        token: &'static str,
    },
    /// A folder contains no tokenizer that can be read.
    #[error("this folder has no vocab.txt and no tokenizer.json, so it has no WordPiece vocabulary")]
    NoVocabulary,
    /// A tokenizer file is not a JSON object; the position and the reason.
    #[error("not a JSON object")]
    Json(#[source] serde_json::Error),
    /// A file describes a tokenizer other than BERT's.
    #[error("`{key}` is {value}; only {only} is supported")]
    Unsupported {
        /// The key in the file.
        key: String,
        /// Its value as JSON, cut to one line.
        value: String,
        /// The supported value.
        only: &'static str,
    },
    /// Two files of a folder contradict each other.
    #[error("{difference} in {other}; correct or delete one of the two files")]
    Disagree {
        /// The setting or the id with its value in this file and the other value, in words.
        difference: String,
        /// The name of the other file.
        other: &'static str,
    },
    /// An added token: the tokenizer finds it in the text before the text is split.
    #[error(
        "{token:?} is an added token that is matched before the text is split, which is not supported. Write it in \
         place of an [unused...] token of vocab.txt and remove it from the added tokens"
    )]
    AddedToken {
        /// The token.
        token: String,
    },
    /// A token id is not a number, or is far above the number of tokens.
    #[error("the id of {token:?} is not an integer within the size of the vocabulary")]
    NotAnId {
        /// The token.
        token: String,
    },
    /// Two tokens have the same id.
    #[error("{token:?} has id {id}, which another token also has or which is far above the others")]
    IdTwice {
        /// The id.
        id: usize,
        /// The second token.
        token: String,
    },
    /// A token begins or ends with white space, or contains a line break.
    #[error("{token:?} begins or ends with white space or has a line break, which vocab.txt cannot store")]
    NotALine {
        /// The token.
        token: String,
    },
}

impl VocabularyProblem {
    /// Returns 4 for a tokenizer other than BERT's, 3 for a damaged file.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unsupported { .. }
            | Self::Disagree { .. }
            | Self::AddedToken { .. }
            | Self::NoVocabulary => 4,
            _ => 3,
        }
    }
}
