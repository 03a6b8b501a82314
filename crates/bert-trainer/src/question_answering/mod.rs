//! Question answering on a text, as in SQuAD.
//!
//! | file | what it does |
//! |---|---|
//! | [`squad`] | reads questions, texts and answers |
//! | [`windows`] | cuts a long text into inputs of the model |
//! | `inputs` | batches of these, and what the model answers |
//! | [`answers`] | finds the best answers in the scores of all windows |
//! | [`metrics`] | exact match and F1 by the official rules |

pub mod answers;
pub(crate) mod inputs;
pub mod metrics;
pub mod squad;
pub mod windows;
