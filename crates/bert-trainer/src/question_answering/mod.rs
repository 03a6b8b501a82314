//! Implements extractive question answering, as in SQuAD, from reading the files to scoring the answers.
//!
//! | file | content |
//! |---|---|
//! | [`squad`] | reads questions, texts and answers |
//! | [`windows`] | splits a long text into overlapping model inputs |
//! | `inputs` | batches the windows and collects the model's answers |
//! | [`answers`] | selects the best answers from the scores of all windows |
//! | [`metrics`] | computes exact match and F1 by the official rules |

pub mod answers;
pub(crate) mod inputs;
pub mod metrics;
pub mod squad;
pub mod windows;
