//! Implements token classification, as in named entity recognition, from reading the files to scoring entities.
//!
//! | file | content |
//! |---|---|
//! | [`conll`] | reads sentences with a tag for each word |
//! | `inputs` | tokenizes words into word pieces, batches sentences and collects the predicted tags |
//! | [`entities`] | extracts entities from tags and computes precision, recall and F1 |

pub mod conll;
pub mod entities;
pub(crate) mod inputs;
