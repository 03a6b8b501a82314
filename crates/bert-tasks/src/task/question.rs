//! Defines a question about a text, and its answers.

use std::sync::Arc;

/// A question about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The question's id in the file.
    pub id: String,
    /// The question.
    pub question: String,
    /// The text, shared by all its questions.
    pub context: Arc<str>,
    /// Correct answers; training uses the first one only.
    pub answers: Vec<Answer>,
    /// Whether the text has no answer (SQuAD 2.0).
    pub is_impossible: bool,
}

/// An answer quoted from the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The text of the answer.
    pub text: String,
    /// Start of the answer, in bytes of the text.
    pub start: usize,
}
