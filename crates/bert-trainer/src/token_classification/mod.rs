//! A class for every word of a sentence, as in named-entity recognition.
//!
//! | file | what it does |
//! |---|---|
//! | [`conll`] | reads sentences with a tag for each word |
//! | [`pieces`] | words to word pieces: the first piece of a word carries its tag |
//! | `inputs` | batches of these, and what the model tags |
//! | [`entities`] | tags to entities, precision, recall and F1 |

pub mod conll;
pub mod entities;
pub(crate) mod inputs;
pub mod pieces;
