//! Answers questions on a text, as in SQuAD: from reading the files to scoring the answers.
//!
//! | file | what it does |
//! |---|---|
//! | [`squad`] | reads questions, texts and answers |
//! | [`windows`] | cuts a long text into inputs of the model |
//! | `inputs` | makes batches of these and collects the model's answers |
//! | [`answers`] | finds the best answers in the scores of all windows |
//! | [`metrics`] | computes exact match and F1 by the official rules |

pub mod answers;
pub(crate) mod inputs;
pub mod metrics;
pub mod squad;
pub mod windows;
