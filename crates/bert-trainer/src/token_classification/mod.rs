//! Gives every word of a sentence a class, as in named-entity recognition: from reading the files to scoring entities.
//!
//! | file | what it does |
//! |---|---|
//! | [`conll`] | reads sentences with a tag for each word |
//! | `inputs` | cuts words into word pieces, makes batches of these and collects the model's tags |
//! | [`entities`] | finds entities in tags and computes precision, recall and F1 |

pub mod conll;
pub mod entities;
pub(crate) mod inputs;
