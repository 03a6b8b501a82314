//! Token ids of pairs and of long texts as model inputs.

pub mod pair;
pub mod windows;
