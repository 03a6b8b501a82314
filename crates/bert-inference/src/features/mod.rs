//! Hidden states of texts, and their principal components.

pub(crate) mod embeddings;
pub(crate) mod hidden_states;
pub(crate) mod neighbours;
